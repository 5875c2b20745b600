"""History: the facts of a whole conversation, over all of its turns.

Rule 1: a fact that one policy reads is in the file of that policy, as a Fold: a class with a method
        `add`. `history.read(Doubts)` gives one that was fed every message of the conversation,
        `turn.read(Misses)` one that was fed those of the turn. It is made when it is first read,
        and then kept up to date.
Rule 2: so a fold reads messages and nothing else, and nobody but its policy needs to know it.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .messages import Assistant, Message, Spoken, ToolCall

MOST_IGNORED = 2  # tool choices in a row; after that, no more are asked of this host


class Fold(Protocol):
    """Facts that are read message by message."""

    def add(self, message: Message, call: ToolCall | None) -> None:
        """Read the next message. `call`: the call that it is about."""


F = TypeVar("F", bound=Fold)


@dataclass
class Log:
    """Messages, each with the call that it is about, and the folds that read them."""

    entries: list[tuple[Message, ToolCall | None]] = field(default_factory=list)
    folds: dict[type, Any] = field(default_factory=dict, compare=False, repr=False)

    def add(self, message: Message, call: ToolCall | None) -> None:
        """Add the next message, and show it to all folds."""
        self.entries.append((message, call))
        for fold in tuple(self.folds.values()):  # a check in a thread may read a new one
            fold.add(message, call)

    def read(self, kind: type[F]) -> F:
        """The fold of this kind, after all messages so far."""
        if kind not in self.folds:
            fold = kind()
            for message, call in self.entries:
                fold.add(message, call)
            self.folds[kind] = fold
        found: F = self.folds[kind]
        return found


@dataclass
class History:
    """The facts of a conversation. Nothing is ever taken out."""

    log: Log = field(default_factory=Log)
    spoken: list[Spoken] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the places in `spoken` where turns begin
    ids: set[str] = field(default_factory=set)  # of calls
    ignored: int = 0  # replies in a row, of `ignored_by`, that ignored a tool choice
    ignored_by: str = ""  # the host that had accepted these choices
    signed: int = 0  # the number of the first turn with a signed reply; 0 if there is none

    def read(self, kind: type[F]) -> F:
        """Facts of the whole conversation that one policy reads (rule 1)."""
        return self.log.read(kind)

    def count_ignored(self, reply: Assistant) -> None:
        """Did `reply` ignore a tool choice that its host had accepted? A choice that is honored, or
        a reply from another host, begins the count anew.
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

    def recent(self, turns: float) -> tuple[Spoken, ...]:
        """The messages of the last `turns`, as a request shows them. Signed history is never
        shortened: some providers check the signature against everything before it.
        """
        begun = len(self.starts)
        if self.signed:
            begun = self.signed
        if begun <= turns:
            return tuple(self.spoken)
        return tuple(self.spoken[self.starts[begun - int(turns)] :])
