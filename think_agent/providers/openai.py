"""OpenAI, and every server that speaks one of its APIs, through the official `openai` package.

Rule 1: the Responses API for the official host, Chat Completions for every other (`base_url`);
        `api` overrides. What the two look like is in `openai_responses.py` and `openai_chat.py`;
        here is only how they are called.
Rule 2: JSON goes through the SDK's raw door (`client.post`): with its keys, retries, timeouts and
        errors, without its types, which do not know what compatible servers add.
Rule 3: the SDK retries a request until the first byte of the answer. What breaks after that is
        `retryable` here.

A server of your own needs no key; the official host does. No key ever gets into an error's text.
"""

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import httpx2
import openai

from ..errors import AuthError, BadRequest, BadResponse, ConnectionFailed, ModelError, TimedOut
from ..messages import Assistant, Json
from ..model import Request
from ..wire import openai_chat, openai_responses
from . import base
from .openai_shared import NAME, failure

OFFICIAL = "https://api.openai.com/v1"
_tls = cache(httpx2.create_ssl_context)  # reading the certificates takes 30 ms; once will do


class Dialect(Protocol):
    """One of the two APIs: a module."""

    PATH: str
    STREAMED: Json

    def to_wire(self, request: Request, model: str) -> Json: ...
    def from_wire(self, response: Json) -> Assistant: ...
    def Fold(self) -> base.Fold: ...


class OpenAI(base.Provider):
    """A model at OpenAI, or at any server that speaks one of its APIs.

    `api`: `"responses"` or `"chat"`; None chooses by the host. `timeout` is in seconds.
    """

    name = NAME

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        api: Literal["responses", "chat"] | None = None,
    ) -> None:
        super().__init__(model)
        self._url = base.checked_url(
            base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL, NAME
        )
        host = urlsplit(self._url).hostname or ""
        official = f".{host}".endswith(".api.openai.com")  # or one of its regions
        self._dialect = _dialect(api or ("responses" if official else "chat"))
        key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        self._key = base.checked_key(key, NAME, "OPENAI_API_KEY")
        if official and not self._key:
            raise AuthError(
                "openai: no API key; set the environment variable OPENAI_API_KEY "
                "(in code: api_key=)"
            )
        self._timeout = timeout
        self._async_clients = base.PerLoop(
            lambda: openai.AsyncOpenAI(
                base_url=self._url,
                api_key=self._key or "not-needed",
                timeout=timeout,
                http_client=openai.DefaultAsyncHttpxClient(verify=_tls()),
            )
        )

    @cached_property
    def _client(self) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=self._url, api_key=self._key or "not-needed", timeout=self._timeout
        )

    def to_wire(self, request: Request) -> Json:
        return self._dialect.to_wire(request, self.model)

    def from_wire(self, response: Any) -> Assistant:
        reply = self._dialect.from_wire(response)
        return reply if reply.model else replace(reply, model=self.model)

    def fold(self) -> base.Fold:
        return self._dialect.Fold()

    def send(self, body: Json) -> Any:
        return self._client.post(self._dialect.PATH, body=body, cast_to=object)

    async def asend(self, body: Json) -> Any:
        with self._async_clients.client() as client:
            return await client.post(self._dialect.PATH, body=body, cast_to=object)

    def events(self, body: Json) -> Iterator[Any]:
        stream = self._client.post(
            self._dialect.PATH,
            body={**body, **self._dialect.STREAMED},
            cast_to=object,
            stream=True,
            stream_cls=openai.Stream[object],
        )
        with stream, self._after_the_first_byte():
            yield from stream

    async def aevents(self, body: Json) -> AsyncIterator[Any]:
        with self._async_clients.client() as client:
            stream = await client.post(
                self._dialect.PATH,
                body={**body, **self._dialect.STREAMED},
                cast_to=object,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            async with stream:
                with self._after_the_first_byte():
                    async for event in stream:
                        yield event

    @contextmanager
    def _after_the_first_byte(self) -> Iterator[None]:
        try:
            yield
        except openai.APIConnectionError as error:
            broken = self._unreached(error)
            broken.retryable = True
            raise broken from error

    def translate(self, error: Exception) -> ModelError | None:
        match error:
            case openai.APIConnectionError():
                return self._unreached(error)
            case openai.APIStatusError():
                wait = base.seconds(error.response.headers.get("retry-after", ""))
                said = error.body or error.message
                return failure(said, status=error.status_code, retry_after=wait, secret=self._key)
            case openai.APIError():  # an error event in a stream
                return failure(error.body or error.message, secret=self._key)
            case openai.OpenAIError():
                return BadRequest(f"openai: {error}; check the OPENAI_ settings")
            case httpx2.InvalidURL():
                return ConnectionFailed(f"openai: {self._where} is no URL ({error}); mend base_url")
            case json.JSONDecodeError() | UnicodeDecodeError():
                return BadResponse(
                    f"openai: {self._where} sent what is no JSON ({error}); check that base_url "
                    "points to the right kind of server"
                )
        return None

    def _unreached(self, error: openai.APIConnectionError) -> ModelError:
        if isinstance(error, openai.APITimeoutError):
            return TimedOut(
                f"openai: no answer from {self._where} within {self._timeout:g} s; "
                "try again, or pass a longer timeout="
            )
        return ConnectionFailed(
            f"openai: no connection to {self._where} ({error.__cause__ or error}); "
            "check base_url, the network, and that the server runs"
        )

    @property
    def _where(self) -> str:
        return self._url.rpartition("@")[2]  # without a password, if the URL holds one


def _dialect(api: str) -> Dialect:
    if api == "chat":
        return openai_chat
    if api == "responses":
        return openai_responses
    raise ValueError(f'unknown api {api!r}; use "responses" or "chat"')
