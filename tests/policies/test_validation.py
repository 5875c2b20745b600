"""A call is validated once, and what was validated is what runs."""

from dataclasses import replace

import pytest

from think_agent import Agent, ScriptedModel, tool
from think_agent.loop import CallTool, Refuse
from think_agent.messages import ToolCall
from think_agent.policies.validation import with_call
from think_agent.testing import call, think


def desk(*, same=()):
    fitted, paid = [], []

    class Cents(int):
        @classmethod
        def __get_pydantic_core_schema__(cls, kind, handler):
            from pydantic_core import core_schema

            return core_schema.no_info_after_validator_function(
                lambda value: fitted.append(value) or value, core_schema.int_schema()
            )

    @tool(think_first=True, same=same)
    def pay(cents: Cents) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    return pay, fitted, paid


def doubled(step, turn):
    if isinstance(step, CallTool) and step.call.name == "pay":
        return replace(step, call=replace(step.call, arguments={"cents": 2}))
    return step


@pytest.mark.parametrize(
    ("policies", "validated"), [([], [1]), ([lambda step, turn: step], [1]), ([doubled], [1, 2])]
)
def test_a_call_is_validated_once_and_again_only_if_its_arguments_are_changed(policies, validated):
    pay, fitted, paid = desk()
    script = [
        (think("due"), call("pay", cents="1")),
        think("Paid.", should_continue=False),
        "Paid.",
    ]
    Agent(ScriptedModel(script), [pay], policies=policies).run("Pay.")
    assert (fitted, paid) == (validated, validated[-1:])


def test_a_step_whose_call_was_changed_behind_its_back_counts_as_not_validated():
    pay, *_ = desk()
    tools = {"pay": pay}
    step = with_call(CallTool(call("pay", cents=1)), call("pay", cents=1), tools)
    assert step.received == {"cents": 1}
    changed = replace(step, call=ToolCall("1", "pay", {"cents": "many"}))
    assert changed.fitted is changed.received is None
    assert isinstance(with_call(changed, changed.call, tools), Refuse)
