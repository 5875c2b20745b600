"""Calls that a model wrote into its text, read as the calls they were meant to be.

Local models with tool calling often miss their own format; the call then arrives as words:

    <tool_call>{"name": "look", "arguments": {"id": 7}}</tool_call>      Qwen, Hermes
    <function=look>{"id": 7}</function>                                  Llama
    <function=look><parameter=id>7</parameter></function>                Qwen3-Coder
    [TOOL_CALLS] [{"name": …}]  and  [TOOL_CALLS]look[ARGS]{"id": 7}     Mistral
    {"name": "look", "arguments": {"id": 7}}, fenced or bare             everybody

`read_calls` finds them, and `recovered(model)` puts that around a model. Each is a ToolCall with
`recovered=True`. Whether it runs is not decided here: a text may quote a call, so `policies.text`
runs those of tools that only read.

Rule 1: a call names a declared tool, and its arguments are an object. (`"parameters"` is taken for
        `"arguments"`; any further key makes it something else, such as the description of a tool.)
Rule 2: calls end the reply. From the first of them on there is nothing but calls, all of them can
        be read, and no other is begun; otherwise none is a call. So an example with words after
        it, or in `code`, is text. What stands beside the backticks of a fence is words, too, but
        for the name of a FORMAT; a token with which models end their turn (END_TOKEN) is not.
Rule 3: JSON without a marker must begin a line, and only a short lead-in may stand before it. The
        same holds for whatever stands in a ``` fence: a long text that ends in one shows an
        example.
Rule 4: an invented `<tool_response>` and what follows it is cut off, if there are calls before it.
Rule 5: half a call is none. JSON says itself where it ends, so the markup around it may be left
        open (servers take closing tags for stop words); parameters in tags end with `</function>`.
Rule 6: markup that was read is taken out of the text, so it is never an answer. Those of a final
        reply are calls, too: the loop drops them, as any that stray into it. Beside real calls the
        markup makes none: servers leave in the text what they have read as a call.
Rule 7: what names a declared tool in the form of a call and stays text gets a notice.
Rule 8: nothing is looked for in a reply that broke off, or was asked for an output schema.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from ..messages import Assistant, Json, ToolCall
from ..model import Request
from ..streaming import Delta
from ..tools import Tool
from ..wire.json_reading import json_at, json_value
from ..wire.pieces import marks
from .base import NO_REPLY, Dialect, Reader, Trimmer, joined

SHORT = 200  # characters of a lead-in
TRIES = 50  # places where calls may begin; a reply with more of them is hostile, and costs no more
MARKS = ("<tool_call>", "<function=", "[TOOL_CALLS]")
INDENT = r"^[ \t]{0,20}"
FENCE = (INDENT, *"```", r"[\w-]{0,20}", r"\s{0,20}")
JSON = r"(?=[\[{])"
PLAIN_MARKS = [[re.escape(letter) for letter in mark] for mark in MARKS]
OPENERS = marks(
    mark=[*([*FENCE, *mark] for mark in PLAIN_MARKS), *PLAIN_MARKS],
    json=[[INDENT, JSON], [*FENCE, JSON]],
)
FORMAT = r"(?i:json|xml|text|python|tool_?calls?|tool_?code|function_?calls?)?(?![\w-])"
END_TOKEN = r"</s>|<eos>|<.?(?:im_end|eo[mt](?:_id)?|end(?:.?of.?(?:text|sentence|turn))?).?>"
CLOSER = rf"[\s;]|</tool_call>|</function>|\[/TOOL_CALLS\]|{END_TOKEN}"
SEPARATOR = re.compile(rf"(?:{CLOSER}|,|<tool_call>|\[TOOL_CALLS\]|```{FORMAT})*")
END = re.compile(rf"(?:{CLOSER})*+(?:```)?(?:{CLOSER})*+")  # a second fence would be a new one
PARAMETER = re.compile(r"(?s)<parameter=([^<>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)\s*")
HEAD = re.compile(r"(?:<function=([^<>\s]+)>|([\w-]+)\[ARGS\])\s*")
BESIDE = {"type", "id"}  # further keys that a call may have
INVENTED = "<tool_response>"
NOT_RUN = "a call of {} in the text of the reply was not run: {}"
NAMED = re.compile(
    r"(?:<function=|\[TOOL_CALLS\])([\w-]+)"
    r'|"name"\s*:\s*"([\w-]+)"\s*,\s*"(?:arguments|parameters)"\s*:'
)
WORD = re.compile(r"\S")


def read_calls(text: str, tools: Sequence[Tool]) -> tuple[tuple[ToolCall, ...], str]:
    """The calls that end `text`, marked `recovered` and still without ids, and the text before
    them; no calls and the whole text where there are none.
    """
    known = {tool.name: tool for tool in tools}
    written = text.partition(INVENTED)[0].rstrip()
    read_to = -1
    for start in islice(_openers(written), TRIES):
        if start > read_to:  # else it would fail where the one before it did
            calls, read_to = _calls_to_the_end(written, start, known)
            if calls:
                return tuple(calls), written[:start].rstrip()
    return (), text


def _openers(text: str) -> Iterator[int]:
    """The places where calls may begin."""
    in_fence = text.endswith("```")
    for opener in OPENERS[0].finditer(text):
        is_near = WORD.search(text, SHORT, opener.start()) is None  # behind a short lead-in
        is_marked = opener.lastgroup == "mark" and not in_fence
        if is_near or is_marked:
            yield opener.start()


def _calls_to_the_end(text: str, at: int, known: Mapping[str, Tool]) -> tuple[list[ToolCall], int]:
    """The calls from `at` on. No calls, and the place, where anything else is found."""
    calls: list[ToolCall] = []
    while not calls or not END.fullmatch(text, at):
        at = SEPARATOR.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere
        found, at = _block(text, at, known)
        if not found:
            return [], at
        calls += found
    return calls, at


def _block(text: str, at: int, known: Mapping[str, Tool]) -> tuple[list[ToolCall], int]:
    """The calls of the one piece of markup or JSON that begins at `at`, and where it ends; none
    when it is no call.
    """
    if text.startswith(("[", "{"), at):
        return _json_calls(text, at, known)
    head = HEAD.match(text, at)
    if head is None:
        return [], at
    tool = known.get(head[1] or head[2])
    if tool is None:
        return [], at
    arguments, end = _arguments(text, head.end(), tool)
    if not isinstance(arguments, dict):
        return [], at
    return [ToolCall("", tool.name, arguments, recovered=True)], end


def _json_calls(text: str, at: int, known: Mapping[str, Tool]) -> tuple[list[ToolCall], int]:
    """The calls in a JSON object or list; none where any part of it is something else."""
    found = json_at(text, at)
    if found is None:
        return [], at
    value, end = found
    items = value if isinstance(value, list) else [value]
    calls: list[ToolCall] = []
    for item in items:
        call = _call(item, known)
        if call is None:
            return [], at
        calls.append(call)
    return calls, end


def _call(value: object, known: Mapping[str, Tool]) -> ToolCall | None:
    """A JSON value as a call of a known tool."""
    match value:
        case {"name": str(name), "arguments": dict(arguments), **rest}:
            pass
        case {"name": str(name), "parameters": dict(arguments), **rest}:
            pass
        case _:
            return None
    if name not in known or rest.keys() - BESIDE:
        return None
    return ToolCall("", name, arguments, recovered=True)


def _arguments(text: str, at: int, tool: Tool) -> tuple[object, int]:
    """What follows `<function=name>` or `name[ARGS]`, and where it ends: JSON, or parameters in
    tags up to the end of the function, for nothing else says that the last of them is whole. None
    where it is neither.
    """
    if text.startswith("{", at):
        found = json_at(text, at)
        return found if found else (None, at)

    end = text.find("</function>", at)
    if end < 0:
        return None, at
    properties = tool.parameters.get("properties", {})
    arguments: Json = {}
    parameter = PARAMETER.match(text, at, end)
    while parameter:
        name, value = parameter.groups()
        arguments[name] = typed(value, properties.get(name, {}))
        at = parameter.end()
        parameter = PARAMETER.match(text, at, end)
    is_all = not text[at:end].strip()
    return arguments if is_all else None, end


def typed(text: str, schema: Json) -> object:
    """A bare text as a value of `schema`: itself for a string, otherwise the JSON it may be."""
    inner = text.strip()
    if "\n" in inner:  # indented code stays as it is
        inner = text.removeprefix("\n").removesuffix("\n")
    kinds = [option.get("type") for option in (schema, *schema.get("anyOf", ()))]
    if "string" in kinds or not any(kinds):
        return inner
    value = json_value(inner)
    if value is None and inner.strip() != "null":
        return inner
    return value


def _named(text: str, tools: Sequence[Tool]) -> str:
    """The first tool that a text names in the form of a call; empty for none."""
    names = {tool.name for tool in tools}
    for found in NAMED.finditer(text):
        name = found[1] or found[2]
        if name in names:
            return name
    return ""


class Recovering(Dialect):
    """`recovered(model)`: its calls count even when it writes them into its text.

    `native` of a reply with recovered calls is dropped: it has no calls in it, and its provider
    would refuse their results.
    """

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if not reply.is_usable or not _may_call(request):
            return reply
        calls, rest = read_calls(reply.text, request.tools)
        example = _named(rest, request.tools)
        if example:
            reply = _noticed(reply, NOT_RUN.format(example, "other words stand beside it"))
        if not calls:
            return reply

        reply = replace(reply, text=rest)
        if reply.tool_calls:
            return _noticed(reply, NOT_RUN.format(calls[0].name, "real calls stand beside it"))
        return replace(reply, tool_calls=calls, stop_reason="tool_use", native=None)

    def reader(self, request: Request) -> Reader:
        if _may_call(request):
            return CallTextReader()
        return Reader()


recovered = Recovering


def _may_call(request: Request) -> bool:
    return bool(request.tools) and request.output_schema is None


def _noticed(reply: Assistant, notice: str) -> Assistant:
    return replace(reply, notice=joined([reply.notice, notice], "; "))


class CallTextReader(Reader):
    """Passes a text on as it arrives. What may turn out to be a call waits for the whole reply."""

    def __init__(self) -> None:
        super().__init__(OPENERS)
        self._trimmer = Trimmer()
        self._told = 0  # characters
        self._waits = False

    def read(self, kind: str, part: str) -> Iterator[Delta]:
        is_near = self._told <= SHORT
        if kind == "mark" or (kind == "json" and is_near):
            self._waits = True
        if self._waits:
            return
        certain = self._trimmer.feed(part, strip=False)
        if certain:
            self._told += len(certain)
            yield Delta("answer", certain)

    def close(self, reply: Assistant = NO_REPLY) -> Iterator[Delta]:
        yield from super().close(reply)
        rest = reply.text[self._told :]
        if rest:
            yield Delta("answer", rest)
