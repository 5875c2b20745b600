"""Checks: what was checked in a turn (`policies/done_when.py`)."""

from dataclasses import dataclass, field

from .messages import THINK_NAME, Checked, Message, ToolCall, ToolResult, User


@dataclass
class Checks:
    """The results of the checks of a turn. After another action, all of them are due again."""

    results: list[Checked] = field(default_factory=list)
    latest: dict[str, Checked] = field(default_factory=dict)  # since the last action, by name
    told: bool = False  # the model was told what is missing, and has done nothing since

    @property
    def missing(self) -> list[Checked]:
        """What the latest checks found missing."""
        return [check for check in self.latest.values() if check.missing is not None]

    def add(self, message: Message, call: ToolCall | None) -> None:
        """Read the next message of the turn. `call`: the call that it is about."""
        match message:
            case Checked(name):
                self.results.append(message)
                self.latest[name] = message
            case User(kind="check"):
                self.told = True
            case ToolResult(refused="") if call and call.name != THINK_NAME:
                self.latest = {}
                self.told = False
