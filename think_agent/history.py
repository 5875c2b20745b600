"""History: what a whole conversation says, over all of its turns.

Rule 1: a call that was started is in doubt until it returns a result: it crashed, was killed, timed
        out or raised, so it may have happened. It stays in doubt in later turns.
Rule 2: it is the same call when the tool is the same, and the JSON of its arguments is, as the
        model wrote them (without a carried thought) or as a person edited them. While it is in
        doubt, it keeps its idempotency key.
"""

from dataclasses import dataclass, field

from .messages import Spoken, Started, ToolCall, ToolResult
from .text import canonical


@dataclass(slots=True)
class Doubt:
    """A call that may have happened: how often it was started without a result, with which
    idempotency key (empty for none), and in which turn for the last time.
    """

    starts: int = 0
    key: str = ""
    turn: int = 0


@dataclass(slots=True)
class History:
    """The facts of a conversation. It only grows, but for the doubts that are settled."""

    spoken: list[Spoken] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # where in `spoken` a person speaks
    ids: set[str] = field(default_factory=set)  # of calls
    calls: int = 0
    ignored: int = 0  # replies that did not do what their tool choice asked, though it was taken
    signed: int = 0  # in which turn a reply was first signed over all before it; 0: in none
    doubts: dict[tuple[str, str], Doubt] = field(default_factory=dict)

    def recent(self, turns: float) -> tuple[Spoken, ...]:
        """The messages of the last `turns`, as a request shows them. Signed history
        is never shortened: some providers check the signature against everything before it.
        """
        begun = len(self.starts)
        if self.signed:
            begun = self.signed
        if begun <= turns:
            return tuple(self.spoken)
        return tuple(self.spoken[self.starts[begun - int(turns)] :])

    def doubt(self, call: ToolCall) -> Doubt | None:
        """What is known of a call that may have happened; None where it has not."""
        if not self.doubts:  # the usual case, and the cheap one
            return None
        return self.doubts.get(_same(call))

    def start(self, call: ToolCall, note: Started) -> None:
        """`call` is about to run."""
        doubt = self.doubts.setdefault(_same(call), Doubt())
        doubt.starts += 1
        doubt.key = note.key
        doubt.turn = len(self.starts)

    def settle(self, call: ToolCall, result: ToolResult, *, started: bool) -> None:
        """What the result of `call` says about its doubt. `started`: it was, for this result."""
        doubt = self.doubt(call)
        if doubt is None or result.in_doubt:
            return
        if not result.is_error:
            del self.doubts[_same(call)]
        elif started and result.refused in ("", "invalid"):  # nothing was done this time
            doubt.starts -= 1
            if doubt.starts == 0:
                del self.doubts[_same(call)]


def _same(call: ToolCall) -> tuple[str, str]:
    return call.name, canonical(call.arguments)
