"""The typed answer. It uses the provider's structured output. If it does not fit, it is asked for
once more.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from tests.servers import serve
from tests.support.agents import agent, by_place, kit_said
from tests.support.providers import SPEAKS, WAYS, model_of
from think_agent import Agent, Assistant, Request, ScriptedModel, tool
from think_agent.dialects import in_dialect
from think_agent.policies.answer import TypedAnswer
from think_agent.testing import call, think
from think_agent.tools import ModelMistake


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
WRONG |= dict.fromkeys(["Sure, approved!", "{", f"{RIGHT} {RIGHT}"], "not JSON alone")
WRONG |= dict.fromkeys(["[1, 2]", f"[{RIGHT}]"], "Input should be an object")
WRONG |= {f"I have NOT approved anything: {RIGHT} is not allowed.": "not JSON alone"}
WRONG |= {f"Here:\n```json\n{RIGHT}\n```": "not JSON alone"}


@pytest.mark.parametrize(("wrong", "problem"), WRONG.items())
def test_a_wrong_answer_is_asked_for_once_more_with_what_is_wrong(wrong, problem):
    repaired = deciding(LEAVE, wrong, RIGHT).run("go")
    assert repaired.exit == "signal"
    assert repaired.data == GOOD
    [asked] = kit_said(repaired)
    assert "does not fit" in asked.text
    assert problem in asked.text
    for settings in ({}, {"max_model_calls": 3}):  # it counts as a model call
        given_up = deciding(LEAVE, wrong, wrong, **settings).run("go")
        assert given_up.exit == "invalid_answer"
        assert given_up.data is None
        assert given_up.model_calls == 3


def test_an_answer_is_validated_as_arguments_are():
    written = '{"order_id": "ORD-001", "decision": "approve", "cents": "8900", "note": null}'
    for text in (written, f"\n{written}\n", f"```json\n{written}\n```", f"```\n{written}"):
        assert deciding(LEAVE, text).run("go").data == GOOD


class Refund(BaseModel):
    cents: int
    note: str = "none"
    late: int | str = 0


class Node(BaseModel):
    name: str
    next: "Node | None" = None


class Row(TypedDict):
    cents: int


class Strict(BaseModel, strict=True):
    day: date


@dataclass
class Point:
    x: int


KINDS = [  # a type; an answer without its wrapper; the object
    (Refund, '{"cents": 1, "note": null, "late": null}', Refund(cents=1)),
    (Node, '{"name": "a", "next": {"name": "b"}}', Node(name="a", next=Node(name="b"))),
    (Row, '{"cents": "1"}', {"cents": 1}),
    (Point, '{"x": 1}', Point(1)),
    (Strict, '{"day": "2026-03-01"}', Strict(day=date(2026, 3, 1))),
    (list[Refund], '[{"cents": 1, "note": null, "late": null}]', [Refund(cents=1)]),
    (list[Refund], "[]", []),
    (dict[str, int], '{"a": 1, "b": 2}', {"a": 1, "b": 2}),
    (Refund | Point, '{"x": 1}', Point(1)),
    (Literal["yes", "no"], '"yes"', "yes"),
    (int | None, "null", None),
    (int, "```json\n7\n```", 7),
    (set[int], "[1, 1]", {1}),
]


@pytest.mark.parametrize(("kind", "bare", "data"), KINDS)
def test_the_answer_may_have_any_type_that_pydantic_can_validate(kind, bare, data):
    schema = TypedAnswer(kind).schema
    assert schema["type"] == "object"
    asked_in_a_wrapper = list(schema["properties"]) == ["answer"]
    assert asked_in_a_wrapper == (kind not in (Refund, Row, Point, Strict))
    outcome = deciding(LEAVE, bare, answer=kind).run("go")
    assert outcome.exit == "signal"
    assert outcome.data == data
    if asked_in_a_wrapper and not bare.startswith("`"):
        wrapped = f'{{"answer": {bare}}}'
        assert deciding(LEAVE, wrapped, answer=kind).run("go").data == data
        if kind is not Node:  # its part that may be left out is left out
            jsonschema.validate(json.loads(wrapped), schema)


UNUSABLE = {
    "a name": "Refund",
    "a name inside": list["Refund"],
    "an object": GOOD,
    "a number": 7,
    "a list": [Refund],
    "a dict": {"cents": int},
    "what has no schema": Callable,
    "a function": lambda cents: cents,
}


@pytest.mark.parametrize("kind", UNUSABLE.values(), ids=UNUSABLE)
def test_a_type_that_pydantic_cannot_validate_is_refused_in_one_line(kind):
    with pytest.raises(TypeError, match=r"^answer=") as refused:
        deciding(answer=kind)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("error", [KeyError("cents"), RuntimeError("no\nsuch order"), ValueError()])
def test_any_error_of_a_validator_means_that_the_answer_does_not_fit(error):
    def look_up(cents: int) -> int:
        if cents < 0:
            raise error
        return cents

    kind = list[Annotated[int, AfterValidator(look_up)]]
    outcome = deciding(LEAVE, "[-1]", "[1]", answer=kind).run("go")
    assert outcome.data == [1]
    [asked] = kit_said(outcome)
    assert asked.text.startswith("Your answer does not fit: ")
    assert deciding(LEAVE, "[-1]", "[-1]", answer=kind).run("go").exit == "invalid_answer"


@given(st.text() | st.text(alphabet='{}[]":,`\n 0azn'))
def test_any_text_is_read_or_does_not_fit(text):
    for kind in (Refund, list[Refund], int | None):
        with suppress(ModelMistake):
            TypedAnswer(kind).read(text)


def test_after_silence_the_typed_answer_is_asked_for():
    for wrong in ([], [BAD]):
        outcome = deciding("It is approved.", *wrong, RIGHT).run("go")
        assert outcome.exit == "silence"
        assert outcome.data == GOOD
    assert deciding("It is approved.", BAD, BAD).run("go").exit == "invalid_answer"


def test_calls_beside_the_typed_answer_are_not_run():
    stray = Assistant(RIGHT, tool_calls=(call("look"),))
    outcome = deciding("Approved.", stray).run("go")
    assert outcome.exit == "silence"
    assert outcome.actions == ()
    assert outcome.data == GOOD


def test_at_a_limit_no_typed_answer_is_asked_for():
    outcome = deciding("So far so good.", max_model_calls=1).run("go")
    assert outcome.exit == "limit"
    assert outcome.answer == "So far so good."
    assert outcome.data is None


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
            assert outcome.exit == "signal"
            assert outcome.data == GOOD


# A finished plan of the json dialect has given its answer.

GAVE = "It was found."
PLAN = {"understanding": "", "reasoning": "Noted.", "task_complete": False, "actions": []}
ACT = {**PLAN, "actions": [{"tool": "look", "arguments": {}}], "response": ""}
FINISHED = {**PLAN, "task_complete": True, "response": GAVE}


def nothing_is_found(turn):
    return "look again"


@pytest.mark.parametrize(
    ("plans", "settings", "exit", "answer"),
    [
        ([ACT, FINISHED], {}, "signal", GAVE),
        ([FINISHED], {}, "signal", GAVE),
        ([ACT, {**FINISHED, "response": " "}, GAVE], {}, "signal", GAVE),  # no words
        ([{**ACT, "task_complete": True, "response": "?"}, GAVE], {}, "signal", GAVE),  # it acts
        ([FINISHED, RIGHT], {"answer": Decision}, "signal", RIGHT),  # in its own form
        ([FINISHED, FINISHED], {"done_when": [nothing_is_found]}, "unmet", GAVE),  # told once
        ([{**FINISHED, "task_complete": False}, FINISHED], {}, "signal", GAVE),  # more to do
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_a_finished_plan_is_not_asked_for_its_answer_again(way, plans, settings, exit, answer):
    replies = [plan if isinstance(plan, str) else json.dumps(plan) for plan in plans]
    model = ScriptedModel(by_place(*replies))
    settings = {"force": "never", "silence": "accept", **settings}
    looking = Agent(in_dialect(model, "json"), [replace(look, read_only=True)], **settings)
    outcome = way(looking, "Look.")
    assert outcome.exit == exit
    assert outcome.answer == answer
    assert outcome.model_calls == len(plans)
    for end in range(1, len(outcome.transcript)):
        assert looking.resume(outcome.transcript[:end]).transcript == outcome.transcript


def test_words_beside_a_native_signal_are_not_the_answer():
    beside = Assistant("Nearly.", tool_calls=(LEAVE,), stop_reason="tool_use")
    assert agent(beside, GAVE).run("Look.").answer == GAVE
