"""A call is validated once, and a function is called only with arguments made from the call that is
in its step (`policies/validation.py`).
"""

from dataclasses import dataclass, replace

import pytest
from pydantic_core import core_schema

from think_agent import Agent, ScriptedModel, Verdict, tool
from think_agent.loop import CallTool, Refuse, plan
from think_agent.messages import Assistant, ToolCall, User
from think_agent.policies.validation import validation, with_call
from think_agent.testing import call, think


class Desk:
    """A desk with one guarded tool. It notes which cents are validated, and which are paid."""

    def __init__(self):
        self.validated = []
        self.paid = []
        desk = self

        class Cents(int):
            @classmethod
            def __get_pydantic_core_schema__(cls, kind, handler):
                return core_schema.no_info_after_validator_function(
                    desk.validate, core_schema.int_schema(le=1_000)
                )

        @tool(think_first=True, needs_approval=lambda received: received["cents"] > 50)
        def pay(cents: Cents, note: str = "") -> str:
            """Pay."""
            desk.paid.append(cents)
            return "paid"

        self.pay = pay

    def validate(self, value):
        self.validated.append(value)
        return value

    def run(self, *, policies=(), carry=False, approve=None, **arguments):
        due = call("pay", **arguments) if carry else (think("due"), call("pay", **arguments))
        script = [due, think("Paid.", should_continue=False), "Paid."]
        agent = Agent(
            ScriptedModel(script), [self.pay], policies=policies, carry=carry, approve=approve
        )
        return agent.run("Pay.")


def leave(step, turn):
    return step


def put(cents):
    """A policy that puts another amount into the call."""

    def put_cents(step, turn):
        if isinstance(step, CallTool) and step.call.name == "pay":
            return replace(step, call=replace(step.call, arguments={"cents": cents}))
        return step

    return put_cents


def put_in_place(step, turn):
    """A policy that changes the arguments in place, which no comparison by identity can see."""
    if isinstance(step, CallTool) and step.call.name == "pay":
        step.call.arguments["cents"] = 2
    return step


@dataclass
class Case:
    name: str
    validated: list[int]  # the amounts that were validated, in order
    paid: int
    policies: tuple = ()
    cents: object = "1"  # what the model wrote


CASES = [
    Case("no policy", validated=[1], paid=1),
    Case("a policy that changes nothing", validated=[1], paid=1, policies=(leave, leave)),
    Case("a policy that changes the call", validated=[1, 2], paid=2, policies=(put(2),)),
    Case(
        "two policies that change the call", validated=[1, 2, 3], paid=3, policies=(put(2), put(3))
    ),
    Case(
        "a policy that changes the arguments in place",
        validated=[1, 2],
        paid=2,
        policies=(put_in_place,),
    ),
    Case(
        "a value that Python calls equal", validated=[1, 1], paid=1, policies=(put(True),), cents=1
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_call_is_validated_once_and_again_only_if_it_is_changed(case):
    desk = Desk()
    desk.run(policies=case.policies, cents=case.cents)
    assert desk.validated == case.validated
    assert desk.paid == [case.paid]


def test_a_carried_thought_needs_no_second_validation():
    desk = Desk()
    desk.run(carry=True, thought="It is due.", cents="1")
    assert desk.validated == [1]
    assert desk.paid == [1]


@pytest.mark.parametrize("policy", [put(2), put_in_place], ids=["replaced", "in place"])
def test_the_transcript_keeps_what_the_model_wrote_and_says_what_ran(policy):
    outcome = Desk().run(policies=[policy], cents=1)
    [written] = [c for reply in outcome.turn.replies for c in reply.tool_calls if c.name == "pay"]
    [action] = outcome.actions
    assert written.arguments == {"cents": 1}
    assert action.result.arguments == {"cents": 2}


def test_a_second_policy_sees_the_arguments_as_the_first_one_left_them():
    seen = []

    def look(step, turn):
        if isinstance(step, CallTool) and step.call.name == "pay":
            seen.append(step.received["cents"])
        return step

    Desk().run(policies=[look, put(2), look], cents=1)
    assert seen == [1, 2]


def test_after_an_edit_that_does_not_fit_the_card_shows_the_call_as_the_policy_left_it():
    cards = []
    answers = [Verdict("yes", arguments={"cents": 9_999}), Verdict("no")]

    def approve(question):
        cards.append(question.received["cents"])
        return answers[len(cards) - 1]

    desk = Desk()
    desk.run(policies=[put(500)], approve=approve, cents=5)
    assert cards == [500, 500]
    assert desk.paid == []


CHANGES = {
    "other arguments": lambda step: replace(step, call=ToolCall("1", "pay", {"cents": "many"})),
    "another type": lambda step: replace(step, call=ToolCall("1", "pay", {"cents": True})),
    "one argument more": lambda step: replace(
        step, call=ToolCall("1", "pay", {"cents": 1, "note": ""})
    ),
    "another tool": lambda step: replace(step, call=ToolCall("1", "refund", {"cents": 1})),
    "a change in place": lambda step: step.call.arguments.update(cents=2) or step,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_validated_arguments_are_valid_only_for_the_call_they_were_made_from(change):
    tools = {"pay": Desk().pay}
    step = with_call(CallTool(call("pay", cents=1)), call("pay", cents=1), tools)
    assert step.received == {"cents": 1, "note": ""}
    changed = change(step)
    assert changed.fitted is None
    assert changed.received is None


def test_arguments_that_do_not_fit_are_refused_where_they_are_put_in():
    tools = {"pay": Desk().pay}
    step = CallTool(call("pay", cents=1))
    assert isinstance(with_call(step, call("pay", cents="many"), tools), Refuse)


def test_arguments_that_are_nested_too_deeply_are_refused():
    tools = {"pay": Desk().pay}
    nested = []
    for _ in range(5_000):
        nested = [nested]
    deep = ToolCall("1", "pay", {"cents": nested})
    step = plan([User("Pay."), Assistant(tool_calls=(deep,))], [validation(tools)])
    assert isinstance(step, Refuse)
    assert step.code == "invalid"
    assert "nested too deeply" in step.reason
