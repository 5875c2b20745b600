"""Repeats: the same action again and again.

Rule 1: two actions are the same if the tool, its arguments (as it ran) and its result are the same.
        Thoughts don't count.
Rule 2: the model gets a warning first. If it repeats the action again, the run gives up.
Rule 3: after an action that may have changed something, looking again makes sense. So calls of
        `read_only` tools are counted from the last such action. Alternating look-ups (A B A B) are
        repeats.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..checking import read_limit
from ..history import OpenCall
from ..loop import Done, Policy, Step, is_free
from ..messages import THINK_NAME, Message, ToolCall, ToolResult, User
from ..outcome import report_actions
from ..text import canonical
from ..think import as_run
from ..tools import Tool
from ..turn import Turn

What = tuple[str, str, str]  # an action as a value: its name, arguments and result


@dataclass
class Repeats:
    """The actions of a turn as values, and when each was done. Actions are numbered from 0."""

    last: What = ("", "", "")  # the latest action
    numbers: dict[What, list[int]] = field(default_factory=lambda: defaultdict(list))
    last_of_tool: dict[str, int] = field(default_factory=dict)  # the number of its latest action
    actions: int = 0
    pointed_out: dict[What, int] = field(default_factory=dict)  # how often, when it was warned

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case User(kind="repeat"):
                self.pointed_out[self.last] = self.count()
            case ToolResult(refused="") if about and about.call.name != THINK_NAME:
                self._add_action(message, about.call)

    def _add_action(self, result: ToolResult, call: ToolCall) -> None:
        action = as_run(call, result.arguments)
        self.last = action.name, canonical(action.arguments), result.content
        self.numbers[self.last].append(self.actions)
        self.last_of_tool[call.name] = self.actions
        self.actions += 1

    def count(self, since: int = -1) -> int:
        """How often the latest action was done after action number `since`."""
        numbers = self.numbers.get(self.last, [])
        return len(numbers) - bisect_right(numbers, since)

    def find_last_change(self, tools: Mapping[str, Tool]) -> int:
        """The number of the latest action that may have changed something; -1 if there is none."""
        found = -1
        for name, number in self.last_of_tool.items():
            is_look_up = name in tools and tools[name].read_only
            if not is_look_up:
                found = max(found, number)
        return found


def no_repeats(tools: Mapping[str, Tool], limit: int) -> Policy:
    """The policy: after `limit` identical actions in a turn, warn the model. After one more, give
    up.
    """
    most = read_limit("max_repeats", limit)

    def stop_repeating(step: Step, turn: Turn) -> Step:
        if not is_free(step):
            return step
        repeats = turn.read(Repeats)
        name = repeats.last[0]
        times = repeats.count()
        times_that_count = times
        if name in tools and tools[name].read_only:
            times_that_count = repeats.count(since=repeats.find_last_change(tools))
        if times_that_count < most:
            return step
        pointed_out = repeats.pointed_out.get(repeats.last)
        if pointed_out is not None:
            if times == pointed_out:
                return step
            return Done("gave_up", f"I gave up: I kept repeating myself.\n{report_actions(turn)}")
        if step.say or isinstance(turn.last, User):  # never replace another message to the model
            return step
        text = (
            f"You have called {name} {times_that_count} times with the same arguments and the same "
            "result. Do something else, or finish."
        )
        return replace(step, say=User(text, kind="repeat"))

    return stop_repeating
