import jsonschema
import pytest
from hypothesis import given

from tests.support.strategies import think_calls
from think_agent import THINK, THINK_MINIMAL, ToolCall
from think_agent.think import RECORDED, acknowledge, should_continue, thought


def think(**arguments):
    return ToolCall("1", "think", arguments)


@pytest.mark.parametrize("tool", [THINK, THINK_MINIMAL])
def test_the_schema_is_flat_and_all_strings(tool):
    assert tool.name == "think"
    assert tool.function is None
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    fields = tool.parameters["properties"]
    assert {field["type"] for field in fields.values()} == {"string"}
    assert tool.parameters["required"] == list(fields)
    assert tool.parameters["additionalProperties"] is False


def test_only_the_extended_tool_has_the_exit_signal():
    assert list(THINK.parameters["properties"]) == ["thought", "should_continue"]
    assert THINK.parameters["properties"]["should_continue"]["enum"] == ["true", "false"]
    assert list(THINK_MINIMAL.parameters["properties"]) == ["thought"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (think(thought="plan"), "plan"),
        (think(thought=""), ""),
        (think(), ""),
        (think(thought=["a", 1]), "['a', 1]"),
        (think(thought=0), ""),
        (ToolCall("1", "think", "not JSON"), "not JSON"),
    ],
)
def test_thought_is_always_text(call, text):
    assert thought(call) == text


@pytest.mark.parametrize(
    ("value", "means"),
    [
        (True, True),
        (False, False),
        ("true", True),
        ("false", False),
        ("TRUE", True),
        ("False", False),
        ("\tfAlSe ", False),
        ("", None),
        ("no", None),
        ("'false'", None),
        (None, None),
        (0, None),
        (1, None),
        (0.0, None),
        ([], None),
        ({}, None),
        (["false"], None),
    ],
)
def test_should_continue_reads_bools_and_their_names_alone(value, means):
    assert should_continue(think(thought="x", should_continue=value)) is means


def test_a_missing_signal_is_unreadable():
    assert should_continue(think(thought="x")) is None
    assert should_continue(ToolCall("1", "think", '{"should_continue": "false"}')) is None


STAY, LEAVE = think(should_continue="true"), think(should_continue=False)


def ack(call, tool=THINK, in_a_row=1, cap=3):
    return acknowledge(call, tool, in_a_row=in_a_row, cap=cap)


def test_a_good_thought_gets_the_constant_and_nothing_else():
    assert ack(STAY) == ack(LEAVE) == RECORDED == "Thought recorded."
    assert ack(think(thought=""), THINK_MINIMAL) == RECORDED


@pytest.mark.parametrize("value", ["no", 0, None, ["false"]])
def test_an_unreadable_signal_is_pointed_out(value):
    said = ack(think(thought="x", should_continue=value))
    assert said.startswith(RECORDED)
    assert 'should_continue was missing or unreadable; it must be "true" or "false"' in said


def test_a_missing_signal_is_pointed_out_where_there_should_be_one():
    assert "missing" in ack(think(thought="x"))
    assert "missing" not in ack(think(thought="x"), THINK_MINIMAL)


def test_text_instead_of_arguments_is_pointed_out():
    assert "not a JSON object" in ack(ToolCall("1", "think", "{"))


def test_too_many_thoughts_in_a_row_are_pointed_out():
    assert "in a row" not in ack(STAY, in_a_row=2)
    assert "3 in a row: it is time to act" in ack(STAY, in_a_row=3)
    assert "4 in a row" in ack(STAY, in_a_row=4)
    assert ack(LEAVE, in_a_row=9) == RECORDED  # it is leaving: nothing to urge


@given(think_calls)
def test_whatever_was_thought_the_answer_is_never_empty(call):
    assert ack(call).startswith(RECORDED)
    assert isinstance(thought(call), str)
    assert should_continue(call) in (True, False, None)
