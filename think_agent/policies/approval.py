"""Approval: a person decides about calls of tools with `needs_approval`.

Rule 1: The person, and a function in `needs_approval`, see the arguments as the tool will get them.
        A call with invalid arguments has already been refused.
Rule 2: If the function in `needs_approval` raises, the person is asked, and the question says so.
"""

from collections.abc import Mapping

from ..checking import show_error
from ..loop import Policy, Step, is_action
from ..tools import Tool
from ..turn import Turn
from .asking import make_question


def approval(tools: Mapping[str, Tool]) -> Policy:
    """The policy: a call that needs approval waits for a verdict."""

    def ask_for_approval(step: Step, turn: Turn) -> Step:
        if not is_action(step) or turn.verdict is not None:
            return step
        needs = tools[step.call.name].needs_approval
        remark = ""
        if callable(needs):
            try:
                needs = needs(step.received or {})
            except Exception as error:
                needs = True
                remark = f"The predicate raised {show_error(error)}."
        if needs:
            return make_question(step, turn, remark)
        return step

    return ask_for_approval
