"""What a run came to, computed from its transcript.

Rule 1: `transcript` is everything ever said; whatever is counted is about the last turn alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import trail
from .loop import Exit
from .messages import Assistant, Message, Usage, current_turn
from .trail import Action

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. `transcript` is everything ever said; the rest is about its last turn.
    `data` is the answer as an object, for an agent with `answer=`.
    """

    answer: str
    exit: Exit
    transcript: tuple[Message, ...]
    usage: Usage
    data: "BaseModel | None" = None

    @property
    def steps(self) -> tuple[Assistant, ...]:
        """The replies of the model, in order."""
        return tuple(m for m in current_turn(self.transcript) if isinstance(m, Assistant))

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return len(self.steps)

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The thoughts, in order."""
        return tuple(trail.thoughts(current_turn(self.transcript)))

    @property
    def actions(self) -> tuple[Action, ...]:
        """The tool calls other than `think` that were run, in order, each with its thought."""
        return tuple(trail.actions(current_turn(self.transcript)))

    @property
    def behind_a_thought(self) -> int:
        """How many of the actions stand behind a thought."""
        return sum(action.thought is not None for action in self.actions)

    @property
    def report(self) -> str:
        """A line per action: ✓ or ✗, the call, and what went wrong."""
        return trail.report(current_turn(self.transcript))

    @property
    def ignored_choices(self) -> int:
        """How many replies did not do what their tool choice asked."""
        return trail.ignored_choices(current_turn(self.transcript))
