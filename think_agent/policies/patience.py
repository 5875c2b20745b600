"""How much goes wrong before the run stops: failures, repeats, replies that cannot be read.

Rule 1: the model is told first; only what goes on after that ends the run.
Rule 2: after failures, a person who is there is asked before the run gives up. Repeats and replies
        that cannot be read are no question for a person: they end it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from ..loop import AskHuman, CallModel, CallTool, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, User
from ..outcome import report
from ..tools import Tool
from ..turn import Turn
from .limits import bound, is_free

OnToolError = Literal["tell_model", "fail_fast"]
MOST_UNREADABLE = 3  # replies in a row


def patience(
    limit: int = 3, *, on_tool_error: OnToolError = "tell_model", ask: bool = False
) -> Policy:
    """After `limit` failed calls, without one that worked in between, a person is asked whether to
    go on (`ask`), or the run gives up, with a summary of what was tried. A call that did not fit
    its tool failed, too. `on_tool_error="fail_fast"` gives up at the first, and the calls that
    stand beside it are not run.
    """
    most = bound("patience", limit)
    if on_tool_error not in ("tell_model", "fail_fast"):
        raise ValueError(f"on_tool_error={on_tool_error!r}: use 'tell_model' or 'fail_fast'")

    def give_up_after_failures(step: Step, turn: Turn) -> Step:
        if not is_free(step) or turn.failed_in_a_row < most:
            return step
        tried = f"{turn.failed_in_a_row} calls in a row failed:\n{report(turn)}"
        if ask:
            return AskHuman(f"{tried}\nGo on?")
        return Done("gave_up", f"I gave up. {tried}")

    if on_tool_error == "fail_fast":
        return fail_fast
    return give_up_after_failures


def fail_fast(step: Step, turn: Turn) -> Step:
    """The first failed call ends the run, and no call after it is run."""
    if not turn.failed_in_a_row:
        return step
    if isinstance(step, CallTool) and step.call.name != THINK_NAME:
        return Refuse(step.call, "failed", "not run: a call before it failed.")
    if isinstance(step, CallModel) and turn.closing in (None, "signal"):
        return Done("gave_up", f"I gave up at the first error:\n{report(turn)}")
    return step


def no_repeats(tools: Mapping[str, Tool], limit: int = 3) -> Policy:
    """The same action with the same arguments and the same result, `limit` times in a turn, is
    pointed out to the model; once more, and the run gives up. What was thought does not matter.
    To read again after another action is no repeat: a tool that is `read_only` counts in a row.
    """
    most = bound("max_repeats", limit)

    def stop_repeating(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallModel) or not is_free(step):
            return step
        name = turn.what[0]
        tool = tools.get(name)
        times = turn.repeats[turn.what]
        times_that_count = times
        if tool and tool.read_only:
            times_that_count = turn.same_in_a_row
        if times_that_count < most:
            return step
        pointed_out = turn.pointed_out.get(turn.what)
        if pointed_out is None:
            return replace(step, say=User(_point_out(name, times_that_count), kind="repeat"))
        if times == pointed_out:
            return step
        return Done("gave_up", f"I gave up: I kept repeating myself.\n{report(turn)}")

    return stop_repeating


def _point_out(name: str, times: int) -> str:
    done = f"You have called {name} {times} times with the same arguments and the same result."
    return f"{done} Do something else, or finish."


def ask_for_format(step: Step, turn: Turn) -> Step:
    """A reply that could not be read goes back to the model with what was expected; after three in
    a row the run gives up.
    """
    reply = turn.reply
    if reply is None:
        return step
    if turn.last is reply and reply.stop_reason == "malformed":
        if turn.malformed_in_a_row >= MOST_UNREADABLE:
            return Done("gave_up", "I gave up: three replies in a row could not be read.")
        return CallModel(reply.tool_choice, say=User(reply.mistake, kind="format"))
    if isinstance(turn.last, User) and turn.last.kind == "format":  # resumed before the next reply
        return CallModel(reply.tool_choice)
    return step
