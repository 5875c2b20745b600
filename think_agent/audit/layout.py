"""A run as data: everything the audit shows, laid out from the transcript.

Rule 1: `report` is a pure function, messages in and a Report out: no file, no clock.
Rule 2: nothing is decided here. What a thought covers and how it came is trail.py's word, how a
        turn ended is the file's or `next_step`'s; this module only lays out and counts.
Rule 3: nothing is left out. A line that could not be read, a result without its call and a call
        without a result are entries too, in their place, and each step holds its raw messages.
Rule 4: redaction (redact.py) comes before the layout, so that no way of showing a report can
        forget it.

The edge: what the transcript does not say. Without times (`at`) there are no seconds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from .. import think, trail
from ..loop import Done, next_step
from ..messages import (
    MESSAGES,
    THINK_NAME,
    Assistant,
    Force,
    Json,
    Message,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
    paired,
    to_json,
)
from ..model import honored
from ..trail import How
from .redaction import REDACTED, Redaction

EXITS = {
    "signal": "A thought said that all was done, and a last call without tools gave the answer.",
    "silence": "The model called no tool; its text is the answer.",
    "limit": "A limit was reached; no tool could be called any more.",
    "budget": "The budget of tokens or money ran out.",
    "gave_up": "Too many failures or repeats in a row.",
    "declined": "A person said no.",
    "needs_human": "A person has to decide before it can go on.",
    "refused": "The model, or its provider, refused.",
    "truncated": "The reply broke off; its calls were not run.",
    "empty": "The model had no words, not even after a nudge.",
    "invalid_answer": "The final answer does not fit the schema that was asked for.",
}
HOW: dict[How, str] = {  # how a thought came, as in "a … thought"
    "forced": "forced by tool choice",
    "schema": "forced by schema",
    "gated": "gated",
    "volunteered": "volunteered",
}
STATUS = {  # of an action: a mark and words
    "done": ("✓", "done"),
    "failed": ("✗", "failed"),
    "refused": ("✗", "refused, not run"),
    "started": ("?", "may have happened"),
    "not run": ("–", "not run"),
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, as the writer of the file noted it."""

    exit: str
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line of the file that is no message: its number, its text and what is wrong with it."""

    line: int
    text: str
    problem: str


Entry: TypeAlias = Message | Ended | Unreadable


@dataclass(frozen=True, slots=True)
class Thought:
    """A think call. `number` counts the thoughts of the report; `should_continue` is the exit
    signal (None: missing or unreadable); `note` is what the kit answered beyond "recorded".
    """

    number: int
    text: str
    how: How
    should_continue: bool | None
    note: str = ""
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """A call of any other tool. `status`: "done", "failed", "refused", "started" (it has no result
    and may have happened) or "not run". `thought` is the number of the one it stands behind, `how`
    the way that one came. `seconds` is the time it took.
    """

    call: ToolCall
    status: str
    result: str = ""
    thought: int | None = None
    how: How | None = None
    verdict: Verdict | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One model call and what came of it. `elapsed` is when its reply came, in seconds after the
    request; `seconds` is how long it took; `raw` are its messages as JSON.
    """

    number: int
    reply: Assistant
    calls: tuple[Thought | Action, ...]
    warnings: tuple[str, ...]
    raw: tuple[Json, ...]
    seconds: float | None = None
    elapsed: float | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Anything between the steps: `who` is the kit, a person or the file."""

    who: str
    text: str
    raw: Json
    is_warning: bool = False
    elapsed: float | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of one request of a person. `request` is None when the transcript does not begin
    with one; `exit` is None when the turn has not ended, and `answer` empty when it gave none.
    """

    number: int
    request: User | None
    entries: tuple[Step | Note, ...]
    exit: str | None
    answer: str
    seconds: float | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The model calls, in order."""
        return tuple(entry for entry in self.entries if isinstance(entry, Step))


@dataclass(frozen=True, slots=True)
class Report:
    """A whole transcript, laid out."""

    header: Json
    turns: tuple[Turn, ...]
    warnings: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The model calls of all turns, in order."""
        return tuple(step for turn in self.turns for step in turn.steps)

    @property
    def thoughts(self) -> tuple[Thought, ...]:
        """The thoughts, in order."""
        return tuple(c for step in self.steps for c in step.calls if isinstance(c, Thought))

    @property
    def actions(self) -> tuple[Action, ...]:
        """The tool calls that were run, in order."""
        every = (c for step in self.steps for c in step.calls if isinstance(c, Action))
        return tuple(action for action in every if action.status in ("done", "failed"))

    @property
    def behind_a_thought(self) -> int:
        """How many of the actions stand behind a thought."""
        return sum(action.thought is not None for action in self.actions)

    @property
    def came_about(self) -> dict[str, int]:
        """How the thoughts came that the actions stand behind, and how many had none."""
        return dict(Counter(action.how or "none" for action in self.actions))

    @property
    def usage(self) -> Usage:
        """The tokens of all model calls."""
        return sum((step.reply.usage for step in self.steps), Usage())

    @property
    def seconds(self) -> float | None:
        """The time of all turns, where every one is known."""
        known = [turn.seconds for turn in self.turns if turn.seconds is not None]
        return sum(known) if known and len(known) == len(self.turns) else None

    @property
    def models(self) -> tuple[str, ...]:
        """Who replied, as `provider:model`, each once."""
        names = (f"{s.reply.provider}:{s.reply.model}".strip(":") for s in self.steps)
        return tuple(dict.fromkeys(name for name in names if name))


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
    redaction = Redaction(redact, _messages(entries))
    turns: list[Turn] = []
    steps = thoughts = 0
    for original in _split(entries):
        shown = [_hidden(entry, redaction) for entry in original]
        layout = _Layout(shown, steps, thoughts)
        turns.append(layout.turn(len(turns) + 1, _ended(original), _has_answer(original)))
        steps, thoughts = layout.steps, layout.thoughts
    shown_header = redaction.value("", dict(header or {}))
    return Report(shown_header, tuple(turns), (*warnings, *redaction.not_found()))


def _hidden(entry: Entry, redaction: Redaction) -> Entry:
    if isinstance(entry, MESSAGES):
        return redaction.hide(entry)
    if isinstance(entry, Unreadable) and redaction.fields:
        return replace(entry, text=REDACTED)  # what cannot be read cannot be searched for fields
    return entry


def _split(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The turns: each begins where a person speaks."""
    turn: list[Entry] = []
    for entry in entries:
        if _is_request(entry) and turn:
            yield turn
            turn = []
        turn.append(entry)
    if turn:
        yield turn


def _is_request(entry: Entry) -> bool:
    return isinstance(entry, User) and entry.kind == "person"


def _messages(entries: Iterable[Entry]) -> list[Message]:
    return [entry for entry in entries if isinstance(entry, MESSAGES)]


def _ended(turn: Sequence[Entry]) -> str | None:
    """How the turn ended: as the file says, else as the loop would; None while it goes on."""
    last = next((e for e in reversed(turn) if not isinstance(e, Unreadable)), None)
    if isinstance(last, Ended):
        return last.exit
    step = next_step(_messages(turn))
    return step.exit if isinstance(step, Done) else None


def _has_answer(turn: Sequence[Entry]) -> bool:
    """Is the last reply the answer?"""
    step = next_step(_messages(turn))
    return isinstance(step, Done) and bool(step.answer)


class _Layout:
    """Lays out one turn; `steps` and `thoughts` count on from the turns before it."""

    def __init__(self, entries: Sequence[Entry], steps: int, thoughts: int) -> None:
        self.entries = entries
        self.steps = steps
        self.thoughts = thoughts
        self._refused = False  # was an action refused for want of a thought since the last one?
        self._covered = trail.calls_with_thoughts(_messages(entries))
        self._times = [_time(entry) for entry in entries]
        self._clock: list[datetime | None] = []  # at each place: its time, or the last before it
        for time in self._times:
            self._clock.append(time or (self._clock[-1] if self._clock else None))

    def turn(self, number: int, exit: str | None, has_answer: bool) -> Turn:
        first = self.entries[0]
        request = first if isinstance(first, User) and first.kind == "person" else None
        groups = list(self._groups())[1 if request else 0 :]
        if exit and groups and isinstance(self.entries[groups[-1][0]], Ended):
            groups.pop()  # it is told at the end of the turn
        laid_out = tuple(self._lay_out(group) for group in groups)
        replies = [entry for entry in self.entries if isinstance(entry, Assistant)]
        answer = replies[-1].text if has_answer else ""
        return Turn(number, request, laid_out, exit, answer, self._elapsed(len(self.entries) - 1))

    def _groups(self) -> Iterator[list[int]]:
        """The places of each reply with those of the answers to its calls; all else by itself."""
        open_calls: set[str] = set()
        reply: list[int] = []
        others: list[list[int]] = []
        for place, entry in enumerate(self.entries):
            match entry:
                case Assistant(tool_calls=calls):
                    yield from ([reply] if reply else [])
                    yield from others
                    reply, others = [place], []
                    open_calls = {call.id for call in calls}
                case ToolResult() | Started() | Verdict() if entry.call_id in open_calls:
                    reply.append(place)
                case _:
                    others.append([place])
        yield from ([reply] if reply else [])
        yield from others

    def _lay_out(self, places: Sequence[int]) -> Step | Note:
        entry = self.entries[places[0]]
        elapsed = self._elapsed(places[0])
        if not isinstance(entry, Assistant):
            return _note(entry, elapsed)
        answers = [self.entries[place] for place in places[1:]]
        calls = tuple(
            self._thought(entry, call, result)
            if call.name == THINK_NAME
            else self._action(call, result, places[1:])
            for call, result in paired(entry, _messages(answers))
        )
        self._refused |= any(trail.told_to_think(m) for m in _messages(answers))
        self.steps += 1
        raw = tuple(to_json(message) for message in _messages([entry, *answers]))
        warnings = tuple(_warnings(entry, calls))
        return Step(self.steps, entry, calls, warnings, raw, self._took(places[0]), elapsed)

    def _thought(self, reply: Assistant, call: ToolCall, result: ToolResult | None) -> Thought:
        self.thoughts += 1
        how, self._refused = trail.how_it_came(reply, self._refused), False
        note = result.content.removeprefix(think.RECORDED).strip() if result else ""
        signal = think.should_continue(call)
        return Thought(self.thoughts, think.thought(call), how, signal, note, call.recovered)

    def _action(self, call: ToolCall, result: ToolResult | None, places: Sequence[int]) -> Action:
        _, _, thought = next(self._covered)
        about = {place: self.entries[place] for place in places}
        started = verdict = None
        seconds = None
        for place, entry in about.items():
            if isinstance(entry, Started) and entry.call_id == call.id:
                started = entry
            if isinstance(entry, Verdict) and entry.call_id == call.id:
                verdict = entry
            if entry is result and not entry.refused:
                seconds = self._took(place)
        return Action(
            call,
            _status(result, started),
            result.content if result else "",
            self.thoughts if thought else None,
            thought.how if thought else None,
            verdict,
            seconds,
        )

    def _took(self, place: int) -> float | None:
        """The seconds between an entry and what came before it."""
        return _between(self._clock[place - 1], self._times[place]) if place else None

    def _elapsed(self, place: int) -> float | None:
        """The seconds between the start of the turn and this place in it."""
        return _between(self._times[0], self._clock[place])


def _status(result: ToolResult | None, started: Started | None) -> str:
    if result is None:
        return "started" if started else "not run"
    if result.refused:
        return "refused"
    return "failed" if result.is_error else "done"


def _warnings(reply: Assistant, calls: Sequence[Thought | Action]) -> Iterator[str]:
    """What somebody who checks the run should not miss in this step."""
    match reply.stop_reason:
        case "max_tokens" | "pause_turn":
            yield "The reply broke off. Nothing of it was acted on."
        case "refusal":
            yield "The model, or its provider, refused."
        case "malformed":
            yield f"The reply could not be read: {reply.mistake or 'its format was wrong'}"
    if reply.enforced == "ignored":
        yield f"It was {asked(reply)} and did not; the choice was taken and ignored."
    elif reply.enforced == "prompt" and not honored(reply.tool_choice, reply):
        yield f"It was {asked(reply)}, which could only be asked in words, and did not."
    for call in reply.tool_calls:
        if call.recovered:
            yield f"The call of {call.name} was written as text and recovered from there."
        if isinstance(call.arguments, str):
            yield f"The arguments of {call.name} are not a JSON object."
    for made in calls:
        match made:
            case Action(status="started"):
                yield f"{made.call.name} was started and has no result: it may have happened."
            case Action(status="not run"):
                yield f"{made.call.name} was asked for and never run."
            case Thought(note=note) if note:
                yield note


def asked(reply: Assistant) -> str:
    """What the tool choice asked of a reply, as in "the model was …"."""
    match reply.tool_choice:
        case Force(name=name):
            return f"told to call {name}"
        case "required":
            return "told to call a tool"
        case "none":
            return "asked for closing words, without tools"
    return "free to choose"


def _note(entry: Entry, elapsed: float | None) -> Note:
    match entry:
        case Ended(exit=exit, at=at):
            raw = {"type": "ended", "exit": exit, "at": at}
            return Note("file", f"The run ended here: {exit}", raw, elapsed=elapsed)
        case Unreadable(line=line, text=text, problem=problem):
            said = f"Line {line} of the file cannot be read: {problem}"
            return Note("file", said, {"line": line, "text": text}, True, elapsed)
        case User(text=text):
            return Note("kit", text, to_json(entry), elapsed=elapsed)
        case Verdict():
            return Note("person", verdict_text(entry), to_json(entry), elapsed=elapsed)
        case ToolResult(name=name, content=content):
            said = f"A result of {name} that belongs to no call: {content}"
            return Note("file", said, to_json(entry), True, elapsed)
        case Started(name=name):
            said = f"{name} was started, and no call asked for it"
            return Note("file", said, to_json(entry), True, elapsed)
    raise TypeError(f"{entry!r} is no entry of a transcript")


def verdict_text(verdict: Verdict) -> str:
    """A person's decision in words."""
    said = {"yes": "Yes", "no": "No", "quit": "Quit"}.get(verdict.decision, verdict.decision)
    by = f", said {verdict.by}" if verdict.by else ""
    edited = ", with other arguments" if verdict.arguments is not None else ""
    return f"{said}{edited}{by}{f': {verdict.reason}' if verdict.reason else ''}"


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


# The words that the text and the page share.


def warnings(report: Report) -> Iterator[tuple[int, str]]:
    """Everything worth a look, each with the number of its step (0: the file, or a turn)."""
    for text in report.warnings:
        yield 0, text
    for turn in report.turns:
        for entry in turn.entries:
            match entry:
                case Step():
                    for text in entry.warnings:
                        yield entry.number, text
                case Note(is_warning=True):
                    yield 0, entry.text


def behind(report: Report) -> str:
    """How the thoughts came that the actions stand behind: `1 forced by tool choice, 2 …`."""
    found = Counter(HOW[action.how] if action.how else "behind none" for action in report.actions)
    return ", ".join(f"{number} {how}" for how, number in found.items())


def tokens(usage: Usage) -> str:
    """Tokens in words."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def duration(seconds: float | None) -> str:
    """A time span as a person says it; empty when it is unknown."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 0.05 else f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
