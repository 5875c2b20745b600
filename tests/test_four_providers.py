"""The refund desk through every adapter: real SDKs, real local HTTP, one script behind all of them.

Each server speaks its provider's protocol and lets the stand-in of the demo decide. What is
asserted is in the shop's rows and in the transcript: a wrong word on the wire is a wrong refund.
"""

import asyncio
from collections.abc import Callable

import pytest

from demos.refund.dialects import speaking
from demos.refund.offline import reply
from demos.refund.shop import INSTRUCTIONS, Shop
from tests.servers import Mode, Protocol, ProviderServer, serve
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import GeminiProtocol
from tests.servers.ollama import OllamaServer
from tests.servers.openai_chat import Chat
from tests.servers.openai_responses import Responses
from think_agent import Agent, Assistant, Model, Outcome, Request, ToolCall, connect
from think_agent.cli import speak

KEY = "AIza-good+key"  # the one the Gemini server lets in; the others take any
SPEAKS: dict[str, tuple[Callable[[], Protocol], str, dict[str, str]]] = {
    "ollama": (OllamaServer, "ollama", {}),
    "anthropic": (AnthropicProtocol, "anthropic:claude-haiku-5-5", {"api_key": KEY}),
    "openai-responses": (Responses, "openai", {"api_key": KEY, "api": "responses"}),
    "openai-chat": (Chat, "openai:local", {"api_key": KEY, "api": "chat"}),
    "gemini": (GeminiProtocol, "gemini", {"api_key": KEY}),
}
MODES: tuple[Mode, ...] = ("honor", "refuse", "ignore")
RIGHT = {"ORD-001": "approve", "ORD-002": "deny", "ORD-003": "approve", "ORD-004": "escalate"}


def model_of(provider: str, server: ProviderServer) -> Model:
    _, spec, options = SPEAKS[provider]
    url = server.url + "/v1" if spec.startswith("openai") else server.url
    return connect(spec, base_url=url, timeout=20, **options)


def run_plain(agent: Agent, text: str, transcript=()) -> Outcome:
    return agent.run(text, transcript=transcript)


def run_async(agent: Agent, text: str, transcript=()) -> Outcome:
    return asyncio.run(agent.arun(text, transcript=transcript))


def run_streamed(agent: Agent, text: str, transcript=()) -> Outcome:
    return list(agent.stream(text, transcript=transcript))[-1]


def run_astreamed(agent: Agent, text: str, transcript=()) -> Outcome:
    async def last():
        return [event async for event in agent.astream(text, transcript=transcript)][-1]

    return asyncio.run(last())


WAYS = [run_plain, run_async, run_streamed, run_astreamed]


def desk(model: Model, shop: Shop, force="first") -> Agent:
    return Agent(
        model, shop.tools(), instructions=INSTRUCTIONS.read_text(encoding="utf-8"), force=force
    )


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("provider", SPEAKS)
def test_the_orders_are_decided_right_and_nothing_twice(provider, way):
    with serve(SPEAKS[provider][0](), reply) as server:
        shop = Shop()
        agent = desk(model_of(provider, server), shop)
        transcript = ()
        for order in RIGHT:
            outcome = way(agent, f"I want a refund on order {order}", transcript)
            assert outcome.exit == "signal"
            assert order in outcome.answer
            assert outcome.behind_a_thought == len(outcome.actions) == 3
            transcript = outcome.transcript
        assert {d.order_id: d.decision for d in shop.decisions()} == RIGHT
        way(agent, "ORD-001 once more, and ORD-999, and ORD-009", transcript)
        later = [(d.order_id, d.decision) for d in shop.decisions()][4:]
        assert later == [("ORD-001", "deny"), ("ORD-009", "deny")]


@pytest.mark.parametrize("force", ["never", "first", "always"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("provider", SPEAKS)
def test_servers_that_honor_refuse_or_ignore_forcing(provider, mode, force):
    with serve(SPEAKS[provider][0](), reply, mode) as server:
        shop = Shop()
        agent = desk(model_of(provider, server), shop, force)
        outcome = agent.run("Please refund ORD-001, ORD-002, ORD-003 and ORD-004")
        assert {d.order_id: d.decision for d in shop.decisions()} == RIGHT
        assert outcome.exit == "signal"
        assert all(action.thought for action in outcome.actions)
        forced = [step for step in outcome.steps if step.tool_choice not in ("auto", "none")]
        if mode == "refuse" or provider == "ollama":
            assert all(step.enforced == "prompt" for step in forced)
        elif mode == "honor":
            assert all(step.enforced == "tool_choice" for step in forced)


@pytest.mark.parametrize("provider", SPEAKS)
def test_the_whole_run_is_the_same_however_it_is_asked(provider):
    with serve(SPEAKS[provider][0](), reply) as server:
        outcomes = [
            way(desk(model_of(provider, server), Shop()), "ORD-001 and ORD-004") for way in WAYS
        ]
    seen = [
        [
            (type(m).__name__, getattr(m, "text", ""), getattr(m, "content", ""))
            for m in outcome.transcript
        ]
        for outcome in outcomes
    ]
    assert seen.count(seen[0]) == len(WAYS)
    assert len({outcome.usage for outcome in outcomes}) == 1


@pytest.mark.parametrize("provider", SPEAKS)
def test_tools_and_system_stay_the_same_bytes_for_a_whole_run(provider):
    with serve(SPEAKS[provider][0](), reply) as server:
        desk(model_of(provider, server), Shop()).run("ORD-001")
        tools = [body.get("tools") for body in server.requests]
    if provider == "ollama":
        assert not tools.pop()  # the final call: there is no other way to say "none"
    assert tools.count(tools[0]) == len(tools) > 3


@pytest.mark.parametrize("provider", SPEAKS)
def test_a_conversation_moves_from_one_provider_to_the_next(provider):
    """Signatures stay behind, words and results come along."""

    def thinking(request: Request) -> Assistant:
        from dataclasses import replace

        return replace(reply(request), thinking="Let me see.")

    shop = Shop()
    transcript = ()
    for name in [provider, *(other for other in SPEAKS if other != provider)]:
        with serve(SPEAKS[name][0](), thinking) as server:
            agent = desk(model_of(name, server), shop)
            outcome = agent.run("ORD-003, please", transcript=transcript)
            assert outcome.exit == "signal"
            transcript = outcome.transcript
    assert [d.decision for d in shop.decisions()] == ["approve"] + ["deny"] * (len(SPEAKS) - 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("provider", SPEAKS)
def test_a_model_that_never_thinks_cannot_refund(provider, mode):
    def hasty(request: Request) -> Assistant:
        if request.tool_choice == "none":
            return Assistant(text="Done!")
        arguments = {"order_id": "ORD-001", "decision": "approve", "reason": "asked"}
        return Assistant(tool_calls=(ToolCall("", "process_refund", arguments),))

    with serve(SPEAKS[provider][0](), hasty, mode) as server:
        shop = Shop()
        outcome = desk(model_of(provider, server), shop).run("Refund ORD-001")
    assert shop.decisions() == []
    assert (outcome.exit, outcome.actions) == ("gave_up", ())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("provider", SPEAKS)
def test_a_model_that_thinks_only_when_told_to_can_refund(provider, mode):
    def obedient(request: Request) -> Assistant:
        last = request.messages[-1]
        told = "Call think first" in getattr(last, "content", "")
        if told:
            notes = {"thought": "13 days, $89: rule 5.", "should_continue": "true"}
            return Assistant(tool_calls=(ToolCall("", "think", notes),))
        if '"decision":"approve"' in getattr(last, "content", "") or request.tool_choice == "none":
            return Assistant(text="It is refunded.")
        arguments = {"order_id": "ORD-001", "decision": "approve", "reason": "rule 5"}
        return Assistant(tool_calls=(ToolCall("", "process_refund", arguments),))

    with serve(SPEAKS[provider][0](), obedient, mode) as server:
        shop = Shop()
        outcome = desk(model_of(provider, server), shop).run("Refund ORD-001")
    assert [d.decision for d in shop.decisions()] == ["approve"]
    assert [action.how for action in outcome.actions] == ["gated"]


@pytest.mark.parametrize("dialect", ["json", "react"])
@pytest.mark.parametrize(
    ("provider", "mode"),
    [(p, "honor") for p in SPEAKS] + [(p, m) for p in ("ollama", "openai-chat") for m in MODES[1:]],
)
def test_the_orders_are_decided_right_in_every_dialect(provider, mode, dialect):
    """A dialect sends no tool choice, so what a server makes of one changes nothing."""
    with serve(SPEAKS[provider][0](), speaking(reply, dialect), mode) as server:
        shop = Shop()
        agent = desk(speak(model_of(provider, server), dialect), shop)
        outcome = agent.run("Please refund ORD-001, ORD-002, ORD-003 and ORD-004")
    assert {d.order_id: d.decision for d in shop.decisions()} == RIGHT
    assert outcome.exit == "signal"
    assert all(action.thought for action in outcome.actions)
    hows = {action.how for action in outcome.actions}
    assert hows <= ({"schema", "volunteered"} if dialect == "json" else {"volunteered"})
