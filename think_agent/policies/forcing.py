"""When a thought is forced.

Forcing is a hint to the provider, decided call by call: forcing `think` on *every* call would never
end, and a choice that is ignored is not asked for again and again. (The gate forces one, too, after
it has refused a call; what a provider refuses is asked for more weakly in `providers/base.py`.)
"""

from dataclasses import replace
from typing import Literal

from ..loop import CallModel, Policy, Step
from ..messages import THINK_NAME, Assistant, Force, ToolChoice
from ..turn import Turn

Forcing = Literal["never", "first", "always"]


def force(when: Forcing) -> Policy:
    """When `think` is forced by tool choice.

    - `"first"`: on the first call after a person spoke; afterwards the model is free.
    - `"always"`: a thought is owed at the start and after every action (`Force("think")`),
      otherwise some tool is (`"required"`). Silence is impossible then, so the exit signal is the
      way out.
    - `"never"`: the model is free throughout.
    """
    match when:
        case "first":
            return force_first
        case "always":
            return force_always
        case "never":
            return as_planned
    raise ValueError(f"force={when!r}: use 'never', 'first' or 'always'")


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
    if turn.owes_thought:
        return replace(step, tool_choice=Force(THINK_NAME))
    return replace(step, tool_choice="required")


def stop_asking(step: Step, turn: Turn) -> Step:
    """A tool choice that was ignored twice is not asked for any more: it costs and does nothing."""
    if not isinstance(step, CallModel) or step.tool_choice in ("auto", "none"):
        return step
    if turn.history.ignored < 2:
        return step
    return replace(step, tool_choice="auto")


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


def not_honored(choice: ToolChoice, reply: Assistant, before: int) -> str:
    """What a watcher should know of that. `before`: how many replies had ignored theirs."""
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = "call a tool"
    if isinstance(choice, Force):
        asked = f"call {choice.name}"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    again = ""
    if before == 1:
        again = " From now on it is not asked any more."
    return f"{reply.model} was forced to {asked} and did not: the choice was ignored.{again}"
