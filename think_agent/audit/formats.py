"""What the logs of other programs look like: one table of formats, one reader for the rows of all.

Rule 1: a row is read by its own shape, never by the name of its format. So a log that was taken for
        another one is read all the same, and a log that mixes two is read, too.
Rule 2: what has no known shape is an `Unread`, with its reason. Nothing is left out in silence.
Rule 3: a log that is known but not read here is refused by its name.

Limitations: tokens are read from ATIF alone. Left out on purpose: Claude Code's own bookkeeping
(BOOKKEEPING), where a sub-agent's progress is a copy of what stands in that agent's own file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..messages import Assistant, Json, ToolCall, ToolResult, Usage, User
from ..text import json_text
from ..wire.json_reading import json_object

# The formats that are read, and the marks of their rows: a field that only they have, or `type=`,
# `role=`, `part=` (the type of a part of the content) and `arguments=` (how those of a call are
# written). The first format with a mark in a log is the log's; without marks, it may be any.
FORMATS = {
    "atif": {"step_id"},
    "claude-code": {"parentUuid", "isSidechain", "sessionId", "session_id"},
    "responses": {
        *("type=function_call", "type=function_call_output", "type=reasoning"),
        *("type=custom_tool_call", "type=custom_tool_call_output"),
        *("part=input_text", "part=output_text"),
    },
    "anthropic": {"part=tool_use", "part=tool_result", "part=thinking", "part=server_tool_use"},
    "ollama": {"tool_name", "thinking", "arguments=object"},
    "openai": {"tool_calls", "tool_call_id", "function_call", "role=function"},
}
OTHERS = (  # logs that are known by fields that stand together, and are refused
    ("Inspect", {"eval", "samples"}),
    ("tau2-bench", {"simulations", "tasks"}),
    ("mini-swe-agent", {"trajectory_format"}),
    ("SWE-agent", {"trajectory", "history"}),
    ("SWE-agent", {"action", "thought"}),
    ("LangSmith", {"run_type", "inputs"}),
    ("OpenTelemetry", {"resourceSpans"}),
    ("OpenTelemetry", {"trace_id", "span_id"}),
    ("OpenTelemetry", {"traceId", "spanId"}),
    ("Codex", {"type", "payload"}),
    ("Gemini or the AI SDK", {"role", "parts"}),
    ("LangChain", {"type", "data"}),
)
BOOKKEEPING = {  # types of rows in which Claude Code notes something for itself
    *("agent-name", "ai-title", "attachment", "custom-title", "file-history-snapshot"),
    *("last-prompt", "mode", "permission-mode", "pr-link", "progress", "queue-operation"),
    *("rate_limit_event", "result", "stream_event", "summary", "system", "tag"),
    "worktree-state",
}
HIDDEN = "(reasoning that the log does not show)"


@dataclass(frozen=True, slots=True)
class Instructions:
    """What the model was told before it began."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, or a part of one: parts with the same `id` belong together."""

    message: Assistant
    id: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave. `failed` is the log's own word for it; None where it has none."""

    message: ToolResult
    failed: bool | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be read."""

    what: str


Piece: TypeAlias = Instructions | User | Reply | Result | Unread


# Which format is it?


def format_of(rows: Iterable[Any]) -> str:
    """The format of a log; empty for rows that several formats write alike."""
    found: set[str] = set()
    for row in rows:
        if isinstance(row, dict):
            found.update(_marks(row))
    for name, marks in FORMATS.items():
        if marks & found:
            return name
    return ""


def other_format(value: Any) -> str:
    """The name of the program that wrote this, where it is known and not read here."""
    if not isinstance(value, dict):
        return ""
    for name, fields in OTHERS:
        if fields <= value.keys():
            return name
    return ""


def _marks(row: Json) -> Iterator[str]:
    for key, value in row.items():
        if value is not None:
            yield key
    yield f"type={row.get('type')}"
    yield f"role={row.get('role')}"
    for part in _parts(row.get("content")):
        yield f"part={part.get('type')}"
    for call in _parts(row.get("tool_calls")):
        match call:
            case {"function": {"arguments": dict()}}:
                yield "arguments=object"


# From a row to its pieces.


@dataclass(slots=True)
class _Contents:
    """What stands in a row, sorted."""

    texts: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)

    def add(self, part: Json) -> None:
        """One part of any format: their shapes differ, so none is taken for another."""
        text = _text_in(part)
        thinking = _thinking_in(part)
        call = _call_in(part)
        if text is not None:
            self.texts.append(text)
        elif thinking is not None:
            self.thinking.append(thinking)
        elif call is not None:
            self.calls.append(call)
        else:
            self._add_other(part)

    def _add_other(self, part: Json) -> None:
        """A result, or what nobody knows."""
        match part:
            case {"type": "tool_result", "tool_use_id": str(id)}:
                self.add_result(id, "", part.get("content"), bool(part.get("is_error")))
            case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(id)}:
                self.add_result(id, "", part.get("output"), None)
            case {"source_call_id": str(id)}:
                extra = part.get("extra") or {}
                failed = extra.get("is_error", extra.get("tool_result_is_error"))
                self.add_result(id, "", part.get("content"), failed)
            case {"type": kind}:
                self.unread.append(Unread(f"a part of the type {kind!r}"))
            case _:
                self.unread.append(Unread("a part that nobody knows"))

    def add_result(self, id: str, name: str, content: Any, failed: bool | None) -> None:
        """What a call gave, as text."""
        if isinstance(content, dict):
            content = json_text(content)
        texts: list[str] = []
        for part in _parts(content):
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                what = f"a part of the type {part.get('type')!r} in a result"
                self.unread.append(Unread(what))
        self.results.append(Result(ToolResult(id, name, "".join(texts)), failed))


def _text_in(part: Json) -> str | None:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return text
        case {"type": "refusal", "refusal": str(text)}:
            return text
    return None


def _thinking_in(part: Json) -> str | None:
    match part:
        case {"type": "thinking", "thinking": thinking}:  # a text; with Mistral, parts
            return _text(thinking) or HIDDEN
        case {"type": "redacted_thinking"}:
            return HIDDEN
        case {"type": "reasoning"}:
            shown = [*_parts(part.get("summary")), *_parts(part.get("content"))]
            return _text(shown) or HIDDEN
    return None


def _call_in(part: Json) -> ToolCall | None:
    match part:
        case {"type": "tool_use", "name": str(name)}:
            return _call(part.get("id"), name, part.get("input"))
        case {"function": {"name": str(name)}}:
            return _call(part.get("id"), name, part["function"].get("arguments"))
        case {"type": "function_call", "name": str(name)}:
            return _call(part.get("call_id"), name, part.get("arguments"))
        case {"type": "custom_tool_call", "name": str(name), "input": str(text)}:
            return ToolCall(str(part.get("call_id") or ""), name, text)
        case {"tool_call_id": str(id), "function_name": str(name)}:
            return _call(id, name, part.get("arguments"))
    return None


def pieces(row: Any) -> Iterator[Piece]:
    """What a row says, in our messages."""
    match row:
        case {"step_id": _, "source": str()}:
            yield from _step(row)
        case {"type": "user" | "assistant", "message": dict()}:
            yield from _claude_code(row)
        case {"type": str(kind)} if kind in BOOKKEEPING:
            return
        case {"role": "system" | "developer"}:
            yield Instructions(_text(row.get("content")))
        case {"role": "user" | "assistant" as role}:
            yield from _spoken(role, row, [*_parts(row.get("content")), *_calls(row)])
        case {"role": "tool" | "function"}:
            contents = _Contents()
            name = str(row.get("tool_name") or row.get("name") or "")
            contents.add_result(str(row.get("tool_call_id") or ""), name, row.get("content"), None)
            yield from contents.results
            yield from contents.unread
        case {"role": role}:
            yield Unread(f"a row of the role {role!r}")
        case {"type": _}:  # an item of the Responses API is a part of its own
            yield from _spoken("", row, [row])
        case _:
            yield Unread("a row that is no message")


def _spoken(role: str, row: Json, parts: Iterable[Json]) -> Iterator[Piece]:
    """The pieces of a row, from its parts and from the fields in which some formats have more."""
    contents = _Contents()
    for part in parts:
        contents.add(part)
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(row.get(key), str) and not contents.thinking:
            contents.thinking.append(row[key])
    if isinstance(row.get("refusal"), str):
        contents.texts.append(row["refusal"])

    text = "".join(contents.texts)
    reply = Assistant(text, "\n\n".join(contents.thinking), tuple(contents.calls))
    if row.get("phase") == "commentary":
        reply = replace(reply, text="", commentary=text)
    says_nothing = reply == Assistant()
    if role == "assistant" or not (role or says_nothing):
        yield Reply(reply)
    yield from contents.results
    if role == "user":
        only_results = contents.results and not text
        if not only_results:
            yield User(text)
    yield from contents.unread


def _calls(row: Json) -> list[Json]:
    """The calls that a reply has beside its content; OpenAI's first protocol had one."""
    calls = _parts(row.get("tool_calls"))
    if isinstance(row.get("function_call"), dict):
        calls.append({"function": row["function_call"]})
    return calls


def _parts(content: Any) -> list[Json]:
    """A content as a list of parts; what is none becomes one that nobody knows."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return [{"type": type(content).__name__}]
    parts: list[Json] = []
    for part in content:
        parts += [part] if isinstance(part, dict) else _parts(str(part))
    return parts


def _text(content: Any) -> str:
    return "".join(str(part.get("text") or "") for part in _parts(content))


def _call(id: Any, name: str, arguments: Any) -> ToolCall:
    """A call with its arguments as an object, or as the text that is none."""
    if arguments in (None, "", "null"):
        arguments = {}
    if not isinstance(arguments, dict):
        text = arguments if isinstance(arguments, str) else json_text(arguments)
        arguments = json_object(text)
    return ToolCall(str(id or ""), name, arguments)


def _claude_code(row: Json) -> Iterator[Piece]:
    """A row of Claude Code's JSON lines: a message of Anthropic's protocol, or a part of one."""
    message = {**row["message"], "role": row["type"]}
    at = row.get("timestamp")
    for piece in pieces(message):
        match piece:
            case Reply(message=reply):
                reply = replace(reply, model=str(message.get("model") or ""), at=at)
                yield Reply(reply, str(message.get("id") or ""))
            case User() if row.get("isMeta") or row.get("isCompactSummary"):
                yield replace(piece, kind="nudge", at=at)  # the program speaks, not the person
            case User():
                yield replace(piece, at=at)
            case Result(message=result):
                yield replace(piece, message=replace(result, at=at))
            case _:
                yield piece


def _step(row: Json) -> Iterator[Piece]:
    """A step of ATIF: a message, or a reply with the results of its calls."""
    if row.get("is_copied_context"):
        yield Unread("a step that was copied from another trajectory")
        return
    role = {"agent": "assistant", "user": "user"}.get(row["source"], "")
    calls = _parts(row.get("tool_calls"))
    parts = [*_parts(row.get("message")), *calls]
    for result in (row.get("observation") or {}).get("results") or ():
        if result.get("source_call_id") is None and len(calls) == 1:
            result = {**result, "source_call_id": calls[0].get("tool_call_id")}
        parts.append(result)
    if not role and not row.get("observation"):
        yield Instructions(_text(row.get("message")))
        return

    for piece in _spoken(role, row, parts):
        if isinstance(piece, Reply):
            reply = replace(piece.message, model=str(row.get("model_name") or ""))
            reply = replace(reply, at=row.get("timestamp"), usage=_usage(row.get("metrics") or {}))
            yield Reply(reply, f"step {row['step_id']}")
        elif isinstance(piece, User):
            yield replace(piece, at=row.get("timestamp"))
        else:
            yield piece


def _usage(metrics: Json) -> Usage:
    def count(name: str) -> int:
        return metrics.get(name) or 0

    return Usage(count("prompt_tokens"), count("completion_tokens"), count("cached_tokens"))
