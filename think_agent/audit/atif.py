"""A transcript as a trajectory of ATIF, the Agent Trajectory Interchange Format, and back.

Rule 1: if ATIF has a field for something, it goes there, so that other programs can read our runs.
Rule 2: each step also keeps the messages it was made from (`extra`), so reading it back gives the
        same run.

Source: the RFC of Harbor (github.com/harbor-framework/harbor, rfcs/0001), version 1.8, and the
package `atif`. The tests validate trajectories with its models.
"""

from collections.abc import Iterable

from .. import __version__
from ..messages import MESSAGES, Assistant, Json, ToolResult, User, to_json
from .reading import Entry, Unreadable

VERSION = "ATIF-v1.8"
OURS = "think_agent"  # in the `extra` of a step or of a trajectory


def to_atif(entries: Iterable[Entry], header: Json) -> Json:
    """The trajectory of a transcript, as JSON."""
    steps = [_step("system", header.get("instructions", ""))]
    for entry in entries:
        match entry:
            case Assistant():
                steps.append(_reply(entry))
            case User(text=text):
                steps.append(_step("user", text, entry.at))
            case Unreadable(raw=raw):
                steps.append(_step("system", raw))
            case ToolResult():
                _add_result(steps[-1], entry)
        if isinstance(entry, MESSAGES):
            steps[-1]["extra"][OURS].append(to_json(entry))
    for number, step in enumerate(steps, 1):
        step["step_id"] = number

    return {
        "schema_version": VERSION,
        "agent": {
            "name": "think-agent",
            "version": __version__,
            "model_name": header.get("model"),
            "tool_definitions": header.get("tools"),
        },
        "steps": steps,
        "extra": {OURS: {"header": header}},
    }


def _step(source: str, text: str, at: str | None = None) -> Json:
    return {"source": source, "message": text, "timestamp": at, "extra": {OURS: []}}


def _add_result(step: Json, result: ToolResult) -> None:
    ids = [call["tool_call_id"] for call in step.get("tool_calls", [])]
    if result.call_id in ids:
        extra = {"is_error": result.is_error}
        given = {"source_call_id": result.call_id, "content": result.content, "extra": extra}
        step["observation"]["results"].append(given)


def _reply(reply: Assistant) -> Json:
    calls: list[Json] = []
    for call in reply.tool_calls:
        arguments = call.arguments
        if isinstance(arguments, str):
            arguments = {"text": arguments}  # ATIF takes only objects
        calls.append({"tool_call_id": call.id, "function_name": call.name, "arguments": arguments})
    return {
        **_step("agent", reply.words, reply.at),
        "reasoning_content": reply.thinking,
        "tool_calls": calls,
        "observation": {"results": []},
    }
