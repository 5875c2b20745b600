"""With `carry=True` a call carries its own thought. Only the model sees that argument."""

import json

import pytest

from tests.support.agents import NOTHING, agent, results
from think_agent import Agent, ScriptedModel, Verdict, tool
from think_agent.dialects import json_plan
from think_agent.testing import call, think
from think_agent.think import read_thought

WHY = "13 days and $89: rule 5."
PAY = call("pay", order="A")


def desk(*replies, **settings):
    paid = []

    @tool(think_first=True, needs_approval=lambda arguments: arguments["amount"] > 100)
    def pay(order: str, amount: int = 89) -> str:
        """Pay an order back."""
        paid.append((order, amount))
        return "paid"

    return agent(*replies, "Done.", tools=[pay], carry=True, **settings), paid


@pytest.mark.parametrize("settings", [{}, {"think": None}])
def test_a_carried_thought_covers_only_its_own_call_and_costs_no_model_call(settings):
    carrying, paid = desk((call("pay", thought=WHY, order="A"), call("pay", order="B")), **settings)
    outcome = carrying.run("go")
    assert paid == [("A", 89)]
    [action] = outcome.actions
    assert action.thought == WHY
    assert action.how == "carried"
    assert [m.refused for m in results(outcome)] == ["", "gate"]
    assert outcome.model_calls == 2


def test_the_parameter_thought_is_first_and_required():
    carrying, _ = desk()
    shown = {item.name: item.parameters for item in carrying.shown}["pay"]
    assert next(iter(shown["properties"])) == "thought"
    assert shown["required"][0] == "thought"
    assert "thought" not in carrying.tools["pay"].parameters["properties"]


def test_the_recorded_call_keeps_its_thought_and_the_function_does_not_get_it():
    said = call("pay", thought=WHY, order="A", amount=580)
    asked = []

    def approve(question):
        asked.append(question)
        return Verdict("yes", arguments={**question.call.arguments, "amount": 500})

    carrying, paid = desk(said, approve=approve)
    outcome = carrying.run("go")
    assert paid == [("A", 500)]
    assert asked[0].thought == WHY
    assert asked[0].call.arguments == {"order": "A", "amount": 580}
    assert outcome.turn.replies[0].tool_calls[0].arguments == said.arguments
    assert WHY not in outcome.report


@pytest.mark.parametrize("blank", [*NOTHING, None, 5])
def test_a_blank_thought_covers_nothing_and_the_refusal_names_the_parameter(blank):
    carrying, paid = desk(call("pay", thought=blank, order="A"), think=None)
    assert "'thought'" in results(carrying.run("go"))[0].content
    assert paid == []


def test_with_a_think_tool_the_gate_works_as_without_carry():
    carrying, paid = desk(PAY, (think(WHY), PAY))
    assert [a.how for a in carrying.run("go").actions] == ["gated"]
    assert paid == [("A", 89)]


def test_the_thought_of_a_call_is_what_it_carries_and_no_other_argument():
    assert read_thought(call("pay", thought=WHY, order="A")) == WHY


def note_taker(*replies, **settings):
    noted = []

    @tool(think_first=True, needs_approval=True)
    def note(thought: str) -> str:
        """Note it."""
        noted.append(thought)
        return "noted"

    return agent(*replies, "Done.", tools=[note], **settings), noted


OWN = "the third of three"  # what such a tool gets in its own parameter `thought`


def test_a_parameter_thought_of_the_tool_itself_is_an_ordinary_argument():
    asked = []
    noting, noted = note_taker(
        call("note", thought=OWN),
        (think(WHY), call("note", thought=OWN)),
        approve=lambda question: asked.append(question.question) or True,
    )
    outcome = noting.run("go")
    refusals = [m.refused for m in results(outcome) if m.name == "note"]
    assert refusals == ["gate", ""]  # its own argument is no thought behind the call
    assert noted == [OWN]
    assert OWN in asked[0]
    [action] = outcome.actions
    assert action.thought == WHY
    assert action.call.arguments == {"thought": OWN}


def test_the_reasoning_of_a_plan_is_no_argument_of_the_tool():
    @tool
    def note(text: str, thought: str = "") -> str:
        """Note it."""
        return f"{text}, {thought or 'and no thought'}"

    action = {"tool": "note", "reasoning": WHY, "arguments": {"text": "tea"}}
    plan = {"reasoning": "", "task_complete": False, "actions": [action], "response": ""}
    done = {"reasoning": "Done.", "task_complete": True, "actions": [], "response": "Noted."}
    model = ScriptedModel([json.dumps({"understanding": "", **part}) for part in (plan, done)])
    outcome = Agent(json_plan(model), [note], force="never").run("Note it.")
    [action] = outcome.actions
    assert action.how == "carried"
    assert action.result.content == "tea, and no thought"


def test_such_a_tool_carries_its_thought_in_another_argument(tmp_path):
    path = tmp_path / "run.jsonl"
    settings = {"carry": True, "think": None}
    replies = call("note", thought=OWN), call("note", thought=OWN, kit_thought=WHY)
    noting, noted = note_taker(*replies, **settings)
    assert list(noting.shown[0].parameters["properties"]) == ["kit_thought", "thought"]
    assert noting.shown[0].thought_in == noting.tools["note"].thought_in == "kit_thought"
    waiting = noting.run("go", transcript=path)
    assert "'kit_thought'" in results(waiting)[0].content
    assert noted == []

    later, noted = note_taker(*replies, **settings)
    outcome = later.resume(path, verdict=waiting.question.yes())
    assert noted == [OWN]
    [action] = outcome.actions
    assert action.thought == WHY
    assert action.how == "carried"
