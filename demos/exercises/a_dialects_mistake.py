"""A dialect's mistake (after lesson 09): the second reply cannot be read. Write one that can.

Task: fill `reply`, so that the order is looked up and nothing has to be said twice.
Hint: run the test and see what the model reads about its first reply. The keys of a plan are in the
docstring of `think_agent/dialects/json_plan.py`.
"""

import json

from think_agent import Agent, Assistant, Request, ScriptedModel, tool
from think_agent.dialects import json_plan

BROKEN = 'I will look it up: {"tool": "look_up", "order": "ORD-001"}'
DONE = {"reasoning": "Found.", "task_complete": True, "actions": [], "response": "Yes, ORD-001."}


@tool(read_only=True)
def look_up(order_id: str) -> str:
    """Is there such an order?"""
    return f"{order_id}: yes"


def write_reply() -> str:
    """A plan as JSON: why, and the call of `look_up` with ORD-001."""
    reply = ""
    # Your code begins.
    # Your code ends.
    return reply


def test_the_new_reply_is_read() -> None:
    replies = iter([BROKEN, write_reply(), json.dumps({"understanding": "", **DONE})])

    def script(request: Request) -> Assistant:
        return Assistant(next(replies))

    agent = Agent(json_plan(ScriptedModel(script)), [look_up], force="never")
    outcome = agent.run("Is there an ORD-001?")
    assert outcome.turn.asked["format"] == 1, outcome.transcript  # told about the first alone
    assert [action.result.content for action in outcome.actions] == ["ORD-001: yes"]
    assert outcome.answer == "Yes, ORD-001."
