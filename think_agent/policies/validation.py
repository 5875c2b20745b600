"""Validation: a call runs only if its arguments fit its tool.

Rule 1: a call is validated once, as the model wrote it. From then on its step holds the arguments
        in the types of the tool (`CallTool.fitted`), and with these the function is called.
Rule 2: whoever puts other arguments in their place does so by `with_call`, which validates them: a
        policy of your own (`yours.py`), a person (`approval.py`), a retry (`doubt.py`).
"""

from collections.abc import Mapping
from dataclasses import replace

from ..loop import CallTool, Fit, Policy, Refuse, Step, is_action
from ..messages import ToolCall
from ..tools import ModelMistake, Tool, fit
from ..turn import Turn


def validation(tools: Mapping[str, Tool]) -> Policy:
    """The policy: a call whose arguments do not fit is refused, and the model reads why."""

    def validate(step: Step, turn: Turn) -> Step:
        if not is_action(step):
            return step
        return with_call(step, step.call, tools)

    return validate


def with_call(step: CallTool, call: ToolCall, tools: Mapping[str, Tool]) -> CallTool | Refuse:
    """The step with `call` in the place of its own; a refusal if the arguments do not fit."""
    changed = replace(step, call=call)
    if changed.fitted is not None:  # the arguments are the same
        return changed
    try:
        return replace(changed, fit=Fit(call, fit(tools, call)))
    except ModelMistake as mistake:
        return Refuse(call, "invalid", str(mistake))
