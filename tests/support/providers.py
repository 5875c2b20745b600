"""The five protocols, each with its local server, and the refund desk on any of them."""

import asyncio
import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from demos.refund.shop import INSTRUCTIONS, Shop
from tests.servers import Brain, Mode, Protocol, ProviderServer, bare, serve
from tests.support.pieces import gathered
from tests.support.protocols import KEY, PROTOCOLS, Row
from think_agent import Agent, Assistant, Model, ModelError, Outcome, Request, User, connect
from think_agent.providers import PROVIDERS
from think_agent.providers.provider import Provider

SPEAKS: dict[str, tuple[Callable[[], Protocol], str, dict[str, str]]] = {
    name: (row.server_class(), row.spec, row.settings) for name, row in PROTOCOLS.items()
}


def _variables(row: Row) -> list[str]:
    """The variables that may hold the key of a provider. Errors name the last one."""
    name = row.spec.partition(":")[0]
    module = importlib.import_module(f"think_agent.providers.{name}")
    provider = getattr(module, PROVIDERS[name].class_name)
    return sorted(provider.keys, key=lambda variable: variable == provider.main_key)


VARIABLES = {name: _variables(row) for name, row in PROTOCOLS.items()}

# "This model cannot call tools", as servers say it: Ollama, OpenRouter, OpenAI, Groq, vLLM,
# llama.cpp. Recorded, but for Groq's, which is quoted in its threads.
NO_TOOLS = [
    (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    (404, "No endpoints found that support tool use. To learn more about provider routing, visit: "
     "https://openrouter.ai/docs/provider-routing"),
    (404, "tools is not supported in this model. For a list of supported models, refer to "
     "https://platform.openai.com/docs/guides/function-calling."),
    (400, "`tool calling` is not supported with this model"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (500, "tools param requires --jinja flag"),
]  # fmt: skip

RIGHT = {"ORD-001": "approve", "ORD-002": "deny", "ORD-003": "approve", "ORD-004": "escalate"}


def model_of(provider: str, server: ProviderServer, model: str = "", **options: Any) -> Model:
    """The model of a provider, on its local server."""
    _, spec, usual = SPEAKS[provider]
    url = server.url + "/v1" if spec.startswith("openai") else server.url
    spec = f"{spec.partition(':')[0]}:{model}" if model else spec
    return connect(spec, **{"base_url": url, "timeout": 20, **usual, **options})


ASK: dict[str, Callable[[Model, Request], Assistant]] = {
    "plain": lambda model, request: model.complete(request),
    "async": lambda model, request: asyncio.run(model.acomplete(request)),
    "streamed": lambda model, request: list(model.stream(request))[-1],
    "async streamed": lambda model, request: asyncio.run(gathered(model.astream(request)))[-1],
}
HELLO = Request([User("Hello")])
every_provider = pytest.mark.parametrize("provider", SPEAKS)
every_way = pytest.mark.parametrize("way", ASK)
streamed_ways = pytest.mark.parametrize("way", ["streamed", "async streamed"])


def at_once(check: Callable[..., None], *ways: str) -> None:
    """Run a check that mostly waits on every provider in these ways, all at the same time. Each
    failure names its case.
    """
    cases = [(provider, way) for provider in SPEAKS for way in ways]
    with ThreadPoolExecutor(len(cases)) as pool:
        begun = {case: pool.submit(check, *case) for case in cases}
    failures = []
    for case, done in begun.items():
        failure = done.exception()
        if failure is not None:
            failure.add_note(f"with {case}")
            failures.append(failure)
    if failures:
        raise BaseExceptionGroup("it does not hold everywhere", failures)


def says(*replies: Assistant | str) -> Brain:
    """A brain that gives these replies in turn, and the last one again and again."""
    left = [Assistant(reply) if isinstance(reply, str) else reply for reply in replies]
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


WHY = "Checked against the rules: bought in time, no final sale, not too dear."


def carrying(script: Brain) -> Brain:
    """`script`, with a thought in each call whose tool takes one."""

    def brain(request: Request) -> Assistant:
        takes = {tool.name for tool in request.tools if tool.carries}
        reply = script(request)
        calls = []
        for call in reply.tool_calls:
            if call.name in takes and isinstance(call.arguments, dict):
                call = replace(call, arguments={"thought": WHY, **call.arguments})
            calls.append(call)
        return replace(reply, tool_calls=tuple(calls))

    return brain


@contextmanager
def talking(
    provider: str,
    brain: Brain | None = None,
    mode: Mode = "honor",
    protocol: Protocol | None = None,
    **options: Any,
) -> Iterator[tuple[ProviderServer, Provider]]:
    """A local server of a provider, and the bare adapter on it."""
    protocol = protocol or SPEAKS[provider][0]()
    with serve(protocol, brain or says("Hello."), mode) as server:
        model = bare(model_of(provider, server, **options))
        assert isinstance(model, Provider)
        yield server, model


def failure(model: Model, way: str = "plain", request: Request = HELLO) -> ModelError:
    """The error of a request. It is one line, not too long, and without a key."""
    with pytest.raises(ModelError) as caught:
        ASK[way](model, request)
    said = str(caught.value)
    assert said.startswith(model.name)
    assert "\n" not in said
    assert len(said) < 500
    assert KEY not in said
    return caught.value


def decided(shop: Shop) -> dict[str, str]:
    """The decision on each order."""
    return {row.order_id: row.decision for row in shop.decisions()}


def desk(model: Model, shop: Shop, force: str = "first", **options: Any) -> Agent:
    """The refund desk, with the tools of `shop`."""
    instructions = INSTRUCTIONS.read_text(encoding="utf-8")
    return Agent(model, shop.tools(), instructions=instructions, force=force, **options)


def run_plain(agent: Agent, text: str, transcript=()) -> Outcome:
    return agent.run(text, transcript=transcript)


def run_async(agent: Agent, text: str, transcript=()) -> Outcome:
    return asyncio.run(agent.arun(text, transcript=transcript))


def run_streamed(agent: Agent, text: str, transcript=()) -> Outcome:
    return list(agent.stream(text, transcript=transcript))[-1]


def run_astreamed(agent: Agent, text: str, transcript=()) -> Outcome:
    return asyncio.run(gathered(agent.astream(text, transcript=transcript)))[-1]


WAYS = [run_plain, run_async, run_streamed, run_astreamed]
