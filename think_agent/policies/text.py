"""Text isn't a call: a call in the text of a reply runs only if its tool is `read_only`.

A model that writes calls as text means some of them and only quotes others, and the text doesn't
show which. So a tool with side effects doesn't run from text; the model is asked to call it
properly. If a person can be asked, they decide.

Limitations: the dialects `json` and `react` have a strict format for calls. Anything in that format
is a call, not text.
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
    """The policy for an agent that can't ask a person."""

    def refuse_call_in_text(step: Step, turn: Turn) -> Step:
        if is_action(step) and _is_text_that_changes(step.call, tools):
            return Refuse(step.call, "text", NOT_RUN)
        return step

    return refuse_call_in_text


def ask_about_text(tools: Mapping[str, Tool]) -> Policy:
    """The policy for an agent that can ask a person."""

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
