"""The react dialect: what is read from a text, what the model sees of it, whole runs."""

import json
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.counting import grows_evenly
from tests.support.pieces import four_ways, told
from think_agent import (
    THINK,
    Agent,
    Assistant,
    Force,
    Request,
    ScriptedModel,
    ToolResult,
    User,
    tool,
)
from think_agent.dialects import json_plan, react


@tool(read_only=True)
def look(order_id: str, days: int = 1) -> str:
    """Look up an order."""
    return f"{order_id}: 13 days"


@tool(name="pay-out")
def pay_out(order_id: str, cents: int) -> str:
    """Pay money out."""
    return "paid"


@tool(read_only=True)
def count() -> int:
    """Count the orders."""
    return 9


TOOLS = (THINK, look, pay_out, count)
ORDER = {"order_id": "ORD-001"}
PAY = {"order_id": "ORD-001", "cents": 8900}


def request(*messages, tools=TOOLS, **options):
    return Request(messages or (User("ORD-001?"),), tools, **options)


def reply_to(text, asked_request=None, **fields):
    model = react(ScriptedModel(lambda _: Assistant(text=text, **fields)))
    return model.complete(asked_request or request())


def asked(request):
    """What the model inside is asked."""
    return react(ScriptedModel([])).ask(request)[1]


def thought(text, leaving=False):
    return ("think", {"thought": text, "should_continue": "false" if leaving else "true"})


def calls(reply):
    return [(call.name, call.arguments) for call in reply.tool_calls]


def act(name, given=""):
    return f"Action: {name}\nAction Input: {given}"


NESTED = {"order_id": "ORD-001", "days": {"a": [1, {"b": "}"}]}}
JSON = json.dumps(ORDER)
LOOKED, COUNTED = [("look", ORDER)], [("count", {})]
HM = [thought("hm")]
GONE = [thought("done", leaving=True)]

READ = {
    "a thought": ("Thought: hm", HM),
    "a thought of several lines": ("Thought: a\nb\n\n- c", [thought("a\nb\n\n- c")]),
    "an action": (f"Thought: hm\n{act('look', JSON)}", HM + LOOKED),
    "other case, bold, numbers": ("### THOUGHT 1: hm\n**Action 1:** count\n*action_input*: {}",
                                  HM + COUNTED),
    "bold around label and value": ("**Thought: hm**\n**Action: count**",
                                    [thought("hm**"), *COUNTED]),
    "nested JSON on several lines": (act("look", f"\n{json.dumps(NESTED, indent=2)}\nThat's it."),
                                     [("look", NESTED)]),
    "JSON with a label in it": (act("look", '{"order_id": "a\\nObservation: b"}'),
                                [("look", {"order_id": "a\nObservation: b"})]),
    "fenced JSON": (act("look", f"\n```json\n{JSON}\n```"), LOOKED),
    "no input where none is needed": ("Action: count", COUNTED),
    "a name in backticks": ("Action: `count`", COUNTED),
    "a name in brackets": ("Action: [count]", COUNTED),
    "a name with a dash": (act("pay-out", json.dumps(PAY)), [("pay-out", PAY)]),
    "a name with dots, undeclared": (act("shop.orders.look", "{}"), [("shop.orders.look", {})]),
    "several actions": (f"Thought: hm\n{act('look', JSON)}\nThought: hm\n{act('count')}",
                        [thought("hm\n\nhm"), *LOOKED, *COUNTED]),
    "an input alone": ("Thought: hm\nAction Input: {}", HM),
    "no input": ("Thought: hm\nAction: look", [*HM, ("look", {})]),
    "no object": (act("look", "ORD-001"), [("look", "ORD-001")]),
    "half an object": (act("look", '{"order_id": '), [("look", '{"order_id":')]),
    "no object, of a tool that changes something": (act("pay-out", "7\nI will not!"),
                                                    [("pay-out", "7\nI will not!")]),
    "an invented observation": (f"{act('look', JSON)}\nObservation: 99 days\nThought: too old\n"
                                "Action: pay-out\nFinal Answer: No.", LOOKED),
    "an answer before its result": (f"{act('look', JSON)}\nFinal Answer: It is old.", LOOKED),
    "think as an action": (act("think", '{"thought": "done", "should_continue": "false"}'), GONE),
    "the exit signal": ("Thought: done\nFinal Answer: Yes.", GONE),
    "the exit signal without a thought": ("Final Answer: Yes.", [thought("", leaving=True)]),
    "an answer with labels in it": (f"Thought: done\nFinal Answer: Next:\n{act('wait', '{}')}",
                                    GONE),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_every_way_to_write_a_reply_is_read(case):
    text, wanted = READ[case]
    reply = reply_to(text)
    assert calls(reply) == wanted
    answer = text.partition("Final Answer: ")[2] if wanted[0][0] == "think" else ""
    assert reply.stop_reason == "tool_use"
    assert reply.text == answer
    assert reply.mistake == ""


class Case(NamedTuple):
    """A text, and what `parse` reads in it."""

    says: str
    thought: str = ""
    action: str | None = None
    input: dict | str | None = None
    final_answer: str | None = None
    is_final: bool = False


PARSED = [
    Case(
        'Thought: Look first.\nAction: look\nAction Input: {"order_id": "ORD-001"}',
        thought="Look first.",
        action="look",
        input=ORDER,
    ),
    Case("Action: count", action="count", input={}),
    Case("Thought: hm", thought="hm"),
    Case(
        "Thought: done\nFinal Answer: It is 9.",
        thought="done",
        final_answer="It is 9.",
        is_final=True,
    ),
    Case("Final Answer: Yes.\nAction: count", final_answer="Yes.\nAction: count", is_final=True),
    Case("Action: count\nFinal Answer: 9", action="count", input={}, final_answer="9"),
    Case("Thought: hm\nFinal Answer:", thought="hm", final_answer=""),
    Case("Action: look\nAction Input: {broken", action="look", input="{broken"),
    Case("Action: look\nAction Input: ORD-001", action="look", input="ORD-001"),
    Case("Thought: a\nAction: count\nThought: b\nAction: look", "a\n\nb", "count", {}),
    Case("Action: count\nObservation: 9\nFinal Answer: 9", action="count", input={}),
    Case("Thought: hm\nAction: I am not sure", thought="hm"),
    Case("It is 9."),
    Case(""),
]


@pytest.mark.parametrize("case", PARSED, ids=lambda case: case.says)
def test_a_text_is_parsed_into_its_fields(case):
    parsed = react.parse(case.says)
    assert parsed.thought == case.thought
    assert parsed.action == case.action
    assert parsed.input == case.input
    assert parsed.final_answer == case.final_answer
    assert parsed.is_final == case.is_final


def test_what_cannot_be_acted_on_has_a_problem():
    assert "no label" in react.parse("It is 9.").problem
    assert "'I am not sure' is not the name" in react.parse("Action: I am not sure").problem
    assert react.parse("Action: count").problem == ""


MALFORMED = {
    "plain words": ("It is 13 days old.", "no label"),
    "nothing": ("", "no label"),
    "only an invented observation": ("Observation: 13 days\nFinal Answer: x", "no label"),
    "a label in a quotation": ('> Action: look\n> Action Input: "7"', "no label"),
    "a label that is indented": ('    Action: look\n    Action Input: "7"', "no label"),
    "a label in code": ("`Action: count`", "no label"),
    "no name": ("Action: ", "'' is not the name of a tool alone"),
    "no action, in words": ("Thought: hm\nAction: None needed.", "'None needed'"),
    "prose beside the name": ("Action: look to see the order", "'look to see the order'"),
    "an input beside the name": ("Action: look[ORD-001]", "'look[ORD-001'"),
    "an object beside the name": (f"Action: look {JSON}", "'look {"),
    "arguments beside a name that needs none": ("Action: count(by=5)", "'count(by=5'"),
    "another label for the input": ('Action: count\nInput: {"by": 5}', "Input"),
    "one good action and a bad one": ("Action: count\nAction: look it up", "'look it up'"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_reply_is_told_what_was_expected(case):
    text, said = MALFORMED[case]
    reply = reply_to(text)
    assert reply.stop_reason == "malformed"
    assert reply.text == text
    assert reply.tool_calls == ()
    assert said in reply.mistake
    assert "Final Answer:" in reply.mistake  # what was expected


def test_other_text_may_stand_beside_a_thought_that_is_written_as_an_action():
    assert calls(reply_to(f"So.\n{READ['think as an action'][0]}")) == GONE


def test_text_before_the_first_label_is_the_text_beside_the_calls():
    reply = reply_to("Let me see.\nAction: count")
    assert reply.text == "Let me see."
    assert calls(reply) == [("count", {})]


FINAL = {
    "Your refund is on its way.": "Your refund is on its way.",
    "Final Answer: Yes.\n\nAction: wait.": "Yes.\n\nAction: wait.",
    "Thought: done\n**Final Answer:** Yes.": "Yes.",
    "Sure!\nFinal Answer: Yes.": "Sure!\n\nYes.",
    "Yes.\nObservation: thanks": "Yes.",
    "A thought ends with </think>.": "A thought ends with </think>.",
    "Thought: one more\nAction: count": "",  # the loop asks once more
    "Action: count\nFinal Answer: Yes.": "Yes.",  # the call is dropped
}


@pytest.mark.parametrize("text", FINAL)
def test_in_the_final_call_plain_text_is_the_answer(text):
    reply = reply_to(text, request(tool_choice="none"))
    assert reply.text == FINAL[text]
    assert reply.tool_calls == ()
    assert reply.stop_reason == "end_turn"


def test_a_typed_answer_may_follow_its_label():
    """The servers that need this dialect know no schema."""

    def clerk(asked_request):
        if asked_request.output_schema:
            return Assistant('Final Answer: {"answer": [7]}')
        return Assistant("Thought: done\nFinal Answer: It is 7.")

    model = react(ScriptedModel(clerk))
    outcome = Agent(model, [count], answer=list[int]).run("Which?")
    assert outcome.exit == "signal"
    assert outcome.data == [7]


# What the model inside gets to see.


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Force("think"), "Now write a Thought"),
        (Force("count"), "Now write an Action with the tool count."),
        ("required", "Now write an Action; or,"),
        ("none", "Now write the Final Answer"),
    ],
)
def test_a_tool_choice_is_asked_for_at_the_end_of_the_last_message(choice, said):
    (message,) = asked(request(tool_choice=choice)).messages
    assert isinstance(message, User)
    assert message.text.startswith("ORD-001?\n\n" + said)
    reply = reply_to("Thought: hm", request(tool_choice=choice))
    assert reply.enforced == "prompt"


def test_a_tool_choice_that_was_asked_for_stays_in_the_history():
    said = replace(reply_to("Thought: hm"), tool_choice=Force("think"))  # as the loop notes it
    history = (User("ORD-001?"), said, ToolResult("", "think", "ok"))
    first, own, result = asked(request(*history)).messages
    assert first == User("ORD-001?\n\nNow write a Thought, and no Action yet.")
    assert own.text == "Thought: hm"
    assert result.text == "ok"


# The prompt.


def system_of(*tools):
    return asked(request(tools=(THINK, *tools))).system


def test_the_prompt_has_ten_rules():
    rules = re.findall(r"^(\d+)\. (.+)$", system_of(look), re.MULTILINE)
    assert [int(number) for number, _ in rules] == list(range(1, 11))


@pytest.mark.parametrize(
    "rule",
    [
        "never make up a result",
        "Never write an Observation yourself",
        "is valid JSON",
        "try another way",
        "Never send the same Action again",
        "say so in the Final Answer",
        "Do every part of the request",
    ],
)
def test_a_rule_of_the_pattern_is_in_the_prompt(rule):
    assert rule in system_of(look)


def test_the_example_of_the_prompt_is_in_the_form_that_is_read():
    example = system_of(look).partition("# Example")[2].partition("# Tools")[0]
    replies = re.split(
        r"^Observation .*$", example[example.index("Thought:") :], flags=re.MULTILINE
    )
    *steps, last = [react.parse(reply) for reply in replies]
    assert [step.action for step in steps] == ["count_stock"] * 3
    assert [step.input["item"] for step in steps] == ["chair", "lamp", "desk lamp"]
    assert all(step.is_alone and step.thought for step in steps)
    assert last.is_final
    assert last.problem == ""


def test_the_prompt_asks_for_notes_and_never_for_reasoning():
    """Some models refuse to write out their reasoning."""
    assert not re.search("reasoning|step by step|thought process", system_of())


# What a tool returns.


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Parcel:
    number: int
    size: Size


def unknown():
    """Does something."""


def nothing() -> None:
    """Does something."""


def anything() -> Any:
    """Does something."""


def socket() -> type[Exception]:
    """Does something."""


def degrees(city: str) -> Annotated[float, "in degrees Celsius"]:
    """The temperature of a city.

    Args:
        city: its name

    Returns:
        the mean of today
    """
    return 20.0


def facts() -> dict[str, Any]:
    """What is known."""
    return {}


async def parcels() -> list[Parcel]:
    """All parcels."""
    return []


PARCEL = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "size": {"type": "string", "enum": ["s", "l"]},
    },
    "required": ["number", "size"],
}
RETURNS = [
    (tool(unknown), None),
    (tool(nothing), None),
    (tool(anything), None),
    (tool(degrees), {"type": "number", "description": "in degrees Celsius"}),
    (tool(parcels), {"type": "array", "items": PARCEL}),
    (tool(facts), {"type": "object"}),
    (look, {"type": "string"}),
]


@pytest.mark.parametrize(("own", "returns"), RETURNS)
@pytest.mark.parametrize("dialect", [react, json_plan])
def test_a_model_that_reads_its_tools_as_text_is_told_what_they_return(own, returns, dialect):
    system = dialect(ScriptedModel([])).ask(request(tools=(THINK, own)))[1].system
    (line,) = [line for line in system.splitlines() if line.startswith('{"name": ')]
    assert json.loads(line).get("returns") == returns


def test_what_the_docstring_says_about_the_result_is_told_too():
    assert "the mean of today" in system_of(tool(degrees))


def test_a_result_that_is_no_json_is_no_mistake_of_the_tool():
    class Own:
        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            raise RuntimeError("no schema for you")

    def own() -> Own:
        """Does something."""

    own.__annotations__ = {"return": Own}
    assert tool(own).returns is None
    assert tool(socket).returns is None


# Properties.


LABELS = [
    "Thought:",
    "**Action:**",
    "Action Input:",
    "Final Answer:",
    "Observation:",
    "> action 1:",
]
PIECES = [*LABELS, "\n", "\n", " ", "{", '{"order_id": "a"}', "look", "count", "None", "```", "x"]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)
KNOWN = [text for text, _ in [*READ.values(), *MALFORMED.values()]]
texts |= st.sampled_from([*KNOWN, *FINAL])
REQUESTS = [request(), request(tool_choice="none"), request(tools=(count,))]


@given(texts, st.sampled_from(REQUESTS))
@example("Action:\n_\nAction Input: {}", REQUESTS[0])
@example(READ["an answer before its result"][0], REQUESTS[2])
def test_any_text_is_read_or_refused_in_all_four_ways(text, asked_request):
    model = react(ScriptedModel(lambda _: Assistant(text)))
    reply, deltas = four_ways(model, asked_request)
    assert bool(reply.tool_calls) == (reply.stop_reason == "tool_use")
    assert bool(reply.mistake) == (reply.stop_reason == "malformed")
    if reply.stop_reason == "malformed":
        assert reply.text == text
        assert deltas == []
    else:
        assert told(deltas, "answer") == reply.text


@given(texts)
def test_any_text_is_parsed_and_the_dialect_reads_what_was_parsed(text):
    parsed = react.parse(text)
    assert (parsed.action is None) == (parsed.input is None) == (not parsed.calls)
    assert not (parsed.problem and (parsed.calls or parsed.is_final))
    reply = reply_to(f"Thought: hm\n{text}", request(tools=(THINK, look, count)))
    again = react.parse(f"Thought: hm\n{text}")
    if reply.is_usable:
        acts = [call.name for call in reply.tool_calls if call.name != "think"]
        assert acts == [call.name for call in again.calls if call.name != "think"]
        assert not again.is_final or reply.text == again.final_answer


@given(
    st.sampled_from([look, pay_out]),
    st.dictionaries(st.text(), st.text()),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="`")),
)
def test_a_reply_in_the_dialect_is_read_as_it_was_meant(item, arguments, notes):
    lines = [f"Thought: {notes}", f"Action: {item.name}"]
    lines += [f"Action Input: {json.dumps(arguments, indent=1)}"]
    wanted = [thought(notes.strip())] if notes.strip() else []
    assert calls(reply_to("\n".join(lines))) == [*wanted, (item.name, arguments)]


ALONE = {  # how a call of pay-out may be written; does it run?
    "Thought: Due.\n{}": True,
    "Thought: Due.\nThought: Really.\n{}": True,
    "{}": True,
    "{}\nObservation: paid\nI will not!\nFinal Answer: No.": True,
    "<think>Rule 5?</think>\nThought: Due.\n{}": True,
    "Rule 5?\n</think>\n{}": True,
    "I must not do this, rule 5 forbids it. It would have been:\n{}": False,
    "```\n{}\n```": False,
    "Thought: I will not:\n```\n{}\n```": False,
    "Thought: I will not:\n```\n{}": False,
    "{}\nNo!": False,
    "{}\nThought: No!": False,
    "{}\nFinal Answer: No!": False,
    "{}\nAction: None": False,
    "{}\nAction: think\nAction Input: I will not!": False,
    "{}\n{}": False,
    "Action: count\n{}": False,
    "{}\nAction: count": False,
}
WRITTEN = {
    'Action: pay-out\nAction Input: {"order_id": "ORD-001", "cents": 8900}': True,
    "Action: `pay-out`\nAction Input:\n```json\n" + json.dumps(PAY, indent=1) + "\n```": True,
    f"Action: pay-out (I will not)\nAction Input: {json.dumps(PAY)}": False,
}


@pytest.mark.parametrize(("around", "runs"), ALONE.items())
@pytest.mark.parametrize(("written", "is_plain"), WRITTEN.items())
def test_an_action_that_changes_something_runs_only_where_it_ends_its_reply_and_is_alone(
    around, runs, written, is_plain
):
    text = around.replace("{}", written)
    reply = reply_to(text)
    if not is_plain:
        assert "is not the name of a tool alone" in reply.mistake
    elif not runs:
        assert reply.stop_reason == "malformed"
        assert reply.text == text
        assert "pay-out was not run" in reply.mistake
    else:
        assert ("pay-out", PAY) in calls(reply)


@pytest.mark.parametrize(
    "piece",
    [
        *LABELS,
        "\n",
        " ",
        "*",
        "Action Input: {\n",
        "Action: a\n",
        "[",
        "<think>",
        "</think",
        "``` ",
    ],
)
def test_hostile_texts_take_linear_time(piece):
    assert grows_evenly(lambda size: reply_to(piece * (size // len(piece))), 10_000, 100_000)


# Whole runs.


def test_a_final_answer_is_the_answer_and_the_model_is_not_asked_again():
    """Each time, it invents an Observation."""
    script = ["Thought: hm\nAction: count\nObservation: 7",
              "Thought: done\nFinal Answer: There are 9.\nObservation: whatever"]  # fmt: skip
    outcome = Agent(react(ScriptedModel(script)), [count], force="never").run("How many?")
    assert outcome.exit == "signal"
    assert outcome.answer == "There are 9."
    history = asked(request(*outcome.transcript, User("And now?"))).messages
    assert sum(outcome.answer in message.text for message in history) == 1


def test_an_exit_signal_without_an_answer_is_asked_for_one():
    model = react(ScriptedModel([READ["think as an action"][0], "Final Answer: Yes."]))
    outcome = Agent(model, [count]).run("Well?")
    assert outcome.exit == "signal"
    assert outcome.answer == "Yes."
    assert outcome.thoughts == ("done",)
    assert outcome.model_calls == 2


CITIES = {"Oslo": 4, "Rome": 19}


@tool(read_only=True)
def temperature(city: str) -> int:
    """The temperature of a city now, in degrees Celsius."""
    return CITIES[city]


def two_cities(asked_request):
    """Looks up one city after the other, and compares what it has read."""
    heard = "\n".join(message.text for message in asked_request.messages)
    known = re.findall(
        r'^Observation \(temperature \{"city": "(\w+)"\}\): (\d+)$', heard, re.MULTILINE
    )
    left = [city for city in CITIES if city not in dict(known)]
    if left:
        said = f"Thought: {left[0]} is unknown.\nAction: temperature\n"
        return Assistant(said + f'Action Input: {{"city": "{left[0]}"}}')
    (_, cold), (other, warm) = known
    thought = f"Thought: {warm} is more than {cold}."
    return Assistant(f"{thought}\nFinal Answer: {other} is {int(warm) - int(cold)} degrees warmer.")


@pytest.mark.parametrize("force", ["never", "first", "always"])
def test_which_of_two_cities_is_warmer(force):
    outcome = Agent(react(ScriptedModel(two_cities)), [temperature], force=force).run(
        "Which is warmer, Oslo or Rome, and by how much?"
    )
    assert outcome.exit == "signal"
    assert outcome.answer == "Rome is 15 degrees warmer."
    assert [(a.call.arguments["city"], a.result.content) for a in outcome.actions] == [
        ("Oslo", "4"),
        ("Rome", "19"),
    ]
    assert [action.thought for action in outcome.actions] == [
        "Oslo is unknown.",
        "Rome is unknown.",
    ]
