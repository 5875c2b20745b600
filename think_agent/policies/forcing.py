"""When a thought is forced.

Forcing is a hint to the provider, decided call by call: forcing `think` on *every* call would never
end, and a choice that is ignored is not asked for again and again. (The gate forces one, too, after
it has refused a call; what a provider refuses is asked for more weakly in `providers/base.py`.)
"""

from dataclasses import replace
from typing import Literal, TypeAlias

from ..loop import CallModel, Policy, Step
from ..messages import THINK_NAME, Assistant, Force, ToolChoice
from ..turn import Turn

Forcing: TypeAlias = Literal["never", "first", "always"]


def force(when: Forcing) -> Policy:
    """When `think` is forced by tool choice.

    - `"first"`: on the first call after a person spoke; afterwards the model is free.
    - `"always"`: a thought is owed at the start and after every action (`Force("think")`),
      otherwise some tool is (`"required"`). Silence is impossible then, so the exit signal is the
      way out.
    - `"never"`: the model is free throughout.
    """
    policies: dict[str, Policy] = {"never": _never, "first": force_first, "always": force_always}
    if when not in policies:
        raise ValueError(f"force={when!r}: use 'never', 'first' or 'always'")
    return policies[when]


def _never(step: Step, turn: Turn) -> Step:
    return step


def force_first(step: Step, turn: Turn) -> Step:
    opening = turn.last is turn.request
    return CallModel(Force(THINK_NAME)) if opening and step == CallModel() else step


def force_always(step: Step, turn: Turn) -> Step:
    match step:
        case CallModel(tool_choice="auto"):
            return replace(step, tool_choice=Force(THINK_NAME) if turn.owes_thought else "required")
    return step


def stop_asking(step: Step, turn: Turn) -> Step:
    """A tool choice that was ignored twice is not asked for any more: it costs and does nothing."""
    match step:
        case CallModel(tool_choice=choice) if choice not in ("auto", "none") and turn.ignored >= 2:
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


def not_honored(choice: ToolChoice, reply: Assistant, before: int) -> str:
    """What a watcher should know of that. `before`: how many replies had ignored theirs."""
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = f"call {choice.name}" if isinstance(choice, Force) else "call a tool"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    again = " From now on it is not asked any more." if before == 1 else ""
    return f"{reply.model} was forced to {asked} and did not: the choice was ignored.{again}"
