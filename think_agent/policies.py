"""Policies: what the loop plans, amended. Each is a function `(step, transcript) -> step`, and none
is in the loop.

Rule 1: a policy reads the transcript and keeps nothing, so a resumed run decides as the first one
        did.
Rule 2: a policy changes only the steps it is about, and hands on the others as they are.
Rule 3: factories take numbers and give policies: `max_model_calls(30)` is a policy.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Literal, TypeAlias

from .loop import CallModel, CallTools, Done, Policy, Refuse, Step
from .messages import THINK_NAME, Assistant, Force, Message, ToolResult, User, current_turn
from .trail import calls_with_thoughts, ignored_choices

Forcing: TypeAlias = Literal["never", "first", "always"]

THINK_FIRST = "not run. Call think first: check this step against the rules. Then call it again."


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
        return CallModel(Force(THINK_NAME))
    return step


def _force_always(step: Step, transcript: Sequence[Message]) -> Step:
    if not (isinstance(step, CallModel) and step.tool_choice == "auto"):
        return step
    return replace(
        step, tool_choice=Force(THINK_NAME) if _owes_a_thought(transcript) else "required"
    )


def _is_opening(transcript: Sequence[Message]) -> bool:
    last = transcript[-1]
    return isinstance(last, User) and last.kind == "person"


def _owes_a_thought(transcript: Sequence[Message]) -> bool:
    """Has nothing been thought since the last action of this turn, or since its start?"""
    for message in reversed(current_turn(transcript)):
        if isinstance(message, Assistant) and message.tool_calls:
            return message.tool_calls[-1].name != THINK_NAME
    return True


def gate(guarded: Set[str], *, patience: int = 3) -> Policy:
    """Think first: a call of a guarded tool without a thought behind it is refused, not run.

    The model is told to think and to try again, and the next call forces a thought where that is
    possible. A model that thinks by itself never notices. After `patience` refused replies in a row
    the run gives up.
    """

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        turn = current_turn(transcript)
        match step:
            case CallTools(calls=calls):
                tried = calls_with_thoughts(turn)
                bare = [call for call, result, thought in tried if not (result or thought)]
                for index, call in enumerate(calls):
                    if call.name in guarded and call in bare:
                        return CallTools(calls[:index]) if index else Refuse(call, THINK_FIRST)
            case CallModel(tool_choice="auto") if refused := _refused_in_a_row(turn, guarded):
                if refused >= patience:
                    return Done("gave_up", f"I gave up: {refused} times in a row I acted first.")
                return replace(step, tool_choice=Force(THINK_NAME))
        return step

    return policy


def mend_format(step: Step, transcript: Sequence[Message]) -> Step:
    """A reply that its dialect could not read goes back to the model with what was expected; after
    three in a row the run gives up.
    """
    last = transcript[-1]
    if not (isinstance(last, Assistant) and last.stop_reason == "malformed"):
        return step
    if _malformed_in_a_row(transcript) >= 3:
        return Done("gave_up", "I gave up: three replies in a row could not be read.")
    return CallModel(say=User(last.mistake, kind="format"))


def stop_asking(step: Step, transcript: Sequence[Message]) -> Step:
    """A tool choice that was ignored twice is not asked for any more: it costs, and does
    nothing.
    """
    match step:
        case CallModel(tool_choice=choice) if choice not in ("auto", "none"):
            if ignored_choices(transcript) >= 2:
                return replace(step, tool_choice="auto")
    return step


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


def _refused_in_a_row(turn: Sequence[Message], guarded: Set[str]) -> int:
    """How many of the last replies had a guarded call refused; one that only thought ends the
    row.
    """
    count, refused = 0, False
    for message in reversed(turn):
        match message:
            case ToolResult(name=name, refused=True) if name in guarded:
                refused = True
            case Assistant(tool_calls=calls) if calls:
                if not refused:
                    break
                count, refused = count + 1, False
    return count


def _malformed_in_a_row(transcript: Sequence[Message]) -> int:
    count = 0
    for message in reversed(current_turn(transcript)):
        if isinstance(message, Assistant):
            if message.stop_reason != "malformed":
                break
            count += 1
    return count
