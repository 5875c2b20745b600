"""What a custom policy gets to see, what it may change, and what it may not (`policies/yours.py`).

That it must return a step (rule 5) is tested in `test_own_code.py`.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.support.agents import agent, kit_said, results
from think_agent import CallModel, CallTool, Refuse, Step, Turn, User, tool
from think_agent.messages import ToolCall
from think_agent.testing import call, think


class Desk:
    """A desk that pays, and a log of the amounts."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool
        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return "paid"

        self.pay = pay

    def run(self, *replies, policy, **settings):
        return agent(*replies, tools=[self.pay], policies=[policy], **settings).run("Pay.")


def put(arguments: dict[str, Any]):
    """A policy that puts these arguments into each call of `pay`."""

    def policy(step: Step, turn: Turn) -> Step:
        if isinstance(step, CallTool) and step.call.name == "pay":
            return CallTool(replace(step.call, arguments=arguments))
        return step

    return policy


# Rule 1: a call is seen only if its arguments fit.


@dataclass(frozen=True)
class Seen:
    """The arguments that the model wrote, and what the policy sees in `step.received`."""

    written: dict[str, Any]
    received: list[dict[str, int]]


SEEN = [
    Seen({"cents": 250}, received=[{"cents": 250}]),
    Seen({"cents": "250"}, received=[{"cents": 250}]),  # as the function gets it
    Seen({"cents": "much"}, received=[]),  # it was refused before
]


@pytest.mark.parametrize("case", SEEN, ids=lambda case: str(case.written))
def test_a_policy_sees_a_call_only_if_it_fits_and_with_the_values_that_the_function_gets(case):
    received = []

    def look(step, turn):
        if isinstance(step, CallTool):
            received.append(step.received)
        return step

    Desk().run(call("pay", **case.written), "So.", policy=look)
    assert received == case.received


def test_arguments_that_a_policy_puts_in_are_what_runs_and_the_model_reads_that():
    desk = Desk()
    outcome = desk.run(call("pay", cents=250), "So.", policy=put({"cents": "10"}))
    assert desk.paid == [10]
    [result] = results(outcome, "pay")
    assert 'A policy changed this call to pay(cents="10")' in result.content


def test_arguments_that_a_policy_puts_in_and_that_do_not_fit_are_refused():
    desk = Desk()
    outcome = desk.run(call("pay", cents=250), "So.", policy=put({"cents": "much"}))
    assert desk.paid == []
    [result] = results(outcome, "pay")
    assert result.refused == "invalid"


# Rule 2: a step is about the next call.


def call_another(step, turn):
    if isinstance(step, CallTool):
        return CallTool(ToolCall("an id of its own", "pay", {"cents": 7}))
    return step


def refuse_another(step, turn):
    if isinstance(step, CallTool):
        return Refuse(ToolCall("an id of its own", "pay", {}), "closed", "the desk is closed.")
    return step


@pytest.mark.parametrize("policy", [call_another, refuse_another])
def test_a_call_that_a_policy_makes_gets_the_id_of_the_next_call(policy):
    outcome = Desk().run(ToolCall("p", "pay", {"cents": 250}), "So.", policy=policy)
    [result] = results(outcome, "pay")
    assert result.call_id == "p"


# Rule 3: a question that the kit asks the model is asked.

NUDGED = ["", "Done."]  # an empty reply, about which the kit asks


def test_a_question_that_a_policy_drops_is_asked_all_the_same():
    def drop(step, turn):
        return CallModel(step.tool_choice) if isinstance(step, CallModel) else step

    [question] = kit_said(Desk().run(*NUDGED, policy=drop))
    assert question.kind == "nudge"


def test_a_question_that_a_policy_rewords_keeps_its_kind():
    def reword(step, turn):
        if isinstance(step, CallModel) and step.say:
            return replace(step, say=User("In other words.", kind="policy"))
        return step

    [question] = kit_said(Desk().run(*NUDGED, policy=reword))
    assert question.text == "In other words."
    assert question.kind == "nudge"


# Rule 4: only a person's message opens a turn.


@pytest.mark.parametrize("kind", ["person", "policy"])
def test_what_a_policy_says_opens_no_turn(kind):
    def ask_once(step, turn):
        if isinstance(step, CallModel) and step.tool_choice == "none" and not turn.asked:
            return CallModel("auto", say=User("And the other one?", kind=kind))
        return step

    leave = think("Done.", should_continue=False)
    outcome = Desk().run(leave, leave, "Done.", policy=ask_once)
    [question] = kit_said(outcome)
    assert question.kind == "policy"
    assert outcome.turn.request == User("Pay.")
