"""History: the facts of a whole conversation, over all of its turns.

Rule 1: a call that was started is in doubt until it returns a result. If it crashed, was killed,
        timed out or raised, it may have happened. It stays in doubt in later turns.
Rule 2: two calls are the same if the model wrote the same words (without a carried thought), or if
        the digest is the same that `policies/doubt.py` makes of their values (`Started.same`).
Rule 3: of several tries of the same call, the first is the one that counts: a retry repeats its
        arguments and its key. If a person says that a call is a new one, it is a new first try.
"""

from dataclasses import dataclass, field

from .messages import Assistant, Spoken, Started, ToolCall, ToolResult


@dataclass
class Doubt:
    """A call that may have happened. `call` is its first try as it was started, `written` the same
    as the model wrote it. `key`: its idempotency key, empty if it has none. `same`: its digest.
    `starts`: how often it was started without a result. `turn`: the turn of its last start.
    """

    call: ToolCall
    written: ToolCall
    key: str
    same: str
    starts: int = 0
    turn: int = 0

    def is_about(self, written: ToolCall, same: str) -> bool:
        """Is the call that the model wrote, with the digest `same`, this call?"""
        if written.name != self.written.name:
            return False
        if same and same == self.same:
            return True
        return written.arguments == self.written.arguments


@dataclass
class History:
    """The facts of a conversation. Nothing is ever taken out, except a doubt that is settled."""

    spoken: list[Spoken] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the places in `spoken` where turns begin
    ids: set[str] = field(default_factory=set)  # of calls
    sources: dict[str, bool] = field(default_factory=dict)  # numbers of results: which succeeded
    ignored: int = 0  # replies in a row, of `ignored_by`, that ignored a tool choice
    ignored_by: str = ""  # the host that had accepted these choices
    signed: int = 0  # the number of the first turn with a signed reply; 0 if there is none
    doubts: list[Doubt] = field(default_factory=list)
    running: Doubt | None = None  # the call that was started last

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

    def doubt(self, written: ToolCall, same: str) -> Doubt | None:
        """What is known about a call that may have happened; None if it is not in doubt. `written`:
        the call as the model wrote it. `same`: its digest, if it has one.
        """
        for doubt in reversed(self.doubts):
            if doubt.is_about(written, same):
                return doubt
        return None

    def start(self, call: ToolCall, written: ToolCall, note: Started, *, is_new: bool) -> None:
        """`call` is about to run. `is_new`: a person said that it is not the same again."""
        doubt = None if is_new else self.doubt(written, note.same)
        if doubt is None:
            doubt = Doubt(call, written, note.key, note.same)
            self.doubts.append(doubt)
        doubt.starts += 1
        doubt.turn = len(self.starts)
        self.running = doubt

    def settle(self, result: ToolResult) -> None:
        """Update the doubt about the call that was started last, from its result."""
        doubt = self.running
        if doubt is None or result.in_doubt:
            return
        if not result.is_error:
            doubt.starts = 0
        elif result.refused in ("", "invalid"):  # this try did nothing
            doubt.starts -= 1
        if doubt.starts == 0:
            self.doubts.remove(doubt)
            self.running = None
