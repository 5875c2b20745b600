"""Turn: what a transcript says, read once.

    turn = Turn.of(transcript)      # or message by message: turn.add(message)
    turn.pending                    # the calls that have no result yet
    turn.thought_behind(call)       # the thought that covers it

It is made of a whole transcript, and is about its last turn: all that follows one message of a
person.

Rule 1: it is a reading, never a state of its own: `add` message by message gives what `of` gives,
        and a transcript that was saved is read as the one in memory was.
Rule 2: it is the only reading. The loop, the policies, the audit, telemetry and the evaluation take
        their facts from here; none goes through the messages again.
Rule 3: when a person speaks, everything begins anew, but for the spoken messages (a list that only
        grows, with the places where a person spoke), the ids and the number of calls, when a reply
        was first signed, and how often a tool choice was ignored.
Rule 4: adding a message costs the same however long the transcript is.

Which thought covers a call: the last one before it, in these examples of replies. It must not be
blank, and its reply must have come whole.

    [think, pay, pay]         both, by the thought in their reply
    [think] → [pay]           yes: nothing was done since
    [think] → [look] → [pay]  no: an action of an earlier reply came between, so a new one is owed
    [think] → [look, pay]     no, where `pay` is guarded (`policies/gate.py`): when it was asked
                              for, nobody had read what `look` found
    [think] → [look, pay]     yes, where it is not
    [pay(thought=…)]          yes: a thought that a call carries covers that call alone

A refused call did not run, so no thought grows old by it. (But a guarded call beside it, in the
same reply, waits: the model has not read the refusal yet.)
"""

from collections import Counter, deque
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from .messages import (
    HALF,
    THINK_NAME,
    Assistant,
    Force,
    Message,
    Spoken,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from .text import canonical, is_blank
from .think import bare, carried, should_continue, thought

How: TypeAlias = Literal["forced", "schema", "carried", "gated", "volunteered"]
What: TypeAlias = tuple[str, str, str]  # an action: its name, arguments and result
WayOut: TypeAlias = Literal["signal", "silence", "limit", "budget"]  # of a last call without tools


@dataclass(frozen=True, slots=True)
class Thought:
    """A thought: how it came about, and its exit signal (None: missing or unreadable).

    It is `"forced"` by tool choice or by `"schema"` where that was asked and done, `"carried"` in a
    call's own arguments, `"gated"` when it followed a call that was refused for want of one, and
    `"volunteered"` otherwise.
    """

    text: str
    how: How
    should_continue: bool | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call as it was run, with the thought behind it (None: there was none)."""

    call: ToolCall
    result: ToolResult
    thought: str | None = None
    how: How | None = None


KEPT = ("spoken", "ids", "calls", "starts", "signed", "ignored")  # when a person speaks


@dataclass(slots=True)
class Turn:
    """The reading of a transcript; all but KEPT is of what a person last asked."""

    # Kept when a person speaks (KEPT: `add` relies on their standing first, in its order).
    spoken: list[Spoken] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    calls: int = 0
    starts: list[int] = field(default_factory=list)  # where in `spoken` a person speaks
    signed: int = 0  # turns begun when a provider first bound a reply to all that stands before it
    ignored: int = 0  # replies that did not do what their tool choice asked, though it was taken

    # Where the turn stands.
    request: User | None = None
    last: Spoken | None = None
    reply: Assistant | None = None  # the last one
    silent: Assistant | None = None  # the one that was asked about, because it called no tool
    final: WayOut | None = None  # why `reply` was asked for as the last one; None: it was not
    way_out: WayOut | None = None  # why the next one will be: it becomes `final` when it is there
    pending: deque[ToolCall] = field(default_factory=deque)  # calls of `reply` without a result
    notes: list[Started | Verdict] = field(default_factory=list)  # about the call that is next
    stop: Verdict | None = None  # by which a person ended the turn

    # What was done in it.
    replies: list[Assistant] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)  # how often the kit did, by `User.kind`
    usage: Usage = field(default_factory=Usage)
    times: list[tuple[float, float]] = field(default_factory=list)  # when, and the seconds worked
    usage_of: dict[str, Usage] = field(default_factory=dict)  # by the name of the model

    # What was done in a row.
    thoughts_in_a_row: int = 0  # replies that called nothing but think
    malformed_in_a_row: int = 0
    failed_in_a_row: int = 0  # actions, since one worked or a person said to go on
    gate_refusals: int = 0  # replies with a call that the gate refused
    wants_thought: bool = False  # the gate refused a call, and nothing was thought since
    owes_thought: bool = True  # no think call, blank or not, since a person or an action
    what: What = ("", "", "")  # the last action, as a value: the same one again is a repeat
    repeats: Counter[What] = field(default_factory=Counter)  # how often each was done
    pointed_out: dict[What, int] = field(default_factory=dict)  # how often, when the model was told

    _thought: Thought | None = None  # the last one that covers anything
    _stale: bool = False  # an action ran since, in an earlier reply
    _acted: bool = False  # an action ran since, in this reply
    _before: set[str] = field(default_factory=set)  # the other tools called so far in this reply
    _signal: bool | None = None  # of the last thought in this reply
    _refused: bool = False  # was a call of this reply refused?
    _gate_refusals_before: int = 0  # this reply
    _clock: float | None = None  # of the last message

    @classmethod
    def of(cls, transcript: "Turn | Iterable[Message]") -> "Turn":
        """The reading of a transcript; a Turn is its own."""
        if isinstance(transcript, Turn):
            return transcript
        turn = cls()
        for message in transcript:
            turn.add(message)
        return turn

    @classmethod
    def all(cls, messages: Iterable[Message]) -> "list[Turn]":
        """The turns of a transcript, each read by itself."""
        turns: list[Turn] = []
        for message in messages:
            if not turns or (isinstance(message, User) and message.kind == "person"):
                turns.append(cls())
            turns[-1].add(message)
        return turns

    def add(self, message: Message) -> None:
        """Go on with the next message."""
        match message:
            case User(kind="person"):
                fresh = Turn(request=message)
                for name in self.__slots__[len(KEPT) :]:
                    setattr(self, name, getattr(fresh, name))
                self.starts.append(len(self.spoken))
            case User():
                self._add_question(message)
            case Assistant():
                self._add_reply(message)
            case ToolResult():
                self._add_result(message)
            case Started() | Verdict():
                self._add_note(message)
        if not isinstance(message, (Started, Verdict)):
            self.spoken.append(message)
            self.last = message
        if message.at:
            self._add_time(message, message.at)

    def thought_behind(self, call: ToolCall, guarded: Set[str] | None = None) -> Thought | None:
        """The thought that covers `call`, which has no result yet; as a call of one of the
        `guarded` tools where these are given.
        """
        if own := carried(call):
            return Thought(own, "carried")
        read_all = guarded is None or self._before <= guarded
        return self._thought if read_all and not self._stale else None

    def recent(self, turns: int | None) -> tuple[Spoken, ...]:
        """The messages of the last `turns`, as a request shows them; None for all. A signed history
        begins where it began when it was signed: signatures cover all that stands before them.
        """
        begun = self.signed or len(self.starts)
        if turns is None or begun <= turns:
            return tuple(self.spoken)
        return tuple(self.spoken[self.starts[begun - turns] :])

    @property
    def started(self) -> Started | None:
        """With what the call that is next was started, where it was; the last time counts."""
        return next((note for note in reversed(self.notes) if isinstance(note, Started)), None)

    @property
    def tokens(self) -> int:
        """The tokens of the turn, input and output together."""
        return self.usage.input_tokens + self.usage.output_tokens

    def _add_question(self, message: User) -> None:
        self.asked[message.kind] += 1
        match message.kind:
            case "limit" | "budget" as kind:
                self.way_out = kind
            case "answer":  # one was given, but not in the form that was asked
                if not self.final and self.way_out in (None, "signal"):  # it was a silent reply's
                    self.way_out = "silence"
            case "silence":
                self.silent = self.reply
            case "repeat":
                self.pointed_out[self.what] = self.repeats[self.what]

    def _add_reply(self, reply: Assistant) -> None:
        self.reply, self.final = reply, self.way_out
        self.replies.append(reply)
        self.usage += reply.usage
        self.usage_of[reply.model] = self.usage_of.get(reply.model, Usage()) + reply.usage
        self.ignored += reply.enforced == "ignored" and reply.tool_choice != "none"
        self.signed = self.signed or (len(self.starts) if reply.signed else 0)
        malformed = reply.stop_reason == "malformed"
        self.malformed_in_a_row = self.malformed_in_a_row + 1 if malformed else 0
        if reply.tool_calls:
            self.calls += len(reply.tool_calls)
            self.thoughts_in_a_row += 1
            self._gate_refusals_before, self.gate_refusals = self.gate_refusals, 0
        for call in reply.tool_calls:
            self.ids.add(call.id)
            if call.name != THINK_NAME:
                self.thoughts_in_a_row = 0
        self.pending = deque(reply.tool_calls)
        self.notes = []
        self._stale = self._stale or self._acted
        self._acted = self._refused = False
        self._signal = None
        self._before = set()

    def _add_result(self, result: ToolResult) -> None:
        if self.started:
            self._acted = True  # also where it is refused now: it may have run before a crash
        self.notes = []
        # Ids may repeat: it is a result of the first open call of its id, mostly the first of all.
        call = next((call for call in self.pending if call.id == result.call_id), None)
        if call is None:
            return
        self.pending.remove(call)
        if call.name != THINK_NAME:
            self._add_action(call, result)
        elif not result.is_error:
            self._add_thought(call)
        self._refused = self._refused or bool(result.refused)
        # A signal beside a refused call does not count: the model has not read the refusal yet.
        self.way_out = "signal" if self._signal is False and not self._refused else None

    def _add_thought(self, call: ToolCall) -> None:
        assert self.reply
        how = _how(self.reply, self.wants_thought)
        made = Thought(thought(call), how, should_continue(call))
        self.thoughts.append(made)
        self._signal, self.owes_thought = made.should_continue, False
        whole = self.reply.stop_reason not in HALF
        if whole and isinstance(call.arguments, dict) and not is_blank(made.text):
            self._thought, self._stale, self._acted = made, False, False
            self.wants_thought = False

    def _add_action(self, call: ToolCall, result: ToolResult) -> None:
        self.owes_thought = True
        behind = self.thought_behind(call)
        self._before.add(call.name)
        if result.refused:
            if result.refused == "gate":
                self.wants_thought = True
                self.gate_refusals = self._gate_refusals_before + 1
            return
        self._acted = True
        call = bare(call)
        if result.arguments is not None:
            call = replace(call, arguments=result.arguments)
        text, how = (behind.text, behind.how) if behind else (None, None)
        self.actions.append(Action(call, result, text, how))
        self.failed_in_a_row = self.failed_in_a_row + 1 if result.is_error else 0
        self.what = call.name, canonical(call.arguments), result.content
        self.repeats[self.what] += 1

    def _add_note(self, note: Started | Verdict) -> None:
        self.notes.append(note)
        match note:
            case Verdict(call_id="", decision=decision):
                self.failed_in_a_row = 0
                self.stop = self.stop or (None if decision == "yes" else note)
            case Verdict(decision="quit"):
                self.stop = self.stop or note

    def _add_time(self, message: Message, at: str) -> None:
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            return
        now = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        before, total = self.times[-1] if self.times else (now, 0.0)
        if not isinstance(message, Verdict):
            total += max(0.0, now - (self._clock or now))  # clocks step back
        self._clock = now
        self.times.append((max(now, before), total))


def _how(reply: Assistant, gated: bool) -> How:
    if gated:
        return "gated"
    if reply.enforced == "tool_choice" and reply.tool_choice == Force(THINK_NAME):
        return "forced"
    if reply.enforced == "schema" and reply.tool_choice not in ("auto", "none"):
        return "schema"
    return "volunteered"
