"""The typed answer: by the provider's own structured output, mended once, and never by force."""

import asyncio
import json
from typing import Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from tests.servers import serve
from tests.support.providers import SPEAKS, model_of
from think_agent import Agent, Assistant, Request, ScriptedModel, ToolCall, User, tool


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


def leave() -> Assistant:
    notes = {"thought": "done", "should_continue": "false"}
    return Assistant(tool_calls=(ToolCall("", "think", notes),), stop_reason="tool_use")


def agent(*replies: Assistant, **options) -> Agent:
    return Agent(ScriptedModel(replies), [look], force="never", answer=Decision, **options)


def test_the_final_call_asks_for_the_schema_and_no_other_call_does():
    asked = []

    def script(request: Request) -> Assistant:
        asked.append((request.tool_choice, request.output_schema is not None))
        return Assistant(GOOD.model_dump_json()) if request.tool_choice == "none" else leave()

    outcome = Agent(ScriptedModel(script), [look], force="never", answer=Decision).run("go")
    assert asked == [("auto", False), ("none", True)]
    assert (outcome.exit, outcome.data) == ("signal", GOOD)


@pytest.mark.parametrize("wrong", [BAD, LOW, "Sure, approved!", "[1, 2]", "{"])
def test_a_wrong_answer_is_mended_once(wrong):
    mended = agent(leave(), Assistant(wrong), Assistant(GOOD.model_dump_json())).run("go")
    assert (mended.exit, mended.data) == ("signal", GOOD)
    told = [m.text for m in mended.transcript if isinstance(m, User)][1:]
    assert len(told) == 1
    assert "does not fit" in told[0]
    given_up = agent(leave(), Assistant(wrong), Assistant(wrong)).run("go")
    assert (given_up.exit, given_up.data, given_up.model_calls) == ("invalid_answer", None, 3)


def test_what_is_wrong_is_named():
    outcome = agent(leave(), Assistant(LOW), Assistant(GOOD.model_dump_json())).run("go")
    told = [m.text for m in outcome.transcript if isinstance(m, User)][-1]
    assert "cents" in told
    assert "greater than or equal to 0" in told


def test_an_answer_is_coerced_as_arguments_are():
    written = '{"order_id": "ORD-001", "decision": "approve", "cents": "8900", "note": null}'
    assert agent(leave(), Assistant(f"Here:\n{written}\nDone {{so}}.")).run("go").data == GOOD


def test_a_null_means_that_an_optional_part_is_left_out():
    class Noted(BaseModel):
        cents: int
        note: str = "none"

    nulled = Assistant('{"cents": 1, "note": null}')
    run = Agent(ScriptedModel([leave(), nulled]), [look], force="never", answer=Noted).run("go")
    assert run.data == Noted(cents=1)


def test_after_silence_the_form_is_asked_for_first():
    plain = Assistant("It is approved.")
    asked = agent(plain, Assistant(GOOD.model_dump_json())).run("go")
    assert (asked.exit, asked.data) == ("silence", GOOD)
    mended = agent(plain, Assistant(BAD), Assistant(GOOD.model_dump_json())).run("go")
    assert (mended.exit, mended.data) == ("silence", GOOD)
    assert agent(plain, Assistant(BAD), Assistant(BAD)).run("go").exit == "invalid_answer"


def test_calls_that_stray_into_the_typed_answer_are_not_run():
    stray = Assistant(GOOD.model_dump_json(), tool_calls=(ToolCall("", "look"),))
    outcome = agent(Assistant("Approved."), stray).run("go")
    assert (outcome.exit, outcome.actions, outcome.data) == ("silence", (), GOOD)


def test_the_words_of_a_limit_are_left_as_they_are():
    outcome = agent(Assistant("So far so good."), max_model_calls=1).run("go")
    assert (outcome.exit, outcome.answer, outcome.data) == ("limit", "So far so good.", None)


def test_the_mending_counts_as_a_model_call():
    outcome = agent(leave(), Assistant(BAD), Assistant(BAD), max_model_calls=2).run("go")
    assert outcome.model_calls == 2
    assert outcome.exit == "invalid_answer"


@pytest.mark.parametrize("provider", SPEAKS)
def test_every_provider_gets_the_schema_in_its_own_place(provider):
    def brain(request: Request) -> Assistant:
        if request.tool_choice == "none" or not request.tools:
            assert request.output_schema is not None
            written = json.loads(GOOD.model_dump_json())
            jsonschema.validate(written, request.output_schema)
            return Assistant(json.dumps(written))
        return leave()

    with serve(SPEAKS[provider][0](), brain) as server:
        made = Agent(model_of(provider, server), [look], answer=Decision)
        assert made.run("Decide on ORD-001").data == GOOD
        assert asyncio.run(made.arun("Decide on ORD-001")).data == GOOD
        assert list(made.stream("Decide on ORD-001"))[-1].data == GOOD
