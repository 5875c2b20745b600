"""Doubt: a call that changes something and did not return may have happened.

It crashed, was killed, timed out or raised. `turn.history.doubts` lists these calls.

Rule 1: if its tool is `read_only` or `idempotent`, or takes an idempotency key, it is simply run
        again. The key stays the same until the call returns a result.
Rule 2: for any other tool a person is asked. If there is nobody to ask, a repeat is refused; if a
        crash stopped the call, the run pauses.
Rule 3: in a later turn a person is asked even if there is a key, because "try again" and "next
        month's rent" look the same.
"""

from collections.abc import Mapping

from ..history import Doubt
from ..loop import CallTool, Policy, Refuse, Step
from ..messages import Verdict
from ..tools import Tool
from ..turn import Turn
from .approval import ask_about, shown_call

NOT_REPEATED = (
    "not run: the same call was made before and may have happened. "
    "Look whether it did, or tell the user."
)
DECLARE = "a tool that changes nothing should say so: @tool(read_only=True)"


def doubt(tools: Mapping[str, Tool], *, ask: bool) -> Policy:
    """The policy. `ask`: is there a person who can be asked?"""

    def ask_before_repeating(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallTool):
            return step
        doubt = turn.doubt(turn.pending[0])  # the call as the model wrote it
        if doubt is None or _may_repeat(tools.get(step.call.name), doubt, turn):
            return step
        decided = bool(turn.notes) and isinstance(turn.notes[-1], Verdict)  # since its last start
        if decided:
            return step
        if ask or turn.started:
            call = shown_call(step, turn)
            question = f"{call} was tried before and may have happened. Run it again?"
            return ask_about(step, turn, question)
        return Refuse(step.call, "doubt", NOT_REPEATED)

    return ask_before_repeating


def _may_repeat(tool: Tool | None, doubt: Doubt, turn: Turn) -> bool:
    if tool is None or tool.may_repeat:  # a tool that does not exist is not run anyway
        return True
    if not tool.takes_key or not doubt.key:
        return False
    return doubt.turn == len(turn.history.starts)  # in this turn
