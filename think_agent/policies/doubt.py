"""Doubt: a call that changes something and did not return may have happened.

It crashed, was killed, timed out or raised. It stays in doubt until it returns a result.

Rule 1: a tool that is `read_only` or `idempotent` is simply run again.
Rule 2: which call is the same, the tool says (`Tool.same`). The values are compared as the function
        gets them, so other words for the same payment are no new payment. The same words are the
        same call, too.
Rule 3: with an idempotency key, the first try is repeated as it was decided: the same key and the
        same arguments. A service refuses a key that comes with other values.
Rule 4: without a key a person is asked. In a later turn a person is asked even if there is a key,
        because "try again" and "next month's rent" look alike. The answer is: the same again, a new
        one, or no. If there is nobody to ask, a repeat is refused; if a crash stopped the call, the
        run pauses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..loop import CallTool, Policy, Refuse, Step, Tried, is_action
from ..messages import THINK_NAME, Assistant, Message, Started, ToolCall, ToolResult, User, Verdict
from ..think import as_run, bare
from ..tools import Tool, digest
from ..turn import Turn
from .approval import question
from .validation import with_call

NOT_REPEATED = (
    "not run: the same call was made before and may have happened. "
    "Look whether it did, or tell the user."
)
REPEATED = "It was tried before; the first try was repeated:"
DECLARE = "a tool that changes nothing should say so: @tool(read_only=True)"


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
class Doubts:
    """The calls of a conversation that may have happened. Of several tries of the same call, the
    first is the one that counts. If a person says that a call is new, it is a new first try.
    """

    calls: list[Doubt] = field(default_factory=list)
    running: Doubt | None = None  # the call that was started last
    turn: int = 0  # the number of the turn
    started: bool = False  # was the next call started?
    verdict: Verdict | None = None  # the last decision about it
    unused: Verdict | None = None  # the same, if the call was not started after it

    def add(self, message: Message, call: ToolCall | None) -> None:
        """Read the next message of the conversation. `call`: the call that it is about."""
        match message:
            case User(kind="person"):
                self.turn += 1
                self._begin_call()
            case Assistant():
                self._begin_call()
            case Verdict() if call:
                self.verdict = message
                self.unused = message
            case Started() if call:
                self._start(message, call)
            case ToolResult() if call:
                if self.started and call.name != THINK_NAME:
                    self._settle(message)
                self._begin_call()

    def find(self, written: ToolCall, same: str) -> Doubt | None:
        """What is known about a call that may have happened; None if it is not in doubt. `written`:
        the call as the model wrote it. `same`: its digest, if it has one.
        """
        for doubt in reversed(self.calls):
            if doubt.is_about(written, same):
                return doubt
        return None

    def _begin_call(self) -> None:
        self.started = False
        self.verdict = None
        self.unused = None

    def _start(self, note: Started, call: ToolCall) -> None:
        """A call is about to run, as it was decided."""
        decided = as_run(call, self.verdict.arguments if self.verdict else None)
        written = bare(call)
        is_new = self.unused is not None and self.unused.new
        doubt = None if is_new else self.find(written, note.same)
        if doubt is None:
            doubt = Doubt(as_run(decided, note.arguments), written, note.key, note.same)
            self.calls.append(doubt)
        doubt.starts += 1
        doubt.turn = self.turn
        self.running = doubt
        self.started = True
        self.unused = None

    def _settle(self, result: ToolResult) -> None:
        """Update the doubt about the call that was started last, from its result."""
        doubt = self.running
        if doubt is None or result.in_doubt:
            return
        if not result.is_error:
            doubt.starts = 0
        elif result.refused in ("", "invalid"):  # this try did nothing
            doubt.starts -= 1
        if doubt.starts == 0:
            self.calls.remove(doubt)
            self.running = None


def doubt(tools: Mapping[str, Tool], *, ask: bool) -> Policy:
    """The policy. `ask`: is there a person who can be asked?"""

    def repeat_first_try(step: Step, turn: Turn) -> Step:
        if not is_action(step):
            return step
        tool = tools.get(step.call.name)
        if tool is None or not tool.records_start:  # rule 1
            return step
        same = ""  # only the same words are then the same call
        if step.fitted is not None:
            same = digest(tool, step.fitted)
        first = _first_try(same, turn)
        if first is None:
            return replace(step, tried=Tried(same))
        may_repeat = _may_repeat(tool, first, turn)
        if not may_repeat and not ask and not turn.started:
            notice = f"{step.call.name} was not run again: {DECLARE}"
            return Refuse(step.call, "doubt", NOT_REPEATED, notice)
        again = _again(step, first, tools)
        if isinstance(again, Refuse) or may_repeat:
            return again
        return question(again, turn)

    return repeat_first_try


def _again(step: CallTool, first: Doubt, tools: Mapping[str, Tool]) -> CallTool | Refuse:
    """The first try once more. Nobody sees, approves or runs other arguments (rule 3)."""
    again = with_call(step, replace(step.call, arguments=first.call.arguments), tools)
    if isinstance(again, Refuse):
        return again
    tried = Tried(first.same, first.key, as_new=step.call)
    return replace(again, tried=tried, remark=REPEATED)


def _first_try(same: str, turn: Turn) -> Doubt | None:
    """The first try of the call; None if it was not tried, or a person said that it is new."""
    doubts = turn.history.read(Doubts)
    if doubts.unused and doubts.unused.new:
        return None
    if doubts.started:  # a crash stopped this very call
        return doubts.running
    return doubts.find(bare(turn.pending[0]), same)


def _may_repeat(tool: Tool, first: Doubt, turn: Turn) -> bool:
    """May the first try be repeated without a question?"""
    doubts = turn.history.read(Doubts)
    verdict = doubts.unused
    if verdict and not verdict.edited:  # it was the answer to the question
        return True
    if tool.may_repeat:  # rule 1
        return True
    if not tool.takes_key or not first.key:
        return False
    return first.turn == doubts.turn  # in this turn
