"""History: the facts of a whole conversation, across its turns.

Rule 1: A fact that only one policy needs is in that policy's file, as an accumulator: a class with
        an `add` method. `history.read(Doubts)` gets every message of the conversation,
        `turn.read(Misses)` every message of the turn. An accumulator is created on the first read
        and kept up to date after that.
Rule 2: An accumulator reads messages and nothing else.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .messages import Assistant, Message, Spoken, Started, ToolCall, Verdict

MOST_IGNORED = 2  # tool choices in a row; after that, this host gets no more of them


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that has no result yet. `notes`: its starts and a person's verdicts so far."""

    call: ToolCall
    notes: tuple[Started | Verdict, ...] = ()

    @property
    def started(self) -> Started | None:
        """Its last start."""
        return next((note for note in reversed(self.notes) if isinstance(note, Started)), None)

    @property
    def verdict(self) -> Verdict | None:
        """Its last verdict."""
        return next((note for note in reversed(self.notes) if isinstance(note, Verdict)), None)

    @property
    def unused_verdict(self) -> Verdict | None:
        """Its last verdict, if the call hasn't been started since."""
        if self.notes and isinstance(self.notes[-1], Verdict):
            return self.notes[-1]
        return None


class Accumulator(Protocol):
    """A class that collects facts message by message."""

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message. `about`: the call it belongs to, as it was before the message."""


A = TypeVar("A", bound=Accumulator)


@dataclass
class Log:
    """Messages, each with the call it belongs to, and the accumulators that read them."""

    entries: list[tuple[Message, OpenCall | None]] = field(default_factory=list)
    accumulators: dict[type, Any] = field(default_factory=dict, compare=False, repr=False)

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Add the next message, and pass it to every accumulator."""
        self.entries.append((message, about))
        for accumulator in tuple(self.accumulators.values()):  # a check's thread may add one
            accumulator.add(message, about)

    def read(self, kind: type[A]) -> A:
        """The accumulator of this kind, after all messages so far."""
        if kind not in self.accumulators:
            accumulator = kind()
            for message, about in self.entries:
                accumulator.add(message, about)
            self.accumulators[kind] = accumulator
        found: A = self.accumulators[kind]
        return found


@dataclass
class History:
    """The facts of a conversation. Nothing is ever removed."""

    log: Log = field(default_factory=Log)
    spoken: list[Spoken] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the indexes in `spoken` where turns begin
    ids: set[str] = field(default_factory=set)  # of calls
    ignored: int = 0  # replies in a row, of `ignored_by`, that ignored a tool choice
    ignored_by: str = ""  # the host that had accepted these choices
    signed: int = 0  # the number of the first turn with a signed reply; 0 if there is none

    def read(self, kind: type[A]) -> A:
        """Facts of the whole conversation that one policy needs (rule 1)."""
        return self.log.read(kind)

    def count_ignored(self, reply: Assistant) -> None:
        """Count tool choices in a row that a host accepted and then ignored. An honored choice
        resets the count, and so does a reply from another host.
        """
        if reply.host != self.ignored_by:
            self.ignored = 0
        if reply.tool_choice in ("auto", "none"):
            return
        if reply.enforced in ("schema", "tool_choice"):
            self.ignored = 0
        if reply.enforced == "ignored":
            self.ignored += 1
            self.ignored_by = reply.host
