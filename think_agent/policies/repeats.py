"""Repeats: the same action again and again.

Rule 1: two actions are the same if the tool, the arguments with which it ran, and its result are
        the same. Thoughts do not count.
Rule 2: the model is told first. If it goes on like that, the run gives up; nobody is asked.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..checking import read_limit
from ..history import OpenCall
from ..loop import Done, Policy, Step, is_free
from ..messages import THINK_NAME, Message, ToolCall, ToolResult, User
from ..outcome import report
from ..text import canonical
from ..think import as_run
from ..tools import Tool
from ..turn import Turn

What = tuple[str, str, str]  # an action as a value: its name, arguments and result


@dataclass
class Repeats:
    """The actions of a turn as values, and how often each was done."""

    what: What = ("", "", "")  # the last action
    in_a_row: int = 0  # how often it was done, with no other action in between
    times: Counter[What] = field(default_factory=Counter)
    pointed_out: dict[What, int] = field(default_factory=dict)  # `times` when the model was told

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case User(kind="repeat"):
                self.pointed_out[self.what] = self.times[self.what]
            case ToolResult(refused="") if about and about.call.name != THINK_NAME:
                self._add_action(message, about.call)

    def _add_action(self, result: ToolResult, call: ToolCall) -> None:
        action = as_run(call, result.arguments)
        what = action.name, canonical(action.arguments), result.content
        if what != self.what:
            self.in_a_row = 0
        self.in_a_row += 1
        self.what = what
        self.times[what] += 1


def no_repeats(tools: Mapping[str, Tool], limit: int) -> Policy:
    """The policy: if the same action had the same arguments and the same result `limit` times in a
    turn, the model is told. If it happens once more, the run gives up. Thoughts in between do not
    matter. To read again after another action is not a repeat, so a `read_only` tool counts only in
    a row.
    """
    most = read_limit("max_repeats", limit)

    def stop_repeating(step: Step, turn: Turn) -> Step:
        if not is_free(step):
            return step
        repeats = turn.read(Repeats)
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
