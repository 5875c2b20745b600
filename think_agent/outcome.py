"""Outcome: the result of a run. Its properties are read from the transcript."""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic

from typing_extensions import TypeVar  # with a default

from .loop import AskHuman
from .messages import THINK_NAME, Checked, Exit, Message, ToolResult, Usage
from .text import sanitize, shorten
from .tools import signature
from .turn import Action, Turn

Data = TypeVar("Data", default=Any)


@dataclass(frozen=True)
class Outcome(Generic[Data]):
    """The result of a run. `transcript` is the whole conversation; everything else describes its
    last turn. `data` is the answer as an object, if the agent has `answer=`: with `answer=Refund`
    this is an `Outcome[Refund]`. `cost` is in the currency of the agent's `prices`; None if it has
    none. `question`: what a person has to decide before the run can continue (`Agent.resume`).
    """

    answer: str
    exit: Exit
    transcript: tuple[Message, ...] = field(repr=False)
    usage: Usage
    data: Data | None = None
    cost: float | None = None
    question: AskHuman | None = None

    def __str__(self) -> str:
        return f"{sanitize(self.answer)}\n({self.exit}; {'; '.join(describe_run(self.turn))})"

    @cached_property
    def turn(self) -> Turn:
        """The Turn that the other properties read from."""
        return Turn.of(self.transcript)

    @property
    def model_calls(self) -> int:
        """How often the model was called."""
        return len(self.turn.replies)

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The thoughts, in order. Thoughts that calls carried are included."""
        return tuple(thought.text for thought in self.turn.thoughts)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The tool calls that ran, in order, each with its thought. `think` doesn't count."""
        return tuple(self.turn.actions)

    @property
    def behind_a_thought(self) -> int:
        """How many of the actions were covered by a thought."""
        return sum(action.thought is not None for action in self.turn.actions)

    @property
    def checks(self) -> tuple[Checked, ...]:
        """The results of the checks, in order (`Agent(done_when=…)`)."""
        said = [message for message, _ in self.turn.log.entries]
        return tuple(message for message in said if isinstance(message, Checked))

    @property
    def cause(self) -> str:
        """Why the last reply was cut off or refused, in the provider's words; else empty."""
        if self.turn.reply is None:
            return ""
        return self.turn.reply.cause

    @property
    def report(self) -> str:
        """One line for each action: ✓ or ✗, the call, and what went wrong."""
        return report_actions(self.turn)


def describe_run(turn: Turn) -> list[str]:
    """The parts of a one-line summary of a turn: what is missing, the actions, and the model calls.
    `print(outcome)`, the console and the pages all use it.
    """
    parts = [f"missing: {shorten(missing)}" for missing in find_missing(turn)]
    parts.append(describe_actions(turn.actions))
    parts.append(pluralize(len(turn.replies), "model call"))
    return parts


def describe_actions(actions: Collection[Action]) -> str:
    """How many actions there were, how many failed or may have happened, and how many were covered
    by a thought.
    """
    if not actions:
        return "no action"
    text = pluralize(len(actions), "action")
    in_doubt = sum(action.result.in_doubt for action in actions)
    failed = sum(action.result.is_error for action in actions) - in_doubt
    if failed:
        text += f", {failed} failed"
    if in_doubt:
        text += f", {in_doubt} may have happened"
    thoughtful = sum(action.thought is not None for action in actions)
    if thoughtful < len(actions):
        return f"{text}, {thoughtful or 'none'} of them after a thought"
    each = "each " if len(actions) > 1 else ""
    return f"{text}, {each}after a thought"


def find_missing(turn: Turn) -> list[str]:
    """What the checks have found missing since the last action."""
    latest: dict[str, Checked] = {}
    for message, _ in reversed(turn.log.entries):
        if isinstance(message, ToolResult) and message.name != THINK_NAME and not message.refused:
            break
        if isinstance(message, Checked):
            latest.setdefault(message.name, message)
    return [check.missing for check in reversed(latest.values()) if check.missing is not None]


def pluralize(number: int, noun: str) -> str:
    """A number with its noun: `1 run`, `2 runs`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def report_actions(turn: Turn) -> str:
    """One line for each action of a turn: ✓ or ✗, the call, and what went wrong."""
    return "\n".join(_report_action(action) for action in turn.actions)


def _report_action(action: Action) -> str:
    call = shorten(signature(action.call))
    if action.result.is_error:
        error = action.result.content.partition("\n")[0]
        return f"✗ {call} ({shorten(error)})"
    return f"✓ {call}"
