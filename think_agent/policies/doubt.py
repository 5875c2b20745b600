"""One rule for doubt: a call that changes something and did not return may have happened.

It crashed, was killed, timed out or raised: what is known of it stands in `turn.history.doubts`.

Rule 1: a tool that is `read_only`, `idempotent` or takes an idempotency key is simply run again;
        the key stays the same until the call returns a result.
Rule 2: for any other tool a person is asked. Where none is there, a repeat is refused, and a call
        that a crash stopped pauses the run.
Rule 3: in a later turn a repeat asks, also with a key, for "try again" and "next month's rent" look
        alike.
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
    """The policy. `ask`: there is a person who can be asked."""

    def ask_before_repeating(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallTool):
            return step
        doubt = turn.doubt(turn.pending[0])  # as it was written, whatever a policy made of it
        if doubt is None or _may_repeat(tools.get(step.call.name), doubt, turn):
            return step
        decided = bool(turn.notes) and isinstance(turn.notes[-1], Verdict)  # since it was started
        if decided:
            return step
        if ask or turn.started:
            call = shown_call(step, turn)
            question = f"{call} was tried before and may have happened. Run it again?"
            return ask_about(step, turn, question)
        return Refuse(step.call, "doubt", NOT_REPEATED)

    return ask_before_repeating


def _may_repeat(tool: Tool | None, doubt: Doubt, turn: Turn) -> bool:
    if tool is None or tool.may_repeat:  # one that is not there is not run
        return True
    if not tool.takes_key or not doubt.key:
        return False
    return doubt.turn == len(turn.history.starts)  # in this turn
