"""A tool that carries its thought, in the dialects in which the thought is there already."""

import json

import pytest

from tests.support.pieces import InPieces, four_ways
from think_agent import THINK, Assistant, Request, Tool, User
from think_agent.dialects.json_plan import json_plan
from think_agent.dialects.react import react

PLAIN = {
    "type": "object",
    "properties": {"cents": {"type": "integer"}},
    "required": ["cents"],
    "additionalProperties": False,
}
CARRYING = {
    **PLAIN,
    "properties": {"thought": {"type": "string"}, **PLAIN["properties"]},
    "required": ["thought", "cents"],
}
PAY = Tool(name="pay", description="Pay.", parameters=PLAIN, think_first=True)
PAY_CARRYING = Tool(
    name="pay", description="Pay.", parameters=CARRYING, think_first=True, carries=True
)
PLAN = {
    "understanding": "",
    "reasoning": "Rule 5.",
    "task_complete": False,
    "actions": [{"tool": "pay", "arguments": {"cents": 5}}],
    "response": "",
}
DIALECTS = {
    "json": (json_plan, json.dumps(PLAN)),
    "react": (react, 'Thought: Rule 5.\nAction: pay\nAction Input: {"cents": 5}'),
}


class Heard(InPieces):
    """Keeps what it was asked."""

    def __init__(self, text):
        super().__init__(Assistant(text, thinking="Hm."), 5)
        self.heard = []

    def complete(self, request):
        self.heard.append(request)
        return super().complete(request)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_with_a_think_tool_carrying_changes_nothing(dialect):
    speak, text = DIALECTS[dialect]
    inner = Heard(text)
    plain, carrying = (
        four_ways(speak(inner), Request((User("Pay!"),), (THINK, tool)))
        for tool in (PAY, PAY_CARRYING)
    )
    assert plain == carrying
    assert len({repr(request) for request in inner.heard}) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_one_the_call_carries_what_was_written_before_it(dialect):
    speak, text = DIALECTS[dialect]
    inner = Heard(text)
    reply, _ = four_ways(speak(inner), Request((User("Pay!"),), (PAY_CARRYING,)))
    (call,) = reply.tool_calls
    assert call.arguments == {"thought": "Rule 5.", "cents": 5}  # and nothing of "Hm."
    assert not any('"thought"' in repr(request) for request in inner.heard)
