"""The log formats of other programs: one reader for all their rows.

    Chat Completions, Messages, Responses, Ollama, ATIF, Claude Code

Rule 1: a row is read by its shape; no log has to say its format. So a log may mix two formats.
Rule 2: a row of unknown shape is listed as unread, with the reason. Nothing is left out in silence.
Rule 3: what is read of a row is taken out of it. A field with a value that is left, at any depth,
        is listed as unread, if it is not METADATA, which may be ignored everywhere.

Limitations: tokens, times and model names are not read. Claude Code's own bookkeeping (BOOKKEEPING)
is left out on purpose: a sub-agent's progress there is a copy of that agent's own file. Only what
was typed while the model worked is read.
"""

from collections.abc import Generator, Iterator
from typing import Any

from ..messages import Assistant, Json, ToolCall, ToolResult, User
from ..wire.incoming import parse_arguments
from .runs import Said

BOOKKEEPING = {  # types of rows that Claude Code writes for itself
    "agent-name",
    "ai-title",
    "attachment",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "rate_limit_event",
    "result",
    "stream_event",
    "summary",
    "system",
    "tag",
    "worktree-state",
}

# The types of parts that are read, in whatever format.
TEXTS = {"text", "input_text", "output_text", "refusal"}
REASONING = {"thinking", "redacted_thinking", "reasoning"}
CALLS = {"tool_use", "function_call"}
RESULTS = {"tool_result", "function_call_output", "tool"}
CALL_ID = "call_id|tool_call_id|tool_use_id|source_call_id"  # fields with a call's id
HIDDEN = "(reasoning that the log does not show)"
METADATA = """
    call_id tool_call_id tool_use_id source_call_id

    annotations cache_control caller citations cost created_at data encrypted_content extra
    finish_reason id index logprobs metrics model model_name name phase prompt_cache_breakpoint
    reasoning_effort role response_metadata signature source status step_id stop_details stop_reason
    stop_sequence timestamp tool_name turn_idx type usage usage_metadata llm_call_count
    subagent_trajectory_ref

    agentId commandMode container context_management cwd diagnostics entrypoint gitBranch
    imagePasteIds isCompactSummary isMeta isSidechain isVisibleInTranscriptOnly origin parentUuid
    parent_tool_use_id permissionMode promptId requestId request_id sessionId session_id slug
    sourceToolAssistantUUID sourceToolUseID source_uuid subagent_type task_description
    thinkingMetadata todos toolUseResult userType uuid version
"""
REFUSALS = (  # how a result begins in Claude Code if a person said no
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action",
)


# From a row to what it says.


def read_row(row: Any) -> Iterator[Said]:
    """What a row says."""
    match row:
        case {"step_id": _, "source": str()}:
            yield from _read_step(row)
        case {"type": "user" | "assistant" as role, "message": dict(message)}:
            beside = {"role": role, "content beside the message": row.get("content")}
            yield from read_row({**row, "message": None, **message, **beside})
        case {"attachment": {"type": "queued_command", **typed}}:
            # it was typed while the model worked, and stands nowhere else
            yield from _unread("attachment", {**row, "attachment": None})
            yield from read_row({**typed, "role": "user"})
        case {"role": "system" | "developer" | "user" | "assistant"}:
            yield from _read_said(dict(row))
        case {"role": "tool" | "function"}:
            yield from _read_result(dict(row))
        case {"role": role}:
            yield f"a row of the role {role!r}"
        case {"type": str(kind)} if kind in BOOKKEEPING:
            return
        case {"type": _}:  # an item of the Responses API is a part of its own
            yield from _read_part(dict(row))
        case _:
            yield "a row that is no message"


def _read_said(row: Json) -> Iterator[Said]:
    """What the parts of a row say: first the other parts, then its text."""
    parts = [*_parts(take(row, "content|message|prompt")), *_beside(row)]
    yield from _unread(row["role"], row)
    text = ""
    for part in parts:
        if part.get("type") in TEXTS:
            text += yield from _read_text(part)
        else:
            yield from _read_part(part)
    if not text and any(part.get("type") in RESULTS for part in parts):
        return
    match row:
        # Claude Code writes in the user's role, too.
        case {"isMeta": True} | {"isCompactSummary": True} | {"commandMode": "task-notification"}:
            yield User(text, "nudge")
        case {"role": "user"}:
            yield User(text)
        case {"role": "assistant"}:
            yield Assistant(text)
        case _:
            yield {"instructions": text}


def _read_part(part: Json) -> Iterator[Said]:
    """What a part says that is not text."""
    kind = part.get("type")
    if kind in REASONING:
        thinking = ""
        for piece in _parts([part, take(part, "summary"), take(part, "content")]):
            thinking += yield from _read_text(piece)
        yield Assistant(thinking=thinking or HIDDEN)
    elif kind in CALLS:
        id = str(take(part, CALL_ID + "|id"))
        name = str(take(part, "name|function_name"))
        call = ToolCall(id, name, parse_arguments(take(part, "arguments|input|args")))
        yield from _unread("call", part)
        yield Assistant(tool_calls=(call,))
    elif kind in RESULTS:
        yield from _read_result(part)
    else:
        yield f"a part of the type {kind!r}"


def _beside(row: Json) -> Iterator[Json]:
    """The fields beside the content of a reply, as parts. A user's calls are not the model's."""
    if row["role"] != "assistant":
        return
    yield from _parts(take(row, "refusal"))
    reasoning = take(row, "reasoning_content|reasoning|thinking")
    if reasoning:
        yield {"type": "reasoning", "content": reasoning}
    # OpenAI's first protocol had one call, in a field of its own.
    for call in _parts([take(row, "tool_calls"), take(row, "function_call")]):
        function = call.get("function", {})
        twice = call.keys() & function.keys()  # of these the call's own are not read
        yield {**call, **function, "function": twice, "type": "function_call"}


def _read_step(row: Json) -> Iterator[Said]:
    """What a step of ATIF says: it is a row like others, with the results of its calls."""
    if row.get("is_copied_context"):
        yield "a step that was copied from another trajectory"
        return
    role = row["source"].replace("agent", "assistant")
    yield from read_row({**row, "role": role, "source": None, "observation": None})

    observation = {**(row.get("observation") or {})}
    results = _parts(take(observation, "results"))
    yield from _unread("observation", observation)
    for result in results:
        failed = take(result.get("extra") or {}, "is_error|tool_result_is_error")
        yield from _read_result({**result, "is_error": failed})
        for run in _parts(result.get("subagent_trajectory_ref")):
            if run.get("trajectory_path"):
                yield f"a sub-agent's run, which is in {run['trajectory_path']}"


def _read_result(part: Json) -> Iterator[Said]:
    """The result of a call. It failed if the log says so; if it says nothing, its text decides."""
    pieces = _parts(take(part, "content|output"))
    failed = take(part, "is_error")
    yield from _unread("result", part)
    text = ""
    for piece in pieces:
        if isinstance(piece.get("text"), str):
            text += yield from _read_text(piece)
        else:
            yield f"a part of the type {piece.get('type')!r} in a result"
    if failed == "" and part.get("type") != "tool_result":  # this one worked
        failed = text.lstrip().lower().startswith("error")
    refused = ""
    if text.startswith(REFUSALS):
        refused = "person"
    id = str(take(part, CALL_ID))
    name = str(take(part, "tool_name|name"))
    yield ToolResult(id, name, text, bool(failed), refused=refused)


def _read_text(part: Json) -> Generator[str, None, str]:
    """Returns the text of a part; yields what else is in it."""
    text = ""
    for name in ("text", "refusal", "thinking"):
        if isinstance(part.get(name), str):
            text += part.pop(name)
    yield from _unread("text", part)
    return text


def _unread(kind: str, row: Json) -> Iterator[str]:
    """The fields with a value that nobody has taken out (rule 3)."""
    ignored = METADATA.split()
    for name, value in row.items():
        if value and name not in ignored:
            yield f"the field {name!r} of the {kind}"


def _parts(content: Any) -> list[Json]:
    """A content, or several, as a list of parts; any other value is a part of unknown type."""
    match content:
        case None | "":
            return []
        case str():
            return [{"type": "text", "text": content}]
        case dict():
            return [dict(content)]
        case list():
            return [part for item in content for part in _parts(item)]
    return [{"type": type(content).__name__, "value": content}]


def take(row: Json, names: str) -> Any:
    """Take the first of these fields (a|b) that has a value out of a row, and those that say the
    same. An empty text if none has a value.
    """
    taken: Any = ""
    for name in names.split("|"):
        value = row.get(name)
        if taken == "" and value is not None:
            taken = value
        if value == taken:
            row.pop(name)
    return taken
