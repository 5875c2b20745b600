"""The typed answer. It uses the provider's structured output. If it does not fit, it is asked for
once more.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Annotated, Any, Literal

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


@dataclass(frozen=True)
class Wrong:
    """An answer that does not fit, and what the model reads about it."""

    name: str
    text: str
    problem: str


WRONG = [
    Wrong("a value that is not allowed", BAD, "decision"),
    Wrong("a number that is too low", LOW, "cents: Input should be greater than or equal to 0"),
    Wrong("a list", "[1, 2]", "Input should be an object"),
    Wrong("the object in a list", f"[{RIGHT}]", "Input should be an object"),
    # rule 2: the answer must be the whole text
    Wrong("words", "Sure, approved!", "not JSON alone"),
    Wrong("half an object", "{", "not JSON alone"),
    Wrong("two objects", f"{RIGHT} {RIGHT}", "not JSON alone"),
    Wrong("a quotation", f"I have NOT approved: {RIGHT} is not allowed.", "not JSON alone"),
    Wrong("words around a code block", f"Here:\n```json\n{RIGHT}\n```", "not JSON alone"),
]
each_wrong_answer = pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)


@each_wrong_answer
def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_what_is_wrong(wrong):
    outcome = deciding(LEAVE, wrong.text, RIGHT).run("go")
    assert outcome.exit == "signal"
    assert outcome.data == GOOD
    [asked] = kit_said(outcome)
    assert "does not fit" in asked.text
    assert wrong.problem in asked.text


@each_wrong_answer
@pytest.mark.parametrize("settings", [{}, {"max_model_calls": 3}], ids=["", "at a limit"])
def test_if_it_does_not_fit_again_the_exit_is_invalid_answer(wrong, settings):
    outcome = deciding(LEAVE, wrong.text, wrong.text, **settings).run("go")
    assert outcome.exit == "invalid_answer"
    assert outcome.data is None
    assert outcome.model_calls == 3


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


@dataclass(frozen=True)
class Kind:
    """A type of an answer, a text that is such an answer, and the object that is read from it."""

    name: str
    type: Any
    text: str
    data: Any


OBJECTS = [  # asked for as they are
    Kind("a model", Refund, '{"cents": 1, "note": null, "late": null}', Refund(cents=1)),
    Kind("a typed dict", Row, '{"cents": "1"}', {"cents": 1}),
    Kind("a dataclass", Point, '{"x": 1}', Point(1)),
    Kind("a strict model", Strict, '{"day": "2026-03-01"}', Strict(day=date(2026, 3, 1))),
]
OTHERS = [  # rule 1: asked for as {"answer": …}, and read with or without that
    Kind(
        "a model that contains itself",
        Node,
        '{"name": "a", "next": {"name": "b"}}',
        Node(name="a", next=Node(name="b")),
    ),
    Kind("a list", list[Refund], '[{"cents": 1, "note": null, "late": null}]', [Refund(cents=1)]),
    Kind("an empty list", list[Refund], "[]", []),
    Kind("a dict", dict[str, int], '{"a": 1, "b": 2}', {"a": 1, "b": 2}),
    Kind("a union", Refund | Point, '{"x": 1}', Point(1)),
    Kind("a literal", Literal["yes", "no"], '"yes"', "yes"),
    Kind("null", int | None, "null", None),
    Kind("a number", int, "7", 7),
    Kind("a set", set[int], "[1, 1]", {1}),
]


@pytest.mark.parametrize("kind", OBJECTS + OTHERS, ids=lambda kind: kind.name)
def test_the_answer_may_have_any_type_that_pydantic_can_validate(kind):
    assert TypedAnswer(kind.type).schema["type"] == "object"
    for text in (kind.text, f"```json\n{kind.text}\n```"):
        outcome = deciding(LEAVE, text, answer=kind.type).run("go")
        assert outcome.exit == "signal"
        assert outcome.data == kind.data


@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.name)
def test_an_object_is_asked_for_as_it_is(kind):
    assert "answer" not in TypedAnswer(kind.type).schema["properties"]


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.name)
def test_what_is_no_object_is_asked_for_in_a_wrapper_and_read_from_it(kind):
    schema = TypedAnswer(kind.type).schema
    assert list(schema["properties"]) == ["answer"]
    wrapped = f'{{"answer": {kind.text}}}'
    assert deciding(LEAVE, wrapped, answer=kind.type).run("go").data == kind.data
    if kind.type is not Node:  # its answer leaves an optional part out, which a schema cannot say
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


def test_after_silence_the_answer_is_first_asked_for_in_its_form_and_may_be_wrong_once():
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


# Rule 4: these closing replies are left as they are.


@dataclass(frozen=True)
class Left:
    name: str
    closing: Assistant | str
    exit: str
    settings: dict[str, Any] = field(default_factory=dict)


LEFT_AS_THEY_ARE = [
    Left("a limit is reached", "So far so good.", exit="limit", settings={"max_model_calls": 1}),
    Left("a refusal", Assistant("I won't.", stop_reason="refusal"), exit="refused"),
    Left("a reply that broke off", Assistant('{"ord', stop_reason="max_tokens"), "truncated"),
]


@pytest.mark.parametrize("left", LEFT_AS_THEY_ARE, ids=lambda left: left.name)
def test_at_a_limit_and_after_a_refusal_or_a_cut_no_typed_answer_is_asked_for(left):
    before = [] if left.settings else [LEAVE]
    outcome = deciding(*before, left.closing, **left.settings).run("go")
    assert outcome.exit == left.exit
    assert outcome.answer == getattr(left.closing, "text", left.closing)
    assert outcome.data is None
    assert "answer" not in {message.kind for message in kit_said(outcome)}


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


@dataclass(frozen=True)
class Finished:
    """Replies of a model in json (a plan, or text), and the answer of the run."""

    name: str
    replies: list[Any]
    answer: str = GAVE
    exit: str = "signal"
    settings: dict[str, Any] = field(default_factory=dict)


FINISHED_PLANS = [  # rule 6
    Finished("it acted before", [ACT, FINISHED]),
    Finished("it did nothing", [FINISHED]),
    Finished("more to do, and then finished", [{**FINISHED, "task_complete": False}, FINISHED]),
    Finished(
        "the model has read what is missing",
        [FINISHED, FINISHED],
        exit="unmet",
        settings={"done_when": [nothing_is_found]},
    ),
]
ASKED_FOR = [  # a finished plan that has given no answer
    Finished("no words", [ACT, {**FINISHED, "response": " "}, GAVE]),
    Finished("it still acts", [{**ACT, "task_complete": True, "response": "?"}, GAVE]),
    Finished(
        "a typed answer has its own form",
        [FINISHED, RIGHT],
        answer=RIGHT,
        settings={"answer": Decision},
    ),
]


@pytest.mark.parametrize("case", FINISHED_PLANS + ASKED_FOR, ids=lambda case: case.name)
@pytest.mark.parametrize("way", WAYS)
def test_a_finished_plan_is_not_asked_for_its_answer_again(way, case):
    texts = [reply if isinstance(reply, str) else json.dumps(reply) for reply in case.replies]
    model = ScriptedModel(by_place(*texts))
    settings = {"force": "never", "silence": "accept", **case.settings}
    looking = Agent(in_dialect(model, "json"), [replace(look, read_only=True)], **settings)
    outcome = way(looking, "Look.")
    assert outcome.exit == case.exit
    assert outcome.answer == case.answer
    assert outcome.model_calls == len(case.replies)
    for end in range(1, len(outcome.transcript)):
        assert looking.resume(outcome.transcript[:end]).transcript == outcome.transcript


def test_words_beside_a_native_signal_are_not_the_answer():
    beside = Assistant("Nearly.", tool_calls=(LEAVE,), stop_reason="tool_use")
    assert agent(beside, GAVE).run("Look.").answer == GAVE
