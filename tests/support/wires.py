"""The five wire protocols, each with the options that it needs."""

from dataclasses import replace
from functools import partial
from typing import Any

from think_agent import Assistant, Request
from think_agent.messages import Json
from think_agent.streaming import Delta
from think_agent.wire import anthropic, gemini, ollama, openai_chat, openai_responses
from think_agent.wire.incoming import validate_reply
from think_agent.wire.settings import Settings

PLAIN = Settings(max_output_tokens=100)
WIRES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "anthropic": (
        anthropic,
        "claude-haiku-5-5",
        {"thinking": None, "strict": False, "cache": True},
    ),
    "openai-chat": (openai_chat, "m", {"strict": False}),
    "openai-responses": (openai_responses, "gpt-6", {"strict": False}),
    "gemini": (gemini, "gemini-3", {"strict": False}),
    "ollama": (ollama, "m", {"num_ctx": 9}),
}


def to_wire(wire: str, request: Request, settings: Settings = PLAIN, **options: Any) -> Json:
    """The body of a request in one of `WIRES`. `model` may be among the options."""
    module, model, usual = WIRES[wire]
    model = options.pop("model", model)
    return module.to_wire(request, model, settings, **{"host": "", **usual, **options})


def reply_of(wire: str, response: Json) -> Assistant:
    """The reply in a response, as a provider of that protocol reads it."""
    module = WIRES[wire][0]
    return validate_reply(replace(module.from_wire(response), provider=module.NAME))


def folded(wire: str, *events: Json) -> tuple[Assistant, list[Delta]]:
    """The reply of a stream, and its Deltas. What follows its end is not read."""
    module = WIRES[wire][0]
    fold = module.Fold()
    deltas: list[Delta] = []
    for event in events:
        deltas += fold.feed(event)
        if fold.ended:
            break
    return module.from_wire(fold.result()), deltas


to_anthropic, to_chat, to_responses, to_gemini, to_ollama = (
    partial(to_wire, name) for name in WIRES
)
