"""Patience: how many failures in a row before the run gives up.

Rule 1: the model first reads what went wrong. The run ends only if it keeps failing.
Rule 2: `patience` counts unproductive replies in a row: every call failed or was refused, or the
        reply couldn't be read. Calls of `think` are ignored. If a person can be asked, they decide
        whether to continue.
Rule 3: a call doesn't count if a person refused it, or if the kit refused it for another reason (a
        limit, an earlier failure, a stopped run).
Rule 4: a reply that only thinks neither counts nor resets the count. A person's "go on" resets it.
Rule 5: repeated actions do return something, so they're counted separately (`repeats.py`).
"""

from dataclasses import dataclass

from ..checking import read_limit
from ..history import OpenCall
from ..loop import AskHuman, CallModel, Done, Policy, Refuse, Step, is_action, is_free
from ..messages import THINK_NAME, Assistant, Message, ToolResult, User, Verdict
from ..outcome import report_actions
from ..turn import Turn

FAILED = "error"  # a call that ran and failed; a refused call has its own code
FAILURES = (FAILED, "invalid")  # a mistake in the call itself
NO_MISS = ("person", "limit", "failed", "stopped")  # rule 3
HELP = {  # advice, by the code of the last miss
    "gate": "It acted without a thought. Agent(carry=True) asks for it in the call itself.",
    "text": 'It wrote its calls as text. Speak json with it: in_dialect(model, "json"), or '
    "--dialect json.",
    "malformed": "Its replies could not be read. Another dialect or a stronger model may help.",
}


@dataclass
class Misses:
    """How many replies in a row were unproductive, and why the latest one was."""

    before: int = 0  # in a row, before the latest reply
    code: str = ""  # why the latest reply failed; a failure wins over a refusal
    worked: bool = False  # did any call of the latest reply succeed?

    @property
    def in_a_row(self) -> int:
        """Unproductive replies in a row. Read it once all calls of a reply are done."""
        if self.worked:
            return 0
        if self.code:
            return self.before + 1
        return self.before

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case Assistant():
                self._begin_reply(message)
            case Verdict(call_id=""):  # a person said whether to continue
                self.before = 0
                self.code = ""
            case ToolResult() if about and about.call.name != THINK_NAME:
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


def patience(limit: int = 3, *, ask: bool = False) -> Policy:
    """The policy: after `limit` unproductive replies in a row, give up with a summary of what was
    tried. With `ask`, a person is asked first whether to continue.
    """
    most = read_limit("patience", limit)

    def give_up_after_misses(step: Step, turn: Turn) -> Step:
        misses = turn.read(Misses)
        if not isinstance(step, CallModel) or misses.in_a_row < most:
            return step
        if turn.says_done and not is_free(step):  # it has already said that it's finished
            return step
        lines = [f"{misses.in_a_row} unproductive replies in a row."]
        if turn.actions:
            lines.append(report_actions(turn))
        if misses.code in HELP:
            lines.append(HELP[misses.code])
        tried = "\n".join(lines)
        if ask:
            return AskHuman(f"{tried}\nGo on?")
        return Done("gave_up", f"I gave up. {tried}")

    return give_up_after_misses


def fail_fast(step: Step, turn: Turn) -> Step:
    """The policy for `on_tool_error="fail_fast"`: the first failed call ends the run. No later call
    runs.
    """
    if turn.read(Misses).code not in FAILURES:
        return step
    if is_action(step):
        return Refuse(step.call, "failed", "not run: a call before it failed.")
    if isinstance(step, CallModel):
        return Done("gave_up", f"I gave up at the first error:\n{report_actions(turn)}")
    return step


def ask_for_format(step: Step, turn: Turn) -> Step:
    """The policy: if a reply can't be read, tell the model which format is expected."""
    match turn.last:
        case Assistant(stop_reason="malformed") as reply:
            return CallModel(reply.tool_choice, say=User(reply.mistake, kind="format"))
        case User(kind="format") if turn.reply:  # resumed before the next reply
            return CallModel(turn.reply.tool_choice)
    return step
