"""OpenAI, and every server that speaks one of its APIs, through the official `openai` package.

Rule 1: it uses the Responses API at the official host, and Chat Completions at any other
        (`base_url`). `api` overrides this.
Rule 2: the official host needs a key; other servers may not.
"""

import json
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any, Literal

import openai
from openai._streaming import ServerSentEvent

from ..messages import Json
from ..model import Request
from ..wire import openai_chat, openai_responses
from ..wire.forms import form_of, has_ignored
from ..wire.incoming import find_error_object
from .reasoning import OPENAI, check_reasoning
from .sse import Event, aread_events, read_events
from .stainless import Stainless


class OpenAI(Stainless):
    """A model at OpenAI, or at any server that speaks one of its APIs.

    `api`: `"responses"` or `"chat"`; None chooses by host. `strict`: the sampler follows the tools'
    closed schemas; None means only at the official host.
    """

    sdk = openai
    client_class = "OpenAI"
    main_key = "OPENAI_API_KEY"
    keys = (main_key,)
    extras = {  # noqa: RUF012
        "OPENAI_CUSTOM_HEADERS": ("_custom_headers", {}),
        "OPENAI_ADMIN_KEY": ("admin_api_key", None),
        "OPENAI_ORG_ID": ("organization", None),
        "OPENAI_PROJECT_ID": ("project", None),
    }
    usual_url = "https://api.openai.com/v1"
    url_variable = "OPENAI_BASE_URL"
    wire: ModuleType = openai_chat

    def __init__(
        self,
        model: str,
        *,
        api: Literal["responses", "chat"] | None = None,
        strict: bool | None = None,
        **where: Any,
    ) -> None:
        super().__init__(model, {}, **where)
        is_official = f".{self.host}".endswith(".api.openai.com")  # or one of its regions
        if is_official:
            check_reasoning(model.removeprefix("ft:"), self.settings.reasoning, OPENAI)
        if api is None:
            api = "responses" if is_official else "chat"  # rule 1
        match api:
            case "responses":
                self.wire = openai_responses
                self.settings.refuse("openai's Responses API", "seed")
            case "chat":
                name = "max_completion_tokens"  # the name for all newer OpenAI models
                self.remedies = ((name, "max_name", name), (r"length (of )?9", "short_ids", True))
            case _:
                raise ValueError(f'unknown api {api!r}; use "responses" or "chat"')
        if strict is None:
            strict = is_official
        self.options["strict"] = strict

    def stream_class(self, client: Any) -> Any:
        if isinstance(client, openai.AsyncOpenAI):
            return AsyncOpenAIEvents
        return OpenAIEvents

    def form(self, request: Request) -> Json | None:
        """If another server has ignored a tool choice, try a schema instead."""
        if self.wire is not openai_chat or not self.is_local or "form" in self.refused:
            return None
        if has_ignored(request.messages, self.host):
            return form_of(request)
        return None


class OpenAIEvents(openai.Stream[object]):
    """The events of a stream, in the form that the SDK takes."""

    def _iter_events(self) -> Iterator[ServerSentEvent]:
        for event in read_events(self.response.iter_bytes()):
            yield _complete(event)


class AsyncOpenAIEvents(openai.AsyncStream[object]):
    """The same for an async client."""

    async def _iter_events(self) -> AsyncIterator[ServerSentEvent]:
        async for event in aread_events(self.response.aiter_bytes()):
            yield _complete(event)


def _complete(event: Event) -> ServerSentEvent:
    """`event` with the type in its data, if a server writes it in the name only; and with what an
    event of the name "error" says as an error.
    """
    if not event.name and '"error"' not in event.data:  # most events: they need not be parsed twice
        return ServerSentEvent(data=event.data)
    content = event.content
    if isinstance(content, dict) and "error" in content and not find_error_object(content):
        del content["error"]  # the SDK would take it for an error
    elif event.name == "error" and not (isinstance(content, dict) and "error" in content):
        content = {"error": content or event.data}
    elif event.name.startswith("response.") and isinstance(content, dict):
        content = {"type": event.name, **content}
    else:
        return ServerSentEvent(event=event.name, data=event.data)
    return ServerSentEvent(event=event.name, data=json.dumps(content))
