"""Received: complete a model's reply before it's recorded.

Rule 1: every call has an id. If the provider sent none, it's numbered by the ids so far. So a
        streamed or resumed run makes the same id.
Rule 2: every call names the argument that carries its thought, because a reader of the transcript
        doesn't have the tool.
Rule 3: the reply stores its tool choice and whether it followed it. Only the reply itself counts,
        whatever the provider promised.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .history import MOST_IGNORED
from .messages import Assistant, Enforced, Force, ToolCall, ToolChoice
from .tools import Tool
from .turn import Turn


def read_received(
    reply: Assistant, choice: ToolChoice, turn: Turn, at: str, tools: Mapping[str, Tool]
) -> Assistant:
    """The reply with ids for its calls, its tool choice, and whether it followed that choice. `at`
    is its time stamp, `tools` are the agent's tools.
    """
    return replace(
        reply,
        at=at,
        tool_calls=_with_places(with_ids(reply.tool_calls, turn), tools),
        tool_choice=choice,
        enforced=_find_enforcer(reply, choice),
    )


def _find_enforcer(reply: Assistant, choice: ToolChoice) -> Enforced:
    """Who enforced the tool choice (`Assistant.enforced`), judged by the reply."""
    ignores_form = reply.dialect and reply.stop_reason == "malformed"  # a dialect needs its form
    tells = reply.is_usable or ignores_form
    if choice == "auto" or reply.enforced == "prompt":
        return reply.enforced
    if not is_honored(choice, reply):
        return "ignored" if tells else None
    if not tells:
        return reply.enforced
    return reply.enforced or "tool_choice"


def with_ids(calls: tuple[ToolCall, ...], turn: Turn) -> tuple[ToolCall, ...]:
    """`calls`, each with an id. If the provider sent none, the id is `call_N`, where N counts the
    ids of the whole transcript.
    """
    taken = {call.id for call in calls}
    named = []
    for number, call in enumerate(calls, len(turn.history.ids)):
        if not call.id:
            while f"call_{number}" in taken or f"call_{number}" in turn.history.ids:
                number += 1
            call = replace(call, id=f"call_{number}")
            taken.add(call.id)
        named.append(call)
    return tuple(named)


def _with_places(calls: tuple[ToolCall, ...], tools: Mapping[str, Tool]) -> tuple[ToolCall, ...]:
    """`calls`, each with the name of the argument that carries its thought (rule 2)."""
    placed = []
    for call in calls:
        tool = tools.get(call.name)
        if tool is not None:
            call = replace(call, thought_in=tool.thought_in)
        placed.append(call)
    return tuple(placed)


def notices(reply: Assistant, turn: Turn) -> Iterator[str]:
    """Notices for a watcher about the last reply of `turn`."""
    if reply.notice:
        yield reply.notice
    if reply.is_usable and not is_honored(reply.tool_choice, reply):
        yield not_honored(reply.tool_choice, reply, turn.history.ignored)


def is_honored(choice: ToolChoice, reply: Assistant) -> bool:
    """Does `reply` do what its tool choice asked for?"""
    called = [call.name for call in reply.tool_calls]
    match choice:
        case Force(name=name):
            return name in called
        case "required":
            return bool(called)
        case "none":
            return not called
    return True


def not_honored(choice: ToolChoice, reply: Assistant, ignored: int) -> str:
    """The notice about a reply that didn't do what its tool choice asked for. `ignored`: how many
    replies in a row ignored theirs, including this one.
    """
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = "call a tool"
    if isinstance(choice, Force):
        asked = f"call {choice.name}"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    text = f"{reply.model} was forced to {asked} and did not: the choice was ignored."
    if ignored == MOST_IGNORED:
        text += " From now on it is not asked any more."
    return text
