"""How much goes wrong before the run stops: failures, repeats, replies that cannot be read.

Rule 1: the model is told first; only what goes on after that ends the run.
Rule 2: after failures, a person who is there is asked before the run gives up. Repeats and replies
        that cannot be read are no question for a person: they end it.
"""

from dataclasses import replace
from typing import Literal, TypeAlias

from ..loop import AskHuman, CallModel, CallTool, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, User
from ..tools import report
from ..turn import Turn
from .limits import check_whole, is_free

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

    def give_up_after_failures(step: Step, turn: Turn) -> Step:
        if not is_free(step) or turn.failed_in_a_row < limit:
            return step
        tried = f"{turn.failed_in_a_row} actions in a row failed:\n{report(turn)}"
        return AskHuman(f"{tried}\nGo on?") if ask else Done("gave_up", f"I gave up. {tried}")

    return fail_fast if on_tool_error == "fail_fast" else give_up_after_failures


def fail_fast(step: Step, turn: Turn) -> Step:
    """The first failed action ends the run, and no call after it is run."""
    match step:
        case CallTool(call) if turn.failed_in_a_row and call.name != THINK_NAME:
            return Refuse(call, "failed", "not run: an action before it failed.")
        case CallModel() if turn.failed_in_a_row and turn.way_out in (None, "signal"):
            return Done("gave_up", f"I gave up at the first error:\n{report(turn)}")
    return step


def no_repeats(limit: int = 3) -> Policy:
    """The same action with the same arguments and the same result, `limit` times in a turn, is
    pointed out to the model; once more, and the run gives up. What was thought does not matter.
    """
    check_whole("max_repeats", limit)

    def stop_repeating(step: Step, turn: Turn) -> Step:
        times, pointed_out = turn.repeats[turn.what], turn.pointed_out.get(turn.what)
        if not isinstance(step, CallModel) or not is_free(step) or times < limit:
            return step
        if pointed_out is None:
            done = f"You have called {turn.what[0]} {times} times with the same arguments and the"
            said = f"{done} same result. Do something else, or finish."
            return replace(step, say=User(said, kind="repeat"))
        if times == pointed_out:
            return step
        return Done("gave_up", f"I gave up: I kept repeating myself.\n{report(turn)}")

    return stop_repeating


def ask_for_format(step: Step, turn: Turn) -> Step:
    """A reply that could not be read goes back to the model with what was expected; after three in
    a row the run gives up.
    """
    reply, last = turn.reply, turn.last
    if reply and last is reply and reply.stop_reason == "malformed":
        if turn.malformed_in_a_row >= 3:
            return Done("gave_up", "I gave up: three replies in a row could not be read.")
        return CallModel(reply.tool_choice, say=User(reply.mistake, kind="format"))
    if reply and isinstance(last, User) and last.kind == "format":  # resumed before the next reply
        return CallModel(reply.tool_choice)
    return step
