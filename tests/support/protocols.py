"""The protocols, one row each: all that the tests shared by the providers need to know.

With one more row, those tests run on a new provider, too. The servers are named and not imported:
they load the SDKs, which the tests of the wire do without.
"""

import importlib
from typing import Any, NamedTuple

from tests.servers import Protocol
from think_agent.wire import anthropic, gemini, ollama, openai_chat, openai_responses

KEY = "AIza-good+key"  # the one the Gemini server lets in; the others take any


class Row(NamedTuple):
    """`server`: its module and class in `tests/servers/`. `spec` and `settings`: of `connect`.
    `wire`, `model` and `options`: a module of the wire, and what its `to_wire` needs. `bound`: the
    keys under which a body has the bound of its reply.
    """

    server: str
    spec: str
    settings: dict[str, str]
    wire: Any
    model: str
    options: dict[str, Any]
    bound: tuple[str, ...]

    def server_class(self) -> type[Protocol]:
        module, name = self.server.split(".")
        found: type[Protocol] = getattr(importlib.import_module(f"tests.servers.{module}"), name)
        return found


PROTOCOLS = {
    "ollama": Row(
        server="ollama.OllamaServer",
        spec="ollama",
        settings={},
        wire=ollama,
        model="m",
        options={"num_ctx": 9},
        bound=("options", "num_predict"),
    ),
    "anthropic": Row(
        server="anthropic.AnthropicProtocol",
        spec="anthropic:claude-haiku-5-5",
        settings={"api_key": KEY},
        wire=anthropic,
        model="claude-haiku-5-5",
        options={"thinking": None, "strict": False, "cache": True},
        bound=("max_tokens",),
    ),
    "openai-responses": Row(
        server="openai_responses.Responses",
        spec="openai",
        settings={"api_key": KEY, "api": "responses"},
        wire=openai_responses,
        model="gpt-6",
        options={"strict": False},
        bound=("max_output_tokens",),
    ),
    "openai-chat": Row(
        server="openai_chat.Chat",
        spec="openai:local",
        settings={"api_key": KEY, "api": "chat"},
        wire=openai_chat,
        model="m",
        options={"strict": False},
        bound=("max_tokens",),
    ),
    "gemini": Row(
        server="gemini.GeminiProtocol",
        spec="gemini",
        settings={"api_key": KEY},
        wire=gemini,
        model="gemini-3",
        options={"strict": False},
        bound=("generationConfig", "maxOutputTokens"),
    ),
}
