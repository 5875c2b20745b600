"""Policies: what the loop plans, amended. Each is a function `(step, transcript) -> step`, and none
is in the loop.

Rule 1: a policy reads the transcript and keeps nothing, so a resumed run decides as the first one
        did.
Rule 2: a policy changes only the steps it is about, and hands on the others as they are.
Rule 3: factories take numbers and give policies: `max_model_calls(30)` is a policy.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from . import think
from .loop import CallModel, Done, Policy, Step
from .messages import Assistant, Force, Message, User, current_turn

Forcing: TypeAlias = Literal["never", "first", "always"]


def force(when: Forcing) -> Policy:
    """When `think` is forced by tool choice.

    - `"first"`: on the first call after a person spoke; afterwards the model is free.
    - `"always"`: a thought is owed at the start and after every action (`Force("think")`),
      otherwise some tool is (`"required"`). Silence is impossible then, so the exit signal is the
      way out.
    - `"never"`: the model is free throughout.

    Forcing `think` on *every* call would never end, which is why this is decided call by call.
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
        return CallModel(Force(think.NAME))
    return step


def _force_always(step: Step, transcript: Sequence[Message]) -> Step:
    if not (isinstance(step, CallModel) and step.tool_choice == "auto"):
        return step
    return replace(
        step, tool_choice=Force(think.NAME) if _owes_a_thought(transcript) else "required"
    )


def _is_opening(transcript: Sequence[Message]) -> bool:
    last = transcript[-1]
    return isinstance(last, User) and last.kind == "person"


def _owes_a_thought(transcript: Sequence[Message]) -> bool:
    """Has nothing been thought since the last action of this turn, or since its start?"""
    for message in reversed(current_turn(transcript)):
        if isinstance(message, Assistant) and message.tool_calls:
            return message.tool_calls[-1].name != think.NAME
    return True


def max_model_calls(limit: int) -> Policy:
    """At most `limit` model calls a turn. The last of them gets no tools: it is there for the
    closing words.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"max_model_calls={limit!r}: use a whole number from 1")

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if not isinstance(step, CallModel):
            return step
        left = limit - sum(isinstance(message, Assistant) for message in current_turn(transcript))
        if left <= 0:
            return Done("empty" if step.tool_choice == "none" else "limit")
        if left == 1 and step.tool_choice != "none":
            return CallModel("none", say=User(_closing_words(limit), kind="limit"))
        return step

    return policy


def _closing_words(limit: int) -> str:
    return (
        f"The limit of {limit} model calls for this request is reached and no tool can be "
        "called any more. Tell the user now what was done, what was decided and what is still open."
    )


def thoughts_in_a_row(transcript: Sequence[Message]) -> int:
    """How many replies in a row, up to the last one, called nothing but `think`."""
    count = 0
    for message in reversed(current_turn(transcript)):
        if isinstance(message, Assistant):
            if any(call.name != think.NAME for call in message.tool_calls):
                break
            count += bool(message.tool_calls)
    return count
