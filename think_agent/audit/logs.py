"""Reads another program's conversations: lists of Chat Completions messages.

    runs = read_log("runs.json")
    runs[0].messages

Rule 1: a file is read completely or not at all. An unknown field with a value, a call without a
        result, or a call written as text is an error that names its run and row. So counts never
        cover only a part.
Rule 2: a file is one conversation (a list of messages) or a list of conversations. Each of these is
        a list, or an object as in tau-bench's files: its `traj` or `messages` is the list, and its
        other fields (RECORDED) are kept as they are, never computed.
Rule 3: if one conversation is the beginning of another, that's an error: a log of requests repeats
        the history in each request, so it would be counted several times.

Limitations: forced thoughts count as volunteered. Tokens, times and model names aren't read.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from ..dialects.text_calls import NAMED
from ..errors import FileError
from ..messages import THINK_NAME, Assistant, Json, Message, ToolCall, ToolResult, User
from ..text import canonical, json_text
from ..wire.incoming import parse_arguments

RECORDED = ("info", "records", "reward", "task_id", "trial")  # next to a conversation in tau-bench
ACTION = re.compile(r"(?m)^Action:\s*([\w-]+)\s*\nAction Input:")  # a call in ReAct


@dataclass(frozen=True)
class LoggedRun:
    """One conversation. `header` has the instructions, as in the kit's transcripts; `facts` are the
    file's fields next to the conversation.
    """

    header: Json
    messages: list[Message]
    facts: Json


def read_log(path: str | Path, thinks: Sequence[str] = ()) -> list[LoggedRun]:
    """The conversations in a file. `thinks` are more tools whose calls are thoughts, like `think`.

    Raises FileError if anything in the file can't be read.
    """
    try:
        return list(_runs(_json_of(Path(path).read_bytes()), thinks))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path}: it cannot be read: {error}") from error


# The rows of Chat Completions. Any other field of a row is an error (rule 1).


class _Part(BaseModel, extra="forbid"):
    type: Literal["text"]
    text: str = ""


def _as_parts(content: Any) -> Any:
    """A message's content as a list of parts. It may be plain text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content


_Content = Annotated[list[_Part], BeforeValidator(_as_parts)]


class _Function(BaseModel, extra="forbid"):
    name: str
    arguments: str = ""


class _Call(BaseModel, extra="forbid"):
    id: str
    type: Literal["function"] = "function"
    function: _Function
    index: int = 0  # some servers leave it in from their streams


class _Instructions(BaseModel, extra="forbid"):
    role: Literal["system", "developer"]
    content: _Content = []
    name: str = ""


class _Said(BaseModel, extra="forbid"):
    role: Literal["user"]
    content: _Content = []
    name: str = ""


class _Reply(BaseModel, extra="forbid"):
    role: Literal["assistant"]
    content: _Content = []
    refusal: str = ""
    reasoning_content: str = ""  # two kinds of servers use two names for this
    reasoning: str = ""
    tool_calls: list[_Call] = []
    name: str = ""


class _Result(BaseModel, extra="forbid"):
    role: Literal["tool"]
    tool_call_id: str
    content: _Content = []
    name: str = ""


_Row = Annotated[_Instructions | _Said | _Reply | _Result, Field(discriminator="role")]
_ROW: TypeAdapter[_Row] = TypeAdapter(_Row)


def _json_of(data: bytes) -> Any:
    text = data.decode("utf-8-sig")
    try:
        return json.loads(text)
    except ValueError:
        problem = "it is neither a transcript of this kit nor one JSON value"
        advice = "put the conversations into one list"
        raise ValueError(f"{problem} ({advice})") from None


def _runs(value: Any, thinks: Sequence[str]) -> Iterator[LoggedRun]:
    if not isinstance(value, list) or not value:
        raise ValueError("it is neither a list of messages nor a list of conversations")
    conversations = value
    if _is_row(value[0]):
        conversations = [value]

    rows_of: list[list[Any]] = []
    runs: list[LoggedRun] = []
    for number, conversation in enumerate(conversations, 1):
        rows, facts = _rows_and_facts(conversation, f"run {number}")
        rows_of.append(rows)
        runs.append(_Reader(f"run {number}", thinks).read(rows, facts))
    _refuse_repeated_history(rows_of)
    if not any(isinstance(message, ToolResult) for run in runs for message in run.messages):
        raise ValueError(
            "no tool is called in it, so nothing can be counted "
            "(an agent that writes its commands as text is not read)"
        )
    yield from runs


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and "role" in value


def _rows_and_facts(conversation: Any, place: str) -> tuple[list[Any], Json]:
    """The rows of a conversation, and the fields next to them."""
    if isinstance(conversation, list):
        return conversation, {}
    if not isinstance(conversation, dict):
        raise ValueError(f"{place}: it isn't a conversation")
    facts = dict(conversation)
    rows: Any = None
    for name in ("traj", "messages"):
        rows = facts.pop(name, rows)
    if not isinstance(rows, list):
        raise ValueError(f"{place}: it has no list of messages (traj or messages)")
    for name in facts:
        if name not in RECORDED:
            known = ", ".join(RECORDED)
            raise ValueError(f"{place}: the field {name!r} is unknown; known are {known}")
    return rows, facts


def _refuse_repeated_history(conversations: list[list[Any]]) -> None:
    """Raises ValueError if a conversation is the beginning of another one (rule 3)."""
    whole: dict[bytes, int] = {}
    beginnings: dict[bytes, int] = {}
    for number, rows in enumerate(conversations, 1):
        digest = hashlib.sha256()
        for row in rows:
            beginnings.setdefault(digest.digest(), number)
            digest.update(canonical(row).encode() + b"\n")
        if rows:
            whole.setdefault(digest.digest(), number)
    for digest_of_all, number in whole.items():
        longer = beginnings.get(digest_of_all)
        if longer is not None:
            problem = f"run {number} is the beginning of run {longer}"
            raise ValueError(f"{problem}: is this a log of requests? Keep the last of each run")


class _Reader:
    """Reads the rows of one conversation. `place` names it in errors."""

    def __init__(self, place: str, thinks: Sequence[str]) -> None:
        self._place = place
        self._row = 0
        self._thinks = thinks
        self._instructions: list[str] = []
        self._messages: list[Message] = []
        self._calls: tuple[ToolCall, ...] = ()  # of the last reply
        self._results: list[ToolResult | None] = []  # one per call

    def read(self, rows: list[Any], facts: Json) -> LoggedRun:
        try:
            for self._row, row in enumerate(rows, 1):
                self._add(_parse_row(row))
            self._end_reply()
        except ValueError as error:
            raise ValueError(f"{self._place}, row {self._row}: {error}") from None
        header: Json = {}
        if self._instructions:
            header["instructions"] = "\n\n".join(self._instructions)
        return LoggedRun(header, self._messages, facts)

    def _add(self, row: _Row) -> None:
        if isinstance(row, _Result):
            self._add_result(row)
            return
        self._end_reply()
        match row:
            case _Instructions():
                self._instructions.append(_join_parts(row.content))
            case _Said():
                self._messages.append(User(_join_parts(row.content)))
            case _Reply():
                self._add_reply(row)

    def _add_reply(self, row: _Reply) -> None:
        text = _join_parts(row.content) + row.refusal
        if row.reasoning and row.reasoning_content not in ("", row.reasoning):
            raise ValueError("the fields 'reasoning' and 'reasoning_content' differ")
        thinking = row.reasoning_content or row.reasoning
        self._calls = tuple(self._call(call) for call in row.tool_calls)
        self._results = [None] * len(self._calls)
        if not self._calls:  # next to calls, it may be a copy of one
            for name in NAMED.findall(text) + ACTION.findall(text):
                raise ValueError(f"a call of {name} is written as text")
        stop_reason = "tool_use" if self._calls else "end_turn"
        self._messages.append(Assistant(text, thinking, self._calls, stop_reason))

    def _call(self, call: _Call) -> ToolCall:
        """A call as a ToolCall. A call that counts as a thought becomes a call of `think`."""
        arguments = parse_arguments(call.function.arguments)
        name = call.function.name
        if name in self._thinks:
            name = THINK_NAME
            if isinstance(arguments, dict) and "thought" not in arguments:
                arguments = {"thought": json_text(arguments)}
        return ToolCall(call.id, name, arguments)

    def _add_result(self, row: _Result) -> None:
        """A result answers the first open call with its id."""
        text = _join_parts(row.content)
        failed = text.lstrip().lower().startswith("error")  # a log has no other mark for errors
        for place, call in enumerate(self._calls):
            if call.id == row.tool_call_id and self._results[place] is None:
                self._results[place] = ToolResult(call.id, call.name, text, failed)
                return
        raise ValueError(f"a result without a call: {row.tool_call_id!r}")

    def _end_reply(self) -> None:
        """Add the results of the last reply, in the order of its calls."""
        for call, result in zip(self._calls, self._results, strict=True):
            if result is None:
                raise ValueError(f"the call before it has no result: {call.name}")
            self._messages.append(result)
        self._calls = ()
        self._results = []


def _parse_row(row: Any) -> _Row:
    """A row, by its role. Raises ValueError for a role that Chat Completions doesn't have."""
    try:
        return _ROW.validate_python(_without_empty(row), strict=True)
    except ValidationError as error:
        _refuse_row(error.errors(include_url=False)[0], row)


def _refuse_row(problem: Any, row: Any) -> NoReturn:
    kind = problem["type"]
    place = ".".join(str(part) for part in problem["loc"][1:])  # the first is the role
    if kind == "extra_forbidden":
        raise ValueError(f"the field {place!r} is unknown")
    if kind == "union_tag_invalid":
        raise ValueError(f"the role {row['role']!r} is unknown")
    if not _is_row(row):
        raise ValueError("it isn't a message")
    raise ValueError(f"{place}: {problem['msg']}")


def _without_empty(value: Any) -> Any:
    """A row without empty fields, such as `"refusal": null`."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        item = _without_empty(item)
        if item not in (None, "", [], {}):
            kept[name] = item
    return kept


def _join_parts(content: list[_Part]) -> str:
    return "".join(part.text for part in content)
