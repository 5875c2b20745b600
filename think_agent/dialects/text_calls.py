"""Calls that a model wrote into its text, read as the calls they were meant to be.

Local models with tool calling often miss their own format; the call then arrives as words:

    <tool_call>{"name": "look", "arguments": {"id": 7}}</tool_call>      Qwen, Hermes
    <function=look>{"id": 7}</function>                                  Llama
    <function=look><parameter=id>7</parameter></function>                Qwen3-Coder
    [TOOL_CALLS] [{"name": …}]  and  [TOOL_CALLS]look[ARGS]{"id": 7}     Mistral
    {"name": "look", "arguments": {"id": 7}}, fenced or bare             everybody

`read_calls` finds them, `recovered(model)` puts that around a model. A text that only *talks* about
calls must never run one, so this is read strictly:

Rule 1: a call names a declared tool, and its arguments are an object. (`"parameters"` is taken for
        `"arguments"`; any further key makes it something else, such as the description of a tool.)
Rule 2: calls end the reply. From the first of them on there is nothing but calls, and all of them
        can be read; otherwise none is. So an example with words after it, or in `code`, is text.
Rule 3: JSON without a marker must begin a line, and only a short lead-in may stand before it. The
        same holds for whatever stands in a ``` fence: a long text that ends in one shows an
        example. A lead-in that calls itself an example is believed.
Rule 4: an invented `<tool_response>` and what follows it is cut off, if there are calls before it.
Rule 5: nothing is looked for in a reply that has real calls, broke off, was asked for an output
        schema, or was not to call.

The edge: a reply that is nothing but a call *is* taken for one, even when the user asked to see
what a call looks like.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

from ..loop import BROKEN_OFF
from ..messages import Assistant, Json, ToolCall, mint_ids
from ..model import Model, Request, Wrapper
from ..streaming import Delta, whole_call
from ..tools import Tool

SHORT = 200  # characters of a lead-in
TRIES = 50  # places where calls may begin; a reply with more of them is hostile, and costs no more
MARK = r"<tool_call>|<function=|\[TOOL_CALLS\]"
OPENER = re.compile(
    rf"(?:^[ \t]*```[\w-]*\s*)?(?P<mark>{MARK})|^[ \t]*(?:```[\w-]*\s*)?(?=[\[{{])", re.MULTILINE
)
MAYBE_OPENER = re.compile(  # the beginning of one, at the end of what has arrived of a text
    r"(?:^[ \t]*```[\w-]*\s*)?(?:<[a-z_]*|\[[A-Z_]*)\Z|^[ \t]*(?:`{1,2}|```[\w-]*\s*)?\Z",
    re.MULTILINE,
)
SEPARATOR = re.compile(r"(?:[\s,;]|```[\w-]*|</?tool_call>|\[/?TOOL_CALLS\])*")
FUNCTION = re.compile(r"<function=([^<>\s]+)>\s*")
CLOSED = re.compile(r"\s*</function>")
FUNCTION_END = re.compile(rf"(</function>)|(?={MARK}|</tool_call>|```)|\Z")
PARAMETER = re.compile(
    r"<parameter=([^<>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)\s*", re.DOTALL
)
NAMED = re.compile(r"([\w-]+)\[ARGS\]\s*")
WORD = re.compile(r"\S")
EXAMPLE = re.compile(
    r"\b(example|e\.g\.|for instance|like this|looks? like|syntax|format)(?!\w)", re.IGNORECASE
)

Known: TypeAlias = Mapping[str, Tool]
Block: TypeAlias = tuple[Sequence[ToolCall], int]  # some calls, and where they end


def read_calls(text: str, tools: Sequence[Tool]) -> tuple[tuple[ToolCall, ...], str]:
    """The calls that end `text`, marked `recovered` and still without ids, and the text before
    them; no calls and the whole text where there are none.
    """
    known = {tool.name: tool for tool in tools}
    said = text.partition("<tool_response>")[0].rstrip()
    in_fence = said.endswith("```")
    at = tries = 0
    while tries < TRIES and (opener := OPENER.search(said, at)):
        start, at = opener.span()
        if _near(said, start) or (opener["mark"] and not in_fence):
            tries += 1
            calls, at = _calls_to_the_end(said, start, known)
            if calls:
                lead = said[:start].rstrip()
                last_paragraph = lead[-SHORT:].rpartition("\n\n")[2]
                return ((), text) if EXAMPLE.search(last_paragraph) else (tuple(calls), lead)
        at += 1  # what began before the place where reading failed would fail there too
    return (), text


def _near(text: str, start: int) -> bool:
    """Is the text before `start` a short lead-in?"""
    return WORD.search(text, SHORT, start) is None


def _calls_to_the_end(text: str, at: int, known: Known) -> Block:
    """The calls from `at` on. No calls, and the place, when anything else is found."""
    calls: list[ToolCall] = []
    while True:
        at = _skip(SEPARATOR, text, at)
        if at == len(text):
            return calls, at
        block = _block(text, at, known)
        if block is None:
            return [], at
        calls += block[0]
        at = block[1]


def _block(text: str, at: int, known: Known) -> Block | None:
    """The calls of the one piece of markup or JSON that begins at `at`; None when it is no call."""
    if text[at] in "[{":
        if (read := json_at(text, at)) is None:
            return None
        value, end = read
        calls = [_call(item, known) for item in (value if isinstance(value, list) else [value])]
        good = [call for call in calls if call]
        return (good, end) if good and len(good) == len(calls) else None
    if head := NAMED.match(text, at) or FUNCTION.match(text, at):
        tool = known.get(head[1])
        read = _arguments(text, head.end(), tool) if tool else None
        if tool and read and isinstance(read[0], dict):
            return [ToolCall("", tool.name, read[0], recovered=True)], read[1]
    return None


def _call(value: Any, known: Known) -> ToolCall | None:
    """A JSON value as a call of a known tool."""
    match value:
        case {"function": dict(inner), **rest} if rest.keys() <= {"type", "id"}:  # as in the API
            value = inner
    match value:
        case {"name": str(name), "arguments": arguments, **rest}:
            pass
        case {"name": str(name), "parameters": arguments, **rest}:
            pass
        case _:
            return None
    if isinstance(arguments, str):  # JSON in JSON, as in the API
        read = json_at(arguments, 0)
        arguments = read[0] if read else None
    if name not in known or not isinstance(arguments, dict) or not rest.keys() <= {"type", "id"}:
        return None
    return ToolCall("", name, arguments, recovered=True)


def _arguments(text: str, at: int, tool: Tool) -> tuple[Any, int] | None:
    """What follows `<function=name>` or `name[ARGS]`: JSON or parameter tags. The closing tags may
    be missing, as servers take them for stop words; an empty call must be closed.
    """
    if text.startswith("{", at):
        read = json_at(text, at)
        return read and (read[0], _skip(CLOSED, text, read[1]))
    end = FUNCTION_END.search(text, at)
    assert end is not None  # it matches at the end of the text, at the latest
    body, place, arguments = text[at : end.start()], 0, {}
    properties = tool.parameters.get("properties", {})
    while parameter := PARAMETER.match(body, place):
        name, value = parameter.groups()
        arguments[name] = typed(value, properties.get(name, {}))
        place = parameter.end()
    if body[place:].strip() or not (arguments or end[1]):
        return None
    return arguments, end.end()


def typed(text: str, schema: Json) -> Any:
    """A bare text as a value of `schema`: itself for a string, otherwise the JSON it may be."""
    text = text.strip() if "\n" not in text.strip() else text.removeprefix("\n").removesuffix("\n")
    kinds = [option.get("type") for option in (schema, *schema.get("anyOf", ()))]
    if "string" in kinds or not any(kinds):
        return text
    read = json_at(text.strip(), 0)
    return read[0] if read and read[1] == len(text.strip()) else text


def json_at(text: str, at: int) -> tuple[Any, int] | None:
    """The JSON value at this place and where it ends. Line breaks in strings are let pass, for
    models write them; NaN and Infinity are not, for they are no JSON.
    """
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_json)


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


class Recovering(Wrapper):
    """A model whose calls count even when it writes them into its text.

    `native` of a reply with recovered calls is dropped: it has no calls in it, and its provider
    would refuse their results.
    """

    def complete(self, request: Request) -> Assistant:
        return _recover(request, self.inner.complete(request))

    async def acomplete(self, request: Request) -> Assistant:
        return _recover(request, await self.inner.acomplete(request))

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        teller = _Teller(request)
        for event in self.inner.stream(request):
            yield from teller.tell(event)

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        teller = _Teller(request)
        async for event in self.inner.astream(request):
            for told in teller.tell(event):
                yield told


def recovered(model: Model) -> Model:
    """`model`, with the calls that it writes into its text recovered."""
    return Recovering(model)


def _may_call(request: Request) -> bool:
    return bool(request.tools and request.tool_choice != "none" and request.output_schema is None)


def _recover(request: Request, reply: Assistant) -> Assistant:
    if reply.tool_calls or reply.stop_reason in BROKEN_OFF or not _may_call(request):
        return reply
    calls, rest = read_calls(reply.text, request.tools)
    if not calls:
        return reply
    reply = replace(reply, text=rest, tool_calls=calls, stop_reason="tool_use", native=None)
    return mint_ids(reply, request.messages)


class _Teller:
    """Tells a stream on. Text that may turn out to be a call waits until the reply is there."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._text = ""
        self._told = 0  # characters of it
        self._waiting = False

    def tell(self, event: Delta | Assistant) -> Iterator[Delta | Assistant]:
        match event:
            case Delta(kind="answer", text=text) if _may_call(self._request):
                yield from self._feed(text)
            case Assistant():
                yield from self._close(reply := _recover(self._request, event), event)
                yield reply
            case _:
                yield event

    def _feed(self, text: str) -> Iterator[Delta]:
        self._text += text
        if self._waiting:
            return
        end = len(self._text)
        for opener in OPENER.finditer(self._text, self._told):
            if opener["mark"] or _near(self._text, opener.start()):
                self._waiting, end = True, opener.start()
                break
        else:
            if maybe := MAYBE_OPENER.search(self._text, self._told):
                end = maybe.start()
        yield from self._tell_to(self._told + len(self._text[self._told : end].rstrip()))

    def _tell_to(self, end: int) -> Iterator[Delta]:
        if end > self._told:
            yield Delta("answer", self._text[self._told : end])
            self._told = end

    def _close(self, reply: Assistant, event: Assistant) -> Iterator[Delta]:
        recovered_calls = reply.tool_calls if reply is not event else ()
        yield from self._tell_to(len(reply.text) if recovered_calls else len(self._text))
        for number, call in enumerate(recovered_calls):
            yield from whole_call(call.name, call.arguments, number)
