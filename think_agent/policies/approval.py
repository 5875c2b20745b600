"""Approval: a person decides about calls of tools with `needs_approval`.

Rule 1: The person, and a function in `needs_approval`, see the arguments as the tool will get them.
        A call with invalid arguments has already been refused.
Rule 2: If the function in `needs_approval` raises, or returns neither True nor False, the person is
        asked, and the question says so.
"""

from collections.abc import Mapping

from ..checking import close_coroutine, is_a, name_of, show_error, show_value
from ..loop import CallTool, Policy, Step, is_action
from ..tools import Predicate, Tool
from ..turn import Turn
from .asking import make_question


def approval(tools: Mapping[str, Tool]) -> Policy:
    """The policy: a call that needs approval waits for a verdict."""

    def ask_for_approval(step: Step, turn: Turn) -> Step:
        if not is_action(step) or turn.verdict is not None:
            return step
        needs = tools[step.call.name].needs_approval
        if callable(needs):
            return _ask_predicate(needs, step, turn)
        if needs:
            return make_question(step, turn)
        return step

    return ask_for_approval


def _ask_predicate(predicate: Predicate, step: CallTool, turn: Turn) -> Step:
    name = name_of(predicate)  # without its file: a manager reads this, not a developer
    try:
        needs = predicate(step.received or {})
    except Exception as error:
        remark = f"The predicate {name} raised {show_error(error)}."
        return make_question(step, turn, remark)
    if not is_a(needs, bool):  # rule 2
        close_coroutine(needs)
        remark = f"The predicate {name} returned {show_value(needs)}, which isn't True or False."
        return make_question(step, turn, remark)
    return make_question(step, turn) if needs else step
