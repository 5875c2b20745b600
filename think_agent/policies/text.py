"""Text is not a call: a call in the text of a reply runs only if its tool is `read_only`.

If a model writes its calls as text, it means some of them and only quotes others. The text does not
show which. So a tool that changes something never runs from text; the model is told to call it. If
a person can be asked, that person decides (`policies/approval.py`).

Limitations: the dialects `json` and `react` have a strict form for calls. What is in that form is a
call, not text.
"""

from collections.abc import Mapping

from ..loop import Policy, Refuse, Step, is_action
from ..messages import ToolCall
from ..tools import Tool
from ..turn import Turn

NOT_RUN = "not run: it was written as text. Call the tool instead."


def text(tools: Mapping[str, Tool]) -> Policy:
    """The policy, for an agent without a person who can be asked."""

    def refuse_text(step: Step, turn: Turn) -> Step:
        if is_action(step) and is_text_that_changes(step.call, tools):
            return Refuse(step.call, "text", NOT_RUN)
        return step

    return refuse_text


def is_text_that_changes(call: ToolCall, tools: Mapping[str, Tool]) -> bool:
    """Was `call` written as text, though its tool may change something?"""
    tool = tools.get(call.name)
    if tool and tool.read_only:
        return False
    return call.recovered
