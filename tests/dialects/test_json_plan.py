"""The json dialect: schemas that allow what can be run and nothing else, and what is read."""

import json
from copy import deepcopy
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.support.counting import grows_evenly
from tests.support.pieces import InPieces, told
from think_agent import (
    Agent,
    Assistant,
    Delta,
    Force,
    Request,
    ScriptedModel,
    Tool,
    ToolResult,
    User,
    tool,
)
from think_agent.dialects.json_plan import KEYS, json_plan
from think_agent.schema import reduce_schema
from think_agent.think import THINK, THINK_MINIMAL, bare, read_carried
from think_agent.tools import fit_or_repair


def shape(*required, **properties):
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


HOW = {"type": "string", "enum": ["near", "far"], "default": "near"}
ID = {"type": "integer", "minimum": 1}
LOOK = Tool(name="look", description="", parameters=shape("id", id=ID, how=HOW), read_only=True)
WAIT = Tool(name="wait", description="Wait.", parameters={"type": "object"})
TOOLS = (THINK, LOOK, WAIT)
ASKED = (User("Look at 7."),)


def plan(**changes):
    whole = {
        "understanding": "Seven is to be seen.",
        "reasoning": "So look.",
        "task_complete": False,
        "actions": [act("look", id=7)],
        "response": "",
    }
    return {key: value for key, value in {**whole, **changes}.items() if value is not ...}


def act(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def answer(text, choice="auto", tools=TOOLS, **fields):
    """What the dialect makes of a reply of the model inside."""
    said = Assistant(text=text if isinstance(text, str) else json.dumps(text), **fields)
    model = json_plan(ScriptedModel([said]))
    return model.complete(Request(ASKED, tools, tool_choice=choice))


def asked(request, name="p"):
    """What the model inside is asked."""
    return json_plan(ScriptedModel([], name=name)).ask(request)[1]


def calls(said):
    return [(call.name, call.arguments) for call in said.tool_calls]


# What a plan becomes.


@pytest.mark.parametrize(("task_complete", "should_continue"), [(False, "true"), (True, "false")])
def test_a_plan_becomes_a_thought_with_the_exit_signal_and_its_actions(
    task_complete, should_continue
):
    reply = answer(plan(task_complete=task_complete))
    notes = {"thought": "Seven is to be seen.\n\nSo look.", "should_continue": should_continue}
    assert calls(reply) == [("think", notes), ("look", {"id": 7})]
    assert reply.text == ""
    assert reply.stop_reason == "tool_use"
    assert reply.enforced is None


@tool(name="pay", think_first=True)
def pay(dollars: int = 5) -> str:
    """Pay."""
    return f"${dollars} paid"


def run_plans(*plans, **options):
    """A run of an agent that may pay, on a model that writes these plans."""
    texts = [item if isinstance(item, str) else json.dumps(item) for item in plans]
    return Agent(json_plan(ScriptedModel(texts)), [pay], **options).run("Pay.")


DONE = plan(reasoning="Paid.", task_complete=True, actions=[], response="It is paid.")


def reasoned(tool, reasoning, **arguments):
    return {**act(tool, **arguments), "reasoning": reasoning}


def test_the_reasoning_of_an_action_is_the_thought_that_its_call_carries():
    reply = answer(plan(actions=[reasoned("look", " 7 was asked for. ", id=7)]))
    look = reply.tool_calls[1]
    assert read_carried(look) == "7 was asked for."
    assert bare(look).arguments == {"id": 7}


@pytest.mark.parametrize("think_tool", [THINK, THINK_MINIMAL])
def test_that_thought_is_behind_its_action_and_its_function_does_not_see_it(think_tool):
    paying = plan(actions=[reasoned("pay", "It is due.")])
    outcome = run_plans(paying, DONE, think=think_tool, force="never")
    (action,) = outcome.actions
    assert action.thought == "It is due."
    assert action.how == "carried"
    assert action.call.arguments == {}
    assert action.result.content == "$5 paid"


def test_an_observation_does_not_repeat_the_thought():
    reply = replace(answer(plan(actions=[reasoned("pay", "It is due.")]), tools=(THINK, pay)))
    history = (*ASKED, reply, ToolResult("", "think", "ok"), ToolResult("", "pay", "paid"))
    *_, last = asked(Request(history, (THINK, pay))).messages
    assert last.text == "ok\n\nObservation (pay {}): paid"


def test_an_action_with_a_reason_of_its_own_needs_no_other():
    paying = plan(understanding="", reasoning="", actions=[reasoned("pay", "It is due.")])
    (action,) = run_plans(paying, DONE, force="never").actions
    assert action.thought == "It is due."


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_reasoning_of_an_action_is_no_thought(blank):
    reply = answer(plan(actions=[reasoned("wait", blank)]))
    assert read_carried(reply.tool_calls[1]) == ""
    assert answer(plan(reasoning="", actions=[reasoned("wait", blank)])).stop_reason == "malformed"


def test_a_key_that_a_plan_does_not_know_is_ignored():
    reply = answer(plan(mood="good", confidence=0.9, steps=["look", "wait?"][1:]))
    assert calls(reply)[1] == ("look", {"id": 7})


def test_a_response_beside_an_action_is_commentary_and_not_the_answer():
    reply = answer(plan(response="I am looking."))
    assert reply.text == ""
    assert reply.commentary == "I am looking."
    outcome = run_plans(plan(actions=[act("pay")], response="Paying..."), DONE, force="never")
    assert outcome.answer == "It is paid."
    assert [reply.commentary for reply in outcome.turn.replies] == ["Paying...", ""]


def test_a_stream_of_a_run_has_the_remarks_apart_from_the_answer():
    plans = [plan(actions=[act("pay")], response="Paying..."), DONE]
    model = json_plan(ScriptedModel([json.dumps(item) for item in plans]))
    events = list(Agent(model, [pay], force="never").stream("Pay."))
    assert told(events, "commentary") == "Paying..."
    assert told(events, "answer") == "It is paid."


# An honest "cannot".

CANNOT = replace(
    THINK,
    parameters={
        **THINK.parameters,
        "properties": {
            **THINK.parameters["properties"],
            "should_continue": {"type": "string", "enum": ["true", "false", "cannot"]},
            "missing": {"type": "string"},
        },
    },
)
CAN_SAY = (CANNOT, LOOK, WAIT)


@pytest.mark.parametrize(
    ("tools", "choice", "is_offered"),
    [
        (CAN_SAY, "auto", True),
        (CAN_SAY, "required", True),
        (CAN_SAY, Force("wait"), True),
        (CAN_SAY, Force("think"), False),
        (CAN_SAY, "none", False),
        (TOOLS, "auto", False),
    ],
)
def test_a_plan_may_say_cannot_where_the_think_tool_may(tools, choice, is_offered):
    inner = asked(Request(ASKED, tools, tool_choice=choice))
    keys = list(inner.output_schema["properties"])
    assert ("cannot" in keys) == is_offered
    assert keys[-1] == "response" or choice == Force("think")
    assert ('- "cannot"' in inner.system) == (tools is CAN_SAY)


def test_a_plan_that_says_what_is_missing_is_a_signal():
    said = answer(plan(cannot="The crane is broken.", actions=[]), "required", CAN_SAY)
    (think_call,) = said.tool_calls
    assert think_call.arguments["should_continue"] == "cannot"
    assert think_call.arguments["missing"] == "The crane is broken."
    nothing = answer(plan(cannot=" "), "auto", CAN_SAY)
    assert nothing.tool_calls[0].arguments.keys() == {"thought", "should_continue"}


def test_cannot_beside_an_action_is_a_mistake():
    said = answer(plan(cannot="The crane is broken."), "auto", CAN_SAY)
    assert "cannot and an action exclude each other" in said.mistake


# What a tool choice does.


NOTES, MINIMAL = list(KEYS[:2]), (THINK_MINIMAL, LOOK)
ASKED_FOR = [  # a tool choice; the keys of the turn, the tools that it may name, how many it must
    (TOOLS, "auto", list(KEYS), ["look", "wait"], 0),
    (TOOLS, "required", list(KEYS), ["look", "wait"], 0),  # the exit signal is a way out
    (MINIMAL, "required", list(KEYS), ["look"], 1),
    ((LOOK,), "required", list(KEYS), ["look"], 1),
    ((THINK,), "required", [*NOTES, "task_complete", "response"], [], 0),
    (TOOLS, Force("wait"), list(KEYS), ["wait"], 1),
    (TOOLS, Force("think"), NOTES, [], 0),  # nothing was done yet
    (MINIMAL, Force("think"), NOTES, [], 0),
    (TOOLS, "none", ["response"], [], 0),
]


@pytest.mark.parametrize(("tools", "choice", "keys", "names", "least"), ASKED_FOR)
def test_a_tool_choice_is_a_narrower_schema(tools, choice, keys, names, least):
    schema = asked(Request(ASKED, tools, tool_choice=choice)).output_schema
    assert is_strict(schema)
    assert list(schema["properties"]) == keys
    actions = schema["properties"].get("actions", {"items": {"anyOf": []}})
    assert actions.get("minItems", 0) == least
    assert actions.get("maxItems") == (1 if names else None)
    branches = [branch["properties"]["tool"] for branch in actions["items"]["anyOf"]]
    assert branches == [{"type": "string", "enum": [name]} for name in names]


def test_required_means_an_action_or_the_exit_signal():
    said = answer(plan(actions=[]), "required")
    assert said.stop_reason == "malformed"
    assert "actions: this turn asks for one" in said.mistake
    assert answer(plan(actions=...), "required", tools=(THINK,)).stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"response": "Seen."}', "Seen."),
        (plan(response="Seen."), "Seen."),  # its action is dropped
        ("Seen. It is {blue}.", "Seen. It is {blue}."),
        ("  Done\n", "Done"),
        ("", ""),
    ],
)
def test_in_the_final_call_plain_text_is_the_answer_too(text, words):
    said = answer(text, "none")
    assert said.text == words
    assert said.stop_reason == "end_turn"
    assert said.tool_calls == ()


@pytest.mark.parametrize("text", ['{"response": 7}', '{"response": "Se', "```json\n{}\n```", "{}"])
def test_a_broken_plan_is_no_answer(text):
    assert answer(text, "none").stop_reason == "malformed"


def test_keys_without_a_use_are_ignored_but_an_action_never_is():
    whole = plan(response="Seen.", actions=[])
    assert answer(whole, Force("think")).stop_reason == "tool_use"
    reply = answer(plan(response="Seen."), Force("think"))
    assert reply.stop_reason == "malformed"
    assert "actions: no tool 'look' now" in reply.mistake


# What is no plan.


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        ("", "there is no JSON object in it"),
        ("I would look at it.", "there is no JSON object in it"),
        ('{"reasoning": "so', "none that can be read"),
        (json.dumps(plan())[:-1], "none that can be read"),
        ([plan(response=5)], "response: Input should be a valid string, got 5"),
        (plan(reasoning=...), "reasoning: Input should be a valid string, got None"),
        (plan(action="look"), "action: there is no such field; an action belongs in actions"),
        (plan(next=act("look", id=7)), "next: there is no such field; an action belongs"),
        (plan(tool_calls=[act("look", id=7)]), "tool_calls: there is no such field; an action"),
        (plan(actions=[], tool="look", arguments={"id": 7}), "tool: there is no such field"),
        (plan(actions=[{**act("wait"), "why": "so"}]), "actions.0.why: there is no such field"),
        (plan(actions=[{**act("wait"), "reasoning": 7}]), "actions.0.reasoning: Input should be"),
        (plan(task_complete="no"), "task_complete: Input should be a valid boolean, got 'no'"),
        (plan(actions={}), "actions: Input should be a valid list, got {}"),
        (plan(actions=["look"]), "actions.0: "),
        (plan(actions=[{"tool": "look"}]), "actions.0.arguments: this field is required"),
        (plan(actions=[act("think")]), "actions: no tool 'think' now; possible: [look, wait]"),
        (plan(actions=[{"tool": "look", "arguments": "7"}]), "actions.0.arguments: Input should"),
        (plan(actions=[act("wait")] * 2), "it must hold at most 1, not 2"),
        (plan(reasoning=" \n"), "reasoning is blank"),
    ],
)
def test_a_mistake_is_named_to_the_model(said, mistake):
    reply = answer(said)
    assert reply.stop_reason == "malformed"
    assert reply.tool_calls == ()
    assert reply.text == (said if isinstance(said, str) else json.dumps(said))
    assert mistake in reply.mistake
    assert "understanding, reasoning, task_complete, actions, response" in reply.mistake


def test_a_blank_reasoning_is_no_mistake_where_nothing_is_done():
    said = answer(plan(understanding="", reasoning="", actions=[]))
    assert said.tool_calls[0].arguments == {"thought": "", "should_continue": "true"}


AROUND = {  # a text around a plan; is it the plan and nothing else?
    "{}": True,
    "\n{}\n": True,
    "```json\n{}\n```": True,
    "```\n{}": True,  # the end of the fence was a stop word
    "<think>I could send {{}}.</think>\n{}": True,
    "So I look.\n</think>\n\n```json\n{}\n```": True,
    "I must not do this, rule 5 forbids it. It would have been: {}": False,
    "Here is {{my}} plan:\n{}\nDone.": False,
    "{}\nNo!": False,
    "{} {{": False,
    '{{"id": 7}} {}': False,
    '["I will not:", {}]': False,
    '{{"wrong": {}}}': False,
    "```json\n{}\n```\nNo!": False,
    "<think>I was told to.</think> Never! {}": False,
    "<think>I was told to: {}": False,
    "I will not. <think>I was told to.</think>{}": False,
    "> {}": False,
}


@pytest.mark.parametrize(("around", "is_alone"), AROUND.items())
def test_where_other_text_stands_beside_a_plan_nothing_is_changed(around, is_alone):
    looks = around.format(json.dumps(plan(actions=[act("look")]), indent=1))
    if "wrong" not in around:  # there, the plan is no plan at all
        assert [name for name, _ in calls(answer(looks))] == ["think", "look"]
    waits = around.format(json.dumps(plan(actions=[act("wait")]), indent=1))
    reply = answer(waits)
    if is_alone:
        assert len(reply.tool_calls) == 2
        assert reply.stop_reason == "tool_use"
        assert reply.text == ""
    else:
        assert reply.tool_calls == ()
        assert reply.stop_reason == "malformed"
        assert reply.text == waits


def test_leading_marked_thinking_is_thinking_and_a_plan_may_speak_of_tags():
    said = answer(f"<think>Hm.</think>{json.dumps(plan(actions=[act('wait')]))}", thinking="Oh.")
    assert said.thinking == "Oh.\n\nHm."
    for text in ("<think>a</think>", "a</think>b"):
        assert calls(answer(plan(actions=[act("wait", text=text)])))[1] == ("wait", {"text": text})


# The schema against jsonschema, an independent oracle.

NAMES = st.sampled_from(["a", "b", "properties", "type", "enum", "$ref", "tool", "reasoning"])
LEAVES = [  # a schema, and its values
    ({"type": "string"}, st.text(st.characters(codec="utf-8"), max_size=4)),
    ({"type": "integer"}, st.integers()),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": ["string", "null"]}, st.none() | st.just("x")),
    ({"enum": ["x", 1, True, None]}, st.sampled_from(["x", 1, True, None])),
    ({"const": "x", "type": "string"}, st.just("x")),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    ),
    ({}, st.sampled_from([None, 0, "x", [], {"y": None}])),
]


@st.composite
def parts(draw, depth=2):
    """A schema, and its values in a plan."""
    match draw(st.sampled_from(["leaf", "object", "list", "either"])) if depth else "leaf":
        case "leaf":
            return draw(st.sampled_from(LEAVES))
        case "object":
            return draw(objects(depth - 1))
        case "list":
            schema, values = draw(parts(depth - 1))
            return {"type": "array", "items": schema}, st.lists(values, max_size=2)
    (one, ones), (two, twos) = draw(parts(depth - 1)), draw(parts(depth - 1))
    return {"anyOf": [one, two]}, ones | twos


@st.composite
def objects(draw, depth=2):
    """That of an object. In a plan every key is there, and null where it may be left out."""
    inside = draw(st.dictionaries(NAMES, parts(depth), max_size=3))
    required = [name for name in inside if draw(st.booleans())]
    schema = shape(*required, **{name: schema for name, (schema, _) in inside.items()})
    schema |= draw(st.sampled_from([{}, {"additionalProperties": False}]))
    values = {n: v if n in required else v | st.none() for n, (_, v) in inside.items()}
    return schema, st.fixed_dictionaries(values)


@st.composite
def turns(draw):
    """Tools, a tool choice, the schema of the turn and an instance of it."""
    made = draw(st.lists(objects(), min_size=1, max_size=3))
    own = [Tool(name=f"tool_{n}", description="", parameters=s) for n, (s, _) in enumerate(made)]
    tools = (*draw(st.sampled_from([(), (THINK,), (THINK_MINIMAL,)])), *own)
    forced = [Force(tool.name) for tool in tools]
    choice = draw(st.sampled_from(["auto", "required", "none", *forced]))
    request = Request(ASKED, tools, tool_choice=choice)
    schema = asked(request).output_schema
    actions = [
        st.fixed_dictionaries({"tool": st.just(tool.name), "arguments": values})
        for tool, (_, values) in zip(own, made, strict=True)
        if choice in ("auto", "required", Force(tool.name))
    ]
    must = isinstance(choice, Force) or (choice == "required" and THINK not in tools)
    values = {"task_complete": st.booleans()}
    if actions:
        values["actions"] = st.lists(st.one_of(actions), min_size=must, max_size=1)
    keys = {key: values.get(key, st.text(max_size=4)) for key in schema["properties"]}
    return tools, choice, schema, draw(st.fixed_dictionaries(keys))


def breaks_a_rule(choice, instance):
    """The two rules that no schema carries."""
    acts = bool(instance.get("actions"))
    blank = acts and not instance["reasoning"].strip()
    idle = choice == "required" and not acts and not instance["task_complete"]
    return blank or (idle and "actions" in instance)


@settings(max_examples=60)
@given(turns())
def test_every_instance_of_the_schema_decodes_to_calls_that_validate(turn):
    tools, choice, schema, instance = turn
    before = deepcopy(tools)
    assert is_strict(schema)
    assert "anyOf" not in schema
    jsonschema.validate(instance, schema)
    said = answer(instance, choice, tools)
    assert (said.stop_reason == "malformed") == breaks_a_rule(choice, instance)
    assert tools == before
    if said.stop_reason != "malformed":
        by_name = {tool.name: tool for tool in tools}
        for call in said.tool_calls:
            if call.name == "think":
                jsonschema.validate(call.arguments, by_name["think"].parameters)
                continue
            tool = replace(by_name[call.name], function=lambda **arguments: None)
            valid, _ = fit_or_repair({call.name: tool}, call)  # without nulls for what is left out
            jsonschema.validate(valid.arguments, tool.parameters)
        acted = [call.name for call in said.tool_calls if call.name != "think"]
        assert acted == [action["tool"] for action in instance.get("actions", [])]
        if isinstance(choice, Force):
            assert choice.name in [call.name for call in said.tool_calls]


@settings(max_examples=100)
@given(turns(), st.data())
def test_a_plan_that_its_schema_refuses_is_malformed(turn, data):
    """But for arguments, which their tool checks, and for a key that says nothing to a plan."""
    tools, choice, schema, instance = turn
    part = data.draw(st.sampled_from([instance, *instance.get("actions", ())]))
    key = data.draw(st.sampled_from([*part, "?"]))
    wrong = data.draw(st.sampled_from([..., None, 1, 1.5, True, "?", ["?"], {"?": "?"}]))
    assume(not (key == "arguments" and isinstance(wrong, dict)))
    part.pop(key, None)
    part.update({} if wrong is ... else {key: wrong})
    assume(not (part is instance and key == "?" and wrong != {"?": "?"}))
    assume(not jsonschema.Draft202012Validator(schema).is_valid(instance))
    assert answer(instance, choice, tools).stop_reason == "malformed"


STRICT = {"type", "enum", "minItems", "maxItems", "required"}
STRICT |= {"items", "anyOf", "properties", "additionalProperties"}


def is_strict(schema):
    """Is it one that strict modes take, but for its open parts?"""
    inner = [*schema.get("anyOf", [])]
    if "items" in schema:
        inner.append(schema["items"])
    if "properties" in schema:
        inner += schema["properties"].values()
        if schema["required"] != list(schema["properties"]) or schema["additionalProperties"]:
            return False
    elif "additionalProperties" in schema:
        inner.append(schema["additionalProperties"])
    return schema.keys() <= STRICT and all(is_strict(part) for part in inner)


def test_references_are_resolved_and_a_type_that_contains_itself_stays_open():
    ref = {"$ref": "#/$defs/node"}
    node = shape("name", "next", name={"type": "string"}, next=ref)
    parameters = shape("one", one=ref, two={"$ref": "#/properties/one"}) | {"$defs": {"node": node}}
    schema = reduce_schema(parameters, strict=True)
    one = schema["properties"]["one"]
    assert one["properties"] == {"name": {"type": "string"}, "next": {}}
    assert schema["properties"]["two"] == {"anyOf": [one, {"type": "null"}]}


def test_the_values_of_arguments_are_for_their_tool_to_check():
    assert calls(answer(plan(actions=[act("look", id=-1)])))[1] == ("look", {"id": -1})


# What the model inside sees.


@pytest.mark.parametrize(("provider", "bounded"), [("anthropic", False), ("openai", True)])
def test_a_request_has_the_schema_of_its_turn_and_max_items_only_where_the_provider_takes_it(
    provider, bounded
):
    request = Request(ASKED, TOOLS, tool_choice="required")
    inner = asked(request, provider)
    assert ("maxItems" in inner.output_schema["properties"]["actions"]) == bounded
    assert inner.messages == ASKED
    assert '"actions": a list of {"tool": name' in inner.system


# Streaming.


def streamed(text, choice="auto", tools=TOOLS, size=20, **fields):
    said = Assistant(text=text if isinstance(text, str) else json.dumps(text), **fields)
    model = json_plan(InPieces(said, size))
    return list(model.stream(Request(ASKED, tools, tool_choice=choice)))


@settings(max_examples=25)
@given(turns(), st.integers(1, 9))
def test_a_stream_shows_what_the_reply_then_says(turn, size):
    tools, choice, schema, instance = turn
    written = {key: instance[key] for key in schema["properties"]}
    events = streamed(written, choice, tools, size)
    said = events[-1]
    assert said == answer(written, choice, tools)
    assume(said.stop_reason != "malformed")
    assert told(events, "answer") == said.text
    thoughts = [call.arguments["thought"] for call in said.tool_calls if call.name == "think"]
    # Where only silence can end a turn, the notes of a plan that ends are kept as thinking. While
    # they stream, it isn't known that it will end.
    assert told(events, "thought") + told(events, "thinking") == "".join(thoughts) + said.thinking
    acted = [json.loads(event.text) for event in events[:-1] if event.kind == "call"]
    assert acted == [call.arguments for call in said.tool_calls if call.name != "think"]


@pytest.mark.parametrize(("actions", "kind"), [([], "answer"), ([act("wait")], "commentary")])
def test_a_response_is_streamed_as_soon_as_the_actions_are_known(actions, kind):
    events = streamed(json.dumps(plan(actions=actions, response="Wait a moment.")), size=1)
    kinds = [event.kind for event in events[:-1]]
    assert kinds.count("thought") > 10
    assert kinds.count(kind) > 10
    assert told(events, kind) == "Wait a moment."


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("actions", "kind"), [([], "answer"), ([act("wait")], "commentary")])
def test_a_response_before_its_actions_waits_for_the_whole_reply(actions, kind, size):
    whole = plan(actions=..., response="Wait.", task_complete=False) | {"actions": actions}
    events = streamed(whole, size=size)
    assert told(events[:-1], kind) == "Wait."
    assert {event.kind for event in events[:-1]} <= {"thought", "call", kind}


def test_a_call_comes_once_it_is_known_to_be_one():
    events = streamed(json.dumps(plan(response="Wait a moment.")), size=1)
    kinds = [event.kind for event in events[:-1]]
    assert events[-2] == Delta("call", '{"id": 7}', "look", 1)  # once it is known to be one
    assert kinds.count("call") == 1


PIECES = ['"reasoning": "a"', '"response": "b"', '"actions": [', "{", "}", "]", ",", "```json\n"]
PIECES += ["<think>", "</think>", '{"tool": "wait", "arguments": {}}', "words", "\n", '"', "\\"]
some_texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)


@settings(max_examples=100)
@given(some_texts, st.sampled_from(["auto", "none"]), st.integers(1, 9))
@example("It is blue, I think.", "none", 1)
@example('It says,"response": "b"', "none", 9)
@example('{"actions": [], "response": "\\n b", "reasoning": "c"}', "auto", 1)
@example('{"response": "b", "actions": [], "reasoning": "c"}', "auto", 2)
@example('{"actions": [[{"arguments": 1}]]}', "auto", 1)
@example('{"actions": {"arguments": {}}, "response": 7}', "auto", 1)
@example('{"actions": [{"tool": 1, "arguments": []}], "reasoning": {}}', "auto", 1)
def test_any_text_is_read_the_same_however_it_is_cut(text, choice, size):
    pieces, whole = streamed(text, choice, size=size), streamed(text, choice, size=1000)
    assert pieces[-1] == whole[-1] == answer(text, choice)
    for kind in ("answer", "thought", "commentary"):
        assert told(pieces, kind) == told(whole, kind)
    if whole[-1].stop_reason == "end_turn":  # plain words are the answer
        assert told(whole, "answer") == whole[-1].text


@pytest.mark.parametrize("piece", [*PIECES, json.dumps(plan()), "[", " ", "``` "])
def test_hostile_texts_take_linear_time(piece):
    assert grows_evenly(lambda size: answer(piece * (size // len(piece))), 10_000, 100_000)
