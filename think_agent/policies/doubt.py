"""Doubt: a call that changes something and did not return may have happened.

It crashed, was killed, timed out or raised. `turn.history.doubts` lists these calls.

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
from dataclasses import replace

from ..history import Doubt
from ..loop import CallTool, Policy, Refuse, Retry, Step, is_action
from ..think import bare
from ..tools import Tool, digest
from ..turn import Turn

NOT_REPEATED = (
    "not run: the same call was made before and may have happened. "
    "Look whether it did, or tell the user."
)
DECLARE = "a tool that changes nothing should say so: @tool(read_only=True)"


def doubt(tools: Mapping[str, Tool], *, ask: bool) -> Policy:
    """The policy. `ask`: is there a person who can be asked? (`approval` asks.)"""

    def repeat_first_try(step: Step, turn: Turn) -> Step:
        if not is_action(step):
            return step
        tool = tools.get(step.call.name)
        if tool is None or not tool.records_start:  # rule 1
            return step
        if step.fitted is not None:  # else only the same words are the same call
            step = replace(step, same=digest(tool, step.fitted))
        first = _first_try(step, turn)
        if first is None:
            return step
        is_asked = not _may_repeat(tool, first, turn)
        if is_asked and not ask and not turn.started:
            return Refuse(step.call, "doubt", NOT_REPEATED)
        # Nobody sees, approves or runs other arguments than those of the first try (rule 3).
        call = replace(step.call, arguments=first.call.arguments)
        retry = Retry(first.key, as_new=step.call, is_asked=is_asked)
        return replace(step, call=call, same=first.same, retry=retry)

    return repeat_first_try


def _first_try(step: CallTool, turn: Turn) -> Doubt | None:
    """The first try of the call; None if it was not tried, or a person said that it is new."""
    if turn.unused_verdict and turn.unused_verdict.new:
        return None
    if turn.started:  # a crash stopped this very call
        return turn.history.running
    return turn.history.doubt(bare(turn.pending[0]), step.same)


def _may_repeat(tool: Tool, first: Doubt, turn: Turn) -> bool:
    """May the first try be repeated without a question?"""
    verdict = turn.unused_verdict
    if verdict and not verdict.edited:  # it was the answer to the question
        return True
    if tool.may_repeat:  # rule 1
        return True
    if not tool.takes_key or not first.key:
        return False
    return first.turn == len(turn.history.starts)  # in this turn
