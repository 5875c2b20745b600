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
    Usage,
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
    for group in _groups(entries):
        steps.append(_step(group))
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


def _groups(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries of each step: what somebody says, with all that follows from it."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if not groups or isinstance(entry, User | Assistant | Unreadable):
            groups.append([])
        groups[-1].append(entry)
    return groups


def _step(group: list[Entry]) -> Json:
    first = group[0]
    kept = [to_json(entry) for entry in group if isinstance(entry, MESSAGES)]
    step: Json = {"source": "system", "extra": {OURS: kept}}
    step["timestamp"] = getattr(first, "at", None)
    match first:
        case Assistant():
            step |= _reply(first, group)
        case User(text=text):
            step |= {"source": "user", "message": text}
        case _:
            step["message"] = json_text(asdict(first))
    return step


def _reply(reply: Assistant, group: Iterable[Entry]) -> Json:
    calls: list[Json] = []
    for call in reply.tool_calls:
        arguments = call.arguments
        if isinstance(arguments, str):
            arguments = {"text": arguments}  # ATIF has objects alone
        calls.append({"tool_call_id": call.id, "function_name": call.name, "arguments": arguments})

    ids = {call.id for call in reply.tool_calls}
    results: list[Json] = []
    for entry in group:
        if isinstance(entry, ToolResult) and entry.call_id in ids:
            extra = {"is_error": entry.is_error}
            result = {"source_call_id": entry.call_id, "content": entry.content, "extra": extra}
            results.append(result)
    step: Json = {
        "source": "agent",
        "message": reply.words,
        "model_name": reply.model,
        "reasoning_content": reply.thinking,
        "tool_calls": calls,
        "observation": {"results": results},
    }
    if reply.usage != Usage():
        step["metrics"] = {
            "prompt_tokens": reply.usage.input_tokens,
            "completion_tokens": reply.usage.output_tokens,
            "cached_tokens": reply.usage.cached_tokens,
        }
    return step
