"""Bodies and replies of the wire protocols, without a server."""

from dataclasses import replace
from functools import partial
from typing import Any

from tests.support.protocols import PROTOCOLS
from think_agent import Assistant, Request
from think_agent.messages import Json
from think_agent.streaming import Delta
from think_agent.wire.incoming import validate_reply
from think_agent.wire.settings import Settings

PLAIN = Settings(max_output_tokens=100)
WIRES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    name: (row.wire, row.model, row.options) for name, row in PROTOCOLS.items()
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


to_anthropic = partial(to_wire, "anthropic")
to_chat = partial(to_wire, "openai-chat")
to_responses = partial(to_wire, "openai-responses")
to_gemini = partial(to_wire, "gemini")
to_ollama = partial(to_wire, "ollama")
