"""Gemini: Google's models, through the official `google-genai` package.

Rule 1: plain JSON goes out and comes in. The SDK carries our body as its `extra_body` and hands
        back the raw answer; only a streamed chunk it must retype, and `_as_sent` undoes that.
Rule 2: one request is one reply: the SDK's automatic function calling and its automatic
        continuation are off.

The edge: the Gemini API with a key, not Vertex.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
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
TO_STANDARD_BASE64 = str.maketrans("-_", "+/")


class Gemini(Provider):
    """A model of the Gemini API.

    `thinking`: the API's `thinkingConfig`, such as `{"thinkingBudget": 512}`, for what `reasoning`
    does not say. The key is `api_key`, else GOOGLE_API_KEY, else GEMINI_API_KEY.
    """

    wire = wire
    http = httpx2
    sends_surrogates = True
    main_key = "GEMINI_API_KEY"
    keys = ("GOOGLE_API_KEY", main_key)
    address = ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")

    def __init__(self, model: str, *, thinking: Json | None = None, **where: Unpack[Where]) -> None:
        super().__init__(model, {"thinking": thinking}, **where)
        if not self.key:
            raise self.account.missing_key()

    def connect(self, *, is_async: bool) -> tuple[genai.Client, Callable[[], Any]]:
        # Left to itself the SDK picks one of three HTTP libraries, each with errors of its own, by
        # what is installed; and it closes only what it has made.
        http = httpx2.Client(**guard(httpx2))
        http_async = httpx2.AsyncClient(**guard(httpx2, is_async=True))
        options = types.HttpOptions(
            base_url=self.base_url and self.url,
            timeout=round(self.timeout * 1000),  # milliseconds
            httpx_client=http,
            httpx_async_client=http_async,
        )
        client = genai.Client(enterprise=False, api_key=self.key, http_options=options)
        return client, http_async.aclose if is_async else http.close

    def _arguments(self, body: Json, *, raw: bool) -> Json:
        """The arguments of the SDK's call. Its own body is empty; ours is laid over it."""
        if re.search(r"\.\.|[?&]", self.model):  # of which the SDK says only ValueError
            raise BadRequest(f"gemini: no model is called {self.model!r}; check the model's name")
        config = types.GenerateContentConfig(
            http_options=types.HttpOptions(extra_body=body),
            should_return_http_response=raw,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        )
        return {"model": self.model, "contents": "(in extra_body)", "config": config}

    def send(self, body: Json) -> Any:
        return _body(self.client.models.generate_content(**self._arguments(body, raw=True)))

    async def asend(self, body: Json) -> Any:
        async with self._async_clients.client() as client:
            models = client.aio.models
            return _body(await models.generate_content(**self._arguments(body, raw=True)))

    def events(self, body: Json) -> Iterator[Json]:
        models = self.client.models
        for chunk in models.generate_content_stream(**self._arguments(body, raw=False)):
            yield _as_sent(chunk)

    async def aevents(self, body: Json) -> AsyncIterator[Json]:
        async with self._async_clients.client() as client:
            models = client.aio.models
            chunks = await models.generate_content_stream(**self._arguments(body, raw=False))
            async for chunk in chunks:
                yield _as_sent(chunk)

    def fault(self, error: Exception) -> Fault | None:
        if not isinstance(error, errors.APIError):
            return None
        details = str(error.details)
        delay = RETRY_DELAY.search(details)
        return Fault(
            error.message or details,
            error.code,
            "PerDay" if "PerDay" in details else "",  # a day's quota is not back in seconds
            getattr(error.response, "headers", None) or {},
            float(delay[1]) if delay else None,
        )


def _body(response: types.GenerateContentResponse) -> Any:
    """The JSON that was sent, of a response asked for raw."""
    http = response.sdk_http_response
    return json.loads(http.body if http and http.body else "")


def _as_sent(chunk: types.GenerateContentResponse) -> Json:
    """The JSON that was sent, of a chunk that the SDK has typed."""
    event = chunk.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"sdk_http_response"}
    )
    for candidate in event.get("candidates", ()):
        for part in candidate.get("content", {}).get("parts", ()):
            if "thoughtSignature" in part:  # the SDK writes the URL-safe alphabet, Google the other
                signature = part["thoughtSignature"]
                part["thoughtSignature"] = signature.translate(TO_STANDARD_BASE64)
    return event
