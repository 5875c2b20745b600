"""Repeats: how often the same action was done in a turn.

Two actions are the same if the tool, the arguments with which it ran, and its result are the same.
Thoughts do not count.
"""

from collections import Counter
from dataclasses import dataclass, field

from .messages import THINK_NAME, Message, ToolCall, ToolResult, User
from .text import canonical
from .think import as_run

What = tuple[str, str, str]  # an action as a value: its name, arguments and result


@dataclass
class Repeats:
    """The actions of a turn as values, and how often each was done."""

    what: What = ("", "", "")  # the last action
    in_a_row: int = 0  # how often it was done, with no other action in between
    times: Counter[What] = field(default_factory=Counter)
    pointed_out: dict[What, int] = field(default_factory=dict)  # `times` when the model was told

    def add(self, message: Message, call: ToolCall | None) -> None:
        """Read the next message of the turn. `call`: the call that it is about."""
        match message:
            case User(kind="repeat"):
                self.pointed_out[self.what] = self.times[self.what]
            case ToolResult(refused="") if call and call.name != THINK_NAME:
                self._add_action(message, call)

    def _add_action(self, result: ToolResult, call: ToolCall) -> None:
        action = as_run(call, result.arguments)
        what = action.name, canonical(action.arguments), result.content
        if what != self.what:
            self.in_a_row = 0
        self.in_a_row += 1
        self.what = what
        self.times[what] += 1
