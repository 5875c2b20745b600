"""The react dialect: what is read out of a text, what the model sees of it again, whole runs."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demos.refund import offline
from demos.refund.dialects import speaking
from demos.refund.shop import INSTRUCTIONS, Shop
from tests.servers import serve
from tests.servers.ollama import OllamaServer
from tests.servers.openai_chat import Chat
from tests.support.counting import grows_evenly
from tests.support.pieces import InPieces, four_ways, told
from tests.support.providers import RIGHT, WAYS
from think_agent import (
    THINK,
    THINK_MINIMAL,
    Agent,
    Assistant,
    Delta,
    Force,
    Request,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    User,
    connect,
    tool,
)
from think_agent.dialects.react import instructions, react, split


@tool
def look(order_id: str, days: int = 1) -> str:
    """Look up an order."""
    return f"{order_id}: 13 days"


@tool(name="pay-out")
def pay_out(order_id: str, cents: int) -> str:
    """Pay money out."""
    return "paid"


@tool
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


def asked(request, name="scripted"):
    """What the model inside is asked."""
    return react(ScriptedModel([], name=name)).ask(request)[1]


def thought(text, leaving=False):
    return ("think", {"thought": text, "should_continue": "false" if leaving else "true"})


def calls(reply):
    return [(call.name, call.arguments) for call in reply.tool_calls]


NESTED = {"order_id": "ORD-001", "days": {"a": [1, {"b": "}"}]}}

READ = {
    "a thought": ("Thought: hm", [thought("hm")]),
    "a thought of several lines": ("Thought: a\nb\n\n- c", [thought("a\nb\n\n- c")]),
    "an action": (
        f"Thought: look\nAction: look\nAction Input: {json.dumps(ORDER)}",
        [thought("look"), ("look", ORDER)],
    ),
    "other case, bold, a heading, numbers": (
        f"### THOUGHT 1: hm\n**Action 1:** look\n**action input**: {json.dumps(ORDER)}",
        [thought("hm"), ("look", ORDER)],
    ),
    "bold around label and value": (
        "**Thought: hm**\n**Action: count**",
        [thought("hm**"), ("count", {})],
    ),
    "nested JSON on several lines": (
        f"Action: look\nAction Input:\n{json.dumps(NESTED, indent=2)}\nThat should do.",
        [("look", NESTED)],
    ),
    "JSON with a label in it": (
        'Action: look\nAction Input: {"order_id": "a\\nObservation: b"}',
        [("look", {"order_id": "a\nObservation: b"})],
    ),
    "fenced JSON": (
        f"Action: look\nAction Input:\n```json\n{json.dumps(ORDER)}\n```",
        [("look", ORDER)],
    ),
    "JSON with raw line breaks": (
        'Action: look\nAction Input: {"order_id": "a\nb"}',
        [("look", {"order_id": "a\nb"})],
    ),
    "input beside the name": ('Action: look {"order_id": "ORD-001"}', [("look", ORDER)]),
    "as in the paper": ("Action: look[ORD-001]", [("look", ORDER)]),
    "as in Python": ('Action: `look`("ORD-001").', [("look", ORDER)]),
    "a bare value": ("Action: look\nAction Input: ORD-001", [("look", ORDER)]),
    "a quoted value": ('Action: look\nAction Input: "ORD-001"', [("look", ORDER)]),
    "a fenced value": ("Action: look\nAction Input: ```\nORD-001\n```", [("look", ORDER)]),
    "no input where none is needed": ("Action: count", [("count", {})]),
    "None where none is needed": ("Action: count\nAction Input: None", [("count", {})]),
    "half of a surrogate pair": (
        r'Action: look\nAction Input: {"order_id": "a\ud800b"}'.replace(r"\nA", "\nA"),
        [("look", {"order_id": "a\ufffdb"})],
    ),
    "a name in backticks": ("Action: `count`", [("count", {})]),
    "a name in brackets": ("Action: [count]", [("count", {})]),
    "a name with a dash": (
        f"Action: pay-out\nAction Input: {json.dumps(PAY)}",
        [("pay-out", PAY)],
    ),
    "a name with dots, undeclared": (
        "Action: shop.orders.look\nAction Input: {}",
        [("shop.orders.look", {})],
    ),
    "undeclared, with a bare value": ("Action: destroy\nAction Input: x", [("destroy", "x")]),
    "several actions": (
        "Thought: both\nAction: look\nAction Input: a\nThought: and\nAction: count\nAction Input:",
        [thought("both"), ("look", {"order_id": "a"}), thought("and"), ("count", {})],
    ),
    "an invented observation": (
        "Thought: hm\nAction: look\nAction Input: ORD-001\nObservation: 99 days\n"
        "Thought: too old\nAction: pay-out\nFinal Answer: No.",
        [thought("hm"), ("look", ORDER)],
    ),
    "an answer before its result": (
        "Thought: hm\nAction: look\nAction Input: ORD-001\nFinal Answer: It is 99 days old.",
        [thought("hm"), ("look", ORDER)],
    ),
    "no action": ("Thought: hm\nAction: None\nAction Input: None", [thought("hm")]),
    "no action, in words": ("Thought: hm\nAction: None needed.", [thought("hm")]),
    "think as an action": (
        'Action: think\nAction Input: {"thought": "hm", "should_continue": "false"}',
        [thought("hm", leaving=True)],
    ),
    "think as an action, plain": ("Action: think\nAction Input: hm", [thought("hm")]),
    "think as an action, said before": ("Thought: hm\nAction: think", [thought("hm")]),
    "the way out": ("Thought: done\nFinal Answer: Yes.", [thought("done", leaving=True)]),
    "the way out without a thought": ("Final Answer: Yes.", [thought("", leaving=True)]),
    "an answer with labels in it": (
        "Thought: done\nFinal Answer: Next:\nAction: wait\nAction Input: {}",
        [thought("done", leaving=True)],
    ),
}


@pytest.mark.parametrize("case", READ)
def test_every_way_to_write_a_reply_is_read(case):
    text, wanted = READ[case]
    reply = reply_to(text)
    assert calls(reply) == wanted
    assert (reply.stop_reason, reply.text, reply.mistake) == ("tool_use", "", "")


DEEP = '{"order_id": ' + "[" * 5000 + "]" * 5000 + "}"
MALFORMED = {
    "not a number": ('Action: pay-out\nAction Input: {"cents": NaN}', "cannot be read"),
    "a number beyond all": ('Action: pay-out\nAction Input: {"cents": 1e999}', "cannot be read"),
    "bottomless JSON": (f"Action: look\nAction Input: {DEEP}", "cannot be read"),
    "plain words": ("It is 13 days old.", "no label"),
    "nothing": ("", "no label"),
    "only an invented observation": ("Observation: 13 days\nFinal Answer: x", "no label"),
    "no input where one is needed": ("Thought: hm\nAction: look", "look has no Action Input"),
    "prose for an input": ("Action: look to see the order", "look has no Action Input"),
    "broken JSON": ('Action: look\nAction Input: {"order_id": ', "cannot be read"),
    "a bare value for two parameters": ("Action: pay-out\nAction Input: 8900", "order_id, cents"),
    "one good action and a bad one": ("Action: count\nAction: pay-out", "order_id, cents"),
    "an input alone": ("Thought: hm\nAction Input: {}", "without an Action"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_cannot_be_read_goes_back_with_what_was_expected(case):
    text, said = MALFORMED[case]
    reply = reply_to(text)
    assert (reply.stop_reason, reply.text, reply.tool_calls) == ("malformed", text, ())
    assert said in reply.mistake
    assert "Final Answer:" in reply.mistake  # what was expected


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal"])
def test_of_half_a_reply_nothing_is_read(stop_reason):
    reply = reply_to("Thought: hm\nAction: count\nAction Input: {", stop_reason=stop_reason)
    assert (reply.stop_reason, reply.tool_calls, reply.text) == (stop_reason, (), "")
    assert reply_to("Half a sen", stop_reason=stop_reason).text == "Half a sen"


def test_without_an_exit_signal_a_final_answer_is_silence():
    for think in ([THINK_MINIMAL], []):
        asked_request = request(tools=(*think, count))
        reply = reply_to("Thought: done\nFinal Answer: Yes.", asked_request, thinking="native")
        assert (reply.text, reply.tool_calls, reply.stop_reason) == ("Yes.", (), "end_turn")
        assert reply.thinking == "native\n\ndone"
        reply = reply_to("Thought: hm\nAction: count", asked_request)
        assert calls(reply) == [("think", {"thought": "hm"})] * len(think) + [("count", {})]


def test_a_final_answer_beside_a_thought_that_was_asked_for_alone_waits_for_its_turn():
    """Without the exit signal a thought is no way out, so the forced one is kept as what it is."""
    forced = request(tools=(THINK_MINIMAL, count), tool_choice=Force("think"))
    heard = asked(forced, "scripted").messages[-1].text
    assert heard.endswith("Now write a Thought, and no Action or Final Answer yet.")
    reply = reply_to("Thought: rule 5\nFinal Answer: Yes.", forced)
    assert calls(reply) == [("think", {"thought": "rule 5"})]
    reply = reply_to("Final Answer: Yes.", forced)  # there is no thought to keep
    assert (reply.text, reply.tool_calls) == ("Yes.", ())


def test_a_bare_value_gets_the_type_that_is_declared():
    schema = {"type": "object", "properties": {"n": {"type": "array"}}}
    add = Tool(name="add", description="", parameters=schema)
    (call,) = reply_to("Action: add\nAction Input: [1, 2]", request(tools=(add,))).tool_calls
    assert call.arguments == {"n": [1, 2]}


def test_words_before_the_first_label_stand_beside_the_calls():
    reply = reply_to("Let me see.\nAction: count")
    assert (reply.text, calls(reply)) == ("Let me see.", [("count", {})])


FINAL = {
    "Your refund is on its way.": "Your refund is on its way.",
    "Final Answer: Yes.\n\nAction: wait.": "Yes.\n\nAction: wait.",
    "Thought: done\n**Final Answer:** Yes.": "Yes.",
    "Sure!\nFinal Answer: Yes.": "Sure!\n\nYes.",
    "Yes.\nObservation: thanks": "Yes.",
    "Thought: one more\nAction: count": "",  # the loop asks once more
}


@pytest.mark.parametrize("text", FINAL)
def test_in_the_final_call_plain_words_are_the_answer(text):
    for final in (request(tool_choice="none"), request(tools=())):
        reply = reply_to(text, final)
        assert (reply.text, reply.tool_calls, reply.stop_reason) == (FINAL[text], (), "end_turn")


# What the model inside gets to see.


def test_the_model_inside_sees_words_alone():
    system = f"Be brief.\n\n{instructions(TOOLS)}"
    for choice in ("auto", "required", "none", Force("think"), Force("count")):
        inner = asked(request(tool_choice=choice, system="Be brief."), "scripted")
        assert (inner.tools, inner.tool_choice, inner.system) == ((), "auto", system)
        assert inner.output_schema is None
    assert "- look: Look up an order.\n" in system
    assert json.dumps(look.parameters) in system
    assert "\n- think" not in system


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Force("think"), "Now write a Thought"),
        (Force("count"), "Now write an Action with the tool count."),
        ("required", "Now write an Action; or,"),
        ("none", "Now write the Final Answer"),
    ],
)
def test_a_tool_choice_is_asked_for_in_the_last_words(choice, said):
    (message,) = asked(request(tool_choice=choice), "scripted").messages
    assert isinstance(message, User)
    assert message.text.startswith("ORD-001?\n\n" + said)
    reply = reply_to("Thought: hm", request(tool_choice=choice))
    assert reply.enforced == "prompt"
    assert reply_to("Thought: hm").enforced is None


def test_a_schema_for_the_answer_counts_in_the_final_call_only():
    schema = {"type": "object"}
    assert asked(request(output_schema=schema), "x").output_schema is None
    for final in (request(tool_choice="none"), request(tools=())):
        assert asked(replace(final, output_schema=schema), "x").output_schema == schema


def test_its_own_words_come_back_to_the_model_and_results_name_their_call():
    text = "Thought: look\nAction: look\nAction Input: ORD-001\nObservation: nonsense"
    inner = Assistant(text=text, native={"signed": "yes"}, thinking="hm", usage=Usage(3, 4))
    model = react(ScriptedModel(lambda _: inner, name="local", model="small"))
    reply = model.complete(request(tool_choice=Force("think")))
    assert (reply.usage, reply.thinking) == (Usage(3, 4), "hm")
    assert (reply.provider, reply.model) == ("local", "small")
    named = tuple(replace(c, id=f"call_{n}") for n, c in enumerate(reply.tool_calls))
    history = (
        User("ORD-001?"),
        replace(reply, tool_calls=named, tool_choice=Force("think")),  # as the loop notes it
        ToolResult("call_0", "think", "Thought recorded."),
        ToolResult("call_1", "look", "13 days"),
        User("Hello?", kind="nudge"),
    )
    first, said, heard = asked(request(*history), "local").messages
    assert first == User("ORD-001?\n\nNow write a Thought, and no Action yet.")  # as it was asked
    assert said == replace(inner, provider="local", model="small")
    assert heard == User(
        "Observation (thought): Thought recorded.\n\n"
        'Observation (look {"order_id": "ORD-001"}): 13 days\n\nHello?'
    )


def test_replies_from_elsewhere_are_told_in_the_dialect():
    history = (
        User("ORD-001?"),
        Assistant(
            text="I look.",
            tool_calls=(
                ToolCall("a", "think", {"thought": "hm", "should_continue": "true"}),
                ToolCall("b", "look", ORDER),
            ),
            provider="openai",
            native={"items": []},
        ),
        ToolResult("a", "think", "Thought recorded."),
        ToolResult("b", "look", "13 days"),
        Assistant(text="13 days.", provider="openai"),
        User("Sure?"),
    )
    for provider in ("openai", "local"):
        said = asked(request(*history), provider).messages
        assert [type(message) for message in said] == [User, Assistant] * 2 + [User]
        assert said[1].text == (
            f"I look.\nThought: hm\nAction: look\nAction Input: {json.dumps(ORDER)}"
        )
        assert said[3].text == "Final Answer: 13 days."
        assert all(m.native is None and not m.tool_calls for m in (said[1], said[3]))


# Streaming.


def in_pieces(text, size):
    return react(InPieces(Assistant(text=text, thinking="hm"), size))


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("case", [*READ, *MALFORMED, *FINAL])
def test_the_four_ways_agree(case, size):
    text = {**READ, **MALFORMED}.get(case, (case,))[0]
    for asked_request in (request(), request(tool_choice="none"), request(tools=(count,))):
        reply, deltas = four_ways(in_pieces(text, size), asked_request)
        if reply.stop_reason == "end_turn":
            assert told(deltas, "answer") == reply.text
    assert Delta("thinking", "hm") in deltas


def test_thoughts_calls_and_the_answer_are_told_as_they_form():
    text = f"Thought: I look.\nAction: look\nAction Input: {json.dumps(ORDER)}"
    _, deltas = four_ways(in_pieces(text, 4), request())
    thoughts = [delta for delta in deltas if delta.kind == "thought"]
    assert told(thoughts, "thought") == "I look."
    assert len(thoughts) > 1
    assert {(delta.name, delta.index) for delta in thoughts} == {("think", 0)}
    pieces = [delta for delta in deltas if delta.kind == "call"]
    assert json.loads(told(pieces, "call")) == ORDER
    assert {(delta.name, delta.index) for delta in pieces} == {("look", 1)}
    _, deltas = four_ways(in_pieces("Thought: ok\nFinal Answer: It is paid.", 4), request())
    assert told(deltas, "answer") == "It is paid."
    assert told(deltas, "thought") == "ok"


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


@given(texts, st.integers(1, 9), st.sampled_from(["auto", "none"]))
@example("Action:\n_\nAction Input: {}", 1, "auto")
def test_any_text_is_read_the_same_however_it_is_cut(text, size, choice):
    reply, deltas = four_ways(in_pieces(text, size), request(tool_choice=choice))
    assert bool(reply.tool_calls) == (reply.stop_reason == "tool_use")
    assert bool(reply.mistake) == (reply.stop_reason == "malformed")
    if reply.stop_reason == "end_turn":
        assert told(deltas, "answer") == reply.text


@given(
    st.lists(st.tuples(st.sampled_from([look, pay_out]), st.dictionaries(st.text(), st.text()))),
    st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
def test_what_is_written_in_the_dialect_is_read_back(actions, notes):
    lines = [f"Thought: {notes}"]
    for item, arguments in actions:
        lines += [f"Action: {item.name}", f"Action Input: {json.dumps(arguments, indent=1)}"]
    wanted = [thought(notes.strip())] if notes.strip() else []
    wanted += [(item.name, arguments) for item, arguments in actions]
    assert calls(reply_to("\n".join(lines))) == wanted


@pytest.mark.parametrize(
    "piece", [*LABELS, "\n", " ", "*", "Action Input: {\n", "Action: a\n", "["]
)
def test_hostile_texts_take_linear_time(piece):
    start = time.process_time()
    assert split(piece * (100_000 // len(piece)))
    reply_to(piece * (100_000 // len(piece)))
    assert time.process_time() - start < 2


def test_many_actions_in_one_reply_take_linear_time():
    def work(number):
        action = f"Thought: pay\nAction: pay-out\nAction Input: {json.dumps(PAY)}\n"
        *_, reply = react(InPieces(Assistant(text=action * number), 50)).stream(request())
        assert len(reply.tool_calls) == 2 * number

    assert grows_evenly(work, 100, 500)


# Whole runs.


def clerk(asked_request):
    """The stand-in of the refund desk in plain text; it makes up an Observation each time."""
    said = speaking(offline.reply, "react")(asked_request)
    return replace(said, text=f"{said.text}\nObservation: whatever", usage=Usage(10, 5))


def listened_to(brain):
    """A model with this brain, and the list of all that it was asked."""
    heard = []

    def listening(asked_request):
        heard.append(asked_request)
        return brain(asked_request)

    return react(ScriptedModel(listening)), heard


def agent_for(model, shop, **options):
    return Agent(model, shop.tools(), instructions=INSTRUCTIONS.read_text("utf-8"), **options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("force", ["never", "first", "always"])
def test_the_orders_are_decided_right_in_plain_text(force, way):
    shop, model, heard = Shop(), *listened_to(clerk)
    outcome = way(agent_for(model, shop, force=force), "Please refund " + " and ".join(RIGHT))
    assert {d.order_id: d.decision for d in shop.decisions()} == RIGHT
    assert outcome.exit == "signal"
    assert all(order in outcome.answer for order in RIGHT)
    assert outcome.behind_a_thought == len(outcome.actions) == 12
    assert not any(item.tools for item in heard)
    assert len({item.system for item in heard}) == 1


def test_the_answer_of_the_way_out_is_the_answer_and_nobody_is_asked_twice():
    model, heard = listened_to(clerk)
    outcome = agent_for(model, Shop()).run("Please refund ORD-001")
    assert outcome.exit == "signal"
    assert "ORD-001" in outcome.answer
    assert outcome.model_calls == len(heard) + 1  # the last reply is the transcript's own
    assert outcome.usage == Usage(10 * len(heard), 5 * len(heard))
    second = agent_for(model, Shop()).run("And ORD-002?", transcript=outcome.transcript)
    assert "ORD-002" in second.answer
    said = [m.text for m in heard[-1].messages if isinstance(m, Assistant)]
    assert sum(outcome.answer in text for text in said) == 1


def test_a_watcher_is_told_the_answer_once_and_as_it_forms():
    model = in_pieces("Thought: done\nFinal Answer: Your refund is on its way.", 4)
    events = list(Agent(model, [count]).stream("Refund!"))
    deltas = [event for event in events if isinstance(event, Delta)]
    assert told(deltas, "answer") == events[-1].answer == "Your refund is on its way."
    assert len([delta for delta in deltas if delta.kind == "answer"]) > 4


def test_a_way_out_without_words_is_asked_for_them():
    action = 'Action: think\nAction Input: {"thought": "done", "should_continue": "false"}'
    replies = iter([action, "Final Answer: Yes."])
    agent = Agent(react(ScriptedModel(lambda _: Assistant(text=next(replies)))), [count])
    outcome = agent.run("Well?")
    assert (outcome.exit, outcome.answer, outcome.thoughts) == ("signal", "Yes.", ("done",))


@pytest.mark.parametrize(("protocol", "spec"), [(OllamaServer, "ollama"), (Chat, "openai:local")])
def test_a_run_goes_through_a_real_server(protocol, spec):
    with serve(protocol(), clerk) as server:
        url = server.url + "/v1" if spec.startswith("openai") else server.url
        model = react(connect(spec, base_url=url, api_key="a-test-key"))
        shop = Shop()
        transcript = ()
        for order in RIGHT:
            outcome = agent_for(model, shop).run(f"Refund {order}", transcript=transcript)
            assert outcome.exit == "signal"
            assert outcome.behind_a_thought == len(outcome.actions) == 3
            transcript = outcome.transcript
    assert {d.order_id: d.decision for d in shop.decisions()} == RIGHT
    assert all(not body.get("tools") for body in server.requests)


def test_a_model_that_never_thinks_cannot_refund():
    action = {"order_id": "ORD-001", "decision": "approve", "reason": "asked"}
    text = f"Action: process_refund\nAction Input: {json.dumps(action)}"
    shop = Shop()
    outcome = agent_for(react(ScriptedModel(lambda _: Assistant(text=text))), shop).run("Refund!")
    assert (outcome.exit, outcome.actions, shop.decisions()) == ("gave_up", (), [])


def test_a_format_mistake_is_mended_and_three_in_a_row_end_the_run():
    replies = iter(["It is old.", "Thought: sorry\nFinal Answer: It is old."])
    agent = Agent(react(ScriptedModel(lambda _: Assistant(text=next(replies)))), [count])
    outcome = agent.run("How old?")
    assert (outcome.exit, outcome.answer) == ("signal", "It is old.")
    assert [m.kind for m in outcome.transcript if isinstance(m, User)] == ["person", "format"]
    agent = Agent(react(ScriptedModel(lambda _: Assistant(text="It is old."))), [count])
    outcome = agent.run("How old?")
    assert (outcome.exit, outcome.model_calls) == ("gave_up", 3)


def test_at_a_limit_the_closing_words_are_asked_for():
    def endless(asked_request):
        last = asked_request.messages[-1].text
        return Assistant(text="So far: 9." if "Final Answer" in last else "Action: count")

    agent = Agent(react(ScriptedModel(endless)), [count], max_model_calls=3)
    outcome = agent.run("Count!")
    assert (outcome.exit, outcome.answer, outcome.model_calls) == ("limit", "So far: 9.", 3)


def test_a_wrapped_model_is_the_model_and_cannot_be_forced():
    model = react(ScriptedModel([], name="ollama", model="gemma"))
    assert (model.name, model.model, model.capabilities.forcing) == ("ollama", "gemma", "none")
