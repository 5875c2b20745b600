"""Builds the report of a transcript: the data that every form of the audit shows.

Rule 1: `report` is a pure function from messages to a RunReport: no file, no clock.
Rule 2: nothing is decided here. turn.py says what a thought covers, why it was written, whether a
        call may have happened, and how a turn ends; contradictions.py finds records that disagree.
Rule 3: nothing is left out: every start, crash, repeat, verdict, check, refusal and unreadable line
        is in its place. Each step has its messages.
Rule 4: a report is redacted as a whole, when it's built. So no output can forget to redact.

Limitations: it knows only the transcript. Any text in an answer that's the number of a result
counts as a source (`policies/answer.py`). It has durations of turns, but for a step only its
messages' times.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from .. import think
from ..cover import Thought
from ..loop import Done, next_step
from ..messages import (
    MESSAGES,
    THINK_NAME,
    Assistant,
    Checked,
    Ended,
    Json,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
    to_json,
)
from ..policies.done_when import Checks
from ..policies.doubt import Doubts
from ..received import notices
from ..text import json_text
from ..tools import signature
from ..turn import Action
from ..turn import Turn as Reading
from ..wire.json_reading import json_value
from . import words
from .check import Finding, Findings
from .contradictions import Contradictions
from .explain import Explained
from .planned import is_request
from .reading import Entry, Unreadable
from .redaction import Redaction

Answer = ToolResult | Started | Verdict  # messages about one call


@dataclass
class Note:
    """An event, as text. `entry` is its message; a crash has none. `kind` is a key of the console's
    LOOK. `"alarm"` is the worst: something may have happened, or happened twice. `source`: the
    number of the step whose result supports a claim of the answer.
    """

    text: str
    entry: Any = None
    kind: str = "notice"
    source: int | None = None
    number: ClassVar[None] = None  # not part of a step

    @property
    def events(self) -> "list[Note]":
        """Itself, for the same interface as a step."""
        return [self]

    @property
    def is_warning(self) -> bool:
        """Must a reader notice it?"""
        return self.kind in ("alarm", "warning", "unmet")


@dataclass
class CallReport:
    """A call and its result. A think call is a thought, and any other call may carry one. `text`
    and `should_continue` (None: missing or unreadable) are the thought's.

    `thought` is that thought's number in the report, or the number of the thought that covers the
    call; the latter's text is `behind`. `how`: why it was written (a key of `words.HOW`).
    `decision`: the call changes something, or a policy or person judged it; a look-up isn't a
    decision. `verb`: the decision, if the tool has an argument with a few fixed values. `arguments`
    are those it ran with. `status` is a key of `words.STATUS`. `events` are in order.
    """

    call: ToolCall
    decision: bool
    arguments: Json | str
    verb: str = ""
    text: str | None = None
    should_continue: think.Signal = None
    thought: int | None = None
    how: str | None = None
    behind: str = ""
    status: str = "not run"
    result: str = ""
    events: list[Note] = field(default_factory=list)


@dataclass
class Step:
    """One model call: its reply, notes about the reply, and its calls."""

    number: int
    reply: Assistant
    notes: list[Note]
    calls: list[CallReport]

    @property
    def events(self) -> list[Note]:
        """All notes about the reply and its calls, in order."""
        return self.notes + [event for call in self.calls for event in call.events]

    @property
    def decisions(self) -> list[CallReport]:
        """The calls that are decisions."""
        return [call for call in self.calls if call.decision]


@dataclass
class TurnReport:
    """A person's request, and the work on it. `request` is None if the transcript begins without
    one, `exit` is None if the turn hasn't ended, `answer` is empty if there is none. `cause`: why
    the last reply was cut off, if it was. `figures`: the line of counts.
    """

    request: User | None = None
    exit: str | None = None
    answer: str = ""
    cause: str = ""
    figures: str = ""
    entries: list[Step | Note] = field(default_factory=list)


@dataclass
class PlacedFinding:
    """A finding of `check`: its place in the file, its step (None: before the first), and its
    text.
    """

    where: str
    step: int | None
    text: str


@dataclass
class CheckedRecord:
    """The two kinds of findings of `check` (`check.py`). `steps`: the number of steps planned
    again; None without an agent.
    """

    impossible: list[PlacedFinding]
    otherwise: list[PlacedFinding]
    steps: int | None


@dataclass
class RunReport:
    """A whole transcript. `figures`: counts over all turns, by name. `problems`: with the file.
    Only on request: `steps`, why the loop took each step, and `checked`, what's wrong with the
    record. `origin`: where the report comes from, by name: the file and its digest, the command,
    the date.
    """

    header: Json
    figures: Json
    problems: list[str]
    turns: list[TurnReport]
    steps: list[Explained]
    checked: CheckedRecord | None = None
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def warnings(self) -> Iterator[tuple[int | None, str]]:
        """All warnings, each with its step's number (None: about the file or a turn)."""
        for text in self.problems:
            yield None, text
        for turn in self.turns:
            for entry in turn.entries:
                for note in entry.events:
                    if note.is_warning:
                        yield entry.number, note.text


def to_json_report(report: RunReport) -> Json:
    """The report as one JSON object, field by field."""
    warnings = [{"step": step, "text": text} for step, text in report.warnings]
    return {**asdict(report), "warnings": warnings}


# From a transcript to its report.


def report(
    entries: Sequence[Entry],
    *,
    header: Json | None = None,
    warnings: Iterable[str] = (),
    redact: Iterable[str] = (),
    guarded: Sequence[str] = ("*",),
    explained: Iterable[Explained] = (),
    findings: Findings | None = None,
    origin: Mapping[str, str] | None = None,
) -> RunReport:
    """The report of a transcript: `report(outcome.transcript)`, or of the entries that `audit.read`
    returns.

    `redact`: the fields to hide (`redaction.py`). `guarded`: name patterns of tools whose calls are
    decisions (`"book_*"`), if neither starts nor the header show which tools only read.
    `explained`: the steps from `explain(agent, transcript)`. `findings`: from `check(record,
    agent)`. `origin`: see RunReport.
    """
    header = header or {}
    if any(isinstance(entry, Started) for entry in entries):
        guarded = ()  # only a start says that a call changes something
    builder = _Builder(header, guarded)
    for entry in entries:
        builder.add(entry)
    builder.end()

    redaction = Redaction(redact, entries)
    whole = RunReport(header, builder.figures(), [], builder.turns, list(explained))
    whole.origin = dict(origin or {})
    if findings:
        whole.checked = builder.place_findings(findings)
    made: RunReport = redaction.hide(whole)
    made.problems = [*warnings, *redaction.warnings()]
    return made


class _Builder:
    """Takes entries one by one. Steps and thoughts are numbered across all turns."""

    def __init__(self, header: Json, guarded: Sequence[str]) -> None:
        self.turns: list[TurnReport] = []
        self._guarded = guarded
        self._tools = {tool["name"]: tool for tool in header.get("tools", [])}
        self._reading = Reading()
        self._contradictions = Contradictions(self._tools, self._reading)
        self._speakers: list[str] = []  # of each reply
        self._actions: list[Action] = []
        self._number_of: dict[Thought, int | None] = {}  # of each recorded thought
        self._sources: dict[str, Note] = {}  # by a result's number: its call, its step
        self._thoughts = 0  # how many so far
        self._open: list[CallReport] = []  # without a result
        self._step_of: list[int] = []  # for each entry; 0 before the first step

    def add(self, entry: Entry) -> None:
        """Add the next entry to its turn, step and call."""
        self._step_of.append(len(self._speakers) + isinstance(entry, Assistant))
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
            case Assistant(tool_calls=calls):
                notes = list(self._of_reply(entry))
                self._open = [self._call(call) for call in calls]
                turn.entries.append(Step(len(self._speakers), entry, notes, list(self._open)))
            case _ if not isinstance(entry, Ended):
                turn.entries.append(_in_words(entry))
        self._contradict(entry, None, turn.entries)

    def _begin(self, entry: Entry) -> None:
        """A person's message begins a turn. Any other message reopens one that has ended."""
        ended = self._reading.ended
        if is_request(entry) or not self.turns:
            self.end()
            self.turns.append(TurnReport())
        elif ended and isinstance(entry, MESSAGES):
            text = f"The run ended here, and was taken up again: {words.say_end(ended.exit)}"
            self.turns[-1].entries.append(Note(text, ended))

    def _of_reply(self, reply: Assistant) -> Iterator[Note]:
        """Notes about a reply: its model and dialect, if they changed; the notice for watchers; and
        any problem with it.
        """
        speaker = words.join_facts(f"{reply.provider}:{reply.model}".strip(":"), reply.dialect)
        if self._speakers and self._speakers[-1] != speaker:
            yield Note(f"from here on: {speaker or 'another model'}")
        self._speakers.append(speaker)
        for text in notices(reply, self._reading):
            yield Note(text, kind="warning")
        if reply.stop_reason == "malformed":
            yield Note(f"The reply could not be read: {reply.mistake}", kind="warning")
        elif not reply.is_usable:
            cause = words.cause(reply) or reply.stop_reason
            yield Note(f"The reply broke off: {cause}.", kind="warning")

    def _call(self, call: ToolCall) -> CallReport:
        """A new call, as the model wrote it."""
        only_reads = self._tools.get(call.name, {}).get("read_only")
        may_change = call.name != THINK_NAME and not only_reads
        decision = may_change and fits(call.name, self._guarded)
        bare = think.bare(call)
        shown = CallReport(call, decision, bare.arguments, self._verb(bare))
        if call.recovered:
            text = f"The call of {call.name} was written as text and recovered from there."
            shown.events.append(Note(text, kind="warning"))
        if call.name == THINK_NAME:
            shown.how = "volunteered"
        elif think.read_carried(call):
            shown.how = "carried"
        if shown.how:
            shown.text = think.read_thought(call)
            shown.should_continue = think.read_signal(call)
            self._thoughts += 1
            shown.thought = self._thoughts
        return shown

    def _verb(self, call: ToolCall) -> str:
        """The argument with a few fixed values; empty if the tool has none."""
        if isinstance(call.arguments, str):
            return ""
        parameters = self._tools.get(call.name, {}).get("parameters", {})
        for key, schema in parameters.get("properties", {}).items():
            if "enum" in schema and key in call.arguments:
                return str(call.arguments[key])
        return ""

    def _answer(self, call: CallReport, answer: Answer) -> None:
        """Add a message about a call."""
        self._stand(call)
        self._reading.add(answer)
        if not isinstance(answer, ToolResult) or answer.refused:
            call.decision = True
            self._leave(call)
        match answer:
            case Verdict():
                event = Note(words.say_decision(answer), answer, "verdict")
            case Started():
                call.status = "started"
                event = self._start(answer)
            case ToolResult():
                self._open.remove(call)
                event = self._result(call, answer)
                if answer.number:
                    text = f"{signature(call.call)}, {call.status}, in turn {len(self.turns)}"
                    self._sources[str(answer.number)] = Note(text, source=len(self._speakers))
        call.events.append(event)
        if answer.arguments is not None and answer.arguments != call.arguments:
            changed = replace(call.call, arguments=answer.arguments)
            call.arguments = changed.arguments
            call.verb = self._verb(changed)
            call.events.append(Note(f"with other arguments: {signature(changed)}"))
        self._contradict(answer, call.call, call.events)
        if call.status == "done":
            call.status = self._contradictions.status_of(call.call) or call.status

    def _contradict(
        self, entry: Entry, call: ToolCall | None, notes: list[Note] | list[Step | Note]
    ) -> None:
        """Add what contradicts the records before this entry."""
        if isinstance(entry, MESSAGES):
            for kind, text in self._contradictions.add(entry, call):
                notes.append(Note(text, kind=kind))

    def _stand(self, call: CallReport) -> None:
        """Find the thought that covers the next call."""
        behind = self._reading.thought_behind(call.call)
        if behind and not call.how:
            call.thought = self._number_of[behind]
            call.how = behind.how
            call.behind = behind.text

    def _start(self, started: Started) -> Note:
        """The note about a start, which is a repeat if the call started before without a result."""
        under = ""
        if started.key:
            under = f" under the idempotency key {started.key}"
        doubt = self._reading.history.read(Doubts).last_started
        if doubt is None or doubt.unfinished == 1:
            return Note(f"started{under}", started)
        text = f"RUN AGAIN{under}, though it was started before and did not return"
        return Note(text, started, "alarm")

    def _result(self, call: CallReport, result: ToolResult) -> Note:
        """The note about a call's result."""
        if result.is_error or result.name != THINK_NAME:  # otherwise it only confirms the thought
            call.result = result.content
        is_thought = call.call.name == THINK_NAME and not result.refused
        if is_thought and not result.is_error:
            thought = self._reading.thoughts[-1]
            call.how = thought.how
            self._number_of[thought] = call.thought
        if result.refused:
            call.status = "refused"
            return Note(words.refusal(result.refused), result, "refused")
        if result.in_doubt:
            call.status = "in doubt"
            return Note("it did not return: it may have happened", result, "alarm")
        call.status = "done"
        if result.is_error:
            call.status = "failed"
        return Note(call.status, result, "status")

    def _leave_open(self) -> None:
        """These calls have no result. One may be waiting for a person; the others won't get any."""
        paused = self._reading.paused
        waiting = None
        if paused and paused.call_id:  # the next call: another may have the same id
            waiting = next((call for call in self._open if call.call.id == paused.call_id), None)
        for call in self._open:
            self._stand(call)
            self._leave(call)
            if call is waiting:
                call.status = "waits"
                call.decision = True  # by a person
            elif call.status == "not run" and call.call.name != THINK_NAME:
                call.events.append(Note(f"{call.call.name}: not run.", kind="warning"))
        self._open = []

    def _leave(self, call: CallReport) -> None:
        """If a call's last message is its start, it didn't return."""
        match [event.entry for event in call.events if event.entry]:
            case [*_, Started()]:
                text = "the run stopped during this call: it may have happened"
                call.events.append(Note(text, kind="alarm"))

    def end(self) -> None:
        """Finish the turn."""
        if not self.turns:
            return
        self._leave_open()
        turn = self.turns[-1]
        reading = self._reading
        step = next_step(reading)
        if reading.paused:
            turn.exit = "needs_human"
        elif isinstance(step, Done) and (reading.ended or not reading.read(Checks).missing):
            turn.exit = step.exit
            turn.answer = step.answer
        for claim, text in _find_texts(json_value(turn.answer)):
            number = text.strip("[] ")
            if number in self._sources:
                source = self._sources[number]
                turn.entries.append(replace(source, text=f"{claim} [{number}]: {source.text}"))
        turn.cause = words.cause(reading.reply)
        turn.figures = words.figures(turn.exit, reading)
        self._actions += reading.actions

    def place_findings(self, findings: Findings) -> CheckedRecord:
        """The findings, with their steps."""
        return CheckedRecord(
            [self._place_finding(finding) for finding in findings.impossible],
            [self._place_finding(finding) for finding in findings.otherwise],
            findings.steps,
        )

    def _place_finding(self, finding: Finding) -> PlacedFinding:
        step = self._step_of[finding.place] or None
        return PlacedFinding(finding.where, step, finding.text)

    def figures(self) -> Json:
        """The counts over all turns."""
        came_about = Counter(action.how or "none" for action in self._actions)
        return {
            "models": [name for name in dict.fromkeys(self._speakers) if name],
            "actions": len(self._actions),
            "failed": sum(action.result.is_error for action in self._actions),
            "came_about": dict(came_about),
        }


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Does a tool's name match one of the patterns (`"book_*"`)?"""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _find_texts(value: Any, place: str = "answer") -> Iterator[tuple[str, str]]:
    """Each text in a JSON answer, with its path."""
    match value:
        case str():
            yield place, value
        case list():
            yield from _find_texts(dict(enumerate(value)), place)
        case dict():
            for key, item in value.items():
                yield from _find_texts(item, f"{place}.{key}")


def _in_words(entry: Entry) -> Note:
    """The note for an entry that isn't part of a step."""
    kind = "warning"
    match entry:
        case User():
            kind = "question"
            text = f"the kit said ({entry.kind}): {entry.text}"
        case Verdict(call_id=""):
            kind = "verdict"
            text = words.say_decision(entry)
        case Paused():
            kind = "paused"
            text = words.say_pause(entry)
        case Checked(missing=missing):
            kind = "met"
            if missing is not None:
                kind = "unmet"
            text = words.say_check(entry)
        case Unreadable():
            text = f"Line {entry.line} of the file cannot be read: {entry.problem}\n{entry.raw}"
        case _:
            text = f"This belongs to no call: {json_text(to_json(entry))}"
    return Note(text, entry, kind)
