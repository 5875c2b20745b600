"""From a transcript to the Report that is shown.

Rule 1: `report` is a pure function, messages in and a Report out: no file, no clock.
Rule 2: nothing is decided here. What a thought covers and how it came is turn.py's word, how a turn
        ended the file's or the loop's; this module only lays out.
Rule 3: nothing is left out. A line that could not be read, a result without its call and a call
        without a result are entries too, in their place, and each step holds its messages.
Rule 4: what is laid out is redacted, so that no way of showing a report can forget it.

The edge: what the transcript does not say. Without times (`at`) there are no seconds.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from .. import think
from ..loop import Done, next_step
from ..messages import (
    MESSAGES,
    THINK_NAME,
    Assistant,
    Json,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from ..turn import Turn as Reading
from .reading import Ended, Entry, Unreadable
from .redaction import Redaction
from .report import Action, Call, Note, Report, Step, Thought, Turn
from .words import decided, status


def report(
    entries: Iterable[Entry],
    *,
    header: Mapping[str, Any] | None = None,
    exit: str | None = None,
    warnings: Iterable[str] = (),
    redact: Iterable[str] = (),
) -> Report:
    """Lay out a transcript: `report(outcome.transcript, exit=outcome.exit)`, or what `audit.read`
    found in a file.

    `redact` names the fields to hide: arguments, keys of JSON results, or the messages' own `text`,
    `thinking`, `content`, `mistake`, `reason` and `by`.
    """
    entries = [*entries, *([Ended(exit)] if exit else [])]
    redaction = Redaction(redact, entries)
    shown = redaction.value("", dict(header or {}))
    listed = shown.get("tools")
    tools = [t for t in listed if isinstance(t, dict)] if isinstance(listed, list) else []
    layout = _Layout(redaction, _guarded(tools, entries))
    for entry in entries:
        layout.add(entry)
    layout.end_turn()
    times = [turn.seconds for turn in layout.turns]
    return Report(
        [entry for turn in layout.turns for entry in turn.entries],
        sum(filter(None, times)) if times and None not in times else None,
        layout.turns,
        shown,
        tools,
        [*warnings, *redaction.not_found()],
    )


def _guarded(tools: Iterable[Json], entries: Iterable[Entry]) -> set[str] | None:
    """The tools whose calls are decisions; None where nothing tells them from look-ups."""
    named = {str(t.get("name")) for t in tools if t.get("think_first") or t.get("needs_approval")}
    named |= {entry.name for entry in entries if isinstance(entry, Started)}
    return named or (set() if tools else None)


class _Layout:
    """Lays out entry after entry; steps and thoughts are counted through all turns."""

    def __init__(self, redaction: Redaction, guarded: set[str] | None) -> None:
        self.turns: list[Turn] = []
        self._redaction = redaction
        self._guarded = guarded
        self._reading = Reading()
        self._steps, self._thoughts = count(1), count(1)

    def add(self, entry: Entry) -> None:
        time = _time(entry)
        if not self.turns or (isinstance(entry, User) and entry.kind == "person"):
            self.end_turn()
            self.turns.append(Turn([], None, len(self.turns) + 1))
            self._start, self._before = time, None
            self._open: list[tuple[ToolCall, Call]] = []  # without a result: the call, and as shown
            self._numbers: dict[int, int] = {}  # of the thoughts that were read, by identity
        turn = self.turns[-1]
        took, self._before = _between(self._before, time), time or self._before
        turn.seconds = _between(self._start, self._before)
        if isinstance(entry, MESSAGES):
            self._reading.add(entry)
            turn.exit = None  # it goes on
        match entry, self._redaction.hide(entry):
            case _, User(kind="person") as request:
                turn.request = request
            case Assistant() as reply, Assistant() as shown:
                self._step = Step(next(self._steps), shown, took, turn.seconds)
                turn.entries.append(self._step)
                self._open = []
                for call, seen in zip(reply.tool_calls, shown.tool_calls, strict=True):
                    self._step.calls += self._made(call, seen)
                    self._open.append((call, self._step.calls[-1]))
            case _, (ToolResult() | Started() | Verdict()) as shown if self._answer(shown, took):
                self._step.answers.append(shown)
            case _, shown:
                turn.entries.append(_in_words(shown))
                turn.exit = shown.exit if isinstance(shown, Ended) else turn.exit
        for call, made in self._open:
            if isinstance(made, Action) and (behind := self._reading.thought_behind(call)):
                made.thought = self._numbers.get(id(behind), made.thought)
                made.how = behind.how

    def _made(self, call: ToolCall, shown: ToolCall) -> list[Call]:
        """The thought or the action that a call is; both, where it carries its thought."""
        text = think.thought(shown)
        if call.name == THINK_NAME:
            signal = think.should_continue(shown)
            return [Thought(next(self._thoughts), text, "volunteered", signal, "", call.recovered)]
        action = Action(shown, self._guarded is None or call.name in self._guarded)
        if not think.carried(call):
            return [action]
        action.thought = next(self._thoughts)
        return [Thought(action.thought, text, "carried"), action]

    def _answer(self, answer: ToolResult | Started | Verdict, took: float | None) -> bool:
        """Note what an answer says of the first open call of its id. Is there one?"""
        found = next((one for one in self._open if one[0].id == answer.call_id), None)
        if found is None:
            return False
        match found[1], answer:
            case Action() as action, Verdict() as verdict:
                action.verdict, action.waited, action.decision = verdict, took, True
            case Action() as action, Started():
                action.status = "started"
            case Action() as action, ToolResult() as result:
                action.status, action.result = status(result), result.content
                action.seconds = None if result.refused else took
                action.decision = action.decision or bool(result.refused)
            case Thought() as thought, ToolResult() as result:
                thought.note = result.content.removeprefix(think.RECORDED).strip()
                if not result.is_error:
                    heard = self._reading.thoughts[-1]
                    thought.how, self._numbers[id(heard)] = heard.how, thought.number
        if isinstance(answer, ToolResult):
            self._open.remove(found)
        return True

    def end_turn(self) -> None:
        """How it ended, as the file says, else as the loop would; and with what answer."""
        if not self.turns:
            return
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
            return Note(decided(entry), entry)
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


def _time(entry: Entry) -> datetime | None:
    at = None if isinstance(entry, Unreadable) else entry.at
    try:
        time = datetime.fromisoformat(at or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds; None where one is unknown or the clock was set back."""
    if start is None or end is None or end < start:
        return None
    return (end - start).total_seconds()
