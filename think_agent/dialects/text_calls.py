"""Reads calls that a model wrote as text: local models often miss the format of their own calls.

    <tool_call>{"name": "look", "arguments": {"id": 7}}</tool_call>      Qwen, Hermes
    <function=look>{"id": 7}</function>                                  Llama
    <function=look><parameter=id>7</parameter></function>                Qwen3-Coder
    [TOOL_CALLS] [{"name": …}]  and  [TOOL_CALLS]look[ARGS]{"id": 7}     Mistral
    {"name": "look", "arguments": {"id": 7}}, fenced or bare             many models

Rule 1: a call names a declared tool, and its arguments are an object.
Rule 2: calls end the reply: after the first one there are only calls and markup, and all of them
        can be read. Otherwise none counts as a call, and a notice mentions the text that looks like
        one.
Rule 3: whether such a call runs is decided in `policies/text.py`.

The README of this folder lists what's accepted.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ..messages import Assistant, ToolCall
from ..model import Request
from ..tools import Tool
from ..wire.json_reading import json_at, json_value
from ..wire.pieces import Splitter, marks
from .base import Dialect, Reader, add_notice, may_call

TRIES = 20  # places where calls may begin; bounds the work for a hostile reply
INDENT = r"^[ \t]{0,20}"
FENCE = (INDENT, *"```", r"[\w-]{0,20}", r"\s{0,20}")
JSON = (r"\[?", r"\s{0,20}", r"\{", r"\s{0,20}", '"')
TOOL_CALLS = (r"\[", *"TOOL_CALLS", r"\]")
OPENERS = marks(
    call=[[*"<tool_call>"], [*"<function="], TOOL_CALLS, [INDENT, *JSON], [*FENCE, *JSON]]
)
MARKUP = re.compile(r"(?:[\s;,]|<(?!function=)[^<>\s]*>|\[/?TOOL_CALLS\]|```(?:[\w-]*\s)?)*")
PARAMETER = re.compile(r"(?s)<parameter=([^<>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)\s*")
HEAD = re.compile(r"(?:<function=)?([\w-]+)(?:>|\[ARGS\])\s*")
# Other keys that a call may have. (With any others it's something else, such as a tool's
# description.)
BESIDE = {"type", "id"}
NAMED = re.compile(
    r'(?:<function=|\[TOOL_CALLS\]|"name"\s*:\s*")([\w-]+)'
    r'(?:>|\[ARGS\]|"\s*,\s*"(?:arguments|parameters)"\s*:)'
)


def read_calls(text: str, tools: Sequence[Tool]) -> tuple[tuple[ToolCall, ...], str]:
    """The calls at the end of `text`, marked `recovered` and without ids, and the text before them.
    If there are none: no calls, and the whole text.
    """
    known = [tool.name for tool in tools]
    written = text.partition("<tool_response>")[0]  # the model invented it
    for opener in islice(OPENERS[0].finditer(written), TRIES):
        calls = _calls_to_the_end(written, opener.start())
        if calls and all(call.name in known for call in calls):  # rule 1
            return tuple(calls), written[: opener.start()].rstrip()
    return (), text


def _calls_to_the_end(text: str, at: int) -> list[ToolCall]:
    """The calls from `at` to the end; none if there is any other text. Markup may stay open,
    because servers use closing tags as stop words. Tokens that end a model's turn may follow.
    """
    calls: list[ToolCall] = []
    while True:
        at = MARKUP.match(text, at).end()  # type: ignore[union-attr]  # matches
        if at == len(text):
            return calls
        block = _block(text, at)
        if block is None:
            return []
        value, at = block
        if not isinstance(value, list):
            value = [value]
        for item in value:
            match item:
                case {"name": str(name), "arguments": dict(arguments), **others} | {
                    "name": str(name),
                    "parameters": dict(arguments),
                    **others,
                } if others.keys() <= BESIDE:
                    calls.append(ToolCall("", name, arguments, recovered=True))
                case _:
                    return []


def _block(text: str, at: int) -> tuple[Any, int] | None:
    """The JSON at `at`, or a function tag in the same form, and where it ends."""
    head = HEAD.match(text, at)
    if head is None:
        return json_at(text, at)
    found = json_at(text, head.end())
    if found:
        arguments, end = found
    else:  # parameters in tags; only the function's closing tag shows that the last one is complete
        end = text.find("</function>", at)
        if end < 0:
            return None
        arguments = {}
        for name, written in PARAMETER.findall(text, at, end):
            value = json_value(written)
            if not isinstance(value, (list, dict)):
                value = written.strip()
            arguments[name] = value
    return {"name": head[1], "arguments": arguments}, end


class Recovering(Dialect):
    """`recovered(model)`: reads calls that the model writes as text.

    A reply with recovered calls loses its `native`, which contains no calls: the provider would
    refuse their results.
    """

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if not reply.text or not reply.is_usable or not may_call(request):
            return reply
        calls, rest = read_calls(reply.text, request.tools)
        not_run = NAMED.findall(rest)
        if reply.tool_calls:
            not_run += [call.name for call in calls]
        elif calls:
            reply = replace(reply, tool_calls=calls, stop_reason="tool_use", native=None)

        for tool in request.tools:
            if tool.name in not_run:
                notice = f"a call of {tool.name} in the text of the reply was not run"
                reply = add_notice(reply, notice)
        if rest == reply.text:
            return reply
        return replace(reply, text=rest)

    def reader(self, request: Request) -> Reader | None:
        if may_call(request):
            # After the beginning of a possible call, nothing is streamed.
            return Reader(Splitter(OPENERS), {"": "answer"})
        return None


recovered = Recovering
