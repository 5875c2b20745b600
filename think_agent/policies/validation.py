"""Validation: a call runs only with valid arguments.

Rule 1: A call is validated once, as the model wrote it. After that its step holds the converted
        arguments (`CallTool.fitted`), and the function gets exactly those. Arguments that are
        nearly right are repaired first (`schema.repair`).
Rule 2: New arguments enter a step only through `with_call`, which validates them. They come from a
        custom policy (`yours.py`), a person (`asking.py`) or a retry (`doubt.py`).
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

from ..loop import CallTool, Fit, Policy, Refuse, Step, is_action
from ..messages import ToolCall
from ..tools import ModelMistake, Tool, fit_or_repair
from ..turn import Turn


def validation(tools: Mapping[str, Tool]) -> Policy:
    """The policy: a call with invalid arguments is refused, and the model reads why."""

    def validate(step: Step, turn: Turn) -> Step:
        if not is_action(step):
            return step
        try:
            # A copy: a policy that changes arguments in place changes the step, not the transcript.
            call = replace(step.call, arguments=deepcopy(step.call.arguments))
            return with_call(step, call, tools)
        except RecursionError:
            return Refuse(step.call, "invalid", "the arguments are nested too deeply.")

    return validate


def with_call(step: CallTool, call: ToolCall, tools: Mapping[str, Tool]) -> CallTool | Refuse:
    """The step with this call instead; a refusal if the arguments are invalid."""
    changed = replace(step, call=call)
    if changed.fitted is not None:  # the same arguments
        return changed
    try:
        valid, values = fit_or_repair(tools, call)
    except ModelMistake as mistake:
        return Refuse(call, "invalid", str(mistake))
    return replace(changed, call=valid, fit=Fit.of(valid, values))
