"""The five protocols, each with its local server, and the refund desk on any of them."""

import asyncio
from collections.abc import Callable
from typing import Any

from demos.refund.shop import INSTRUCTIONS, Shop
from tests.servers import Protocol, ProviderServer
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import GeminiProtocol
from tests.servers.ollama import OllamaServer
from tests.servers.openai_chat import Chat
from tests.servers.openai_responses import Responses
from think_agent import Agent, Model, Outcome, connect

KEY = "AIza-good+key"  # the one the Gemini server lets in; the others take any
SPEAKS: dict[str, tuple[Callable[[], Protocol], str, dict[str, str]]] = {
    "ollama": (OllamaServer, "ollama", {}),
    "anthropic": (AnthropicProtocol, "anthropic:claude-haiku-5-5", {"api_key": KEY}),
    "openai-responses": (Responses, "openai", {"api_key": KEY, "api": "responses"}),
    "openai-chat": (Chat, "openai:local", {"api_key": KEY, "api": "chat"}),
    "gemini": (GeminiProtocol, "gemini", {"api_key": KEY}),
}

RIGHT = {"ORD-001": "approve", "ORD-002": "deny", "ORD-003": "approve", "ORD-004": "escalate"}


def model_of(provider: str, server: ProviderServer) -> Model:
    """The model of a provider, on its local server."""
    _, spec, options = SPEAKS[provider]
    url = server.url + "/v1" if spec.startswith("openai") else server.url
    return connect(spec, base_url=url, timeout=20, **options)


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
    async def last():
        return [event async for event in agent.astream(text, transcript=transcript)][-1]

    return asyncio.run(last())


WAYS = [run_plain, run_async, run_streamed, run_astreamed]
