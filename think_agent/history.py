"""History: the facts of a whole conversation, over all of its turns.

Rule 1: a call that was started is in doubt until it returns a result. If it crashed, was killed,
        timed out or raised, it may have happened. It stays in doubt in later turns.
Rule 2: two calls are the same if the tool and the JSON of the arguments are the same. These are the
        arguments that the model wrote (without a carried thought), or that a person put in. While a
        call is in doubt, it keeps its idempotency key.
"""

from dataclasses import dataclass, field

from .messages import Assistant, Spoken, Started, ToolCall, ToolResult
from .text import canonical


@dataclass(slots=True)
class Doubt:
    """A call that may have happened. `starts`: how often it was started without a result. `key`:
    its idempotency key, empty if it has none. `turn`: the turn in which it was last started.
    """

    starts: int = 0
    key: str = ""
    turn: int = 0


@dataclass(slots=True)
class History:
    """The facts of a conversation. Nothing is ever taken out, except a doubt that is settled."""

    spoken: list[Spoken] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the places in `spoken` where turns begin
    ids: set[str] = field(default_factory=set)  # of calls
    calls: int = 0
    ignored: int = 0  # replies in a row, of `ignored_by`, that ignored a tool choice
    ignored_by: str = ""  # the host that had accepted these choices
    signed: int = 0  # the number of the first turn with a signed reply; 0 if there is none
    doubts: dict[tuple[str, str], Doubt] = field(default_factory=dict)

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

    def doubt(self, call: ToolCall) -> Doubt | None:
        """What is known about a call that may have happened; None if it is not in doubt."""
        if not self.doubts:  # the usual case: no JSON has to be made
            return None
        return self.doubts.get(_same(call))

    def start(self, call: ToolCall, note: Started) -> None:
        """`call` is about to run."""
        doubt = self.doubts.setdefault(_same(call), Doubt())
        doubt.starts += 1
        doubt.key = note.key
        doubt.turn = len(self.starts)

    def settle(self, call: ToolCall, result: ToolResult, *, started: bool) -> None:
        """Update the doubt about `call` from its result. `started`: was the call started before
        this result?
        """
        doubt = self.doubt(call)
        if doubt is None or result.in_doubt:
            return
        if not result.is_error:
            del self.doubts[_same(call)]
        elif started and result.refused in ("", "invalid"):  # this try did nothing
            doubt.starts -= 1
            if doubt.starts == 0:
                del self.doubts[_same(call)]


def _same(call: ToolCall) -> tuple[str, str]:
    return call.name, canonical(call.arguments)
