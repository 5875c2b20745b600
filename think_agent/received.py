"""Received: a model's reply as it goes into the transcript.

Rule 1: every call has an id. If the wire gave none, it is made from the number of ids so far, so
        it is the same if a run is streamed or resumed.
Rule 2: every call says where it carries its thought, because a reader of the transcript does not
        have the tool.
Rule 3: the reply says what was asked of it, and whether it obeyed. That is judged by the reply
        alone, whatever the provider promised.
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
    """The reply with the ids of its calls, the tool choice, and whether the reply obeyed it; `at`
    is its time stamp, `tools` are those of the agent.
    """
    return replace(
        reply,
        at=at,
        tool_calls=_with_places(with_ids(reply.tool_calls, turn), tools),
        tool_choice=choice,
        enforced=_find_enforcer(reply, choice),
    )


def _find_enforcer(reply: Assistant, choice: ToolChoice) -> Enforced:
    """Who made sure of the tool choice (`Assistant.enforced`), judged by the reply."""
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
    """`calls`, each with an id. If the wire gave none, the id is `call_N`, and N counts the ids of
    the whole transcript.
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
    """`calls`, each with the argument in which it carries its thought (rule 2)."""
    placed = []
    for call in calls:
        tool = tools.get(call.name)
        if tool is not None:
            call = replace(call, thought_in=tool.thought_in)
        placed.append(call)
    return tuple(placed)


def notices(reply: Assistant, turn: Turn) -> Iterator[str]:
    """What a watcher should know about a reply, the last one of `turn`."""
    if reply.notice:
        yield reply.notice
    if reply.is_usable and not is_honored(reply.tool_choice, reply):
        yield not_honored(reply.tool_choice, reply, turn.history.ignored)


def is_honored(choice: ToolChoice, reply: Assistant) -> bool:
    """Does `reply` do what the tool choice asked?"""
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
    """What a watcher should know about a reply that did not do what its tool choice asked.
    `ignored`: how many in a row ignored theirs, with this one.
    """
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = "call a tool"
    if isinstance(choice, Force):
        asked = f"call {choice.name}"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    told = f"{reply.model} was forced to {asked} and did not: the choice was ignored."
    if ignored == MOST_IGNORED:
        told += " From now on it is not asked any more."
    return told
