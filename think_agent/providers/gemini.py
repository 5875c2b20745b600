"""Gemini: Google's models, through the official `google-genai` package.

Rule 1: plain JSON goes out and comes in, through the client under the SDK's typed methods: those
        drop what they do not name, and write signatures in another alphabet.
Rule 2: one request is one reply: that client calls no functions and continues nothing by itself.

The edge: the Gemini API with a key, not Vertex.
"""

import json
import re
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any, Unpack

import httpx2
from google import genai
from google.genai import errors, types

from ..errors import BadRequest
from ..messages import Json
from ..wire import gemini as wire
from .base import Provider, Where
from .errors import Fault
from .transport import guard

RETRY_DELAY = re.compile(r"'retryDelay': '([\d.]+)s'")
STREAMED = "streamGenerateContent?alt=sse"


class Gemini(Provider):
    """A model of the Gemini API. The key is `api_key`, else GOOGLE_API_KEY, else GEMINI_API_KEY."""

    wire = wire
    http = httpx2
    sends_surrogates = True
    main_key = "GEMINI_API_KEY"
    keys = ("GOOGLE_API_KEY", main_key)
    address = ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")

    def __init__(self, model: str, **where: Unpack[Where]) -> None:
        super().__init__(model, {}, **where)
        if not self.key:
            raise self.account.missing_key()

    def connect(self, *, is_async: bool) -> tuple[genai.Client, Callable[[], Any]]:
        # Left to itself the SDK picks one of three HTTP libraries, each with errors of its own, by
        # what is installed; and it closes only what it has made.
        http = httpx2.Client(**guard(httpx2, self.url))
        http_async = httpx2.AsyncClient(**guard(httpx2, self.url, is_async=True))
        options = types.HttpOptions(
            base_url=self.url,
            timeout=round(self.timeout * 1000),  # milliseconds
            httpx_client=http,
            httpx_async_client=http_async,
        )
        client = genai.Client(enterprise=False, api_key=self.key, http_options=options)
        return client, http_async.aclose if is_async else http.close

    def _path(self, method: str) -> str:
        if re.search(r"\.\.|[?&]", self.model):  # it would be another path
            raise BadRequest(f"gemini: no model is called {self.model!r}; check the model's name")
        folder = "" if self.model.startswith(("models/", "tunedModels/")) else "models/"
        return f"{folder}{self.model}:{method}"

    def send(self, body: Json) -> Any:
        client = self.client._api_client
        return _json(client.request("post", self._path("generateContent"), body))

    async def asend(self, body: Json) -> Any:
        async with self._async_clients.client() as client:
            post = client._api_client.async_request
            return _json(await post("post", self._path("generateContent"), body))

    def events(self, body: Json) -> Generator[Any]:
        post = self.client._api_client.request_streamed
        yield from map(_json, post("post", self._path(STREAMED), body))

    async def aevents(self, body: Json) -> AsyncGenerator[Any]:
        async with self._async_clients.client() as client:
            post = client._api_client.async_request_streamed
            async with aclosing(await post("post", self._path(STREAMED), body)) as chunks:
                async for chunk in chunks:
                    yield _json(chunk)

    def fault(self, error: Exception) -> Fault | None:
        if not isinstance(error, errors.APIError):
            return None
        details = str(error.details)
        delay = RETRY_DELAY.search(details)
        return Fault(
            str(error.message or details),
            error.code,
            "PerDay" if "PerDay" in details else "",  # a day's quota is not back in seconds
            getattr(error.response, "headers", None) or {},
            float(delay[1]) if delay else None,
        )


def _json(response: types.HttpResponse) -> Any:
    return json.loads(response.body or "")
