"""A check of your own (after lesson 14): every bill is paid before the run may end.

Task: say which bills are missing; None if none is.
Hint: look into the books (`paid`), not at what the model says.
"""

from think_agent import Agent, ScriptedModel, Turn, tool
from think_agent.testing import call

BILLS = ("water", "power")
paid: set[str] = set()


@tool
def pay(bill: str) -> str:
    """Pay a bill."""
    paid.add(bill)
    return f"{bill} is paid."


def every_bill_is_paid(turn: Turn) -> str | None:
    """Looks into the books."""
    # Your code begins.
    # Your code ends.
    return None


def test_the_model_is_told_which_bill_is_missing() -> None:
    paid.clear()
    script = [call("pay", bill="water"), "All is paid.", call("pay", bill="power"), "Now it is."]
    agent = Agent(ScriptedModel(script), [pay], done_when=[every_bill_is_paid], force="never")
    outcome = agent.run("Pay my bills.")
    assert (paid, outcome.exit) == ({"water", "power"}, "silence")
    assert [bool(check.missing) for check in outcome.checks] == [True, False]
    assert "power" in str(outcome.checks[0].missing)
