"""A run as data, and how it is made of a transcript: what the audit shows, in whatever form.

Rule 1: `report` is a pure function, messages in and a Report out: no file, no clock.
Rule 2: nothing is decided here. What a thought covers, how it came, whether a call may have
        happened before and what a turn comes to is turn.py's word.
Rule 3: nothing is left out. Every start, crash, repeat, verdict, check and refusal stands in its
        place, and so does what could not be read; each step holds its messages.
Rule 4: a report is redacted as a whole, when it is made. No way of showing it can forget that.

Limitations: what the transcript does not say. Without times (`at`) there are no seconds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from itertools import count
from typing import Any, TypeAlias

from .. import think
from ..loop import Done, next_step
from ..messages import (
    MESSAGES,
    THINK_NAME,
    Assistant,
    Checked,
    Ended,
    Json,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from ..policies.forcing import honored, not_honored
from ..turn import Turn as Reading
from . import words
from .reading import Entry, Unreadable
from .redaction import Redaction

Answer: TypeAlias = ToolResult | Started | Verdict  # what is about a call


@dataclass(slots=True)
class Event:
    """What happened to a call, in words. `entry` is the message that says so; a crash left none.
    `is_loud`: the call may have happened, or happened twice.
    """

    text: str
    entry: Answer | None = None
    is_loud: bool = False


@dataclass(slots=True)
class Call:
    """A call and what came of it. A think call is a thought, and any other may carry one: `text`
    and `should_continue` (None: missing or unreadable) are that one's.

    `thought` is its number, counted through the report, else that of the thought which the call
    stands behind, and `how` that one came is a key of `words.HOW`. `decision`: it changes
    something, or somebody judged it; a look-up is none. `arguments` are those that it was run with.
    `status` is a key of `words.STATUS`, `events` stand in their order. `seconds` is the time that
    it took.
    """

    call: ToolCall
    decision: bool
    arguments: Json | str
    text: str | None = None
    should_continue: bool | None = None
    thought: int | None = None
    how: str | None = None
    status: str = "not run"
    result: str = ""
    events: list[Event] = field(default_factory=list)
    seconds: float | None = None


@dataclass(slots=True)
class Step:
    """One model call and what came of it: its reply, what was made of the calls in it, and what
    happened to all of them, in order. `seconds` is how long the reply took.
    """

    number: int
    reply: Assistant
    seconds: float | None = None
    calls: list[Call] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def warnings(self) -> Iterator[str]:
        """What somebody who checks the run should not miss."""
        reply = self.reply
        if reply.stop_reason == "malformed":
            yield f"The reply could not be read: {reply.mistake or 'its format was wrong'}"
        elif not reply.is_usable:
            yield f"The reply broke off: {words.cause(reply) or reply.stop_reason}."
        elif not honored(reply.tool_choice, reply):
            yield not_honored(reply.tool_choice, reply, 0)
        for call in self.calls:
            yield from _warnings(call)


def _warnings(call: Call) -> Iterator[str]:
    name = call.call.name
    if call.call.recovered:
        yield f"The call of {name} was written as text and recovered from there."
    if isinstance(call.call.arguments, str):
        yield f"The arguments of {name} are not a JSON object."
    for event in call.events:
        if event.is_loud:
            yield f"{name}: {event.text}"
    advice = call.result.removeprefix(think.RECORDED).strip()
    if name == THINK_NAME and advice:
        yield advice
    if name != THINK_NAME and call.status in ("started", "not run"):
        yield f"{name}: {words.STATUS[call.status][1]}."


@dataclass(slots=True)
class Note:
    """Anything between the steps, in words. `is_warning`: it is bad news."""

    text: str
    entry: Entry
    is_warning: bool = False


@dataclass(slots=True)
class Turn:
    """What came of one request of a person. `request` is None when the transcript does not begin
    with one; `exit` is None when the turn has not ended, and `answer` empty when it gave none.
    `cause`: why its last reply broke off; empty where it did not. `figures`: its last line.
    """

    number: int
    request: User | None = None
    exit: str | None = None
    answer: str = ""
    cause: str = ""
    figures: str = ""
    entries: list[Step | Note] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        """The model calls, in order."""
        return [entry for entry in self.entries if isinstance(entry, Step)]


@dataclass(slots=True)
class Report:
    """A whole transcript. `figures`: what all turns come to, by name; `problems`: of the file."""

    header: Json
    figures: Json
    problems: list[str]
    turns: list[Turn]

    @property
    def warnings(self) -> Iterator[tuple[int, str]]:
        """Everything worth a look, each with the number of its step (0: the file, or a turn)."""
        for text in self.problems:
            yield 0, text
        for turn in self.turns:
            for entry in turn.entries:
                if isinstance(entry, Step):
                    yield from ((entry.number, text) for text in entry.warnings)
                elif entry.is_warning:
                    yield 0, entry.text


def to_json_report(report: Report) -> Json:
    """The report as one JSON object, field by field, with the exit of its last turn."""
    warnings = [{"step": step or None, "text": text} for step, text in report.warnings]
    exit = report.turns[-1].exit if report.turns else None
    return {"exit": exit, **asdict(report), "warnings": warnings}


# From a transcript to its Report.


def report(
    entries: Iterable[Entry],
    *,
    header: Mapping[str, Any] | None = None,
    exit: str | None = None,
    warnings: Iterable[str] = (),
    redact: Iterable[str] = (),
    guarded: Sequence[str] | None = None,
) -> Report:
    """The report of a transcript: `report(outcome.transcript, exit=outcome.exit)`, or of what
    `audit.read` found in a file.

    `redact` names the fields to hide (`redaction.py`). `guarded` are patterns of the tools
    whose calls are decisions (`"book_*"`); without them the header says which tools only read.
    """
    entries = list(entries)
    header = dict(header or {})
    builder = _Builder(_Decisions(header.get("tools"), entries, guarded))
    for entry in entries:
        builder.add(entry)
    builder.end(exit)

    redaction = Redaction(redact, entries)
    made = redaction.hide(Report(header, builder.figures, [], builder.turns))
    made.problems = [*warnings, *redaction.warnings()]
    return made


class _Decisions:
    """Which calls are decisions: those that change something. Where nothing tells which tools only
    read, those that were noted as started; and all where none was.
    """

    def __init__(self, tools: Any, entries: Iterable[Entry], guarded: Sequence[str] | None) -> None:
        self._guarded = guarded
        self._read_only: dict[str, bool] = {}
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                self._read_only[str(tool.get("name"))] = tool.get("read_only") is True
        self._started = {entry.name for entry in entries if isinstance(entry, Started)}

    def has(self, name: str) -> bool:
        """Is a call of this tool a decision?"""
        if name == THINK_NAME:
            return False
        if self._guarded is not None:
            return any(fnmatchcase(name, pattern) for pattern in self._guarded)
        if name in self._read_only:
            return not self._read_only[name]
        return not self._started or name in self._started


STOPPED_INSIDE = "the run was stopped inside it: it may have happened"
NOT_RETURNED = "it did not return: it may have happened"


class _Builder:
    """Takes entry after entry; steps and thoughts are counted through all turns."""

    def __init__(self, decisions: _Decisions) -> None:
        self.turns: list[Turn] = []
        self._decisions = decisions
        self._reading = Reading()
        self.figures: Json = {
            "models": [],
            "model_calls": 0,
            "thoughts": 0,
            "actions": 0,
            "failed": 0,
            "behind_a_thought": 0,
            "came_about": Counter(),
        }
        self._usage = Usage()
        self._steps = count(1)
        self._thoughts = count(1)
        self._numbers: dict[int, int | None] = {}  # of the thoughts that were read, by identity
        self._open: list[tuple[ToolCall, Call]] = []  # no result yet

    def add(self, entry: Entry) -> None:
        """Go on with the next entry: in its turn, step and call."""
        self._begin(entry)
        asked = self._asked(entry)
        if asked and isinstance(entry, Answer):
            self._answer(*asked, entry)
            return

        turn = self.turns[-1]
        self._stand(self._open)
        took = self._read(entry)
        match entry:
            case User(kind="person"):
                turn.request = entry
            case Ended(exit=exit):
                turn.exit = exit
            case Assistant():
                self._leave_open()
                self._open = [(call, self._call(call)) for call in entry.tool_calls]
                calls = [call for _, call in self._open]
                turn.entries.append(Step(next(self._steps), entry, took, calls))
            case _:
                turn.entries.append(_in_words(entry))

    def _begin(self, entry: Entry) -> None:
        """A person's message begins a turn; any other message opens the one that has ended."""
        if not self.turns or (isinstance(entry, User) and entry.kind == "person"):
            self._close(None)
            self.turns.append(Turn(len(self.turns) + 1))
        turn = self.turns[-1]
        ended = self._reading.ended
        if ended and turn.exit and isinstance(entry, MESSAGES):
            text = f"The run ended here, and was taken up again: {words.ended(ended.exit)}"
            turn.entries.append(Note(text, ended))
            turn.exit = None

    def _asked(self, entry: Entry) -> tuple[ToolCall, Call] | None:
        """The open call that an entry is about: the first of its id."""
        about = getattr(entry, "call_id", None)
        for call, shown in self._open:
            if call.id == about:
                return call, shown
        return None

    def _read(self, entry: Entry) -> float | None:
        """Read a message; how long it took to come, where that is known."""
        before = self._reading.clock
        if not isinstance(entry, MESSAGES):
            return None
        self._reading.add(entry)
        after = self._reading.clock
        opens_turn = isinstance(entry, User) and entry.kind == "person"
        if before is None or after is None or opens_turn:
            return None
        took = after - before
        return took if took > 0 else None  # clocks step back

    def _call(self, call: ToolCall) -> Call:
        """A call of which nothing is known yet but what the model wrote."""
        shown = Call(call, self._decisions.has(call.name), think.bare(call).arguments)
        if call.name == THINK_NAME or think.carried(call):
            shown.text = think.thought(call)
            shown.should_continue = think.should_continue(call)
            shown.thought = next(self._thoughts)
            shown.how = "volunteered" if call.name == THINK_NAME else "carried"
        return shown

    def _stand(self, calls: Iterable[tuple[ToolCall, Call]]) -> None:
        """Say behind which thought open calls stand."""
        for call, shown in calls:
            behind = self._reading.thought_behind(call)
            if shown.text is None and behind:
                shown.thought = self._numbers[id(behind)]
                shown.how = behind.how

    def _answer(self, call: ToolCall, shown: Call, answer: Answer) -> None:
        """Go on with what is said about a call."""
        self._stand([(call, shown)])
        doubt = None
        if self._reading.pending and self._reading.pending[0] is call:
            doubt = self._reading.doubt(call)
        again = (doubt.starts, doubt.key) if doubt else (0, "")
        took = self._read(answer)
        if not isinstance(answer, ToolResult):
            self._leave(shown)

        match answer:
            case Verdict(arguments=edited):
                shown.decision = True
                shown.arguments = shown.arguments if edited is None else edited
                event = Event(words.decided(answer, took), answer)
            case Started():
                shown.status = "started"
                event = _start(answer, *again)
            case ToolResult():
                self._result(call, shown, answer, took)
                event = _end(answer)
        self._happen(shown, event)

    def _result(self, call: ToolCall, shown: Call, result: ToolResult, took: float | None) -> None:
        self._open.remove((call, shown))
        shown.status = words.status(result)
        shown.result = result.content
        if result.arguments is not None:
            shown.arguments = result.arguments
        if result.refused:
            shown.decision = True
        else:
            shown.seconds = took
        if call.name == THINK_NAME and not result.is_error:
            thought = self._reading.thoughts[-1]
            shown.how = thought.how
            self._numbers[id(thought)] = shown.thought

    def _leave_open(self) -> None:
        """Calls that get no result any more."""
        for _, shown in self._open:
            self._leave(shown)
        self._open = []

    def _leave(self, shown: Call) -> None:
        """Something else follows: a call that was started last has not returned."""
        if shown.events and isinstance(shown.events[-1].entry, Started):
            self._happen(shown, Event(STOPPED_INSIDE, is_loud=True))

    def _happen(self, shown: Call, event: Event) -> None:
        shown.events.append(event)
        self.turns[-1].steps[-1].events.append(event)

    def _close(self, exit: str | None) -> None:
        """Say how the last turn ended: as the transcript says, else the loop."""
        if not self.turns:
            return
        self._stand(self._open)
        self._leave_open()
        turn = self.turns[-1]
        reading = self._reading
        step = next_step(reading)
        if reading.ended:
            turn.answer = reading.answer
        elif isinstance(step, Done):
            turn.answer = step.answer
            turn.exit = turn.exit or exit or step.exit
        turn.exit = turn.exit or exit
        turn.cause = words.cause(reading.reply)
        seconds = reading.seconds if reading.clock is not None else None
        turn.figures = words.figures(turn.exit, reading, seconds)
        self._count(reading)

    def _count(self, reading: Reading) -> None:
        """Add what a turn came to to the figures of all."""
        figures = self.figures
        for reply in reading.replies:
            name = f"{reply.provider}:{reply.model}".strip(":")
            if name and name not in figures["models"]:
                figures["models"].append(name)
        for action in reading.actions:
            figures["failed"] += action.result.is_error
            figures["behind_a_thought"] += action.thought is not None
            figures["came_about"][action.how or "none"] += 1
        figures["model_calls"] += len(reading.replies)
        figures["thoughts"] += len(reading.thoughts)
        figures["actions"] += len(reading.actions)
        self._usage += reading.usage
        figures["usage"] = asdict(self._usage)

    def end(self, exit: str | None) -> None:
        """Nothing follows; `exit` is how it ended, where the transcript does not say."""
        self._close(exit)
        self.figures["came_about"] = dict(self.figures["came_about"])


def _start(started: Started, starts: int, key: str) -> Event:
    """A call is run, after so many starts of the same call without a result, under this `key`."""
    under = f" under the idempotency key {started.key}" if started.key else ""
    if not starts:
        return Event(f"started{under}", started)
    if started.key and started.key == key:
        under = f" under the same idempotency key {key}"
    before = "once" if starts == 1 else f"{starts} times"
    text = f"RUN AGAIN{under}, though it was started {before} before and did not return"
    return Event(text, started, is_loud=True)


def _end(result: ToolResult) -> Event:
    """A call has its result."""
    if result.refused:
        return Event(words.refusal(result.refused), result)
    if result.in_doubt:
        return Event(NOT_RETURNED, result, is_loud=True)
    return Event("failed" if result.is_error else "done", result)


def _in_words(entry: Entry) -> Note:
    """An entry that stands by itself, whether or not it should."""
    match entry:
        case User(text=text):
            return Note(f"The kit said: {text}", entry)
        case Verdict(call_id=""):
            return Note(words.decided(entry), entry)
        case Checked(missing=missing):
            return Note(words.checked(entry), entry, is_warning=missing is not None)
        case Unreadable(line=line, problem=problem):
            text = f"Line {line} of the file cannot be read: {problem}"
        case ToolResult(name=name, content=content):
            text = f"A result of {name} that belongs to no call: {content}"
        case Started(name=name):
            text = f"{name} was started, and no call asked for it"
        case Verdict():
            text = f"{words.decided(entry)}, and no call asked for it"
    return Note(text, entry, is_warning=True)
