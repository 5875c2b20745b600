import jsonschema
import pytest
from hypothesis import given

from tests.support.strategies import think_calls
from think_agent import THINK, THINK_MINIMAL, ToolCall
from think_agent.think import RECORDED, acknowledge, should_continue, thought


def think(**arguments):
    return ToolCall("1", "think", arguments)


@pytest.mark.parametrize(
    ("tool", "names"), [(THINK, ["thought", "should_continue"]), (THINK_MINIMAL, ["thought"])]
)
def test_both_schemas_are_flat_strings_and_only_one_has_the_exit_signal(tool, names):
    assert (tool.name, tool.function) == ("think", None)
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    fields = tool.parameters["properties"]
    assert {field["type"] for field in fields.values()} == {"string"}
    assert tool.parameters["required"] == list(fields) == names
    assert tool.parameters["additionalProperties"] is False
    assert fields.get("should_continue", {}).get("enum") in (None, ["true", "false"])


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
def test_a_thought_is_always_text(call, text):
    assert thought(call) == text


MEANS = {
    True: [True, "true", "TRUE"],
    False: [False, "false", "False", "\tfAlSe "],
    None: ["", "no", "'false'", None, 0, 1, 0.0, [], {}, ["false"]],
}


@pytest.mark.parametrize("means", MEANS)
def test_should_continue_reads_bools_and_their_names_and_nothing_else(means):
    for value in MEANS[means]:
        assert should_continue(think(thought="x", should_continue=value)) is means


def test_a_missing_signal_is_unreadable():
    assert should_continue(think(thought="x")) is None
    assert should_continue(ToolCall("1", "think", '{"should_continue": "false"}')) is None


STAY, LEAVE = think(should_continue="true"), think(should_continue=False)


MISSING = ' should_continue was missing or unreadable; it must be "true" or "false".'
ANSWERS = {  # call, tool: what is said after the constant
    "good": (STAY, THINK, ""),
    "the last one": (LEAVE, THINK, ""),
    "empty": (think(thought=""), THINK_MINIMAL, ""),
    "unreadable": (think(thought="x", should_continue="no"), THINK, MISSING),
    "missing": (think(thought="x"), THINK, MISSING),
    "text": (ToolCall("1", "think", "{"), THINK, " Its arguments were not a JSON object"),
}


@pytest.mark.parametrize(("call", "tool", "more"), ANSWERS.values(), ids=ANSWERS)
def test_each_thought_gets_its_result(call, tool, more):
    said = acknowledge(call, tool, under_schema=False)
    assert RECORDED == "Thought recorded."
    assert said.startswith(RECORDED + more) if more else said == RECORDED


@given(think_calls)
def test_every_thought_gets_a_result_that_is_not_empty(call):
    assert acknowledge(call, THINK, under_schema=False).startswith(RECORDED)
    assert isinstance(thought(call), str)
    assert should_continue(call) in (True, False, None)


def test_a_thought_in_a_form_without_the_signal_is_complained_of_in_no_word():
    assert acknowledge(think(thought="x"), THINK, under_schema=True) == RECORDED
    unreadable = think(thought="x", should_continue="maybe")
    assert acknowledge(unreadable, THINK, under_schema=True) == RECORDED + MISSING
