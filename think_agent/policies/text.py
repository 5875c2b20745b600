"""Text is not a call: a call in the text of a reply runs only if its tool is `read_only`.

If a model writes its calls as text, it means some of them and only quotes others. The text does not
show which. So a tool that changes something never runs from text: the model is told to call it. If
a person can be asked, that person decides.

Limitations: the dialects `json` and `react` have a strict form for calls. What is in that form is a
call, not text.
"""

from collections.abc import Mapping

from ..loop import Policy, Refuse, Step, is_action
from ..messages import ToolCall
from ..tools import Tool
from ..turn import Turn
from .asking import make_question

NOT_RUN = "not run: it was written as text. Call the tool instead."
WRITTEN_AS_TEXT = "The model wrote this call as text."


def refuse_text(tools: Mapping[str, Tool]) -> Policy:
    """The policy for an agent that has no person to ask."""

    def refuse_call_in_text(step: Step, turn: Turn) -> Step:
        if is_action(step) and _is_text_that_changes(step.call, tools):
            return Refuse(step.call, "text", NOT_RUN)
        return step

    return refuse_call_in_text


def ask_about_text(tools: Mapping[str, Tool]) -> Policy:
    """The policy for an agent that has a person to ask."""

    def ask_about_call_in_text(step: Step, turn: Turn) -> Step:
        if not is_action(step) or turn.verdict is not None:
            return step
        if _is_text_that_changes(step.call, tools):
            return make_question(step, turn, WRITTEN_AS_TEXT)
        return step

    return ask_about_call_in_text


def _is_text_that_changes(call: ToolCall, tools: Mapping[str, Tool]) -> bool:
    """Was `call` written as text, though its tool may change something?"""
    tool = tools.get(call.name)
    if tool and tool.read_only:
        return False
    return call.recovered
