"""Makes a Report of a transcript: the data that every form of the audit shows.

Rule 1: `report` is a pure function, messages in and a Report out: no file, no clock.
Rule 2: nothing is decided here. turn.py says what a thought covers, how it came about, whether a
        call may have happened before, and how a turn ends.
Rule 3: nothing is left out. Every start, crash, repeat, verdict, check and refusal is in its place,
        and so is every line that could not be read. Each step holds its messages.
Rule 4: a report is redacted as a whole, when it is made. So no form of it can forget to redact.

Limitations: it knows only what the transcript says. It has the duration of a turn, but for a single
step only the times of its messages.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from itertools import count
from typing import Any

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
    User,
    Verdict,
    to_json,
)
from ..policies.forcing import honored, not_honored
from ..text import json_text
from ..turn import Action
from ..turn import Turn as Reading
from . import words
from .reading import Entry, Unreadable
from .redaction import Redaction

Answer = ToolResult | Started | Verdict  # messages about one call


@dataclass
class Note:
    """An event of a call, or between steps, as text. `entry` is its message; a crash leaves none.
    `is_warning`: it is bad news, such as a call that may have happened twice.
    """

    text: str
    entry: Any = None
    is_warning: bool = False


@dataclass
class Call:
    """A call and its result. A think call is a thought, and any other call may carry one: `text`
    and `should_continue` (None: missing or unreadable) belong to that thought.

    `thought` is the number of that thought in the report, or of the thought behind the call. `how`
    says how it came about (a key of `words.HOW`). `decision`: the call changes something, or was
    judged; a look-up is no decision. `arguments` are the ones it was run with. `status` is a key
    of `words.STATUS`. `events` are in order.
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
    events: list[Note] = field(default_factory=list)


@dataclass
class Step:
    """One model call: its reply, and what happened to the calls in it."""

    number: int
    reply: Assistant
    calls: list[Call]

    @property
    def events(self) -> list[Note]:
        """The events of its calls, in order."""
        return [event for call in self.calls for event in call.events]

    @property
    def warnings(self) -> Iterator[str]:
        """What a reader should not miss, besides the events."""
        reply = self.reply
        if reply.stop_reason == "malformed":
            yield f"The reply could not be read: {reply.mistake}"
        elif not reply.is_usable:
            yield f"The reply broke off: {words.cause(reply) or reply.stop_reason}."
        elif not honored(reply.tool_choice, reply):
            yield not_honored(reply.tool_choice, reply, 0)
        for call in self.calls:
            name = call.call.name
            if call.call.recovered:
                yield f"The call of {name} was written as text and recovered from there."
            if call.status == "not run" and name != THINK_NAME:
                yield f"{name}: not run."


@dataclass
class Turn:
    """One request of a person, and the work on it. `request` is None if the transcript begins
    without one, `exit` is None if the turn has not ended, `answer` is empty if there is none.
    `cause`: why the last reply broke off; empty if it did not. `figures`: the line of counts.
    """

    request: User | None = None
    exit: str | None = None
    answer: str = ""
    cause: str = ""
    figures: str = ""
    entries: list[Step | Note] = field(default_factory=list)


@dataclass
class Report:
    """A whole transcript. `figures`: counts over all turns, by name; `problems`: of the file."""

    header: Json
    figures: Json
    problems: list[str]
    turns: list[Turn]

    @property
    def warnings(self) -> Iterator[tuple[int | None, str]]:
        """All warnings, each with the number of its step (None: of the file or of a turn)."""
        for text in self.problems:
            yield None, text
        for turn in self.turns:
            for entry in turn.entries:
                if isinstance(entry, Step):
                    for event in entry.events:
                        if event.is_warning:
                            yield entry.number, event.text
                    for text in entry.warnings:
                        yield entry.number, text
                elif entry.is_warning:
                    yield None, entry.text


def to_json_report(report: Report) -> Json:
    """The report as one JSON object, field by field."""
    warnings = [{"step": step, "text": text} for step, text in report.warnings]
    return {**asdict(report), "warnings": warnings}


# From a transcript to its Report.


def report(
    entries: Sequence[Entry],
    *,
    header: Json | None = None,
    exit: str | None = None,
    warnings: Iterable[str] = (),
    redact: Iterable[str] = (),
    guarded: Sequence[str] = ("*",),
) -> Report:
    """The report of a transcript: `report(outcome.transcript, exit=outcome.exit)`, or of the
    entries that `audit.read` found in a file.

    `redact` names the fields to hide (`redaction.py`). `guarded` are patterns of tools whose calls
    are decisions (`"book_*"`), if neither starts nor the header say which tools only read.
    """
    header = header or {}
    builder = _Builder(header, entries, guarded)
    for entry in entries:
        builder.add(entry)
    builder.end(exit)

    redaction = Redaction(redact, entries)
    made: Report = redaction.hide(Report(header, builder.figures(), [], builder.turns))
    made.problems = [*warnings, *redaction.warnings()]
    return made


class _Builder:
    """Takes one entry after the other; steps and thoughts are numbered through all turns."""

    def __init__(self, header: Json, entries: Iterable[Entry], guarded: Sequence[str]) -> None:
        self.turns: list[Turn] = []
        self._guarded = guarded
        self._read_only = {t["name"] for t in header.get("tools", []) if t.get("read_only")}
        self._has_starts = any(isinstance(entry, Started) for entry in entries)
        self._reading = Reading()
        self._models: dict[str, None] = {}  # a set that keeps its order
        self._actions: list[Action] = []
        self._number_of: dict[int, int | None] = {}  # number of each thought, by its identity
        self._steps = count(1)
        self._numbers = count(1)
        self._open: list[Call] = []  # no result yet

    def add(self, entry: Entry) -> None:
        """Add the next entry to its turn, step and call."""
        self._begin(entry)
        if isinstance(entry, Answer):
            for call in self._open:
                if call.call.id == entry.call_id:
                    self._answer(call, entry)
                    return

        if isinstance(entry, Assistant):
            self._leave_open()
        if isinstance(entry, MESSAGES):
            self._reading.add(entry)
        turn = self.turns[-1]
        match entry:
            case User(kind="person"):
                turn.request = entry
            case Assistant(tool_calls=calls, provider=provider, model=model):
                self._models[f"{provider}:{model}".strip(":")] = None
                self._open = [self._call(call) for call in calls]
                turn.entries.append(Step(next(self._steps), entry, list(self._open)))
            case _ if not isinstance(entry, Ended):
                turn.entries.append(_in_words(entry))

    def _begin(self, entry: Entry) -> None:
        """A person's message begins a turn. Any other message reopens a turn that has ended."""
        ended = self._reading.ended
        is_request = isinstance(entry, User) and entry.kind == "person"
        if is_request or not self.turns:
            self.end(None)
            self.turns.append(Turn())
        elif ended and isinstance(entry, MESSAGES):
            text = f"The run ended here, and was taken up again: {words.ended(ended.exit)}"
            self.turns[-1].entries.append(Note(text, ended))

    def _call(self, call: ToolCall) -> Call:
        """A new call, as the model wrote it."""
        shown = Call(call, self._is_decision(call.name), think.bare(call).arguments)
        if call.name == THINK_NAME:
            shown.how = "volunteered"
        elif think.carried(call):
            shown.how = "carried"
        if shown.how:
            shown.text = think.thought(call)
            shown.should_continue = think.should_continue(call)
            shown.thought = next(self._numbers)
        return shown

    def _is_decision(self, name: str) -> bool:
        """Does this tool change something? If starts are recorded, only a start says so."""
        if self._has_starts or name == THINK_NAME:
            return False
        return name not in self._read_only and fits(name, self._guarded)

    def _answer(self, call: Call, answer: Answer) -> None:
        """Add a message about a call."""
        self._stand(call)
        self._reading.add(answer)
        match answer:
            case Verdict(arguments=dict(edited)) | ToolResult(arguments=dict(edited)):
                call.arguments = edited
        if not isinstance(answer, ToolResult) or answer.refused:
            self._leave(call)
        match answer:
            case Verdict():
                call.decision = True
                event = Note(words.decided(answer), answer)
            case Started():
                call.decision = True
                call.status = "started"
                event = self._start(call.call, answer)
            case ToolResult():
                self._open.remove(call)
                event = self._result(call, answer)
        call.events.append(event)

    def _stand(self, call: Call) -> None:
        """Find the thought behind the call that is next."""
        behind = self._reading.thought_behind(call.call)
        if behind and not call.how:
            call.thought = self._number_of[id(behind)]
            call.how = behind.how

    def _start(self, call: ToolCall, started: Started) -> Note:
        """A call is run. It is run again if the same call was started before without a result."""
        under = ""
        if started.key:
            under = f" under the idempotency key {started.key}"
        doubt = self._reading.doubt(call)
        if doubt is None or doubt.starts == 1:
            return Note(f"started{under}", started)
        text = f"RUN AGAIN{under}, though it was started before and did not return"
        return Note(text, started, is_warning=True)

    def _result(self, call: Call, result: ToolResult) -> Note:
        """A call has its result."""
        call.status = words.status(result)
        call.result = result.content
        if call.call.name == THINK_NAME and not result.is_error:
            thought = self._reading.thoughts[-1]
            call.how = thought.how
            self._number_of[id(thought)] = call.thought
        if result.refused:
            call.decision = True
            return Note(words.refusal(result.refused), result)
        if result.in_doubt:
            return Note("it did not return: it may have happened", result, is_warning=True)
        return Note(call.status, result)

    def _leave_open(self) -> None:
        """These calls will get no result."""
        for call in self._open:
            self._stand(call)
            self._leave(call)
        self._open = []

    def _leave(self, call: Call) -> None:
        """If a call's last event is its start, it has not returned."""
        if call.events and isinstance(call.events[-1].entry, Started):
            call.events.append(
                Note("the run stopped during this call: it may have happened", is_warning=True)
            )

    def end(self, exit: str | None) -> None:
        """The turn is over; `exit` is how it ended, if the caller knows."""
        if not self.turns:
            return
        self._leave_open()
        turn = self.turns[-1]
        reading = self._reading
        turn.exit = exit
        step = next_step(reading)
        if isinstance(step, Done):
            turn.exit = exit or step.exit
            turn.answer = step.answer
        turn.cause = words.cause(reading.reply)
        turn.figures = words.figures(turn.exit, reading)
        self._actions += reading.actions

    def figures(self) -> Json:
        """The counts over all turns."""
        came_about = Counter(action.how or "none" for action in self._actions)
        return {
            "models": [name for name in self._models if name],
            "actions": len(self._actions),
            "failed": sum(action.result.is_error for action in self._actions),
            "came_about": dict(came_about),
        }


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Does the name of a tool match one of the patterns (`"book_*"`)?"""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _in_words(entry: Entry) -> Note:
    """The note for an entry that belongs to no step."""
    match entry:
        case User(text=text):
            return Note(f"The kit said: {text}", entry)
        case Verdict(call_id=""):
            return Note(words.decided(entry), entry)
        case Checked():
            return Note(words.checked(entry), entry, entry.missing is not None)
        case Unreadable():
            text = f"Line {entry.line} of the file cannot be read: {entry.problem}"
        case _:
            text = f"This belongs to no call: {json_text(to_json(entry))}"
    return Note(text, entry, is_warning=True)
