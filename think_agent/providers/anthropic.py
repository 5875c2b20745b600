"""Anthropic: the Messages API, through the official SDK.

Rule 1: if `reasoning` is set, the API is asked once how much the model can reason
        (`GET /v1/models/{id}`).
Rule 2: requests ask the API to cache them, unless `cache` is false (the marks are set in `wire/`).
Rule 3: thinking that was signed under other instructions or tools is left out. If the API wants it
        anyway, as in the middle of a tool loop, it's sent, and the API is asked to drop what isn't
        valid (`drop_block`). If the API refuses even that, the error says what to do.

Limitation: it needs a key. The SDK's profiles on disk aren't read.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import anthropic
from anthropic._streaming import ServerSentEvent

from ..messages import Json
from ..wire import anthropic as wire
from .complaints import is_failure
from .reasoning import ALL, Levels
from .sse import Event, aread_events, read_events
from .stainless import Stainless

# These answer 400 to forced tool use. A date may follow the name, but not directly a digit:
# claude-fable-5-20260801 is another model.
REFUSES_FORCING = re.compile(r"claude-(fable-5-[12]|mythos-5-[12]|opus-5-5|sonnet-5-5)(?!\d)")
# These write their notes between calls as thinking, which is empty unless it's requested.
NOTES_IN_THINKING = re.compile(r"claude-(opus|sonnet)-5-5(?!\d)")


class Anthropic(Stainless):
    """A Claude model, or another one behind a server that speaks the Messages API.

    `thinking` is the API's own setting for native thinking, such as `{"type": "adaptive"}`, where
    `reasoning` isn't enough. `strict`: the sampler follows the tools' closed schemas. `cache`:
    repeated input is read from a cache for a tenth of the price (writing costs 1.25 times; entries
    last five minutes).
    """

    sdk = anthropic
    client_class = "Anthropic"
    main_key = "ANTHROPIC_API_KEY"
    keys = (main_key, "ANTHROPIC_AUTH_TOKEN")  # the API accepts both
    extras = {"ANTHROPIC_CUSTOM_HEADERS": ("_custom_headers", {})}  # noqa: RUF012
    usual_url = "https://api.anthropic.com"
    url_variable = "ANTHROPIC_BASE_URL"
    wire = wire
    remedies = (
        # Rule 3: the API wants thinking back that was signed under other instructions.
        ("Expected `thinking`|bound to a different conversation", "drop_block", True),
        ("block_binding: |anthropic-beta", "drop_block", False),
    )

    def __init__(
        self,
        model: str,
        *,
        thinking: Json | None = None,
        strict: bool = True,
        cache: bool = True,
        **where: Any,
    ) -> None:
        options: Json = {"thinking": thinking, "strict": strict, "cache": cache}
        super().__init__(model, options, **where)
        self.settings.refuse("anthropic's API", "temperature", "seed")
        is_usual = thinking is None and self.settings.reasoning is None
        if is_usual and NOTES_IN_THINKING.match(model):
            self.options["thinking"] = wire.SHOWN  # these think by default
        if "budget_tokens" in str(thinking) or REFUSES_FORCING.search(model):
            self.refused = {"named": "", "required": ""}

    def stream_class(self, client: Any) -> Any:
        if isinstance(client, anthropic.AsyncAnthropic):
            return AsyncMessageEvents
        return MessageEvents

    def headers(self, body: Json) -> dict[str, str]:
        if "block_binding" in body.get("thinking", ()):
            return {"anthropic-beta": wire.BINDING}
        return {}

    def digest_signed(self, body: Json) -> str:
        return wire.digest_signed(body)

    def learn(self) -> Levels:  # rule 1
        if self.settings.reasoning is None or self.options["thinking"]:
            return ALL
        path = f"/v1/models/{quote(self.model, safe='')}"
        try:
            capabilities = self.client.get(path, cast_to=object)["capabilities"]
            types = capabilities["thinking"]["types"]
            ways_off = _find_supported(types, "disabled", "between_tools")
            levels = _find_supported(capabilities["effort"], "low", "medium", "high")
            if not _find_supported(types, "adaptive"):
                levels = []
        except Exception as error:
            self.translate(error)  # raises a bug
            return ALL  # no answer, as from a proxy; the request itself will show any problem
        if not ways_off:
            return levels
        if self.settings.reasoning == "off":
            self.options["thinking"] = {"type": ways_off[0]}
        return ["off", *levels]


class MessageEvents(anthropic.Stream[object]):
    """The events of a stream, each with a name that the SDK takes."""

    def _iter_events(self) -> Iterator[ServerSentEvent]:
        for event in read_events(self.response.iter_bytes()):
            yield _name_event(event)


class AsyncMessageEvents(anthropic.AsyncStream[object]):
    """The same for an async client."""

    async def _iter_events(self) -> AsyncIterator[ServerSentEvent]:
        async for event in aread_events(self.response.aiter_bytes()):
            yield _name_event(event)


def _name_event(event: Event) -> ServerSentEvent:
    """`event` with its type both in its name and in its data. Some servers write it in one of these
    places only. The SDK silently skips events without a name.
    """
    content = event.content
    if not isinstance(content, dict):
        return ServerSentEvent(event=event.name, data=event.data)
    data = event.data
    if "type" not in content and event.name:
        content["type"] = event.name
        data = json.dumps(content)
    name = str(content.get("type"))
    if name == "message":  # a whole one: the server doesn't stream
        name = "message_start"
    if is_failure(content, ("type",)):
        name = "error"
    return ServerSentEvent(event=name, data=data)


def _find_supported(capabilities: Json, *names: Any) -> list[Any]:
    """The `names` that the model supports."""
    return [name for name in names if capabilities[name]["supported"]]
