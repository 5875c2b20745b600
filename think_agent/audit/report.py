"""A run as data: what the audit shows, in whatever form. layout.py makes it.

Rule 1: what can be said from the messages is a property, not a field.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

from ..messages import BROKEN_OFF, Assistant, Json, Message, ToolCall, Usage, User, Verdict, to_json
from ..policies.forcing import honored
from . import words
from .reading import Entry


@dataclass(slots=True)
class Thought:
    """A think call, or the thought that another call carries. `number` counts the thoughts of the
    report; `how` it came is a key of `words.HOW`; `should_continue` is the exit signal (None:
    missing or unreadable); `note` is what the kit answered beyond "recorded".
    """

    number: int
    text: str
    how: str = "volunteered"
    should_continue: bool | None = None
    note: str = ""
    recovered: bool = False


@dataclass(slots=True)
class Action:
    """A call of any other tool. `decision`: it changes something, or somebody has to allow it; a
    look-up is none. `status` is a key of `words.STATUS`; `thought` is the number of the one it
    stands behind, `how` the way that one came. `seconds` is the time that it took, `waited` that
    until somebody had decided about it.
    """

    call: ToolCall
    decision: bool
    status: str = "not run"
    result: str = ""
    thought: int | None = None
    how: str | None = None
    verdict: Verdict | None = None
    seconds: float | None = None
    waited: float | None = None


Call: TypeAlias = Thought | Action


@dataclass(slots=True)
class Step:
    """One model call and what came of it: its reply, what was made of the calls in it, and the
    messages that are about these. `seconds` is how long the reply took; `elapsed` is when it came,
    in seconds after the request.
    """

    number: int
    reply: Assistant
    seconds: float | None = None
    elapsed: float | None = None
    calls: list[Call] = field(default_factory=list)
    answers: list[Message] = field(default_factory=list)

    @property
    def warnings(self) -> Iterator[str]:
        """What somebody who checks the run should not miss."""
        reply = self.reply
        match BROKEN_OFF.get(reply.stop_reason, reply.stop_reason):
            case "truncated":
                yield "The reply broke off. Nothing of it was acted on."
            case "refused":
                yield "The model, or its provider, refused."
            case "malformed":
                yield f"The reply could not be read: {reply.mistake or 'its format was wrong'}"
        if reply.enforced == "ignored":
            yield f"It was {words.asked(reply)} and did not; the choice was taken and ignored."
        elif reply.enforced == "prompt" and not honored(reply.tool_choice, reply):
            yield f"It was {words.asked(reply)}, which could only be asked in words, and did not."
        for call in reply.tool_calls:
            if call.recovered:
                yield f"The call of {call.name} was written as text and recovered from there."
            if isinstance(call.arguments, str):
                yield f"The arguments of {call.name} are not a JSON object."
        for made in self.calls:
            match made:
                case Action(status="started"):
                    yield f"{made.call.name} was started and has no result: it may have happened."
                case Action(status="not run"):
                    yield f"{made.call.name} was asked for and never run."
                case Thought(note=note) if note:
                    yield note


@dataclass(slots=True)
class Note:
    """Anything between the steps, in words. `is_warning`: it should not be there."""

    text: str
    entry: Entry
    is_warning: bool = False


@dataclass(slots=True)
class Figures:
    """What happened, in order; and what is counted alike for a turn and for all of them."""

    entries: list[Step | Note]
    seconds: float | None

    @property
    def steps(self) -> list[Step]:
        """The model calls, in order."""
        return [entry for entry in self.entries if isinstance(entry, Step)]

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return len(self.steps)

    @property
    def thoughts(self) -> list[Thought]:
        """The thoughts, in order."""
        return [made for step in self.steps for made in step.calls if isinstance(made, Thought)]

    @property
    def actions(self) -> list[Action]:
        """The tool calls that were run, in order."""
        every = (made for step in self.steps for made in step.calls)
        return [m for m in every if isinstance(m, Action) and m.status in ("done", "failed")]

    @property
    def behind_a_thought(self) -> int:
        """How many of the actions stand behind a thought."""
        return sum(action.thought is not None for action in self.actions)

    @property
    def usage(self) -> Usage:
        """The tokens of all model calls."""
        return sum((step.reply.usage for step in self.steps), Usage())


@dataclass(slots=True)
class Turn(Figures):
    """What came of one request of a person. `request` is None when the transcript does not begin
    with one; `exit` is None when the turn has not ended, and `answer` empty when it gave none.
    """

    number: int
    request: User | None = None
    exit: str | None = None
    answer: str = ""


@dataclass(slots=True)
class Report(Figures):
    """A whole transcript, laid out. `seconds`: of all turns, where every one is known; `tools`: as
    the header has them; `problems`: of the file.
    """

    turns: list[Turn]
    header: Json
    tools: list[Json]
    problems: list[str]

    @property
    def models(self) -> list[str]:
        """Who replied, as `provider:model`, each once."""
        names = (f"{s.reply.provider}:{s.reply.model}".strip(":") for s in self.steps)
        return [name for name in dict.fromkeys(names) if name]

    @property
    def warnings(self) -> Iterator[tuple[int, str]]:
        """Everything worth a look, each with the number of its step (0: the file, or a turn)."""
        yield from ((0, text) for text in self.problems)
        for entry in self.entries:
            if isinstance(entry, Step):
                yield from ((entry.number, text) for text in entry.warnings)
            elif entry.is_warning:
                yield 0, entry.text


def to_json_report(report: Report) -> Json:
    """The report as one JSON object."""
    return {
        "header": report.header,
        "exit": report.turns[-1].exit if report.turns else None,
        "models": report.models,
        "model_calls": report.model_calls,
        "thoughts": len(report.thoughts),
        "actions": len(report.actions),
        "behind_a_thought": report.behind_a_thought,
        "came_about": Counter(action.how or "none" for action in report.actions),
        "usage": asdict(report.usage),
        "seconds": report.seconds,
        "warnings": [{"step": step or None, "text": text} for step, text in report.warnings],
        "turns": [
            {
                "request": turn.request.text if turn.request else None,
                "entries": [_entry_json(entry) for entry in turn.entries],
                "exit": turn.exit,
                "answer": turn.answer,
                "seconds": turn.seconds,
            }
            for turn in report.turns
        ],
    }


def _entry_json(entry: Step | Note) -> Json:
    if isinstance(entry, Note):
        return {"note": entry.text}
    calls = [{"kind": type(call).__name__.lower(), **asdict(call)} for call in entry.calls]
    times = {"seconds": entry.seconds, "elapsed": entry.elapsed}
    return {"step": entry.number, "reply": to_json(entry.reply), "calls": calls, **times}
