"""How much goes wrong before the run stops: failures, repeats, replies that cannot be read.

Rule 1: the model is told first; only what goes on after that ends the run.
Rule 2: after failures, a person who is there is asked before the run gives up. Repeats and replies
        that cannot be read are no question for a person: they end it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ..loop import AskHuman, CallModel, CallTools, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, Assistant, Json, Message, ToolResult, User, Verdict, current_turn
from ..trail import Action, actions, report
from .limits import check_whole

OnToolError: TypeAlias = Literal["tell_model", "fail_fast"]


def patience(
    limit: int = 3, *, on_tool_error: OnToolError = "tell_model", ask: bool = False
) -> Policy:
    """After `limit` failed actions in a row a person is asked whether to go on (`ask`), or the run
    gives up, with a summary of what was tried. `on_tool_error="fail_fast"` gives up at the first,
    and the calls that stand beside it are not run.
    """
    check_whole("patience", limit)
    if on_tool_error not in ("tell_model", "fail_fast"):
        raise ValueError(f"on_tool_error={on_tool_error!r}: use 'tell_model' or 'fail_fast'")

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        turn = current_turn(transcript)
        if on_tool_error == "fail_fast":
            return _fail_fast(step, turn)
        if not (isinstance(step, CallModel) and step.tool_choice != "none"):
            return step
        failed = _failed_in_a_row(turn)
        if failed < limit:
            return step
        tried = f"{failed} actions in a row failed:\n{report(turn)}"
        if not ask:
            return Done("gave_up", f"I gave up. {tried}")
        return AskHuman(f"{tried}\nGo on?")

    return policy


def _fail_fast(step: Step, turn: Sequence[Message]) -> Step:
    failed = any(action.result.is_error for action in actions(turn))
    match step:
        case CallTools(calls=calls):  # one by one, for the next waits on how this one went
            if failed and calls[0].name != THINK_NAME:
                return Refuse(calls[0], "not run: an action before it failed.")
            return CallTools(calls[:1])
        case CallModel(tool_choice=choice) if failed and choice != "none":
            return Done("gave_up", f"I gave up at the first error:\n{report(turn)}")
    return step


def no_repeats(limit: int = 3) -> Policy:
    """The same action with the same arguments and the same result, `limit` times in a turn, is
    pointed out to the model; once more, and the run gives up. What was thought does not matter.
    """
    check_whole("max_repeats", limit)

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if not (isinstance(step, CallModel) and step.tool_choice != "none"):
            return step
        turn = current_turn(transcript)
        if not _may_repeat(turn, limit):
            return step
        done = [_what(action) for action in actions(turn)]
        if not done or (times := done.count(done[-1])) < limit:
            return step
        if (told := _told_at(done[-1], turn)) is not None:
            if times == told:
                return step
            return Done("gave_up", f"I gave up: I kept repeating myself.\n{report(turn)}")
        name = done[-1][0]
        said = f"You have called {name} {times} times with the same arguments and the same result."
        return replace(step, say=User(f"{said} Do something else, or finish.", kind="repeat"))

    return policy


def mend_format(step: Step, transcript: Sequence[Message]) -> Step:
    """A reply that its dialect could not read goes back to the model with what was expected; after
    three in a row the run gives up.
    """
    match transcript[-2:]:
        case [*_, Assistant(stop_reason="malformed") as reply]:
            if _malformed_in_a_row(transcript) >= 3:
                return Done("gave_up", "I gave up: three replies in a row could not be read.")
            return CallModel(reply.tool_choice, say=User(reply.mistake, kind="format"))
        case [Assistant() as reply, User(kind="format")]:  # resumed between that and the reply
            return CallModel(reply.tool_choice)
    return step


def _failed_in_a_row(turn: Sequence[Message]) -> int:
    """Failed actions since the last one that worked, or since a person said to go on."""
    count = 0
    for message in reversed(turn):
        match message:
            case Verdict(call_id=""):
                break
            case ToolResult(refused=False, name=name) if name != THINK_NAME:
                if not message.is_error:
                    break
                count += 1
    return count


def _may_repeat(turn: Sequence[Message], limit: int) -> bool:
    """A quick look first: are there as many results like the last one?"""
    results = [m for m in turn if isinstance(m, ToolResult) and m.name != THINK_NAME]
    contents = [result.content for result in results if not result.refused]
    return bool(contents) and contents.count(contents[-1]) >= limit


def _what(action: Action) -> tuple[str, Json | str, str]:
    return action.call.name, action.call.arguments, action.result.content


def _told_at(what: tuple[str, Json | str, str], turn: Sequence[Message]) -> int | None:
    """How often this had been done when it was pointed out; None when it never was."""
    for place, message in enumerate(turn):
        if isinstance(message, User) and message.kind == "repeat":
            done = [_what(action) for action in actions(turn[:place])]
            if done[-1] == what:
                return done.count(what)
    return None


def _malformed_in_a_row(transcript: Sequence[Message]) -> int:
    count = 0
    for message in reversed(current_turn(transcript)):
        if isinstance(message, Assistant):
            if message.stop_reason != "malformed":
                break
            count += 1
    return count
