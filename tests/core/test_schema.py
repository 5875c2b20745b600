"""The signature of a function as a JSON schema, and what cannot be described (`schema.py`)."""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

import jsonschema
import pydantic
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.agents import agent, of_kind, results
from tests.support.echo import GOOD, Color, Order, ask, taking
from tests.support.strategies import json_values
from think_agent import Started, Tool, ToolCall, tool
from think_agent.schema import reduce_schema

T = TypeVar("T")


# Schemas


def test_a_schema_says_what_the_signature_says():
    @tool
    def refund(
        order_id: str,
        decision: Literal["approve", "deny"],
        cents: Annotated[int, "the amount"] = 0,
        note: str | None = None,
    ) -> str:
        """Decide a refund.

        Args:
            order_id: such as ORD-001
            decision (str): what was
                decided
            cents: overruled by Annotated

        Returns: a receipt
        """

    assert refund.name == "refund"
    assert refund.description == "Decide a refund.\nReturns: a receipt"
    assert refund.parameters == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "such as ORD-001"},
            "decision": {
                "type": "string",
                "enum": ["approve", "deny"],
                "description": "what was decided",
            },
            "cents": {"type": "integer", "description": "the amount", "default": 0},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["order_id", "decision"],
        "additionalProperties": False,
    }


def test_the_signature_is_read_once_when_the_tool_is_declared():
    def look(order_id: str) -> str:
        """Look an order up."""
        return order_id

    declared = tool(look)
    look.__annotations__["order_id"] = int
    assert declared.parameters["properties"]["order_id"] == {"type": "string"}
    assert ask(declared, order_id="A").content == "A"


def test_a_schema_has_nested_types_inline():
    schema = taking(list[Order]).parameters
    assert not {"$ref", "$defs"} & set(json.dumps(schema).split('"'))
    lines = schema["properties"]["value"]["items"]["properties"]["lines"]
    x, y = {"type": "integer"}, {"type": "integer", "default": 0}
    assert lines["items"]["properties"] == {"x": x, "y": y}


def test_string_annotations_are_resolved():
    source = (
        "from __future__ import annotations\n"
        "from decimal import Decimal\n"
        "from typing import Annotated, Literal\n"
        "def pay(cents: int, rate: Decimal, how: Annotated[Literal['a', 'b'], 'way'] = 'a'):\n"
        "    return repr((cents, rate, how))\n"
    )
    module: dict[str, Any] = {"__name__": "far_away"}
    exec(source, module)
    assert module["pay"].__annotations__["cents"] == "int"
    made = tool(module["pay"])
    assert made.parameters["properties"]["cents"] == {"type": "integer"}
    assert made.parameters["properties"]["how"]["description"] == "way"
    assert ask(made, cents="1", rate="0.1").content == "(1, Decimal('0.1'), 'a')"


READY = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}


def test_a_ready_schema_may_be_given():
    made = Tool(name="pay", description="", parameters=READY, function=lambda cents: cents)
    assert ask(made, cents=1).content == "1"


WRONG = {  # arguments: what the model reads
    "another type": ({"cents": "8900"}, "$.cents: '8900' is not of type 'integer'"),
    "missing": ({}, "$: 'cents' is a required property"),
    "no parameter of the function": ({"cents": 1, "note": "x"}, "'note'"),
}


@pytest.mark.parametrize(("arguments", "told"), WRONG.values(), ids=WRONG)
def test_a_call_that_does_not_fit_a_ready_schema_is_never_started(arguments, told):
    """It is the mistake of the model, and nothing may have happened."""
    paid = []
    made = Tool(name="pay", description="", parameters=READY, function=lambda cents: paid.append(1))
    outcome = agent(ToolCall("1", "pay", arguments), "Done.", tools=[made]).run("Pay.")
    [result] = results(outcome)
    assert result.refused == "invalid"
    assert not result.in_doubt
    assert told in result.content
    assert not of_kind(outcome.transcript, Started)
    assert not paid


# What cannot be described is refused at declaration


class Unknown: ...


@dataclass
class Node:
    next: "Node | None" = None


NO_SCHEMA = [Any, object, T, Unknown, list[Unknown], Unknown | None, Callable[[], int], 5, Node]


@pytest.mark.parametrize("kind", [*NO_SCHEMA, "Undefined", "list[Undefined]", "int |", "json.x"])
def test_a_type_without_a_schema_is_refused(kind):
    def echo(number: int, value):
        """Echo."""

    echo.__annotations__["value"] = kind
    named = "tool echo: parameter value|tool echo: a type annotation|type Node is recursive"
    with pytest.raises(TypeError, match=named):
        tool(echo)


# Names and defaults that pydantic could lose


def test_a_description_and_a_default_with_a_title_are_shown_whole():
    field, default = pydantic.Field(description="age in days"), {"title": "a", "b": "c"}
    shown = taking(Annotated[dict[str, str], field], default=default).parameters["properties"]
    assert shown["value"]["description"] == "age in days"
    assert shown["value"]["default"] == default


PYDANTIC_HAS = ("title", "properties", "json", "copy", "schema", "model_dump", "model_config")


@pytest.mark.parametrize("name", PYDANTIC_HAS)
def test_a_parameter_may_have_the_name_of_something_in_pydantic(name):
    module: dict[str, Any] = {}
    exec(f"def echo({name}: str) -> str: return {name}", module)
    with warnings.catch_warnings(action="error"):
        made = tool(module["echo"], description="Echo.")
    assert ask(made, **{name: "mine"}).content == "mine"


# Schema and validation agree

KINDS = [kind for kind, _, _ in GOOD] + [
    float | None,
    list[dict[str, bool]],
    dict[str, Color | None],
    tuple[int, str],
    Annotated[str, pydantic.Field(min_length=1, max_length=3)],
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_schema_is_a_json_schema(kind):
    for made in (taking(kind), taking(kind | None, default=None)):
        jsonschema.Draft202012Validator.check_schema(made.parameters)
        assert json.loads(json.dumps(made.parameters)) == made.parameters


TYPES = {
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "boolean": st.booleans(),
    "null": st.none(),
    "string": st.sampled_from(["", "1", "1.50", "-0.5", "abc", "toolong"]),
}


def instances(schema):
    """Values close to a schema. jsonschema decides whether they fit."""
    match schema:
        case {"anyOf": options}:
            return st.one_of([instances(option) for option in options])
        case {"enum": values}:
            return st.sampled_from(values)
        case {"type": "object", "properties": fields} if fields:
            optional = {name: instances(field) for name, field in fields.items()}
            return st.fixed_dictionaries({}, optional=optional)
        case {"type": "object", "additionalProperties": dict() as inner}:
            return st.dictionaries(st.text(max_size=3), instances(inner), max_size=3)
        case {"type": "array", "prefixItems": items}:
            return st.tuples(*map(instances, items)).map(list)
        case {"type": "array", "items": item}:
            return st.lists(instances(item), max_size=3)
    return TYPES.get(schema.get("type"), json_values)


MADE = [
    (kind, made := taking(kind), instances(made.parameters["properties"]["value"]))
    for kind in KINDS
]


@given(st.data(), st.sampled_from(MADE))
@settings(max_examples=150)
def test_what_the_schema_accepts_the_tool_accepts(data, made_of):
    kind, made, near = made_of
    value = data.draw(near | json_values)
    assume(jsonschema.Draft202012Validator(made.parameters).is_valid({"value": value}))
    assume("e+" not in repr(value) and "inf" not in repr(value))  # 1e300 is an "integer" to JSON
    if kind is Decimal and isinstance(value, str):  # JSON Schema cannot describe decimal text
        assume(value.lstrip("-").replace(".", "", 1).isdigit())
    result = ask(made, value=value)
    assert not result.is_error, result.content


def test_a_field_for_a_default_is_refused_at_declaration():
    def pay(amount: int = pydantic.Field(1000)) -> None:
        """Pay."""

    with pytest.raises(TypeError, match="tool pay: parameter amount: Field belongs in Annotated"):
        tool(pay)


# A schema reduced to what every provider accepts.


@dataclass(frozen=True)
class Reduced:
    """The schema of a property that is required, and what is left of it."""

    name: str
    schema: dict[str, Any]
    becomes: dict[str, Any]


REDUCED = [
    Reduced("bounds are dropped", {"type": "integer", "minimum": 0}, {"type": "integer"}),
    Reduced("so are titles", {"type": "string", "title": "Note"}, {"type": "string"}),
    Reduced("an enum stays", {"enum": ["a", "b"]}, {"enum": ["a", "b"]}),
    Reduced("a const is an enum of one value", {"const": "a"}, {"enum": ["a"]}),
    Reduced(
        "oneOf is written as anyOf",
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
    Reduced(
        "a union that only narrows a type is dropped",
        {"type": "integer", "anyOf": [{"minimum": 1}]},
        {"type": "integer"},
    ),
    Reduced(
        "a type for any other property stays",
        {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ),
]


@pytest.mark.parametrize("case", REDUCED, ids=lambda case: case.name)
def test_a_schema_is_reduced_to_the_keywords_that_every_provider_accepts(case):
    schema = {"type": "object", "properties": {"x": case.schema}, "required": ["x"]}
    reduced = reduce_schema(schema, strict=True)
    assert reduced["properties"] == {"x": case.becomes}
    assert reduced["required"] == ["x"]
    assert reduced["additionalProperties"] is False


STRING, NULL = {"type": "string"}, {"type": "null"}


@dataclass(frozen=True)
class MayBeLeftOut:
    """The schema of a property that may be left out, and how a strict mode asks for it."""

    name: str
    schema: dict[str, Any]
    strict: dict[str, Any]


OPTIONAL = [
    MayBeLeftOut("it may be null instead", STRING, strict={"anyOf": [STRING, NULL]}),
    MayBeLeftOut("null is one of its types", {"anyOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}),
    MayBeLeftOut(
        "a union has one branch more",
        {"anyOf": [STRING, {"type": "integer"}]},
        strict={"anyOf": [STRING, {"type": "integer"}, NULL]},
    ),
]


@pytest.mark.parametrize("case", OPTIONAL, ids=lambda case: case.name)
def test_in_a_strict_schema_an_optional_property_is_required_and_may_be_null(case):
    schema = {"type": "object", "properties": {"x": case.schema}}
    strict = reduce_schema(schema, strict=True)
    assert strict["properties"] == {"x": case.strict}
    assert strict["required"] == ["x"]

    free = reduce_schema(schema, strict=False)
    assert free["properties"] == {"x": case.schema}
    assert free["required"] == []
