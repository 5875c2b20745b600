"""A policy of your own (after lesson 03): no call pays more than $100.

Task: refuse such a call with the code "too_much", and tell the model what is allowed.
Hint: a step that runs a tool is a CallTool. `step.received` has its arguments as the function will
get them, for a model may write "250". A policy returns the step, or another one: `Refuse`.
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
    """Refuse a payment of more than $100."""
    # Your code begins.
    # Your code ends.
    return step


def test_too_much_is_refused_and_told() -> None:
    paid.clear()
    tries = [call("pay", dollars=dollars) for dollars in (250, "250", "much", 100)]
    model = ScriptedModel([*tries, "$100 is paid."])
    outcome = Agent(model, [pay], policies=[at_most_100], force="never", patience=9).run(
        "Pay the bill."
    )
    results = [message for message in outcome.transcript if isinstance(message, ToolResult)]
    assert paid == [100]
    assert [result.refused for result in results] == ["too_much", "too_much", "invalid", ""]
    assert "100" in results[0].content
