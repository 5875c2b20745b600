"""A policy of your own (after lesson 03): nobody pays more than $100 in one call.

Task: refuse such a call with the code "too_much", and tell the model what is allowed.
Hint: a step that runs a tool is a CallTool. A policy returns the step, or another one: `Refuse`.
"""

from think_agent import Agent, CallTool, Refuse, ScriptedModel, Step, ToolResult, Turn, tool
from think_agent.testing import call

paid: list[int] = []


@tool
def pay(dollars: int) -> str:
    """Pay this sum."""
    paid.append(dollars)
    return f"${dollars} paid."


def at_most_100(step: Step, turn: Turn) -> Step:
    """Refuses a payment of more than $100."""
    # Your code begins.
    # Your code ends.
    return step


def test_too_much_is_refused_and_told() -> None:
    paid.clear()
    model = ScriptedModel([call("pay", dollars=250), call("pay", dollars=100), "$100 is paid."])
    outcome = Agent(model, [pay], policies=[at_most_100], force="never").run("Pay the bill.")
    first = next(message for message in outcome.transcript if isinstance(message, ToolResult))
    assert paid == [100]
    assert first.refused == "too_much"
    assert "100" in first.content
