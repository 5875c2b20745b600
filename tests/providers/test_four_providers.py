"""The refund desk through every adapter: real SDKs, real local HTTP, one script behind all of them.

Each server speaks its provider's protocol, and the scripted model of the demo decides. The tests
look at the shop's rows and at the transcript: a wrong word on the wire is a wrong refund.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from demos.refund.dialects import speak_dialect
from demos.refund.offline import reply
from demos.refund.session import speak
from demos.refund.shop import Shop
from tests.servers import serve
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import GeminiProtocol
from tests.support.agents import of_kind, results
from tests.support.combined import combined
from tests.support.pieces import four_ways, told
from tests.support.protocols import PROTOCOLS
from tests.support.providers import (
    ASK,
    HELLO,
    RIGHT,
    SPEAKS,
    WAYS,
    WHY,
    carrying,
    decided,
    desk,
    every_provider,
    model_of,
    says,
    talking,
)
from tests.support.recording import DIALECTS
from think_agent import (
    THINK,
    Assistant,
    Force,
    Message,
    Model,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    User,
)
from think_agent.audit import report, words
from think_agent.received import with_ids

FOUR = "Please refund ORD-001, ORD-002, ORD-003 and ORD-004"


# The adapters themselves: what was asked, and what came of it.

WEATHER = Tool(
    name="weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
ASKED = Request([User("Weather in Oslo?")], [THINK, WEATHER], system="Be brief.")
THOUGHT = {"thought": 'Two “cities”.\nAsk "both".', "should_continue": "true"}
CALLS = (
    ToolCall("call_1", "think", THOUGHT),
    ToolCall("call_2", "weather", {"city": "Oslo"}),
    ToolCall("call_3", "weather", {}),
)
AS_STREAM = {"stream": True, "stream_options": {}}  # in what alone the ways to ask differ
USED = Usage(120, 30, 100, 7)
REPLIES = {
    "text": Assistant("All is well — so far.", usage=USED),
    "thinking and text": Assistant("All is well.", "It may be lost.", usage=USED),
    "thinking, text and calls": Assistant("Let me see.", "Which?", CALLS, "tool_use", USED),
    "cut": Assistant("Once upon a", stop_reason="max_tokens", usage=Usage(1, 2)),
    "refused": Assistant("I cannot help with that.", stop_reason="refusal", usage=Usage(1, 1)),
    "empty": Assistant(),
}
VARIANTS = {
    **{name: (name, make, {}) for name, (make, _, _) in SPEAKS.items()},
    "gemini without ids": ("gemini", lambda: GeminiProtocol(ids=False), {}),
    "claude with a budget": (
        "anthropic",
        AnthropicProtocol,
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
}


@pytest.mark.parametrize("what", REPLIES)
@every_provider
def test_four_ways_to_ask_give_one_reply(provider, what):
    said = REPLIES[what]
    if what == "refused" and provider in ("ollama", "gemini"):
        end = "refusal" if provider == "gemini" else "end_turn"
        said = Assistant(stop_reason=end, usage=said.usage)
    with talking(provider, says(said)) as (server, model):
        reply, deltas = four_ways(model, ASKED)
        streams = [sum(str(body.get("stream")) == "True" for body in server.requests)]
    # Gemini says it by another path, and Ollama is always asked for a stream.
    assert streams == [{"gemini": 0, "ollama": 4}.get(provider, 2)]
    assert reply.text == said.text
    assert reply.thinking == said.thinking
    assert reply.stop_reason == said.stop_reason
    usage = replace(said.usage, cached_tokens=0, reasoning_tokens=0)
    assert reply.usage == (usage if provider == "ollama" else said.usage)
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [
        (c.name, c.arguments) for c in said.tool_calls
    ]
    assert told(deltas, "answer") == said.text
    assert told(deltas, "thinking") == said.thinking
    if said.tool_calls:
        assert told(deltas, "thought") == THOUGHT["thought"]
        calls = [(d.index, d.name) for d in deltas if d.kind in ("thought", "call")]
        assert list(dict.fromkeys(calls)) == [(0, "think"), (1, "weather"), (2, "weather")]


@every_provider
def test_our_json_is_what_arrives(provider):
    """The types of the SDKs would rename keys, and drop what they do not know."""
    item = {"type": "object", "properties": {"snake_case": {"type": "string", "maxLength": 8}}}
    maybe = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}
    properties = {"nested": item, "maybe": maybe, "constant": {"const": "é"}}
    closed = {"additionalProperties": False, "required": list(properties)}
    schema = {"type": "object", "properties": properties, **closed}
    shop = Tool(name="shop", description="A shop.", parameters=schema)
    request = Request([User("Buy.")], [shop], tool_choice="none", output_schema=schema)
    with talking(provider) as (server, model):
        for ask in ASK.values():
            ask(model, request)
        bodies = [body | AS_STREAM for body in server.requests]
    assert bodies == [model.to_wire(request) | AS_STREAM] * 4
    assert str(bodies[0]).count(str(schema)) == 2


def converse(model: Model, way: str) -> list[Message]:
    """A forced call, its results, an answer, and one more question."""
    messages: list[Message] = list(ASKED.messages)
    for choice in (Force("think"), "none", "auto"):
        reply = ASK[way](model, replace(ASKED, messages=tuple(messages), tool_choice=choice))
        reply = replace(reply, tool_calls=with_ids(reply.tool_calls, Turn.of(messages)))
        messages.append(reply)
        for number, call in enumerate(reply.tool_calls):
            messages.append(ToolResult(call.id, call.name, f"{number}.", is_error=number == 1))
        if not reply.tool_calls:
            messages.append(User("And now?"))
    return messages


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_conversation_is_the_same_in_all_ways(variant):
    """The servers check what is signed, and that each result stands with its call."""

    def brain(request: Request) -> Assistant:
        if isinstance(request.messages[-1], User):
            return REPLIES["thinking, text and calls"]
        contents = [result.content for result in results(request.messages)]
        return Assistant(" ".join(contents), "Done.", usage=USED)

    provider, make, options = VARIANTS[variant]
    with talking(provider, brain, protocol=make(), **options) as (server, model):
        first, *others = (converse(model, way) for way in ASK)
        bodies = [body | AS_STREAM for body in server.requests]
    assert others == [first] * 3
    assert bodies[:3] * 4 == bodies  # new event loops, the same requests
    forced, answer, _ = of_kind(first, Assistant)
    enforced = {"ollama": "schema", "claude with a budget": "prompt"}
    assert forced.enforced == enforced.get(variant, "tool_choice")
    calls = 1 if variant == "ollama" else 3  # under a form there is one thought and nothing else
    assert len({call.id for call in forced.tool_calls}) == calls
    assert answer.text == " ".join(["0.", "1.", "2."][:calls])
    assert answer.thinking == "Done."


@combined(provider=SPEAKS, way=ASK, choice=[Force("think"), "required"])
def test_a_refused_choice_is_asked_as_auto_and_remembered(provider, way, choice):
    with talking(provider, mode="refuse") as (server, model):
        forced = replace(ASKED, tool_choice=choice)
        assert [ASK[way](model, forced).enforced for _ in range(2)] == ["prompt", "prompt"]
        assert ASK[way](model, ASKED).enforced is None
        forms = ("'tool_choice'", "'ANY'", "'format'")
        sent = [any(form in str(body) for form in forms) for body in server.requests]
        is_known = provider == "ollama" and choice == "required"
        tried = [] if is_known else [True]
        assert sent == tried + [False] * 3
        assert set(model.refused) >= {"named" if isinstance(choice, Force) else "required"}


@pytest.mark.parametrize("wrong", ["{", "[1]", '"text"', '{"a": NaN}', '{"a": -Infinity}'])
@pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "openai-responses"])
def test_arguments_that_are_not_an_object_are_kept_as_text_and_can_be_sent_back(provider, wrong):
    call = ToolCall("c1", "weather", wrong)
    brain = says(Assistant(tool_calls=(call,), stop_reason="tool_use"), "Sorry.")
    with talking(provider, brain) as (_, model):
        reply = ASK["streamed"](model, ASKED)
        assert [call.arguments for call in reply.tool_calls] == [wrong]
        result = ToolResult("c1", "weather", "error: no JSON", is_error=True)
        for replayed in (reply, replace(reply, native=None, provider="other")):
            history = (*ASKED.messages, replayed, result)
            assert model.complete(replace(ASKED, messages=history)).text == "Sorry."


@every_provider
def test_a_request_may_lower_the_bound_of_its_reply(provider):
    def sent(most: int | None, **options: int) -> Any:
        with talking(provider, **options) as (server, model):
            model.complete(replace(HELLO, max_output_tokens=most))
            found: Any = server.requests[0]
        for key in PROTOCOLS[provider].bound:
            found = found[key]
        return found

    least = 16 if provider == "openai-responses" else 3  # that API refuses less
    assert [sent(most) for most in (None, 50, 100_000, 3)] == [8192, 50, 8192, least]
    assert [sent(most, max_output_tokens=99) for most in (None, 50, 100)] == [99, 50, 99]


# The refund desk on each.


def behind_thoughts(transcript: Sequence[Message]) -> dict[str, str]:
    """The decisions in a transcript, each of which has to stand behind a thought: one of its own
    reply, or of those since the last reply that acted. Read without the kit's account of a run.
    """
    ran = {m.call_id for m in transcript if isinstance(m, ToolResult) and not m.refused}
    found: dict[str, str] = {}
    thought = ""
    for message in transcript:
        if not isinstance(message, Assistant):
            continue
        acted = False
        for call in message.tool_calls:
            if call.name == "think":
                thought = call.arguments["thought"]
            elif call.id in ran:
                acted = True
            if call.name == "process_refund" and call.id in ran:
                assert thought.strip(), f"{call} stands behind no thought"
                assert call.arguments["order_id"] not in found
                found[call.arguments["order_id"]] = call.arguments["decision"]
        if acted:
            thought = ""
    return found


def reluctant(request: Request) -> Assistant:
    """The scripted model of the demo, but it thinks only when it has to: because of a tool choice,
    or after a message about its mistake.
    """
    last = request.messages[-1]
    told = last.content if isinstance(last, ToolResult) else last.text
    messages = [  # a call that was refused is still to be made
        message
        for message in request.messages
        if not (isinstance(message, ToolResult) and message.content.startswith("error: not run"))
    ]
    request = replace(request, messages=messages)
    if "Call think first" in told or "could not be read" in told:
        return reply(replace(request, tool_choice=Force("think")))
    if request.tool_choice == "auto":
        return reply(replace(request, tools=()))
    return reply(request)


def deaf(request: Request) -> Assistant:
    """`reluctant`, and a tool choice does not make it think, either."""
    if request.tool_choice == "none":
        return reluctant(request)
    return reluctant(replace(request, tool_choice="auto"))


CARRIED_OUT = {"native": "tool_choice", "json": "schema", "react": "prompt"}
HOW = {  # how the thoughts came, where they were not all volunteered
    ("native", "first"): {"forced", "volunteered"},
    ("native", "always"): {"forced"},
    ("json", "always"): {"schema"},
}


@combined(
    provider=SPEAKS,
    mode=["honor", "refuse", "ignore"],
    dialect=DIALECTS,
    force=["never", "first", "always"],
)
def test_servers_that_honor_refuse_or_ignore_forcing(provider, mode, dialect, force):
    """This model thinks by itself. If it does so although the server ignored the choice, the choice
    counts as carried out: the two can't be told apart.
    """
    with serve(SPEAKS[provider][0](), speak_dialect(reply, dialect), mode) as server:
        shop = Shop()
        outcome = desk(speak(model_of(provider, server), dialect), shop, force).run(FOUR)
        bodies = server.requests
    assert behind_thoughts(outcome.transcript) == decided(shop) == RIGHT
    assert outcome.exit == "signal"
    if dialect != "native":  # a dialect sends no choice: there is nothing to refuse
        sent = [body.get(key) for body in bodies for key in ("tools", "tool_choice", "toolConfig")]
        assert not any(sent)
    has_forms = dialect == "native" and provider == "ollama"  # in place of choices
    unforced = dialect == "native" and (mode == "refuse" or (has_forms and mode == "ignore"))
    # The model saw no schema. It acts twice without a thought; then it is no longer forced.
    ignored = dialect == "json" and mode == "ignore" and force == "always"
    forced = [step for step in outcome.turn.replies if step.tool_choice not in ("auto", "none")]
    assert bool(forced) == (force != "never")
    possible = {"prompt" if unforced else CARRIED_OUT[dialect]}
    hows = HOW.get((dialect, force), {"volunteered"})
    if unforced:
        hows = {"volunteered"}
    if ignored:
        possible.add("ignored")
        hows = hows | {"volunteered"}
    in_a_row = 2 if ignored else 0
    if has_forms and mode == "honor":
        possible = {"schema", "prompt"}  # there is no form for "required"
        hows = {"schema" if how == "forced" else how for how in hows}
    if has_forms and mode == "ignore":  # only the form tells: the thought is not in it
        possible = {"ignored", "prompt"}
        in_a_row = {"never": 0, "first": 1, "always": 2}[force]
    assert {step.enforced for step in forced} <= possible
    assert outcome.turn.history.ignored == in_a_row
    assert {action.how for action in outcome.actions} == hows


GATED = "8 without a thought, 4 gated"  # only the refunds are guarded


@pytest.mark.parametrize(
    ("dialect", "mode", "behind_what", "ignored"),
    [
        ("native", "honor", "12 forced by tool choice", 0),
        ("native", "refuse", GATED, 0),
        ("native", "ignore", GATED, 2),
        ("json", "honor", "12 forced by schema", 0),
        ("json", "refuse", "12 forced by schema", 0),
        # Plans that break the schema, which the model did not see, are refused, one at a time.
        ("json", "ignore", "12 forced by schema", 0),
        ("react", "honor", "12 volunteered", 0),
        ("react", "refuse", "12 volunteered", 0),
        ("react", "ignore", GATED, 0),  # words are ignored by the model: no choice was taken
    ],
)
@every_provider
def test_a_model_that_thinks_only_when_made_to(provider, dialect, mode, behind_what, ignored):
    """What made it think is what the report says."""
    script = deaf if mode == "ignore" else reluctant
    with serve(SPEAKS[provider][0](), speak_dialect(script, dialect), mode) as server:
        shop = Shop()
        model = speak(model_of(provider, server), dialect)
        outcome = desk(model, shop, "always", max_model_calls=60).run(FOUR)
    assert behind_thoughts(outcome.transcript) == decided(shop) == RIGHT
    if provider == "ollama" and (dialect, mode) == ("native", "honor"):
        behind_what = "12 forced by schema"
    assert words.behind(report(outcome.transcript).figures["came_about"]) == behind_what
    assert outcome.turn.history.ignored == ignored
    assert outcome.exit == ("silence" if behind_what == GATED and dialect == "native" else "signal")


@combined(provider=SPEAKS, think=[THINK, None], way=WAYS)
def test_a_thought_that_a_call_carries(provider, think, way):
    """Strict where there is such a thing; the shop refuses an argument that it does not know."""
    is_marked = provider.startswith(("openai", "anthropic"))  # on each tool
    options = {"strict": True} if provider.startswith("openai") else {}  # elsewhere by default
    with serve(SPEAKS[provider][0](), carrying(reply)) as server:
        shop = Shop()
        model = model_of(provider, server, **options)
        agent = desk(model, shop, carry=True, think=think)
        outcome = way(agent, FOUR)
        first, *_, last = map(json.dumps, server.requests)
    assert decided(shop) == RIGHT
    assert outcome.exit == ("signal" if think else "silence")
    refunds = [action for action in outcome.actions if action.call.name == "process_refund"]
    assert [(refund.how, refund.thought) for refund in refunds] == [("carried", WHY)] * 4
    assert all("thought" not in refund.call.arguments for refund in refunds)
    assert first.count('"strict": true') == (len(agent.shown) if is_marked else 0)
    assert last.count(WHY) == 4  # what the model wrote goes back as it wrote it


@every_provider
def test_a_conversation_moves_from_one_provider_to_the_next(provider):
    """Signatures are left out; texts and results are sent."""

    def thinking(request: Request) -> Assistant:
        return replace(reply(request), thinking="Let me see.")

    shop = Shop()
    transcript = ()
    for name in sorted(SPEAKS, key=lambda name: name != provider):  # this one first
        with serve(SPEAKS[name][0](), thinking) as server:
            agent = desk(model_of(name, server), shop)
            outcome = agent.run("ORD-003, please", transcript=transcript)
            assert outcome.exit == "signal"
            transcript = outcome.transcript
    assert [d.decision for d in shop.decisions()] == ["approve"] + ["deny"] * (len(SPEAKS) - 1)
