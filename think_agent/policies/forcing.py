"""When a thought is forced.

Forcing is a hint to the provider, decided call by call: forcing `think` on *every* call would never
end, and a choice that is ignored is not asked for for ever.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ..loop import CallModel, Policy, Step
from ..messages import THINK_NAME, Assistant, Force, Message, ToolChoice, User, current_turn
from ..trail import ignored_choices

Forcing: TypeAlias = Literal["never", "first", "always"]


def force(when: Forcing) -> Policy:
    """When `think` is forced by tool choice.

    - `"first"`: on the first call after a person spoke; afterwards the model is free.
    - `"always"`: a thought is owed at the start and after every action (`Force("think")`),
      otherwise some tool is (`"required"`). Silence is impossible then, so the exit signal is the
      way out.
    - `"never"`: the model is free throughout.
    """
    match when:
        case "never":
            return lambda step, transcript: step
        case "first":
            return _force_first
        case "always":
            return _force_always
    raise ValueError(f"force={when!r}: use 'never', 'first' or 'always'")


def _force_first(step: Step, transcript: Sequence[Message]) -> Step:
    if step == CallModel() and _is_opening(transcript):
        return CallModel(Force(THINK_NAME))
    return step


def _force_always(step: Step, transcript: Sequence[Message]) -> Step:
    if not (isinstance(step, CallModel) and step.tool_choice == "auto"):
        return step
    choice: ToolChoice = Force(THINK_NAME) if _owes_a_thought(transcript) else "required"
    return replace(step, tool_choice=choice)


def _is_opening(transcript: Sequence[Message]) -> bool:
    last = transcript[-1]
    return isinstance(last, User) and last.kind == "person"


def _owes_a_thought(transcript: Sequence[Message]) -> bool:
    """Has nothing been thought since the last action of this turn, or since its start?"""
    for message in reversed(current_turn(transcript)):
        if isinstance(message, Assistant) and message.tool_calls:
            return message.tool_calls[-1].name != THINK_NAME
    return True


def stop_asking(step: Step, transcript: Sequence[Message]) -> Step:
    """A tool choice that was ignored twice is not asked for any more: it costs and does nothing."""
    match step:
        case CallModel(tool_choice=choice) if choice not in ("auto", "none"):
            if ignored_choices(transcript) >= 2:
                return replace(step, tool_choice="auto")
    return step
