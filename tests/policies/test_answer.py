"""The typed answer: by the provider's own structured output, asked for again once, never forced."""

import json
from typing import Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from tests.servers import serve
from tests.support.agents import agent, kit_said
from tests.support.providers import SPEAKS, WAYS, model_of
from think_agent import Agent, Assistant, Request, tool
from think_agent.testing import call, think


class Decision(BaseModel):
    order_id: str
    decision: Literal["approve", "deny", "escalate"]
    cents: int = Field(ge=0)
    note: str | None = None


GOOD = Decision(order_id="ORD-001", decision="approve", cents=8900)
BAD = '{"order_id": "ORD-001", "decision": "maybe", "cents": 1, "note": null}'
LOW = '{"order_id": "ORD-001", "decision": "deny", "cents": -1, "note": null}'


@tool
def look() -> str:
    """Look."""
    return "found"


LEAVE, RIGHT = think("done", False), GOOD.model_dump_json()


def deciding(*replies, **options) -> Agent:
    return agent(*replies, tools=[look], **{"answer": Decision, **options})


WRONG = {BAD: "decision", LOW: "cents: Input should be greater than or equal to 0"}
WRONG |= dict.fromkeys(["Sure, approved!", "[1, 2]", f"[{RIGHT}]", "{"], "not one JSON object")


@pytest.mark.parametrize(("wrong", "problem"), WRONG.items())
def test_a_wrong_answer_is_asked_for_once_more_with_what_is_wrong(wrong, problem):
    repaired = deciding(LEAVE, wrong, RIGHT).run("go")
    assert (repaired.exit, repaired.data) == ("signal", GOOD)
    [asked] = kit_said(repaired)
    assert "does not fit" in asked.text
    assert problem in asked.text
    for settings in ({}, {"max_model_calls": 3}):  # it counts as a model call
        given_up = deciding(LEAVE, wrong, wrong, **settings).run("go")
        assert (given_up.exit, given_up.data, given_up.model_calls) == ("invalid_answer", None, 3)


def test_an_answer_is_coerced_as_arguments_are():
    written = '{"order_id": "ORD-001", "decision": "approve", "cents": "8900", "note": null}'
    assert deciding(LEAVE, f"Here:\n{written}\nDone {{so}}.").run("go").data == GOOD


def test_a_null_means_that_an_optional_part_is_left_out():
    class Noted(BaseModel):
        cents: int
        note: str = "none"

    outcome = deciding(LEAVE, '{"cents": 1, "note": null}', answer=Noted).run("go")
    assert outcome.data == Noted(cents=1)


def test_after_silence_the_form_is_asked_for_first():
    for wrong in ([], [BAD]):
        outcome = deciding("It is approved.", *wrong, RIGHT).run("go")
        assert (outcome.exit, outcome.data) == ("silence", GOOD)
    assert deciding("It is approved.", BAD, BAD).run("go").exit == "invalid_answer"


def test_calls_that_stray_into_the_typed_answer_are_not_run():
    stray = Assistant(RIGHT, tool_calls=(call("look"),))
    outcome = deciding("Approved.", stray).run("go")
    assert (outcome.exit, outcome.actions, outcome.data) == ("silence", (), GOOD)


def test_the_words_of_a_limit_are_left_as_they_are():
    outcome = deciding("So far so good.", max_model_calls=1).run("go")
    assert (outcome.exit, outcome.answer, outcome.data) == ("limit", "So far so good.", None)


@pytest.mark.parametrize("provider", SPEAKS)
def test_every_provider_gets_the_schema_in_its_own_place(provider):
    def brain(request: Request) -> Assistant:
        if request.tool_choice == "none" or not request.tools:
            jsonschema.validate(json.loads(RIGHT), request.output_schema)
            return Assistant(RIGHT)
        assert request.output_schema is None
        return Assistant(tool_calls=(LEAVE,), stop_reason="tool_use")

    with serve(SPEAKS[provider][0](), brain) as server:
        for way in WAYS:
            made = Agent(model_of(provider, server), [look], answer=Decision)
            outcome = way(made, "Decide on ORD-001")
            assert (outcome.exit, outcome.data) == ("signal", GOOD)
