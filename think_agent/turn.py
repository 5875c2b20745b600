"""Turn: what a transcript says, read once.

    turn = Turn.of(transcript)      # or message by message: turn.add(message)
    turn.pending                    # the calls that have no result yet
    turn.thought_behind(call)       # the thought that covers a call (`cover.py`)

A turn begins with a message from a person, and `Ended` ends it. A Turn is read from a whole
transcript, and is about its last turn.

Rule 1: a Turn holds only facts that were read from the transcript. `add`, message by message, gives
        the same Turn as `of`. A saved transcript gives the same Turn as the one in memory. (One
        exception: `restart_clock`.)
Rule 2: the loop, the policies, the audit, telemetry and the evaluation take their facts from here.
Rule 3: facts are grouped by how long they last. `history` lasts for the whole conversation, the
        Turn until a person speaks, and `answers` until the next reply. `notes` are about the next
        call, which is the first one without a result.
Rule 4: `add` costs the same, however long the transcript is.
"""

from collections import Counter, deque
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Literal

from .cover import Cover, How, Thought
from .history import Doubt, History
from .messages import (
    THINK_NAME,
    Assistant,
    Checked,
    Ended,
    Force,
    Json,
    Message,
    Spoken,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
    take_answered,
)
from .text import canonical, is_blank
from .think import bare, should_continue, thought

What = tuple[str, str, str]  # an action as a value: its name, arguments and result
# Why a closing reply is asked for. "silence": the model answered in plain words,
# and the closing reply gives that answer in the right form.
WayOut = Literal["signal", "silence", "limit", "budget"]


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call as it was run, with the thought behind it (None: there was no thought)."""

    call: ToolCall
    result: ToolResult
    thought: str | None = None
    how: How | None = None


@dataclass(slots=True)
class Answers:
    """What has happened so far to the calls of the latest reply."""

    signal: bool | None = None  # `should_continue` of the reply's last thought
    refused: bool = False  # was one of the reply's calls refused?
    refused_before: Counter[str] = field(default_factory=Counter)  # `refusals` before the reply

    @property
    def says_done(self) -> bool:
        """Did the reply's last thought say that all is done? It does not count if one of the calls
        was refused, because the model has not read the refusal yet.
        """
        return self.signal is False and not self.refused


@dataclass(slots=True)
class Turn:
    """The facts of a transcript. All of them, except `history`, are about the last turn."""

    history: History = field(default_factory=History)
    request: User | None = None

    # Where the turn stands.
    last: Spoken | None = None
    reply: Assistant | None = None  # the latest one
    replied_to: list[str] = field(default_factory=list)  # kinds of the kit's messages it answers
    closed_by: WayOut | None = None  # why `reply` is a closing reply; None if it is not
    closing: WayOut | None = None  # why the next reply will be one; None if it will not
    pending: deque[ToolCall] = field(default_factory=deque)  # calls of `reply` without a result
    answers: Answers = field(default_factory=Answers)  # to the calls of `reply`
    cover: Cover = field(default_factory=Cover)  # which thought covers the next call
    notes: list[Started | Verdict] = field(default_factory=list)  # about the next call
    stop: Verdict | None = None  # the verdict with which a person ended the turn
    ended: Ended | None = None

    # What was done in it.
    replies: list[Assistant] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)  # the kit's messages, by `User.kind`
    usage: Usage = field(default_factory=Usage)
    usage_of: dict[str, Usage] = field(default_factory=dict)  # by the name of the model
    clock: float | None = None  # the last time stamp, in seconds since 1970
    seconds: float = 0.0  # of work, by the time stamps; to wait for a person is not work

    # What was checked (`policies/done_when.py`).
    checks: list[Checked] = field(default_factory=list)
    checked: dict[str, Checked] = field(default_factory=dict)  # since the last action, by name
    told_missing: bool = False  # the model was told what is missing, and has done nothing since

    # What was done in a row.
    thoughts_in_a_row: int = 0  # replies that called nothing but think
    malformed_in_a_row: int = 0
    failed_in_a_row: int = 0  # failed or invalid calls, since one worked or a person decided
    refusals: Counter[str] = field(default_factory=Counter)  # replies with refused calls, by code
    gate_refused: bool = False  # the gate refused a call; no covering thought came since
    thought_required: bool = True  # no think call since a person spoke or a tool was called
    what: What = ("", "", "")  # the last action, as a value: the same one again is a repeat
    same_in_a_row: int = 0  # how often it was done, with no other action in between
    repeats: Counter[What] = field(default_factory=Counter)  # how often each action was done
    pointed_out: dict[What, int] = field(
        default_factory=dict
    )  # `repeats` when the model was last told

    _kit_kinds: list[str] = field(default_factory=list)  # kinds of the kit's messages since `reply`

    @classmethod
    def of(cls, transcript: "Turn | Iterable[Message]") -> "Turn":
        """The Turn of a transcript. A Turn is returned as it is."""
        if isinstance(transcript, Turn):
            return transcript
        turn = cls()
        for message in transcript:
            turn.add(message)
        return turn

    @classmethod
    def all(cls, messages: Iterable[Message]) -> "list[Turn]":
        """The turns of a transcript, each with a history of its own."""
        turns: list[Turn] = []
        for message in messages:
            if not turns or (isinstance(message, User) and message.kind == "person"):
                turns.append(cls())
            turns[-1].add(message)
        return turns

    def add(self, message: Message) -> None:
        """Read the next message."""
        self.ended = None
        match message:
            case User(kind="person"):
                self._begin(message)
            case User():
                self._add_kit_message(message)
            case Assistant():
                self._add_reply(message)
            case ToolResult():
                self._add_result(message)
            case Started():
                self._add_start(message)
            case Verdict():
                self._add_verdict(message)
            case Checked():
                self.checks.append(message)
                self.checked[message.name] = message
            case Ended():
                self.ended = message
        if isinstance(message, (User, Assistant, ToolResult)):
            self.history.spoken.append(message)
            self.last = message
        if message.at:
            self._add_time(message, message.at)

    @property
    def started(self) -> Started | None:
        """The last start of the next call; None if it was not started."""
        for note in reversed(self.notes):
            if isinstance(note, Started):
                return note
        return None

    @property
    def verdict(self) -> Verdict | None:
        """The last decision about the next call; None if there is none."""
        for note in reversed(self.notes):
            if isinstance(note, Verdict):
                return note
        return None

    @property
    def tokens(self) -> int:
        """The tokens of the turn, input and output together."""
        return self.usage.input_tokens + self.usage.output_tokens

    @property
    def answer(self) -> str:
        """The answer of a turn that has ended."""
        if self.ended and self.ended.answer:
            return self.ended.answer
        return self.last_words

    @property
    def last_words(self) -> str:
        """What the latest reply says to the user; empty if there is no reply."""
        return self.reply.words if self.reply else ""

    @property
    def missing(self) -> list[Checked]:
        """What the last checks found missing."""
        return [check for check in self.checked.values() if check.missing is not None]

    def thought_behind(self, call: ToolCall, guarded: Set[str] | None = None) -> Thought | None:
        """The thought that covers `call`, the next one (`cover.py`). With `guarded`, only a carried
        thought does if any other tool was called earlier in the same reply.
        """
        return self.cover.of(call, guarded)

    def as_decided(self, call: ToolCall) -> ToolCall:
        """The next call in the form in which it will run: without a thought that it carries, and
        with the arguments that a person put in.
        """
        edited: Json | None = None
        started = False
        for note in self.notes:
            if isinstance(note, Started):
                started = True
                continue
            unchanged = note.arguments is None
            if started and unchanged:  # a plain yes is to the arguments of the start
                continue
            edited = note.arguments  # the last verdict counts
        if edited is None:
            return bare(call)
        return replace(bare(call), arguments=edited)

    def doubt(self, call: ToolCall) -> Doubt | None:
        """What is known of earlier tries of the next call, if it may have happened already. They
        may have been in another process.
        """
        return self.history.doubt(self.as_decided(call))

    def _begin(self, request: User) -> None:
        """A person speaks, so a new turn begins. This object is filled anew and not replaced,
        because others hold it.
        """
        self.history.starts.append(len(self.history.spoken))
        fresh = Turn(self.history, request)
        for fact in fields(Turn):
            setattr(self, fact.name, getattr(fresh, fact.name))

    def _add_kit_message(self, message: User) -> None:
        self.asked[message.kind] += 1
        if self.reply:
            self._kit_kinds.append(message.kind)
        match message.kind:
            case "limit" | "budget" as kind:
                self.closing = kind
            case "answer":  # the model gave an answer, but not in the right form
                if self.closed_by is None:
                    self.closing = "silence"
            case "check":  # something is missing, so the model works on
                self.closing = None
                self.told_missing = True
            case "repeat":
                self.pointed_out[self.what] = self.repeats[self.what]

    def _add_reply(self, reply: Assistant) -> None:
        self.reply = reply
        self.closed_by = self.closing
        self.replied_to = self._kit_kinds
        self._kit_kinds = []
        # First, because `_count_in_a_row` resets the refusals.
        self.answers = Answers(refused_before=self.refusals)
        self.pending = deque(reply.tool_calls)
        self.notes = []
        self.cover.begin_reply()

        self._count_in_a_row(reply)
        self.replies.append(reply)
        self.usage += reply.usage
        self.usage_of[reply.model] = self.usage_of.get(reply.model, Usage()) + reply.usage

        history = self.history
        history.calls += len(reply.tool_calls)
        history.ids.update(call.id for call in reply.tool_calls)
        history.count_ignored(reply)
        if reply.signed and not history.signed:
            history.signed = max(1, len(history.starts))  # this turn; 1 if no person has spoken

    def _count_in_a_row(self, reply: Assistant) -> None:
        if reply.stop_reason == "malformed":
            self.malformed_in_a_row += 1
        else:
            self.malformed_in_a_row = 0
        if not reply.tool_calls:
            return
        self.refusals = Counter()
        if all(call.name == THINK_NAME for call in reply.tool_calls):
            self.thoughts_in_a_row += 1
        else:
            self.thoughts_in_a_row = 0

    def _add_result(self, result: ToolResult) -> None:
        call = take_answered(self.pending, result)
        if call is None:
            return
        if call.name != THINK_NAME:
            started = self.started is not None  # the notes are about this call
            self.history.settle(self.as_decided(call), result, started=started)
            self._add_tool_result(call, result)
            if started:  # even if it is refused now: it may have run before a crash
                self.cover.acted = True
        elif not result.is_error:
            self._add_thought(call)
        self.notes = []
        if result.refused:
            self.answers.refused = True
        self.closing = None  # a refused call takes back a signal
        if self.answers.says_done:
            self.closing = "signal"

    def _add_thought(self, call: ToolCall) -> None:
        assert self.reply
        how = _how(self.reply, self.gate_refused)
        new_thought = Thought(thought(call), how, should_continue(call))
        self.thoughts.append(new_thought)
        self.answers.signal = new_thought.should_continue
        self.thought_required = False
        # From here on: does it cover the calls after it?
        if not self.reply.is_usable or isinstance(call.arguments, str):
            return
        if not is_blank(new_thought.text):
            self.cover.think(new_thought)
            self.gate_refused = False

    def _add_tool_result(self, call: ToolCall, result: ToolResult) -> None:
        self.thought_required = True
        behind = self.thought_behind(call)
        self.cover.called.add(call.name)
        if result.refused:
            self._add_refusal(result.refused)
            return

        self.cover.acted = True
        self.checked = {}
        self.told_missing = False
        call = bare(call)
        if result.arguments is not None:
            call = replace(call, arguments=result.arguments)
        action = Action(call, result)
        if behind:
            action = Action(call, result, behind.text, behind.how)
        self.actions.append(action)

        if result.is_error:
            self.failed_in_a_row += 1
        else:
            self.failed_in_a_row = 0
        what = call.name, canonical(action.call.arguments), result.content
        if what != self.what:
            self.same_in_a_row = 0
        self.same_in_a_row += 1
        self.what = what
        self.repeats[what] += 1

    def _add_refusal(self, code: str) -> None:
        """A reply counts once, however many of its calls were refused."""
        self.refusals[code] = self.answers.refused_before[code] + 1
        if code == "gate":
            self.gate_refused = True
        if code == "invalid":
            self.failed_in_a_row += 1

    def _add_start(self, started: Started) -> None:
        if self._is_about_next(started):
            self.notes.append(started)
            self.history.start(self.as_decided(self.pending[0]), started)

    def _add_verdict(self, verdict: Verdict) -> None:
        ends_turn = verdict.decision == "quit"
        if not verdict.call_id:  # it says whether to go on
            self.failed_in_a_row = 0
            ends_turn = verdict.decision != "yes"
        elif self._is_about_next(verdict):
            self.notes.append(verdict)
        if ends_turn and self.stop is None:
            self.stop = verdict

    def _is_about_next(self, note: Started | Verdict) -> bool:
        return bool(self.pending) and self.pending[0].id == note.call_id

    def restart_clock(self, now: str) -> None:
        """Another process goes on with the turn. `seconds` begin at 0; the pause is not work."""
        self.seconds = 0.0
        self.clock = _timestamp(now)

    def _add_time(self, message: Message, at: str) -> None:
        now = _timestamp(at)
        if now is None:
            return
        waited_for_person = isinstance(message, Verdict)
        if self.clock is not None and not waited_for_person:
            self.seconds += max(0.0, now - self.clock)  # a clock may step back
        self.clock = now


def _timestamp(at: str) -> float | None:
    """A time stamp in seconds since 1970; None if it is not a time stamp."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _how(reply: Assistant, gated: bool) -> How:
    if gated:
        return "gated"
    if reply.enforced == "tool_choice" and reply.tool_choice == Force(THINK_NAME):
        return "forced"
    if reply.enforced == "schema" and reply.tool_choice not in ("auto", "none"):
        return "schema"
    return "volunteered"
