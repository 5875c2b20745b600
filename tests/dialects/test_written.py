"""What json and react share: the model's own words, results, thoughts, mistakes, and whole runs."""

import json
from dataclasses import replace

import jsonschema
import pytest

from demos.refund import offline
from demos.refund.dialects import speak_dialect
from demos.refund.shop import Shop
from tests.servers import Reply, serve
from tests.support.agents import kit_said
from tests.support.counting import grows_evenly
from tests.support.pieces import InPieces, four_ways, told
from tests.support.providers import RIGHT, SPEAKS, WAYS, decided, desk, model_of
from think_agent import (
    THINK,
    THINK_MINIMAL,
    Agent,
    Assistant,
    Force,
    Request,
    ScriptedModel,
    ToolResult,
    Usage,
    User,
    tool,
)
from think_agent.dialects import json_plan, react
from think_agent.testing import call, think
from think_agent.think import add_thought_argument


@tool(think_first=True)
def look(id: int) -> str:
    """Look at one thing."""
    return "blue"


TOOLS = (THINK, look)
WRAP = {"json": json_plan, "react": react}
PLAN = {
    "understanding": "",
    "reasoning": "So look.",
    "task_complete": False,
    "actions": [{"tool": "look", "arguments": {"id": 7}}],
    "response": "",
}
LOOK = {
    "json": json.dumps(PLAN),
    "react": 'Thought: So look.\nAction: look\nAction Input: {"id": 7}',
}
DONE = {
    "json": json.dumps(
        {**PLAN, "reasoning": "Seen.", "task_complete": True, "actions": [], "response": "Blue."}
    ),
    "react": "Thought: Seen.\nFinal Answer: Blue.",
}
HEARD = 'Thought recorded.\n\nObservation (look {"id": 7}): blue\n\nGo on.'
each = pytest.mark.parametrize("dialect", WRAP)


def request(*messages, tools=TOOLS, **options):
    return Request(messages or (User("Look at 7."),), tools, **options)


def listened_to(dialect, brain):
    """A model with this brain, and the list of all that it was asked."""
    heard = []

    def listening(request):
        heard.append(request)
        return brain(request)

    return WRAP[dialect](ScriptedModel(listening)), heard


@each
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_thoughts_and_calls_are_read_and_the_rest_of_the_reply_is_kept(dialect, size):
    own = Assistant(LOOK[dialect], thinking="Hm.", usage=Usage(7, 5), native={"signed": "yes"})
    reply, deltas = four_ways(WRAP[dialect](InPieces(own, size)), request(tool_choice="required"))
    assert reply.tool_calls == (think("So look."), call("look", id=7))
    assert reply.text == ""
    assert reply.stop_reason == "tool_use"
    assert reply.thinking == "Hm."
    assert reply.usage == Usage(7, 5)
    assert reply.provider == "scripted"
    assert reply.model == "script"
    assert told(deltas, "thought") == "So look."
    assert told(deltas, "thinking") == "Hm."
    assert json.loads(told(deltas, "call")) == {"id": 7}


@each
@pytest.mark.parametrize("think_tools", [[THINK_MINIMAL], []])
def test_without_an_exit_signal_a_final_answer_is_silence(dialect, think_tools):
    """Its notes are kept as thinking."""
    asked = request(tools=(*think_tools, look))
    done = Assistant(DONE[dialect], thinking="native")
    reply, deltas = four_ways(WRAP[dialect](InPieces(done, 7)), asked)
    assert reply.text == "Blue."
    assert reply.tool_calls == ()
    assert reply.stop_reason == "end_turn"
    assert reply.thinking == "native\n\nSeen."
    assert told(deltas, "answer") == "Blue."
    looks = WRAP[dialect](ScriptedModel([LOOK[dialect]])).complete(asked)
    notes = [call("think", thought="So look.")] * len(think_tools)
    assert looks.tool_calls == (*notes, call("look", id=7))


@each
def test_a_schema_for_the_answer_counts_in_the_final_call_only(dialect):
    model = WRAP[dialect](ScriptedModel(["Hello."]))
    schema = {"type": "object"}
    asked = request(output_schema=schema)
    assert model.ask(asked)[1].output_schema == model.schema(asked) != schema
    final = replace(asked, tool_choice="none")
    assert model.ask(final)[1].output_schema == schema
    without_tools = replace(asked, tools=(), system="Be kind.")
    assert model.ask(without_tools)[1] == without_tools
    assert model.complete(without_tools).text == "Hello."


@each
@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "pause_turn", "malformed"])
def test_in_a_reply_that_broke_off_nothing_is_called(dialect, stop_reason):
    model = WRAP[dialect](ScriptedModel([Assistant(LOOK[dialect], stop_reason=stop_reason)]))
    reply = model.complete(request())
    assert reply.stop_reason == stop_reason
    assert reply.text == LOOK[dialect]
    assert reply.tool_calls == ()


@each
@pytest.mark.parametrize(("stop_reason", "kept"), [("end_turn", ["think"]), ("max_tokens", [])])
def test_calls_that_the_model_inside_makes_by_itself_are_dropped(dialect, stop_reason, kept):
    odd = Assistant(DONE[dialect], tool_calls=(call("look", id=1),), native={"odd": 1})
    own = replace(odd, stop_reason=stop_reason)
    reply = WRAP[dialect](ScriptedModel([own])).complete(request())
    assert [made.name for made in reply.tool_calls] == kept
    assert "odd" not in json.dumps(reply.native)


@each
def test_the_model_sees_its_own_replies_unchanged_and_results_as_text(dialect):
    own = Assistant(f"\n{LOOK[dialect]}\n", native={"signed": "yes"}, provider="p", model="m")
    model, heard = listened_to(dialect, lambda _: own)
    reply = model.complete(request())
    named = tuple(replace(c, id=f"call_{n}") for n, c in enumerate(reply.tool_calls))
    model.name = "p"
    model.complete(
        request(
            User("Look at 7."),
            replace(reply, tool_calls=named),
            ToolResult("call_0", "think", "Thought recorded."),
            ToolResult("call_1", "look", "blue"),
            User("Go on.", kind="nudge"),
        )
    )
    assert heard[-1].messages == (User("Look at 7."), own, User(HEARD))


@each
@pytest.mark.parametrize("provider", ["other", "scripted"])
def test_replies_from_elsewhere_are_written_in_the_dialect(dialect, provider):
    note = call("think", thought="So look.")  # without the signal there is more to do
    calls = (replace(note, id="a"), replace(call("look", id=7), id="b"))
    other = Assistant(tool_calls=calls, provider=provider, native={"items": []})
    results = (ToolResult("a", "think", "ok"), ToolResult("b", "look", "blue"))
    model, heard = listened_to(dialect, lambda _: Assistant(DONE[dialect]))
    model.complete(request(User("Look!"), other, *results, Assistant("Blue.", provider=provider)))
    written = Assistant(LOOK[dialect], provider=provider)
    assert heard[0].messages[1] == written
    assert heard[0].messages[3].text.removeprefix("Final Answer: ") == "Blue."


@each
def test_the_model_inside_is_given_no_tools_and_always_the_same_system_prompt(dialect):
    model, heard = listened_to(dialect, lambda _: Assistant())
    for choice in ("auto", "required", "none", Force("think"), Force("look")):
        asked = request(tool_choice=choice, system="Be brief.", deadline=7.5, max_output_tokens=9)
        reply = model.complete(asked)
        assert reply.enforced == (None if choice == "auto" else model.enforced)
    for inner in heard:
        assert inner.tools == ()
        assert inner.tool_choice == "auto"
        assert inner.deadline == 7.5
        assert inner.max_output_tokens == 9
    (system,) = {inner.system for inner in heard}
    assert system.startswith("Be brief.\n\n# How to reply")
    assert "Look at one thing." in system
    assert json.dumps(look.parameters) in system
    assert THINK.description not in system


@each
def test_a_tool_that_carries_a_thought_is_shown_as_it_is(dialect):
    model, heard = listened_to(dialect, lambda _: Assistant(LOOK[dialect], thinking="Hm."))
    reply, _ = four_ways(model, request(tools=(add_thought_argument(look),)))
    assert reply.tool_calls == (call("look", id=7),)
    assert reply.thinking == "Hm.\n\nSo look."
    assert all(json.dumps(add_thought_argument(look).parameters) in asked.system for asked in heard)


@each
def test_many_actions_in_one_reply_take_linear_time(dialect):
    looking = replace(look, read_only=True)

    def work(number):
        many = {"json": json.dumps({**PLAN, "actions": PLAN["actions"] * number}),
                "react": f"{LOOK['react']}\n" * number}  # fmt: skip
        model = WRAP[dialect](InPieces(Assistant(many[dialect]), 50))
        *_, reply = model.stream(request(tools=(THINK, looking)))
        if dialect == "json":
            assert "at most 1" in reply.mistake
        else:
            assert len(reply.tool_calls) == number + 1

    assert grows_evenly(work, 100, 500)


# Whole runs.


@each
def test_after_a_mistake_is_told_to_the_model_the_run_goes_on(dialect):
    script = ScriptedModel(["Sure!", "Sure!", LOOK[dialect], "Hm.", DONE[dialect], "Blue."])
    model, heard = listened_to(dialect, script.complete)
    outcome = Agent(model, [look], force="never").run("Look at 7.")
    assert outcome.answer == "Blue."
    assert outcome.exit == "signal"
    assert [action.result.content for action in outcome.actions] == ["blue"]
    assert [message.kind for message in kit_said(outcome)] == ["format"] * 3
    assert heard[1].messages[1].text == "Sure!"


@each
@pytest.mark.parametrize("provider", SPEAKS)
def test_a_conversation_goes_through_every_server(provider, dialect):
    """The servers check what they signed: a thinking block that was changed is refused."""
    script = speak_dialect(offline.reply, dialect)

    def thinking(request):
        said = script(request)
        if request.output_schema:
            jsonschema.validate(json.loads(said.text), request.output_schema)
        return replace(said, thinking="Let me see.")

    with serve(SPEAKS[provider][0](), thinking) as server:
        agent = desk(WRAP[dialect](model_of(provider, server)), shop := Shop(), "always")
        transcript = ()
        for text in ("ORD-001 and ORD-002, please", "Now ORD-003", "and ORD-004"):
            outcome = agent.run(text, transcript=transcript)
            transcript = outcome.transcript
            assert outcome.exit == "signal"
            assert outcome.behind_a_thought == len(outcome.actions)
    assert decided(shop) == RIGHT


# What covers a call.


@each
@pytest.mark.parametrize(("given", "looks"), [({"thought": "Why.", "id": 7}, 1), ({"id": 7}, 0)])
def test_without_a_think_tool_a_call_carries_its_own_thought(dialect, given, looks):
    actions = [{"tool": "look", "arguments": given}]
    reply = {"json": json.dumps({**PLAN, "actions": actions}),
             "react": f"Action: look\nAction Input: {json.dumps(given)}"}  # fmt: skip
    model = WRAP[dialect](ScriptedModel([reply[dialect], *[DONE[dialect]] * 5]))
    outcome = Agent(model, [look], think=None, carry=True, silence="accept").run("Look at 7.")
    assert len(outcome.actions) == looks


@each
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_call_that_the_server_could_not_read_is_told_to_the_model(dialect, way):
    """Ollama looks for calls in every reply, also where it was given no tools."""
    error = Reply(500, {"error": "error parsing tool call: raw='<function=pay', err=EOF"})
    with serve(SPEAKS["ollama"][0](), ScriptedModel([]).complete) as server:
        server.canned = [error] * 3
        outcome = way(Agent(WRAP[dialect](model_of("ollama", server)), [look]), "Look.")
    assert outcome.exit == "gave_up"
    assert outcome.actions == ()
    sent = {json.dumps(body["messages"]) for body in server.requests}
    assert len(sent) == 3
