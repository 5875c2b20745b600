"""Forcing: when the model is forced to think.

The kit forces a thought by the tool choice, which is only a hint to the provider. It decides for
each model call: if `think` were forced on *every* call, the turn would never end. After two
choices in a row that one host ignored, it asks for no more. (After it has refused a call, the gate
forces a thought, too. If a provider refuses a tool choice, a weaker one is tried: `relax` in
`wire/outgoing.py`.)
"""

from dataclasses import replace
from typing import Literal

from ..loop import CallModel, Policy, Step, is_free
from ..messages import THINK_NAME, Assistant, Force, ToolChoice
from ..turn import Turn

Forcing = Literal["never", "first", "always"]
MOST_IGNORED = 2  # tool choices in a row


def force(when: Forcing) -> Policy:
    """The policy: when the tool choice forces `think`.

    - `"first"`: in the first model call after a person spoke. After that the model is free.
    - `"always"`: the model must think at the start and after every action (`Force("think")`). In
      the other calls it must call some tool (`"required"`). So silence is impossible, and the exit
      signal is the only way out.
    - `"never"`: the model is always free.
    """
    match when:
        case "first":
            return force_first
        case "always":
            return force_always
        case "never":
            return as_planned


def as_planned(step: Step, turn: Turn) -> Step:
    """The policy that changes nothing."""
    return step


def force_first(step: Step, turn: Turn) -> Step:
    opens_the_turn = turn.last is turn.request
    if opens_the_turn and step == CallModel():
        return CallModel(Force(THINK_NAME))
    return step


def force_always(step: Step, turn: Turn) -> Step:
    if not isinstance(step, CallModel) or step.tool_choice != "auto":
        return step
    if turn.thought_required:
        return replace(step, tool_choice=Force(THINK_NAME))
    return replace(step, tool_choice="required")


def stop_asking(step: Step, turn: Turn) -> Step:
    """After two in a row that a host has ignored, no more are asked for: they do nothing."""
    if is_free(step) and turn.history.ignored >= MOST_IGNORED:
        return replace(step, tool_choice="auto")
    return step


def honored(choice: ToolChoice, reply: Assistant) -> bool:
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
