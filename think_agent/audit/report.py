"""A run as data, and how it is made of a transcript: what the audit shows, in whatever form.

Rule 1: `report` is a pure function, messages in and a Report out: no file, no clock.
Rule 2: nothing is decided here. What a thought covers and how it came is turn.py's word, how a turn
        ended the file's or the loop's. What can be said from the messages is a property.
Rule 3: nothing is left out. A line that could not be read, a result without its call and a call
        without a result are entries too, in their place, and each step holds its messages.
Rule 4: what is in a Report is redacted, so that no way of showing it can forget that.

The edge: what the transcript does not say. Without times (`at`) there are no seconds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any, TypeAlias

from .. import think
from ..loop import Done, next_step
from ..messages import (
    BROKEN_OFF,
    MESSAGES,
    THINK_NAME,
    Assistant,
    Json,
    Message,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from ..policies.forcing import honored
from ..turn import Turn as Reading
from . import words
from .reading import Ended, Entry, Unreadable
from .redaction import Redaction


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
    messages that are about these. `seconds` is how long the reply took.
    """

    number: int
    reply: Assistant
    seconds: float | None = None
    calls: list[Call] = field(default_factory=list)
    answers: list[Message] = field(default_factory=list)

    @property
    def warnings(self) -> Iterator[str]:
        """What somebody who checks the run should not miss."""
        reply = self.reply
        if ends := BROKEN_OFF.get(reply.stop_reason):
            yield words.why_ended(ends, words.cause(reply))
        elif reply.stop_reason == "malformed":
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

    @property
    def cause(self) -> str:
        """Why its last reply broke off; empty where it did not."""
        return words.cause(self.steps[-1].reply) if self.steps else ""


@dataclass(slots=True)
class Report(Figures):
    """A whole transcript. `seconds`: of all turns, where every one is known; `tools`: as the header
    has them; `problems`: of the file.
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
    """The report as one JSON object: its figures, then its turns, field by field."""
    return {
        "header": report.header,
        "exit": report.turns[-1].exit if report.turns else None,
        "cause": report.turns[-1].cause if report.turns else "",
        "models": report.models,
        "model_calls": report.model_calls,
        "thoughts": len(report.thoughts),
        "actions": len(report.actions),
        "behind_a_thought": report.behind_a_thought,
        "came_about": Counter(action.how or "none" for action in report.actions),
        "usage": asdict(report.usage),
        "seconds": report.seconds,
        "warnings": [{"step": step or None, "text": text} for step, text in report.warnings],
        "turns": [asdict(turn) for turn in report.turns],
    }


# From a transcript to its Report.


def report(
    entries: Iterable[Entry],
    *,
    header: Mapping[str, Any] | None = None,
    exit: str | None = None,
    warnings: Iterable[str] = (),
    redact: Iterable[str] = (),
) -> Report:
    """The report of a transcript: `report(outcome.transcript, exit=outcome.exit)`, or of what
    `audit.read` found in a file.

    `redact` names the fields to hide: arguments, keys of JSON results, or the messages' own
    (`redaction.TEXTS`).
    """
    entries = [*entries, *([Ended(exit)] if exit else [])]
    redaction = Redaction(redact, entries)
    header = dict(header or {})
    listed = header.get("tools")
    tools = [t for t in listed if isinstance(t, dict)] if isinstance(listed, list) else []
    builder = _Builder(redaction, _guarded(tools, entries))
    for entry in entries:
        builder.add(entry)
    builder.end_turn()
    every = [entry for turn in builder.turns for entry in turn.entries]
    times = [turn.seconds for turn in builder.turns]
    seconds = sum(filter(None, times)) if times and None not in times else None
    shown = redaction.value("", header), redaction.value("", tools)
    return Report(every, seconds, builder.turns, *shown, [*warnings, *redaction.not_found()])


def _guarded(tools: Iterable[Json], entries: Iterable[Entry]) -> set[str] | None:
    """The tools whose calls are decisions; None where nothing tells them from look-ups."""
    named = {str(t.get("name")) for t in tools if t.get("think_first") or t.get("needs_approval")}
    named |= {entry.name for entry in entries if isinstance(entry, Started)}
    return named or (set() if tools else None)


class _Builder:
    """Takes entry after entry; steps and thoughts are counted through all turns."""

    def __init__(self, redaction: Redaction, guarded: set[str] | None) -> None:
        self.turns: list[Turn] = []
        self._redaction = redaction
        self._guarded = guarded
        self._reading = Reading()
        self._open: list[Call] = []  # what was made of the calls without a result
        self._steps, self._thoughts = count(1), count(1)

    def add(self, entry: Entry) -> None:
        time = _time(entry)
        if not self.turns or (isinstance(entry, User) and entry.kind == "person"):
            self.end_turn()
            self.turns.append(Turn([], None, len(self.turns) + 1))
            self._start, self._before = time, None
            self._numbers: dict[int, int] = {}  # of the thoughts that were read, by identity
        turn = self.turns[-1]
        took, self._before = _between(self._before, time), time or self._before
        turn.seconds = _between(self._start, self._before)
        about = getattr(entry, "call_id", None)
        pending = enumerate(self._reading.pending)
        place = next((place for place, call in pending if call.id == about), None)
        if isinstance(entry, MESSAGES):
            self._stand(place)
            self._reading.add(entry)
            turn.exit = None  # it goes on
        match entry, self._redaction.hide(entry):
            case _, User(kind="person") as request:
                turn.request, self._open = request, []
            case Assistant() as reply, Assistant() as shown:
                self._step = Step(next(self._steps), shown, took)
                turn.entries.append(self._step)
                self._open = []
                for call, seen in zip(reply.tool_calls, shown.tool_calls, strict=True):
                    self._step.calls += self._made(call, seen)
                    self._open.append(self._step.calls[-1])
            case _, (ToolResult() | Started() | Verdict()) as shown if place is not None:
                self._step.answers.append(shown)
                self._answer(self._open[place], shown, took)
                if isinstance(shown, ToolResult):
                    self._open.pop(place)
            case _, shown:
                turn.entries.append(_in_words(shown))
                turn.exit = shown.exit if isinstance(shown, Ended) else turn.exit

    def _stand(self, place: int | None = None) -> None:
        """Say behind which thought the open calls stand: the one at this place, or all."""
        end = None if place is None else place + 1
        for call, made in islice(zip(self._reading.pending, self._open, strict=True), place, end):
            if isinstance(made, Action) and (behind := self._reading.thought_behind(call)):
                made.thought = self._numbers.get(id(behind), made.thought)
                made.how = behind.how

    def _made(self, call: ToolCall, shown: ToolCall) -> list[Call]:
        """The thought or the action that a call is; both, where it carries its thought."""
        text = think.thought(shown)
        if call.name == THINK_NAME:
            signal = think.should_continue(shown)
            return [Thought(next(self._thoughts), text, should_continue=signal)]
        action = Action(shown, self._guarded is None or call.name in self._guarded)
        if not think.carried(call):
            return [action]
        action.thought = next(self._thoughts)
        return [Thought(action.thought, text, "carried"), action]

    def _answer(self, made: Call, answer: Message, took: float | None) -> None:
        """Note what an answer says of its call."""
        match made, answer:
            case Action(), Verdict():
                made.verdict, made.waited, made.decision = answer, took, True
            case Action(), Started():
                made.status = "started"
            case Action(), ToolResult():
                made.status, made.result = words.status(answer), answer.content
                made.seconds = None if answer.refused else took
                made.decision = made.decision or bool(answer.refused)
            case Thought(), ToolResult():
                made.note = answer.content.removeprefix(think.RECORDED).strip()
                if not answer.is_error:
                    heard = self._reading.thoughts[-1]
                    made.how, self._numbers[id(heard)] = heard.how, made.number

    def end_turn(self) -> None:
        """How it ended, as the file says, else as the loop would; and with what answer."""
        if not self.turns:
            return
        self._stand()
        turn, step = self.turns[-1], next_step(self._reading)
        if isinstance(step, Done):
            turn.exit = turn.exit or step.exit
            turn.answer = self._redaction.value("text", step.answer)
        match turn.entries:
            case [*_, Note(entry=Ended())]:  # what stands at the end of the turn
                turn.entries.pop()


def _in_words(entry: Entry) -> Note:
    """An entry that stands by itself, whether or not it should."""
    match entry:
        case User(text=text):
            return Note(f"The kit said: {text}", entry)
        case Verdict():
            return Note(words.decided(entry), entry)
        case Ended(exit=exit):
            return Note(f"The run ended here: {exit}", entry)
        case Unreadable(line=line, problem=problem):
            said = f"Line {line} of the file cannot be read: {problem}"
        case ToolResult(name=name, content=content):
            said = f"A result of {name} that belongs to no call: {content}"
        case Started(name=name):
            said = f"{name} was started, and no call asked for it"
        case _:
            raise TypeError(f"{entry!r} is no entry of a transcript")
    return Note(said, entry, is_warning=True)


def _time(entry: Entry) -> float | None:
    try:
        time = datetime.fromisoformat(getattr(entry, "at", None) or "")
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _between(start: float | None, end: float | None) -> float | None:
    """Seconds; None where one is unknown or the clock was set back."""
    return None if start is None or end is None or end < start else end - start
