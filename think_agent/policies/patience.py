"""Patience: how often something may go wrong before the run gives up.

Rule 1: the model is told first. The run ends only if the model goes on like that.
Rule 2: `patience` counts replies in a row that brought nothing (`misses.py`), whatever the reason.
        A person is asked, if there is one, before the run gives up.
Rule 3: repeats bring something, so they are counted apart. Nobody is asked about them.
"""

from collections.abc import Mapping
from dataclasses import replace

from ..loop import AskHuman, CallModel, Done, Policy, Refuse, Step, is_action, is_free
from ..messages import Assistant, User
from ..misses import FAILURES
from ..outcome import report
from ..tools import Tool
from ..turn import Turn
from .limits import bound

HELP = {  # what helps, by the code of the last miss (`misses.py`)
    "gate": "It acted without a thought. Agent(carry=True) asks for it in the call itself.",
    "text": 'It wrote its calls as text. Speak json with it: in_dialect(model, "json"), or '
    "--dialect json.",
    "malformed": "Its replies could not be read. Another dialect or a stronger model may help.",
}


def patience(limit: int = 3, *, ask: bool = False) -> Policy:
    """The policy: after `limit` replies in a row that brought nothing (`misses.py`) a person is
    asked whether to go on (`ask`), or the run gives up, with a summary of what was tried.
    """
    most = bound("patience", limit)

    def give_up_after_misses(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallModel) or turn.misses.in_a_row < most:
            return step
        if turn.says_done and not is_free(step):  # it sees itself that nothing more can be done
            return step
        lines = [f"{turn.misses.in_a_row} replies in a row brought nothing."]
        if turn.actions:
            lines.append(report(turn))
        if turn.misses.code in HELP:
            lines.append(HELP[turn.misses.code])
        tried = "\n".join(lines)
        if ask:
            return AskHuman(f"{tried}\nGo on?")
        return Done("gave_up", f"I gave up. {tried}")

    return give_up_after_misses


def fail_fast(step: Step, turn: Turn) -> Step:
    """The policy of `on_tool_error="fail_fast"`: the first failed call ends the run, and no call
    after it is run.
    """
    if turn.misses.code not in FAILURES:
        return step
    if is_action(step):
        return Refuse(step.call, "failed", "not run: a call before it failed.")
    if isinstance(step, CallModel):
        return Done("gave_up", f"I gave up at the first error:\n{report(turn)}")
    return step


def no_repeats(tools: Mapping[str, Tool], limit: int) -> Policy:
    """The policy: if the same action had the same arguments and the same result `limit` times in a
    turn, the model is told. If it happens once more, the run gives up. Thoughts in between do not
    matter. To read again after another action is not a repeat, so a `read_only` tool counts only in
    a row.
    """
    most = bound("max_repeats", limit)

    def stop_repeating(step: Step, turn: Turn) -> Step:
        if not is_free(step):
            return step
        repeats = turn.repeats
        name = repeats.what[0]
        tool = tools.get(name)
        times = repeats.times[repeats.what]
        times_that_count = times
        if tool and tool.read_only:
            times_that_count = repeats.in_a_row
        if times_that_count < most:
            return step
        pointed_out = repeats.pointed_out.get(repeats.what)
        if pointed_out is not None:
            if times == pointed_out:
                return step
            return Done("gave_up", f"I gave up: I kept repeating myself.\n{report(turn)}")
        if step.say or isinstance(turn.last, User):  # a question never overwrites a question
            return step
        told = (
            f"You have called {name} {times_that_count} times with the same arguments and the same "
            "result. Do something else, or finish."
        )
        return replace(step, say=User(told, kind="repeat"))

    return stop_repeating


def ask_for_format(step: Step, turn: Turn) -> Step:
    """The policy: if a reply could not be read, the model is told what was expected."""
    match turn.last:
        case Assistant(stop_reason="malformed") as reply:
            return CallModel(reply.tool_choice, say=User(reply.mistake, kind="format"))
        case User(kind="format") if turn.reply:  # resumed before the next reply
            return CallModel(turn.reply.tool_choice)
    return step
