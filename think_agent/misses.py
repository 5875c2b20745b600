"""Misses: replies in a row that brought nothing.

Rule 1: a reply brought nothing if every call in it failed or was refused, or if it could not be
        read. Calls of `think` are left aside.
Rule 2: what a person refused, and what the kit refused because of something else (a limit, a call
        that failed before, a run that was stopped), does not count.
Rule 3: a reply that only thinks neither counts nor ends the row. If a person says "go on", a new
        row begins.
"""

from dataclasses import dataclass

from .messages import THINK_NAME, Assistant, Message, ToolCall, ToolResult, Verdict

FAILED = "error"  # the code of a call that ran and failed; a refused call has that of its refusal
FAILURES = (FAILED, "invalid")  # the call was made, and it failed
NO_MISS = ("person", "limit", "failed", "stopped")  # rule 2


@dataclass
class Misses:
    """How many replies in a row brought nothing, and why the latest did not."""

    before: int = 0  # in a row, before the latest reply
    code: str = ""  # why a call of the latest reply brought nothing: a failure, or else the last
    worked: bool = False  # did a call of the latest reply work?

    @property
    def in_a_row(self) -> int:
        """Replies in a row that brought nothing. It counts once the calls of a reply are done."""
        if self.worked:
            return 0
        if self.code:
            return self.before + 1
        return self.before

    def add(self, message: Message, call: ToolCall | None) -> None:
        """Read the next message of the turn. `call`: the call that it is about."""
        match message:
            case Assistant():
                self._begin_reply(message)
            case Verdict(call_id=""):  # a person says whether to go on
                self.before = 0
                self.code = ""
            case ToolResult() if call and call.name != THINK_NAME:
                self._add_result(message)

    def _begin_reply(self, reply: Assistant) -> None:
        self.before = self.in_a_row
        self.code = ""
        self.worked = False
        if reply.stop_reason == "malformed":
            self.code = reply.stop_reason
        elif not reply.tool_calls:
            self.before = 0

    def _add_result(self, result: ToolResult) -> None:
        if result.refused in NO_MISS:
            return
        if result.is_error and self.code not in FAILURES:
            self.code = result.refused or FAILED
        if not result.is_error:
            self.worked = True
