"""Calls that a model wrote into its text, read as the calls they were meant to be.

Local models with tool calling often miss their own format; the call then arrives as words:

    <tool_call>{"name": "look", "arguments": {"id": 7}}</tool_call>      Qwen, Hermes
    <function=look>{"id": 7}</function>                                  Llama
    <function=look><parameter=id>7</parameter></function>                Qwen3-Coder
    [TOOL_CALLS] [{"name": …}]  and  [TOOL_CALLS]look[ARGS]{"id": 7}     Mistral
    {"name": "look", "arguments": {"id": 7}}, fenced or bare             everybody

`read_calls` finds them, `recovered(model)` puts that around a model and has the last word on what
may run. A text that only *talks* about calls must never run one, so this is read strictly:

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

Rule 6: who quotes a call does not make it. Beside other words run only calls of tools that declare
        themselves read-only (`idempotent`), and of `think`; other calls run where the reply is
        nothing but calls (and marked thinking). In either case none runs whose name and text
        arguments stand together in one string that a tool returned or a person wrote, decoded as
        often as it was encoded. Where one call may not run, the reply stays text, with a notice.

The edge: by rule 6, a person who spells out a call of a model that writes its calls as text does
not get it made; and a call that differs from a quoted one in any text is the model's own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..messages import BROKEN_OFF, THINK_NAME, Assistant, Json, Message, ToolCall, ToolResult, User
from ..model import Model, Request
from ..streaming import Delta, whole_call
from ..text import json_at, json_text, json_value, well_formed
from ..tools import Tool
from ..wire.pieces import Splitter, marks
from .base import Dialect, Trimmer, acting
from .tags import Tags, split_tags

SHORT = 200  # characters of a lead-in
TRIES = 50  # places where calls may begin; a reply with more of them is hostile, and costs no more
MARKS = ("<tool_call>", "<function=", "[TOOL_CALLS]")
MARK = "|".join(map(re.escape, MARKS))
INDENT = r"^[ \t]{0,20}"
FENCE = (INDENT, *"```", r"[\w-]{0,20}", r"\s{0,20}")
JSON = r"(?=[\[{])"
OPENERS = marks(
    mark=[[*before, *map(re.escape, mark)] for mark in MARKS for before in (FENCE, ())],
    json=[[INDENT, JSON], [*FENCE, JSON]],
)
SEPARATOR = re.compile(r"(?:[\s,;]|```[\w-]*|</?tool_call>|\[/?TOOL_CALLS\])*")
CLOSED = re.compile(r"\s*</function>")
FUNCTION_END = re.compile(rf"(</function>)|(?={MARK}|</tool_call>|```)|\Z")
PARAMETER = re.compile(
    r"<parameter=([^<>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)\s*", re.DOTALL
)
HEADS = (re.compile(r"([\w-]+)\[ARGS\]\s*"), re.compile(r"<function=([^<>\s]+)>\s*"))
BESIDE = {"type", "id"}  # further keys that a call may have
INVENTED = "<tool_response>"
ONLY_THINKING = Tags(plain="answer", answer=())
HERE = "\0"
ESCAPES = re.compile(r'(?:\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]')
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
    said = text.partition(INVENTED)[0].rstrip()
    in_fence = said.endswith("```")
    at = tries = 0
    whole, _ = OPENERS
    while tries < TRIES and (opener := whole.search(said, at)):
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
    while (at := _skip(SEPARATOR, text, at)) < len(text):
        found, end = _block(text, at, known)
        if not found:
            return [], at
        calls += found
        at = end
    return calls, at


def _block(text: str, at: int, known: Known) -> Block:
    """The calls of the one piece of markup or JSON that begins at `at`; none when it is no call."""
    if text[at] in "[{" and (read := json_at(text, at)):
        value, end = read
        calls = [_call(item, known) for item in (value if isinstance(value, list) else [value])]
        good = [call for call in calls if call]
        return good if len(good) == len(calls) else [], end
    for head in HEADS:
        if (found := head.match(text, at)) and (tool := known.get(found[1])):
            arguments, end = _arguments(text, found.end(), tool)
            if isinstance(arguments, dict):
                return [ToolCall("", tool.name, arguments, recovered=True)], end
    return [], at


def _call(value: Any, known: Known) -> ToolCall | None:
    """A JSON value as a call of a known tool."""
    match value:
        case {"function": dict(inner), **rest} if rest.keys() <= BESIDE:  # as in the API
            value = inner
    match value:
        case {"name": str(name), "arguments": arguments, **rest}:
            pass
        case {"name": str(name), "parameters": arguments, **rest}:
            pass
        case _:
            return None
    if isinstance(arguments, str):  # JSON in JSON, as in the API
        arguments = json_value(arguments)
    good = name in known and isinstance(arguments, dict) and rest.keys() <= BESIDE
    return ToolCall("", name, arguments, recovered=True) if good else None


def _arguments(text: str, at: int, tool: Tool) -> tuple[Any, int]:
    """What follows `<function=name>` or `name[ARGS]`: JSON or parameter tags. The closing tags may
    be missing, as servers take them for stop words; an empty call must be closed.
    """
    if text.startswith("{", at):
        value, end = json_at(text, at) or (None, at)
        return value, _skip(CLOSED, text, end)
    closed = FUNCTION_END.search(text, at)
    assert closed is not None  # it matches at the end of the text, at the latest
    body, place, arguments = text[at : closed.start()], 0, {}
    properties = tool.parameters.get("properties", {})
    while parameter := PARAMETER.match(body, place):
        name, value = parameter.groups()
        arguments[name] = typed(value, properties.get(name, {}))
        place = parameter.end()
    good = not body[place:].strip() and (arguments or closed[1])
    return arguments if good else None, closed.end()


def typed(text: str, schema: Json) -> Any:
    """A bare text as a value of `schema`: itself for a string, otherwise the JSON it may be."""
    text = text.strip() if "\n" not in text.strip() else text.removeprefix("\n").removesuffix("\n")
    kinds = [option.get("type") for option in (schema, *schema.get("anyOf", ()))]
    if "string" in kinds or not any(kinds):
        return text
    value = json_value(text)
    return text if value is None and text.strip() != "null" else value


def _doubt(calls: Sequence[ToolCall], words: str, request: Request) -> str:
    """Why calls may not run that stand in a text with these other `words` (rule 6); empty where
    they may.
    """
    read_only = {tool.name for tool in request.tools if tool.idempotent} | {THINK_NAME}
    carrying = {tool.name for tool in request.tools if tool.carries}
    # The mark shows where calls would stand: in thinking that was never closed, none is made.
    alone = split_tags(f"{words}{HERE}", ONLY_THINKING)[1].strip() == HERE
    heard = [_flat(text) for text in _decoded(_heard(request.messages))]
    by_name = {
        name: list(filter(re.compile(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])").search, heard))
        for name in {call.name for call in calls}
    }
    for call in calls:
        why = "" if alone or call.name in read_only else "other words stand beside it"
        given = call.arguments
        if isinstance(given, dict) and call.name in carrying:
            given = {key: value for key, value in given.items() if key != "thought"}
        texts = [_flat(text) for text in _strings(given)]
        if any(all(text in said for text in texts) for said in by_name[call.name]):
            why = "it stands in what a tool returned or a person wrote"
        if why:
            return f"a call of {call.name} in the text of the reply was not run: {why}"
    return ""


def _heard(messages: Sequence[Message]) -> Iterator[str]:
    """The texts that came from tools and persons; of a JSON result those that are in it."""
    for message in messages:
        match message:
            case User(text=text, kind="person"):
                yield text
            case ToolResult(content=text):
                value = json_value(text)
                yield from _strings(value, keys=True) if isinstance(value, (dict, list)) else [text]


def _decoded(texts: Iterable[str]) -> set[str]:
    """These texts and those that are in them as JSON, whole or in pieces, however often encoded."""
    waiting, seen = list(texts), set[str]()
    while waiting:
        if (text := waiting.pop()) not in seen:
            seen.add(text)
            waiting += _strings(json_value(text), keys=True)
            waiting.append(ESCAPES.sub(_unescaped, text))
    return seen


def _unescaped(escapes: re.Match[str]) -> str:
    return well_formed(json_value(f'"{escapes[0]}"') or escapes[0])


def _strings(value: Any, *, keys: bool = False) -> Iterator[str]:
    """The strings in a JSON value. `keys`: those too, and what may be a call as one string."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item, keys=keys)
        case dict():
            if keys and not value.keys().isdisjoint(("name", "function")):
                yield json_text(value)
            for key, item in value.items():
                yield from [key] if keys else ()
                yield from _strings(item, keys=keys)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


class Recovering(Dialect):
    """A model whose calls count even when it writes them into its text.

    `native` of a reply with recovered calls is dropped: it has no calls in it, and its provider
    would refuse their results.
    """

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.tool_calls or reply.stop_reason in BROKEN_OFF or not _may_call(request):
            return reply
        calls, rest = read_calls(reply.text, request.tools)
        if not calls:
            return reply
        words = rest + reply.text.partition(INVENTED)[2]
        if doubt := _doubt(calls, words, request):
            return replace(reply, notice=doubt)
        return acting(replace(reply, native=None), rest, calls)

    def reader(self, request: Request) -> "CallTextReader | None":
        return CallTextReader() if _may_call(request) else None


def recovered(model: Model) -> Model:
    """`model`, with the calls that it writes into its text recovered."""
    return Recovering(model)


def _may_call(request: Request) -> bool:
    return bool(request.tools and request.tool_choice != "none" and request.output_schema is None)


class CallTextReader:
    """Passes a text on as it arrives. What may turn out to be a call waits for the whole reply."""

    def __init__(self) -> None:
        self._splitter = Splitter(OPENERS)
        self._trimmer = Trimmer()
        self._all: list[str] = []
        self._passed_on = 0  # characters
        self._waiting = False

    def feed(self, text: str) -> Iterator[Delta]:
        self._all.append(text)
        for kind, part in self._splitter.feed(text):
            if kind == "mark" or (kind == "json" and self._passed_on <= SHORT):
                self._waiting = True
            if self._waiting:
                return
            if certain := self._trimmer.feed(part, strip=False):
                self._passed_on += len(certain)
                yield Delta("answer", certain)

    def close(self, reply: Assistant) -> Iterator[Delta]:
        text = "".join(self._all)
        calls = [call for call in reply.tool_calls if call.recovered and reply.text != text]
        if rest := (reply.text if calls else text)[self._passed_on :]:
            yield Delta("answer", rest)
        for number, call in enumerate(calls):
            yield from whole_call(call.name, call.arguments, number)
