"""The json dialect: schemas that admit what can be run and nothing else, and runs through them."""

import json
from copy import deepcopy
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from demos.refund.dialects import speaking
from demos.refund.offline import reply
from demos.refund.shop import Shop
from tests.servers import serve
from tests.support.counting import grows_evenly
from tests.support.pieces import InPieces, four_ways
from tests.support.providers import RIGHT, SPEAKS, WAYS, desk, model_of
from think_agent import (
    Agent,
    Assistant,
    BadRequest,
    Force,
    Request,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    User,
    tool,
)
from think_agent.dialects.json_plan import KEYS, instructions, json_plan, plan_schema, without_nulls
from think_agent.model import Model
from think_agent.schema import reduced
from think_agent.think import THINK, THINK_MINIMAL

LOOK = Tool(
    name="look",
    description="Look at one thing.",
    parameters={
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1},
            "how": {"type": "string", "enum": ["near", "far"], "default": "near"},
        },
        "required": ["id"],
    },
)
WAIT = Tool(name="wait", description="Wait.", parameters={"type": "object"})
TOOLS = (THINK, LOOK, WAIT)
ASKED = (User("Look at 7."),)


def plan(**changes):
    whole = {
        "understanding": "Seven is to be seen.",
        "reasoning": "So look.",
        "task_complete": False,
        "actions": [{"tool": "look", "arguments": {"id": 7, "how": None}}],
        "response": "",
    }
    return {key: value for key, value in {**whole, **changes}.items() if value is not ...}


def answer(text, choice="auto", tools=TOOLS, several=False, **fields):
    """What the dialect makes of a reply of the model inside."""
    said = Assistant(text=text if isinstance(text, str) else json.dumps(text), **fields)
    model = json_plan(ScriptedModel([said]), several=several)
    return model.complete(Request(ASKED, tools, tool_choice=choice))


def asked(request, name="p"):
    """What the model inside is asked."""
    return json_plan(ScriptedModel([], name=name)).ask(request)[1]


def overheard(text, requests, **options):
    """What the dialect makes of this text, each time that it asks; and what it asked."""
    heard = []

    def see(request):
        heard.append(request)
        return Assistant(text=text, native={"own": 1})

    model = json_plan(ScriptedModel(see, name="p"), **options)
    return [model.complete(request) for request in requests], heard


def calls(said):
    return [(call.name, call.arguments) for call in said.tool_calls]


# What a plan becomes.


def test_a_plan_becomes_a_thought_and_its_actions():
    said = answer(plan())
    notes = {"thought": "Seven is to be seen.\n\nSo look.", "should_continue": "true"}
    assert calls(said) == [("think", notes), ("look", {"id": 7})]
    assert (said.text, said.stop_reason, said.enforced) == ("", "tool_use", None)


def test_what_the_model_inside_reports_is_kept():
    usage = Usage(7, 5)
    said = answer(plan(), thinking="Hm.", usage=usage, model="m-1", provider="p")
    assert (said.thinking, said.usage, said.model, said.provider) == ("Hm.", usage, "m-1", "p")


def test_a_complete_task_is_the_exit_signal_and_its_actions_are_still_calls():
    said = answer(plan(task_complete=True))
    assert said.tool_calls[0].arguments["should_continue"] == "false"
    assert calls(said)[1:] == [("look", {"id": 7})]


def test_with_the_minimal_think_tool_a_complete_plan_without_actions_is_silence():
    tools = (THINK_MINIMAL, LOOK)
    said = answer(plan(task_complete=True, actions=[], response="Seen."), tools=tools)
    assert (said.text, said.tool_calls) == ("Seen.", ())
    assert said.thinking == "Seven is to be seen.\n\nSo look."
    assert calls(answer(plan(actions=[]), tools=tools)) == [
        ("think", {"thought": "Seven is to be seen.\n\nSo look."})
    ]


def test_without_a_think_tool_the_notes_are_thinking():
    said = answer(plan(actions=[], response="Hello."), tools=(LOOK,), thinking="Hm.")
    assert (said.text, said.tool_calls) == ("Hello.", ())
    assert said.thinking == "Hm.\n\nSeven is to be seen.\n\nSo look."
    assert calls(answer(plan(), tools=(LOOK,))) == [("look", {"id": 7})]


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "pause_turn"])
def test_nothing_is_read_out_of_a_reply_that_broke_off(stop_reason):
    said = answer(plan(), stop_reason=stop_reason)
    assert (said.stop_reason, said.tool_calls) == (stop_reason, ())


def test_calls_that_the_model_inside_makes_by_itself_are_dropped():
    said = answer(plan(actions=[]), tool_calls=(ToolCall("x", "look", {}),), native={"odd": 1})
    assert [call.name for call in said.tool_calls] == ["think"]
    assert "odd" not in json.dumps(said.native)


# What a tool choice does.


def test_the_keys_stand_in_the_order_of_writing():
    schema = plan_schema(TOOLS, "auto", 1)
    assert list(schema["properties"]) == schema["required"] == list(KEYS)
    names = [b["properties"]["tool"]["enum"] for b in branches(schema)]
    assert names == [["look"], ["wait"]]


def branches(schema):
    return schema["properties"]["actions"]["items"]["anyOf"]


def test_a_forced_thought_is_a_thought_and_nothing_else():
    keys = list(plan_schema(TOOLS, Force("think"), None)["properties"])
    assert keys == ["understanding", "reasoning", "task_complete"]
    keys = list(plan_schema((THINK_MINIMAL, LOOK), Force("think"), None)["properties"])
    assert keys == ["understanding", "reasoning"]


def test_another_forced_tool_is_the_only_one():
    schema = plan_schema(TOOLS, Force("wait"), 1)
    assert [b["properties"]["tool"]["enum"] for b in branches(schema)] == [["wait"]]
    assert schema["properties"]["actions"]["minItems"] == 1


def test_required_asks_for_an_action_unless_the_exit_signal_is_a_way_out():
    assert "minItems" not in plan_schema(TOOLS, "required", 1)["properties"]["actions"]
    for tools in [(LOOK,), (THINK_MINIMAL, LOOK)]:
        assert plan_schema(tools, "required", 1)["properties"]["actions"]["minItems"] == 1
    said = answer(plan(actions=[]), "required")
    assert said.stop_reason == "malformed"
    assert "set task_complete to true" in said.mistake
    assert answer(plan(actions=[], task_complete=True), "required").stop_reason == "tool_use"


def test_the_final_call_asks_for_the_response_alone():
    assert list(plan_schema(TOOLS, "none", None)["properties"]) == ["response"]
    said = answer({"response": "Seen."}, "none")
    assert (said.text, said.tool_calls, said.enforced) == ("Seen.", (), "schema")


@pytest.mark.parametrize("text", ["Seen. It is {blue}.", "", "  Done\n"])
def test_in_the_final_call_plain_words_are_the_answer(text):
    said = answer(text, "none")
    assert (said.text, said.stop_reason) == (text.strip(), "end_turn")


@pytest.mark.parametrize("text", ['{"response": 7}', '{"response": "Se', "```json\n{}\n```", "{}"])
def test_a_broken_plan_is_no_answer(text):
    assert answer(text, "none").stop_reason == "malformed"


@pytest.mark.parametrize("choice", [Force("think"), "none"])
def test_keys_without_a_use_are_passed_over_but_never_an_action(choice):
    whole = plan(response="Seen.")
    assert answer({**whole, "actions": []}, choice).stop_reason != "malformed"
    said = answer(whole, choice)
    assert said.stop_reason == "malformed"
    assert "actions: there is no such field in this turn" in said.mistake


@pytest.mark.parametrize("choice", ["auto", "required", "none", Force("think"), Force("look")])
def test_how_a_choice_was_carried_out_is_told(choice):
    said = answer({"response": ""} if choice == "none" else plan(actions=...), choice)
    assert said.enforced == (None if choice == "auto" else "schema")


def test_a_tool_that_is_not_there_cannot_be_forced():
    with pytest.raises(BadRequest, match="no tool 'fly'"):
        answer(plan(), Force("fly"))


def test_an_agent_that_can_only_think_has_no_actions():
    schema = plan_schema((THINK,), "required", 1)
    assert "actions" not in schema["properties"]
    assert answer(plan(actions=...), "required", tools=(THINK,)).stop_reason == "tool_use"


# What is no plan.


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        ("", "there is no JSON object in it"),
        ("I would look at it.", "there is no JSON object in it"),
        ('{"reasoning": "so', "none that can be read"),
        (json.dumps(plan())[:-1], "none that can be read"),
        ([plan(response=5)], "response: Input should be a valid string, got 5"),
        (plan(reasoning=...), "reasoning: this field is required"),
        (plan(mood="good"), "mood: there is no such field"),
        (plan(task_complete="no"), "task_complete: Input should be a valid boolean, got 'no'"),
        (plan(task_complete=None), "task_complete: Input should be a valid boolean, got None"),
        (plan(actions={}), "actions: Input should be a valid list, got {}"),
        (plan(actions=["look"]), "actions.0: "),
        (plan(actions=[{"tool": "look"}]), "actions.0.arguments: this field is required"),
        (
            plan(actions=[{"tool": "think", "arguments": {}}]),
            "actions.0.tool: use one of look, wait, not 'think'",
        ),
        (
            plan(actions=[{"tool": "look", "arguments": "7"}]),
            "actions.0.arguments: Input should be a valid dictionary, got '7'",
        ),
        (plan(actions=[{"tool": "wait", "arguments": {}}] * 2), "it must hold at most 1, not 2"),
        (plan(reasoning=" \n"), "reasoning is blank"),
        ('{"reasoning": NaN, "response": ""}', "none that can be read"),
        ('{"reasoning": 1e999, "response": ""}', "none that can be read"),
        (json.dumps(plan(response="x")).replace('"x"', "[" * 200 + "]" * 200), "none that can"),
        ("{" * 5000, "none that can be read"),
        ('{"a":' * 5000, "none that can be read"),
    ],
)
def test_a_mistake_is_named_to_the_model(said, mistake):
    reply = answer(said)
    assert (reply.stop_reason, reply.tool_calls) == ("malformed", ())
    assert reply.text == (said if isinstance(said, str) else json.dumps(said))
    assert mistake in reply.mistake
    assert "understanding, reasoning, task_complete, actions, response" in reply.mistake


def test_half_of_a_surrogate_pair_is_replaced():
    text = json.dumps(plan(reasoning="a\ud800b"))
    events = streamed(text, size=1)
    thought = events[-1].tool_calls[0].arguments["thought"]
    assert thought.endswith("a\ufffdb")
    assert shown(events, "thought") == thought


def test_many_actions_in_one_reply_take_linear_time():
    def work(number):
        reply = streamed(json.dumps(plan(actions=plan()["actions"] * number)), size=50)[-1]
        assert len(reply.tool_calls) == 1 + number

    assert grows_evenly(work, 100, 500)


def test_a_blank_reasoning_is_no_mistake_where_nothing_is_done():
    said = answer(plan(understanding="", reasoning="", actions=[]))
    assert said.tool_calls[0].arguments == {"thought": "", "should_continue": "true"}


def test_several_actions_only_where_they_are_allowed():
    two = plan(actions=[{"tool": "wait", "arguments": {}}] * 2)
    assert [name for name, _ in calls(answer(two, several=True))] == ["think", "wait", "wait"]
    assert "maxItems" not in plan_schema(TOOLS, "auto", None)["properties"]["actions"]
    assert plan_schema(TOOLS, "auto", 1)["properties"]["actions"]["maxItems"] == 1


@pytest.mark.parametrize(
    "around",
    ["{}", "```json\n{}\n```", "Here is {{my}} plan:\n{}\nDone.", '{{"id": 7}} {}', "{} {{"],
)
def test_text_around_the_plan_is_forgiven(around):
    text = around.format(json.dumps(plan(), indent=1)) if around != "{}" else json.dumps(plan())
    assert [name for name, _ in calls(answer(text))] == ["think", "look"]


def test_an_optional_argument_may_be_null_or_left_out():
    for arguments in [{"id": 7}, {"id": 7, "how": None}]:
        said = answer(plan(actions=[{"tool": "look", "arguments": arguments}]))
        assert said.tool_calls[1].arguments == {"id": 7}


# The schema against jsonschema, an independent oracle.


names = st.sampled_from(["a", "b", "properties", "type", "enum", "$ref", "tool", "reasoning"])
leaves = st.one_of(
    st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean")]),
    st.just({"type": ["string", "null"]}),
    st.just({"enum": ["x", 1, True, None]}),
    st.just({"const": "x", "type": "string"}),
    st.just({"type": "object", "additionalProperties": {"type": "integer"}}),
    st.just({}),
)


def has_no_null(schema):
    return "null" not in json.dumps(schema) and schema != {} and "anyOf" not in schema


def objects_of(parts):
    return st.dictionaries(names, parts, max_size=3).flatmap(
        lambda properties: st.builds(
            lambda required, closing: {
                "type": "object",
                "properties": properties,
                "required": sorted(required),
                **closing,
            },
            st.sets(st.sampled_from(sorted(properties))) if properties else st.just(set()),
            st.sampled_from([{}, {"additionalProperties": False}]),
        )
    )


parts = st.recursive(
    leaves,
    lambda inner: st.one_of(
        objects_of(inner),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
        st.builds(lambda one: {"oneOf": [one, {"type": "null"}]}, inner.filter(has_no_null)),
    ),
    max_leaves=5,
)


tool_sets = st.lists(objects_of(parts), min_size=1, max_size=3).flatmap(
    lambda schemas: st.builds(
        lambda think: (
            *think,
            *(
                Tool(name=f"tool_{n}", description="", parameters=schema)
                for n, schema in enumerate(schemas)
            ),
        ),
        st.sampled_from([(), (THINK,), (THINK_MINIMAL,)]),
    )
)


def choices(tools):
    forced = [Force(tool.name) for tool in tools]
    return st.sampled_from(["auto", "required", "none", *forced])


def instances(schema):
    """Values that the schema admits."""
    if "anyOf" in schema:
        return st.one_of([instances(branch) for branch in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of([instances({"type": one}) for one in kind])
    match kind:
        case "object" if "properties" in schema:
            return st.fixed_dictionaries(
                {name: instances(value) for name, value in schema["properties"].items()}
            )
        case "object":
            return st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
        case "array":
            least = schema.get("minItems", 0)
            most = schema.get("maxItems", least + 2)
            return st.lists(instances(schema["items"]), min_size=least, max_size=most)
        case "string":
            return st.text(st.characters(codec="utf-8"), max_size=4)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers()
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False) | st.integers()
        case "null":
            return st.none()
    return st.sampled_from([None, 0, "x", [], {"y": None}])


@st.composite
def turns(draw):
    """Tools, a tool choice, `several`, the schema of the turn and an instance of it."""
    tools = draw(tool_sets)
    choice, several = draw(choices(tools)), draw(st.booleans())
    schema = plan_schema(tools, choice, None if several else 1)
    return tools, choice, several, schema, draw(instances(schema))


def breaks_a_rule(tools, choice, instance):
    """The two rules that no schema carries."""
    acts = bool(instance.get("actions"))
    blank = acts and not instance["reasoning"].strip()
    idle = choice == "required" and not acts and not instance["task_complete"]
    return blank or (idle and "actions" in instance)


@settings(deadline=None, max_examples=40)
@given(turns())
def test_every_instance_of_the_schema_decodes_to_calls_that_validate(turn):
    tools, choice, several, schema, instance = turn
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(instance, schema)
    said = answer(instance, choice, tools, several)
    assert (said.stop_reason == "malformed") == breaks_a_rule(tools, choice, instance)
    if said.stop_reason != "malformed":
        by_name = {tool.name: tool for tool in tools}
        for call in said.tool_calls:
            jsonschema.validate(call.arguments, by_name[call.name].parameters)
        acted = [call.name for call in said.tool_calls if call.name != "think"]
        assert acted == [action["tool"] for action in instance.get("actions", [])]
        if isinstance(choice, Force):
            assert choice.name in [call.name for call in said.tool_calls]


def places(value, path=()):
    """The paths of all parts of a JSON value but the value itself."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from places(item, (*path, key))


def parent(value, path):
    for key in path[:-1]:
        value = value[key]
    return value


@settings(deadline=None, max_examples=40)
@given(turns(), st.data())
def test_every_illegal_value_is_malformed(turn, data):
    tools, choice, several, schema, instance = turn
    # Arguments are the tool's own to check, and these tools are made from ready schemas.
    own = [path for path in places(instance) if len(path) < 3 or path[2:] == ("tool",)]
    path = data.draw(st.sampled_from(own))
    wrong = data.draw(st.sampled_from([None, 1, 1.5, True, "?", ["?"], {"?": "?"}]))
    parent(instance, path)[path[-1]] = wrong
    assume(not jsonschema.Draft202012Validator(schema).is_valid(instance))
    assert answer(instance, choice, tools, several).stop_reason == "malformed"


@settings(deadline=None, max_examples=40)
@given(turns(), st.data())
def test_a_key_too_many_is_malformed(turn, data):
    tools, choice, several, schema, instance = turn
    paths = [(), *(path for path in places(instance) if len(path) < 3)]
    found = [parent(instance, (*path, ...)) for path in paths]
    target = data.draw(st.sampled_from([part for part in found if isinstance(part, dict)]))
    target["?"] = "?"
    assume(not jsonschema.Draft202012Validator(schema).is_valid(instance))
    assert answer(instance, choice, tools, several).stop_reason == "malformed"


@settings(deadline=None, max_examples=25)
@given(turns(), st.data())
def test_a_missing_key_of_the_plan_is_malformed(turn, data):
    tools, choice, several, _, instance = turn
    del instance[data.draw(st.sampled_from(list(instance)))]
    assert answer(instance, choice, tools, several).stop_reason == "malformed"


def parts_of(schema):
    yield schema
    for key, value in schema.items():
        match key:
            case "properties":
                for part in value.values():
                    yield from parts_of(part)
            case "anyOf":
                for part in value:
                    yield from parts_of(part)
            case "items" | "additionalProperties" if isinstance(value, dict):
                yield from parts_of(value)


@settings(deadline=None, max_examples=25)
@given(turns())
def test_the_schema_is_one_that_strict_modes_take(turn):
    tools, choice, _, _, _ = turn
    schema = plan_schema(tools, choice, None)
    kept = {"type", "enum", "items", "anyOf", "minItems"}
    kept |= {"properties", "required", "additionalProperties"}
    for part in parts_of(schema):
        assert part.keys() <= kept
        if "properties" in part:
            assert part["required"] == list(part["properties"])
            assert part["additionalProperties"] is False
    assert "anyOf" not in schema  # not at the root


def test_references_are_written_out_and_a_type_inside_itself_stays_open():
    node = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/node"}},
        "required": ["name", "next"],
    }
    parameters = {
        "type": "object",
        "properties": {"one": {"$ref": "#/$defs/node"}, "two": {"$ref": "#/properties/one"}},
        "required": ["one"],
        "$defs": {"node": node},
    }
    schema = reduced(parameters, strict=True)
    one = schema["properties"]["one"]
    assert one["properties"] == {"name": {"type": "string"}, "next": {}}
    assert schema["properties"]["two"] == {"anyOf": [one, {"type": "null"}]}


def test_bounds_are_left_to_the_tool():
    assert "minimum" not in json.dumps(plan_schema(TOOLS, "auto", 1))
    assert calls(answer(plan(actions=[{"tool": "look", "arguments": {"id": -1}}])))[1] == (
        "look",
        {"id": -1},
    )


def test_a_null_that_is_a_value_is_kept_and_one_that_means_left_out_is_not():
    inner = {
        "type": "object",
        "properties": {"must": {"type": ["string", "null"]}, "may": {"type": "string"}},
        "required": ["must"],
    }
    parameters = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": inner},
            "either": {"anyOf": [{"type": "object", "properties": {"other": {}}}, inner]},
            "map": {"type": "object", "additionalProperties": inner},
            "any": {},
        },
    }
    given, left = {"must": None, "may": None}, {"must": None}
    value = {"list": [given], "either": given, "map": {"k": given}, "any": given, "more": None}
    assert without_nulls(value, reduced(parameters, strict=False)) == {
        "list": [left],
        "either": left,
        "map": {"k": left},
        "any": given,
        "more": None,  # nothing is known of it: whoever gets it will say so
    }


# What the model inside sees.


def test_the_request_inside_has_no_tools():
    inner = asked(Request(ASKED, TOOLS, tool_choice="required", system="Be kind."))
    assert (inner.tools, inner.tool_choice, inner.messages) == ((), "auto", ASKED)
    assert inner.system == f"Be kind.\n\n{instructions(TOOLS, False)}"
    assert inner.output_schema == plan_schema(TOOLS, "required", 1)


def test_the_system_prompt_names_every_tool_but_think_and_no_tool_choice():
    choices = ["auto", "required", "none", Force("think"), Force("look")]
    prompts = {asked(Request(ASKED, TOOLS, tool_choice=choice)).system for choice in choices}
    assert len(prompts) == 1
    (prompt,) = prompts
    tools = [json.loads(line) for line in prompt.splitlines() if line.startswith("{")]
    assert [tool["name"] for tool in tools] == ["look", "wait"]
    assert tools[0] == {
        "name": "look",
        "description": "Look at one thing.",
        "parameters": LOOK.parameters,
    }


def test_max_items_is_not_sent_where_it_is_refused():
    for name, sent in (("anthropic", False), ("openai", True)):
        schema = asked(Request(ASKED, TOOLS), name).output_schema
        assert ("maxItems" in json.dumps(schema)) == sent


def test_the_longest_text_is_a_bound_of_every_text_that_is_free_and_of_nothing_else():
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    note = Tool(name="note", description="Note.", parameters=parameters)
    final = Request(ASKED, TOOLS, tool_choice="none", output_schema={"type": "string"})
    too_long = json.dumps(plan(reasoning="far too long"))
    said, heard = overheard(too_long, [Request(ASKED, (*TOOLS, note)), final], longest=8)
    assert calls(said[0])[1] == ("look", {"id": 7})  # a server that does not keep to it is forgiven
    assert heard[1].output_schema == {"type": "string"}  # an answer is no plan

    fits = jsonschema.Draft202012Validator(heard[0].output_schema).is_valid
    short = {"understanding": "12345678", "reasoning": "", "task_complete": False, "response": ""}
    for tool_name, arguments, fitting in [
        ("look", {"id": 7, "how": "near"}, True),
        ("note", {"text": "12345678"}, True),
        ("note", {"text": "123456789"}, False),
    ]:
        actions = [{"tool": tool_name, "arguments": arguments}]
        assert fits({**short, "actions": actions}) == fitting
    for key in ("understanding", "reasoning", "response"):
        assert not fits({**short, "actions": [], key: "123456789"})
    with pytest.raises(ValueError, match="longest=0"):
        json_plan(ScriptedModel([]), longest=0)


def test_a_request_without_tools_goes_through_as_it_is():
    request = Request(ASKED, system="Be kind.", output_schema={"type": "object"})
    (said,), heard = overheard("Hello.", [request])
    assert heard == [request]
    assert (said.text, said.native["json_plan"]["native"]) == ("Hello.", {"own": 1})


def test_a_final_call_under_a_schema_of_its_own_is_asked_for_that():
    request = Request(ASKED, TOOLS, tool_choice="none", output_schema={"type": "object"})
    (said,), heard = overheard('{"sum": 1}', [request])
    assert (said.text, heard[0].output_schema) == ('{"sum": 1}', {"type": "object"})


def test_the_model_sees_its_own_words_again_and_results_as_text():
    text = "```json\n" + json.dumps(plan()) + "\n```"
    said = answer(text, native={"signature": "abc"})
    named = tuple(replace(call, id=f"call_{n}") for n, call in enumerate(said.tool_calls))
    history = [
        *ASKED,
        replace(said, tool_calls=named),
        ToolResult("call_0", "think", "Thought recorded."),
        ToolResult("call_1", "look", '{"color":"blue"}'),
        User("Go on.", kind="nudge"),
    ]
    before, own, results = asked(Request(history, TOOLS), "scripted").messages
    assert before == ASKED[0]
    assert (own.text, own.native) == (text, {"signature": "abc"})
    expected = 'Thought recorded.\n\nResult of look (call_1):\n{"color":"blue"}\n\nGo on.'
    assert results == User(expected)


def test_what_another_model_called_is_written_as_a_plan():
    calls = (
        ToolCall("a", "think", {"thought": "So look.", "should_continue": "true"}),
        ToolCall("b", "look", {"id": 7}),
        ToolCall("c", "wait", {}),
    )
    other = Assistant(text="Wait.", tool_calls=calls, provider="other", native={"other": 1})
    history = [*ASKED, other, *(ToolResult(c.id, c.name, "ok") for c in calls[:2])]
    said = asked(Request(history, TOOLS), "scripted").messages[1]
    assert (said.tool_calls, said.native) == ((), None)
    assert json.loads(said.text) == {
        "understanding": "",
        "reasoning": "So look.",
        "task_complete": False,
        "actions": [{"tool": "look", "arguments": {"id": 7}}],
        "response": "Wait.",
    }


# Streaming.


def streamed(text, choice="auto", tools=TOOLS, size=20, **fields):
    said = Assistant(text=text if isinstance(text, str) else json.dumps(text), **fields)
    model = json_plan(InPieces(said, size), several=True)
    return list(model.stream(Request(ASKED, tools, tool_choice=choice)))


def shown(events, kind):
    return "".join(event.text for event in events[:-1] if event.kind == kind)


@settings(deadline=None, max_examples=25)
@given(turns(), st.integers(1, 9))
def test_a_stream_shows_what_the_reply_then_says(turn, size):
    tools, choice, _, schema, instance = turn
    text = json.dumps({key: instance[key] for key in schema["properties"]})
    events = streamed(text, choice, tools, size)
    said = events[-1]
    assert said == answer(text, choice, tools, several=True)
    assume(said.stop_reason != "malformed")
    assert shown(events, "answer") == said.text
    thoughts = [c.arguments["thought"] for c in said.tool_calls if c.name == "think"]
    assert shown(events, "thought") + shown(events, "thinking") == "".join(
        thoughts or [said.thinking]
    )
    for number, call in enumerate(said.tool_calls):
        if call.name != "think":
            told = [e for e in events[:-1] if e.kind == "call" and e.index == number]
            assert {e.name for e in told} == {call.name}
            assert next(e.text for e in told) == ""


def test_deltas_come_as_early_as_the_format_allows():
    text = json.dumps(plan(response="Wait a moment."))
    events = streamed(text, size=1)
    kinds = [event.kind for event in events[:-1]]
    assert kinds.count("thought") > 10
    assert kinds.count("answer") > 10
    assert kinds.index("call") > kinds.index("thought")
    first, *arguments = [e.text for e in events[:-1] if e.kind == "call"]
    assert (first, "".join(arguments)) == ("", '{"id": 7, "how": null}')
    assert len(arguments) > 10


def test_native_thinking_and_plain_answers_pass_through():
    events = streamed(plan(), thinking="Let me see.")
    assert shown(events, "thinking") == "Let me see."
    events = streamed("It is blue, I think.", "none")
    assert shown(events, "answer") == events[-1].text == "It is blue, I think."


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=40), st.sampled_from(["auto", "none"]))
@example('{"actions": [[{"arguments": 1}]]}', "auto")
@example('{"actions": {"arguments": {}}, "response": 7}', "auto")
@example('{"actions": [{"tool": 1, "arguments": []}], "reasoning": {}}', "auto")
def test_any_text_can_be_read_and_streamed(text, choice):
    assert streamed(text, choice, size=1)[-1] == answer(text, choice, several=True)


def test_the_four_ways_to_ask_agree():
    inner = ScriptedModel(lambda _: Assistant(text=json.dumps(plan()), thinking="Hm."))
    four_ways(json_plan(inner), Request(ASKED, TOOLS, tool_choice="required"))


# Whole runs.


def test_a_mistake_goes_back_and_three_end_the_run():
    looked = []

    @tool
    def look(id: int) -> str:
        """Look."""
        looked.append(id)
        return "blue"

    finished = json.dumps(plan(task_complete=True, actions=[]))
    act = json.dumps(plan(actions=[{"tool": "look", "arguments": {"id": 7}}]))
    texts = ["Sure!", "Sure!", act, "Hm.", finished, '{"response": "Blue."}']
    inner = ScriptedModel([Assistant(text=text) for text in texts])
    outcome = Agent(json_plan(inner), [look], force="never").run("Look at 7.")
    assert (outcome.answer, outcome.exit, looked) == ("Blue.", "signal", [7])
    assert [m.kind for m in outcome.transcript if isinstance(m, User)] == ["person"] + [
        "format"
    ] * 3
    inner = ScriptedModel(lambda request: Assistant(text="Sure!"))
    assert Agent(json_plan(inner), [look]).run("Look at 7.").exit == "gave_up"


def planner(request: Request) -> Assistant:
    """The stand-in of the refund desk, speaking JSON plans under the schema it is given."""
    said = speaking(reply, "json")(request)
    jsonschema.validate(json.loads(said.text), request.output_schema)
    return replace(said, usage=Usage(100, 10))


def planning(provider: str, server, several: bool = False) -> Model:
    return json_plan(model_of(provider, server), several=several)


@pytest.mark.parametrize(("force", "several"), [("first", False), ("always", True)])
@pytest.mark.parametrize("provider", SPEAKS)
def test_the_four_orders_are_decided_right_behind_a_thought(provider, force, several):
    with serve(SPEAKS[provider][0](), planner) as server:
        shop = Shop()
        agent = desk(planning(provider, server, several), shop, force)
        outcome = agent.run("Please refund ORD-001, ORD-002, ORD-003 and ORD-004")
        systems = [
            json.dumps(
                body.get("system")
                or body.get("instructions")
                or body.get("systemInstruction")
                or body["messages"][0]
            )
            for body in server.requests
        ]
        assert not any(body.get("tools") for body in server.requests)
    assert {d.order_id: d.decision for d in shop.decisions()} == RIGHT
    assert outcome.exit == "signal"
    assert all(order in outcome.answer for order in RIGHT)
    assert outcome.behind_a_thought == len(outcome.actions) == 12
    how = {action.how for action in outcome.actions}
    assert how == ({"schema"} if force == "always" else {"volunteered"})
    assert outcome.turn.ignored == 0
    assert len(set(systems)) == 1


@pytest.mark.parametrize("provider", SPEAKS)
def test_a_run_is_the_same_in_all_four_ways(provider):
    with serve(SPEAKS[provider][0](), planner) as server:
        outcomes = [
            way(desk(planning(provider, server, several=True), Shop()), "ORD-001 and ORD-004")
            for way in WAYS
        ]
    seen = [
        [
            (getattr(m, "text", ""), getattr(m, "tool_calls", ()), getattr(m, "content", ""))
            for m in t
        ]
        for t in (outcome.transcript for outcome in outcomes)
    ]
    assert seen.count(seen[0]) == len(WAYS)
    assert len({outcome.usage for outcome in outcomes}) == 1


@pytest.mark.parametrize("provider", SPEAKS)
def test_a_conversation_goes_on_and_native_thinking_goes_along(provider):
    """The servers check what they signed: a thinking block that was changed is refused."""

    def thinking(request):
        return replace(planner(request), thinking="Let me see.")

    with serve(SPEAKS[provider][0](), thinking) as server:
        shop = Shop()
        agent = desk(planning(provider, server), shop)
        first = agent.run("ORD-003, please")
        second = agent.run("and ORD-002?", transcript=first.transcript)
    assert [d.decision for d in shop.decisions()] == ["approve", "deny"]
    assert (first.exit, second.exit) == ("signal", "signal")
    assert "ORD-002" in second.answer


@pytest.mark.parametrize("provider", SPEAKS)
def test_a_model_that_never_gives_a_reason_cannot_refund(provider):
    arguments = {"order_id": "ORD-001", "decision": "approve", "reason": "asked"}
    act = {"tool": "process_refund", "arguments": arguments}
    hasty = plan(understanding="", reasoning=" ", actions=[act])

    with serve(SPEAKS[provider][0](), lambda _: Assistant(text=json.dumps(hasty))) as server:
        shop = Shop()
        outcome = desk(planning(provider, server), shop).run("Refund ORD-001")
    assert shop.decisions() == []
    assert (outcome.exit, outcome.actions) == ("gave_up", ())


@settings(deadline=None, max_examples=30)
@given(turns())
def test_asking_changes_nothing_that_was_handed_in(turn):
    tools, choice, several, _, _ = turn
    before = deepcopy([tool.parameters for tool in tools])
    plan_schema(tools, choice, None)
    instructions(tools, several)
    assert [tool.parameters for tool in tools] == before
