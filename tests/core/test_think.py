from dataclasses import dataclass, replace

import jsonschema
import pytest
from hypothesis import given

from tests.support.strategies import think_calls
from think_agent import THINK, THINK_MINIMAL, Agent, ScriptedModel, Tool, ToolCall, tool
from think_agent.testing import call
from think_agent.think import acknowledge, read_signal, read_thought


def think(**arguments):
    return ToolCall("1", "think", arguments)


def argue(reasons_for, reasons_against):
    """A call of a think tool with several texts (ARGUE)."""
    texts = {"for": reasons_for, "against": reasons_against, "should_continue": "true"}
    return think(**texts)


@pytest.mark.parametrize(
    ("tool", "names"), [(THINK, ["thought", "should_continue"]), (THINK_MINIMAL, ["thought"])]
)
def test_both_schemas_are_flat_strings_and_only_one_has_the_exit_signal(tool, names):
    assert tool.name == "think"
    assert tool.function is None
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
    assert read_thought(call) == text


MEANS = {
    True: [True, "true", "TRUE"],
    False: [False, "false", "False", "\tfAlSe "],
    None: ["", "no", "'false'", None, 0, 1, 0.0, [], {}, ["false"]],
}


@pytest.mark.parametrize("means", MEANS)
def test_should_continue_reads_bools_and_their_names_and_nothing_else(means):
    for value in MEANS[means]:
        assert read_signal(think(thought="x", should_continue=value)) is means


def test_a_missing_signal_is_unreadable():
    assert read_signal(think(thought="x")) is None
    assert read_signal(ToolCall("1", "think", '{"should_continue": "false"}')) is None


STAY = think(thought="due", should_continue="true")
LEAVE = think(thought="done", should_continue=False)


UNREADABLE = 'should_continue was missing or unreadable; it must be "true" or "false".'

ARGUE = replace(  # a think tool of your own, with several texts
    THINK,
    parameters={
        "type": "object",
        "properties": {
            "for": {"type": "string"},
            "against": {"type": "string"},
            "rule": {"type": "string"},
            "should_continue": {"type": "string"},
        },
        "required": ["for", "against", "should_continue"],
    },
)


@dataclass
class Case:
    """A think call, and what the model reads."""

    name: str
    call: ToolCall
    reads: str
    tool: Tool = THINK
    is_error: bool = False


CASES = [
    Case("a thought", STAY, "Thought recorded."),
    Case("the last thought", LEAVE, "Thought recorded."),
    Case("a signal that cannot be read", think(thought="x", should_continue="no"), UNREADABLE),
    Case("no signal", think(thought="x"), UNREADABLE),
    Case("no signal, and none is asked for", think(thought="x"), "recorded.", THINK_MINIMAL),
    Case("an empty thought", think(thought="", should_continue="true"), '"thought"', is_error=True),
    Case("a blank one", think(thought=" - ", should_continue="true"), '"thought"', is_error=True),
    Case("another key", think(reasoning="x", should_continue="true"), '"thought"', is_error=True),
    Case("nothing at all", think(), '"thought"', is_error=True),
    Case("no JSON", ToolCall("1", "think", "{"), "not a JSON object", is_error=True),
    Case("an end without a thought", think(should_continue="false"), "The end is noted."),
    Case("for and against", argue("due", "none"), "Thought recorded.", ARGUE),
    Case("no word against it", argue("due", " "), '"against"', ARGUE, is_error=True),
    Case("no word for it", argue(None, "final sale"), '"for"', ARGUE, is_error=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_kit_confirms_only_what_it_has_read(case):
    result = acknowledge(case.call, case.tool, under_schema=False)
    assert case.reads in result.content
    assert result.is_error == case.is_error


@given(think_calls)
def test_every_thought_gets_a_result_that_is_not_empty(call):
    assert acknowledge(call, THINK, under_schema=False).content
    assert isinstance(read_thought(call), str)
    assert read_signal(call) in (True, False, None)


def test_a_form_may_leave_the_signal_out():
    left_out = acknowledge(think(thought="x"), THINK, under_schema=True)
    assert left_out.content == "Thought recorded."
    unreadable = think(thought="x", should_continue="maybe")
    assert UNREADABLE in acknowledge(unreadable, THINK, under_schema=True).content


@tool(think_first=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@dataclass
class Paid:
    """A thought, and whether a guarded call after it in the same reply runs."""

    name: str
    thought: ToolCall
    runs: bool
    think: Tool = THINK


PAID = [
    Paid("a thought", think(thought="due", should_continue="true"), runs=True),
    Paid("a thought under another key", think(reasoning="due"), runs=False),
    Paid("an empty thought", think(thought=""), runs=False),
    Paid("for and against", argue("due", "none"), runs=True, think=ARGUE),
    Paid("for alone", argue("due", ""), runs=False, think=ARGUE),
]


@pytest.mark.parametrize("case", PAID, ids=lambda case: case.name)
def test_a_guarded_call_needs_each_text_that_is_required(case):
    model = ScriptedModel([(case.thought, call("pay", cents=1)), "Well.", "Well."])
    outcome = Agent(model, [pay], think=case.think, force="never", silence="accept").run("Pay.")
    assert bool(outcome.actions) == case.runs


def test_several_texts_are_one_thought_wherever_it_is_shown():
    model = ScriptedModel([(argue("It is due.", "Nothing."), call("pay", cents=1)), "Well."])
    shown = []

    def approve(question):
        shown.append(question.thought)
        return True

    guarded = replace(pay, needs_approval=True)
    agent = Agent(model, [guarded], think=ARGUE, force="never", silence="accept", approve=approve)
    outcome = agent.run("Pay.")
    text = "for: It is due.\nagainst: Nothing."
    assert shown == [text]
    assert outcome.thoughts == (text,)
    assert outcome.actions[0].thought == text
