"""Outcome: the result of a run. Its facts come from the Turn of its transcript."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic

from typing_extensions import TypeVar  # with a default

from .loop import AskHuman
from .messages import Checked, Exit, Message, Usage
from .text import sanitize, shorten
from .tools import signature
from .turn import Action, Turn

Data = TypeVar("Data", default=Any)


@dataclass(frozen=True)
class Outcome(Generic[Data]):
    """The result of a run. `transcript` is the whole conversation; the rest is about its last turn.
    `data` is the answer as an object, if the agent has `answer=`: with `answer=Refund` this is an
    `Outcome[Refund]`. `cost` is in the currency of the agent's `prices`; None if it has none.
    `question`: what a person has to decide before the run can go on (`Agent.resume`).
    """

    answer: str
    exit: Exit
    transcript: tuple[Message, ...] = field(repr=False)
    usage: Usage
    data: Data | None = None
    cost: float | None = None
    question: AskHuman | None = None

    def __str__(self) -> str:
        actions = f"actions: {len(self.actions)}, behind a thought: {self.behind_a_thought}"
        return f"{sanitize(self.answer)}\n({self.exit}; {actions}; model calls: {self.model_calls})"

    @cached_property
    def turn(self) -> Turn:
        """The Turn, from which the other properties take their facts."""
        return Turn.of(self.transcript)

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return len(self.turn.replies)

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The thoughts, in order, also those that calls carried."""
        return tuple(thought.text for thought in self.turn.thoughts)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The tool calls that were run, in order, each with its thought. `think` does not count."""
        return tuple(self.turn.actions)

    @property
    def behind_a_thought(self) -> int:
        """How many of the actions had a thought behind them."""
        return sum(action.thought is not None for action in self.turn.actions)

    @property
    def checks(self) -> tuple[Checked, ...]:
        """The results of the checks, in order (`Agent(done_when=…)`)."""
        said = [message for message, _ in self.turn.log.entries]
        return tuple(message for message in said if isinstance(message, Checked))

    @property
    def cause(self) -> str:
        """Why the last reply broke off or was refused, in the provider's words; empty if it did
        not.
        """
        if self.turn.reply is None:
            return ""
        return self.turn.reply.cause

    @property
    def report(self) -> str:
        """One line for each action: ✓ or ✗, the call, and what went wrong."""
        return report(self.turn)


def report(turn: Turn) -> str:
    """What was done in a turn, one line for each action: ✓ or ✗, the call, and what went wrong."""
    return "\n".join(_line(action) for action in turn.actions)


def _line(action: Action) -> str:
    call = shorten(signature(action.call))
    if action.result.is_error:
        error = action.result.content.partition("\n")[0]
        return f"✗ {call} ({shorten(error)})"
    return f"✓ {call}"
