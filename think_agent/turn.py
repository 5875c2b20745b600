"""Turn: the facts of a transcript, read message by message.

    turn = Turn.of(transcript)      # or message by message: turn.add(message)
    turn.pending                    # the calls that have no result yet
    turn.thought_behind(call)       # the thought that covers a call (`cover.py`)

A turn begins with a person's message and ends with `Ended`. A Turn reads the whole transcript. It
describes the last turn.

Rule 1: every fact comes from the transcript. Adding messages one by one gives the same Turn as
        `of`. (One exception: `restart_clock`.)
Rule 2: the loop, the policies, the audit, telemetry and the evaluation all read their facts here.
Rule 3: `history` covers the whole conversation. Everything else is reset when a person speaks. A
        fact that only one policy needs is in that policy's file: `turn.read(Misses)`.
Rule 4: `add` takes constant time, however long the transcript is.
"""

from collections import Counter, deque
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime

from .cover import Cover, How, Thought
from .history import A, History, Log, OpenCall
from .messages import (
    THINK_NAME,
    Assistant,
    Ended,
    Exit,
    Message,
    Paused,
    Spoken,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
    take_answered,
)
from .think import Signal, as_run, is_remark, read_signal

CLOSING = ("limit", "budget", "answer")  # the kinds of message that ask for a closing reply


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call that ran, its result, and the thought that covered it (None: no thought did)."""

    call: ToolCall
    result: ToolResult
    thought: str | None = None
    how: How | None = None


@dataclass
class Turn:
    """The facts of a transcript. All of them except `history` describe the last turn."""

    history: History = field(default_factory=History)
    request: User | None = None

    # The current state.
    last: Spoken | None = None
    reply: Assistant | None = None  # the latest one
    reply_to: User | None = None  # the message that `reply` answers; None if it answers results
    signal: Signal = None  # `should_continue` of the last thought, if no action came after it
    refused: bool = False  # was a call of `reply` refused? Then a signal in it doesn't count
    # Calls of `reply` without a result. In a closing or unusable reply they stay here and never
    # run.
    pending: deque[ToolCall] = field(default_factory=deque)
    ended: Ended | None = None
    paused: Paused | None = None  # the run is waiting for a person

    # The starts of the next call and a person's decisions about it, in order.
    notes: tuple[Started | Verdict, ...] = ()

    # What has happened so far.
    replies: list[Assistant] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)  # the kit's messages, by `User.kind`
    usage: Usage = field(default_factory=Usage)
    usage_of: dict[str, Usage] = field(default_factory=dict)  # by the name of the model
    clock: float | None = None  # the last time stamp, in seconds since 1970
    seconds: float = 0.0  # of work, by the time stamps; waiting for a person doesn't count
    thoughts_in_a_row: int = 0  # replies that called only think
    cover: Cover = field(default_factory=Cover)  # which thought covers the next call
    log: Log = field(default_factory=Log)  # all messages, for the facts that one policy reads

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
        """The turns of a transcript, each with its own history."""
        turns: list[Turn] = []
        for message in messages:
            if not turns or (isinstance(message, User) and message.kind == "person"):
                turns.append(cls())
            turns[-1].add(message)
        return turns

    def add(self, message: Message) -> None:
        """Read the next message."""
        if isinstance(message, User) and message.kind == "person":
            self._begin(message)
        self.ended = None
        self.paused = None
        about = self._take_call(message)
        for reader in (self.cover, self.log, self.history.log):
            reader.add(message, about)
        if about:
            self._add_to_call(message, about)
        match message:
            case User(kind=kind) if kind != "person":
                self.asked[kind] += 1
            case Assistant():
                self._add_reply(message)
            case Ended():
                self.ended = message
            case Paused():
                self.paused = message
        if isinstance(message, Spoken):
            self.history.spoken.append(message)
            self.last = message
        if message.at:
            self._add_time(message, message.at)

    @property
    def open_call(self) -> OpenCall | None:
        """The next call, with what was recorded about it; None if every call has its result."""
        if not self.pending:
            return None
        return OpenCall(self.pending[0], self.notes)

    @property
    def started(self) -> Started | None:
        """The last start of the next call."""
        return self.open_call.started if self.open_call else None

    @property
    def verdict(self) -> Verdict | None:
        """The last decision about the next call."""
        return self.open_call.verdict if self.open_call else None

    @property
    def thoughts(self) -> list[Thought]:
        """The thoughts, in order. Thoughts that calls carried are included."""
        return self.cover.thoughts

    @property
    def tokens(self) -> int:
        """Input and output tokens of the turn."""
        return self.usage.input_tokens + self.usage.output_tokens

    @property
    def answer(self) -> str:
        """The answer of a turn that has ended."""
        if self.ended and self.ended.answer:
            return self.ended.answer
        return self.last_words

    @property
    def last_words(self) -> str:
        """The latest reply's text for the user. Empty if there's no reply, if it can't be read, or
        if the text is only a remark next to calls.
        """
        reply = self.reply
        if reply is None or reply.stop_reason == "malformed" or is_remark(reply):
            return ""
        return reply.words

    @property
    def is_answered(self) -> bool:
        """Do all calls of the latest reply have results, which the model hasn't read yet?"""
        return isinstance(self.last, ToolResult) and not self.pending

    @property
    def says_done(self) -> bool:
        """Did the model just signal that it's done, and do all calls of that reply have results?"""
        return self.is_answered and self.signal is False

    @property
    def is_closing_reply(self) -> bool:
        """Is the latest reply a closing reply (requested with the tool choice "none")?"""
        return self.reply is not None and self.reply.tool_choice == "none"

    @property
    def asks_to_close(self) -> bool:
        """Does the last message ask for a closing reply? After a closing reply, any message from
        the kit does, since the answer is missing or malformed. A message from a policy doesn't.
        """
        if not isinstance(self.last, User):
            return False
        if self.last.kind in CLOSING:
            return True
        return self.is_closing_reply and self.last.kind != "policy"

    @property
    def limit(self) -> Exit | None:
        """The exit for the limit that the kit has announced to the model; None if it hasn't."""
        if "limit" in self.asked:
            return "limit"
        if "budget" in self.asked:
            return "budget"
        return None

    @property
    def way_out(self) -> Exit:
        """The exit to use if the latest reply's text is the answer."""
        if self.limit:
            return self.limit
        if self.is_closing_reply and self.signal is False:
            return "signal"
        return "silence"

    def thought_behind(self, call: ToolCall, guarded: Set[str] | None = None) -> Thought | None:
        """The thought that covers `call`, which must be the next call (`cover.py`). `guarded`: the
        names of the guarded tools. If the same reply called an unguarded tool earlier, only a
        carried thought counts.
        """
        return self.cover.of(call, guarded)

    def read(self, kind: type[A]) -> A:
        """Facts of the turn for one policy, such as `turn.read(Misses)` (`history.py`)."""
        return self.log.read(kind)

    def _begin(self, request: User) -> None:
        """A person speaks, so a new turn begins. The object is reset in place, because others hold
        a reference to it.
        """
        self.history.starts.append(len(self.history.spoken))
        vars(self).update(vars(Turn(self.history, request)))

    def _take_call(self, message: Message) -> OpenCall | None:
        """The call that a result, a start or a verdict belongs to. A result removes it from
        `pending`.
        """
        match message:
            case ToolResult():
                call = take_answered(self.pending, message)
                if call:
                    return OpenCall(call, self.notes)
            case Started(call_id=id) | Verdict(call_id=id):
                if self.pending and self.pending[0].id == id:
                    return self.open_call
        return None

    def _add_to_call(self, message: Message, about: OpenCall) -> None:
        """Read a message that belongs to a call: a start, a verdict or its result."""
        match message:
            case ToolResult():
                self._add_result(message, about.call)
            case Started() | Verdict():
                self.notes = (*self.notes, message)

    def _add_reply(self, reply: Assistant) -> None:
        self.reply = reply
        self.reply_to = None
        if isinstance(self.last, User):
            self.reply_to = self.last
        self.pending = deque(reply.tool_calls)
        self.notes = ()
        self.refused = False
        self.replies.append(reply)
        self.usage += reply.usage
        self.usage_of[reply.model] = self.usage_of.get(reply.model, Usage()) + reply.usage
        self._judge_calls(reply)

        history = self.history
        history.ids.update(call.id for call in reply.tool_calls)
        history.count_ignored(reply)
        if reply.signed and not history.signed:
            history.signed = max(1, len(history.starts))  # this turn; 1 if no person spoke

    def _judge_calls(self, reply: Assistant) -> None:
        acts = any(call.name != THINK_NAME for call in reply.tool_calls)
        if acts and not self.is_closing_reply:  # it continues after an earlier signal
            self.signal = None
        if acts and reply.is_usable:
            self.thoughts_in_a_row = 0
        elif reply.tool_calls and reply.is_usable:
            self.thoughts_in_a_row += 1

    def _add_result(self, result: ToolResult, call: ToolCall) -> None:
        if call.name != THINK_NAME:
            self._add_tool_result(result, call)
        elif not result.refused:  # refused: there was no think tool
            self.signal = read_signal(call)
        self.notes = ()
        if result.refused:
            self.refused = True
        if self.refused:  # the model hasn't read the refusal yet
            self.signal = None

    def _add_tool_result(self, result: ToolResult, call: ToolCall) -> None:
        if result.refused:
            return
        behind = self.thought_behind(call)
        call = as_run(call, result.arguments)
        action = Action(call, result)
        if behind:
            action = Action(call, result, behind.text, behind.how)
        self.actions.append(action)

    def restart_clock(self, now: str) -> None:
        """Another process resumes the turn. `seconds` restarts at 0, so the pause doesn't count."""
        self.seconds = 0.0
        self.clock = read_time(now)

    def _add_time(self, message: Message, at: str) -> None:
        now = read_time(at)
        if now is None:
            return
        if self.clock is None:
            self.clock = now
        if now <= self.clock:  # a clock may step back; catching up again isn't work
            return
        waited_for_person = isinstance(message, Verdict)
        if not waited_for_person:
            self.seconds += now - self.clock
        self.clock = now


def read_time(at: str) -> float | None:
    """A time stamp in seconds since 1970; None if `at` isn't a time stamp."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
