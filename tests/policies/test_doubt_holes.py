"""Ways in which a call that may have happened could be made a second time, unasked."""

from dataclasses import replace
from typing import Annotated

import pydantic

from tests.support.agents import agent, results
from think_agent import CallTool, Verdict, tool
from think_agent.messages import Assistant, Started, ToolCall, User
from think_agent.testing import call

WRITTEN = ToolCall("p", "pay", {"cents": 1})


def three_at_least(step, turn):
    """A policy of the user's that changes what is run."""
    if isinstance(step, CallTool):
        return CallTool(replace(step.call, arguments={"cents": 3}))
    return step


def failing_desk(paid):
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        raise ValueError("the line broke")

    return pay


def test_a_call_that_a_policy_changes_is_in_doubt_as_the_model_wrote_it():
    paid = []
    replies = call("pay", cents=1), call("pay", cents=1), "So."
    settings = {"tools": [failing_desk(paid)], "policies": [three_at_least]}
    outcome = agent(*replies, **settings).run("Pay.")
    assert (paid, [result.refused for result in results(outcome)]) == ([3], ["", "doubt"])


def test_so_it_is_after_a_crash():
    paid = []
    crashed = User("Pay."), Assistant(tool_calls=(WRITTEN,)), Started("p", "pay")
    settings = {"tools": [failing_desk(paid)], "policies": [three_at_least]}
    outcome = agent("So.", **settings).resume(crashed)
    assert (paid, outcome.exit) == ([], "needs_human")
    assert "pay(cents=3) was tried before" in outcome.answer


def test_a_started_call_that_does_not_validate_any_more_stays_in_doubt():
    """It was killed in the middle; then its validator looks at the world, and refuses."""
    paid, is_known = [], []

    def known(cents: int) -> int:
        if not is_known:
            raise ValueError("there is no such account")
        return cents

    @tool
    def pay(cents: Annotated[int, pydantic.AfterValidator(known)]) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    crashed = User("Pay."), Assistant(tool_calls=(WRITTEN,)), Started("p", "pay")
    outcome = agent("-", "I do not know.", tools=[pay]).resume(crashed)
    [result] = results(outcome)
    assert (result.refused, result.in_doubt) == ("invalid", True)
    is_known.append(True)
    again = agent("-", "-", call("pay", cents=1), "So.", tools=[pay])
    later = again.run("Try again.", transcript=outcome.transcript)
    assert (paid, results(later)[-1].refused) == ([], "doubt")


def test_a_yes_after_an_edit_that_does_not_fit_is_to_what_was_asked_also_after_a_crash():
    paid, asked = [], []
    verdicts = iter([Verdict("yes", arguments={"cents": "much"}), Verdict("yes")])

    @tool
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    def approve(question):
        asked.append(question)
        return next(verdicts)

    crashed = User("Pay."), Assistant(tool_calls=(WRITTEN,)), Started("p", "pay")
    agent("-", "So.", tools=[pay], approve=approve).resume(crashed)
    assert asked[-1].call.arguments == {"cents": 1}
    assert paid == [1]
