"""A transcript as a trajectory of ATIF, the Agent Trajectory Interchange Format, and back.

Rule 1: what ATIF has a field for stands in that field, so that other programs read our runs.
Rule 2: each step holds the messages that it was made of, too (`extra`), so reading it back gives
        the same run.

Source: the RFC of Harbor (github.com/harbor-framework/harbor, rfcs/0001), version 1.8, and the
package `atif`, whose models the tests hold a trajectory against.
"""

from collections.abc import Iterable
from dataclasses import asdict

from .. import __version__
from ..messages import (
    MESSAGES,
    Assistant,
    Json,
    ToolResult,
    User,
    to_json,
)
from ..text import json_text
from .reading import Entry, Unreadable

VERSION = "ATIF-v1.8"
OURS = "think_agent"  # in the `extra` of a step or of a trajectory


def to_atif(entries: Iterable[Entry], header: Json) -> Json:
    """The trajectory of a transcript, as JSON."""
    steps: list[Json] = []
    if "instructions" in header:
        steps.append({"source": "system", "message": header["instructions"], "extra": {OURS: []}})
    for entry in entries:
        if not steps or isinstance(entry, User | Assistant | Unreadable):
            steps.append(_step(entry))
        if isinstance(entry, MESSAGES):
            steps[-1]["extra"][OURS].append(to_json(entry))
        if isinstance(entry, ToolResult):
            _add_result(steps[-1], entry)
    for number, step in enumerate(steps, 1):
        step["step_id"] = number

    agent = {
        "name": "think-agent",
        "version": __version__,
        "model_name": header.get("model"),
        "tool_definitions": header.get("tools"),
    }
    extra = {OURS: {"header": header}}
    return {"schema_version": VERSION, "agent": agent, "steps": steps, "extra": extra}


def _step(first: Entry) -> Json:
    """The step that begins with this entry. What follows from it belongs to it, too."""
    step: Json = {"timestamp": getattr(first, "at", None), "extra": {OURS: []}}
    match first:
        case Assistant():
            step |= _reply(first)
        case User(text=text):
            step |= {"source": "user", "message": text}
        case _:
            step |= {"source": "system", "message": json_text(asdict(first))}
    return step


def _add_result(step: Json, result: ToolResult) -> None:
    for call in step.get("tool_calls", []):
        if call["tool_call_id"] == result.call_id:
            extra = {"is_error": result.is_error}
            given = {"source_call_id": result.call_id, "content": result.content, "extra": extra}
            step["observation"]["results"].append(given)
            return


def _reply(reply: Assistant) -> Json:
    calls: list[Json] = []
    for call in reply.tool_calls:
        arguments = call.arguments
        if isinstance(arguments, str):
            arguments = {"text": arguments}  # ATIF has objects alone
        calls.append({"tool_call_id": call.id, "function_name": call.name, "arguments": arguments})
    return {
        "source": "agent",
        "message": reply.words,
        "reasoning_content": reply.thinking,
        "tool_calls": calls,
        "observation": {"results": []},
    }
