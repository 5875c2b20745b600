"""Gemini: Google's models, through the official `google-genai` package.

Rule 1: plain JSON is sent and read with the SDK's low-level client, because its typed methods drop
        unknown fields and re-encode signatures. Streams are read one layer deeper still, because
        the SDK fails on errors in a stream whose code isn't a number.
Rule 2: one request gives one reply: that client doesn't call functions or continue by itself.

Limitation: only the Gemini API with a key, not Vertex.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import httpx2
from google import genai
from google.genai import errors, types

from ..errors import ModelError
from ..messages import Json
from ..wire import gemini as wire
from .provider import Provider
from .reasoning import GEMINI, check_reasoning
from .sse import DONE, aread_events, read_events

RETRY_DELAY = re.compile(r"'retryDelay': '([\d.]+)s'")


class Gemini(Provider):
    """A model of the Gemini API. The key is `api_key`, else GOOGLE_API_KEY, else GEMINI_API_KEY.

    `strict`: the sampler follows the tools' schemas (mode VALIDATED).
    """

    wire = wire
    http = httpx2
    main_key = "GEMINI_API_KEY"
    keys = ("GOOGLE_API_KEY", main_key)
    usual_url = "https://generativelanguage.googleapis.com"
    url_variable = "GOOGLE_GEMINI_BASE_URL"

    def __init__(self, model: str, *, strict: bool = True, **where: Any) -> None:
        super().__init__(model, {"strict": strict}, **where)
        check_reasoning(model.removeprefix("models/"), self.settings.reasoning, GEMINI)

    def connect(self, arguments: Json, *, is_async: bool) -> Any:
        # The SDK would pick one of three HTTP libraries, whichever is installed, each with its own
        # errors. And it closes only clients that it created.
        http = httpx2.Client(**arguments)
        http_async = httpx2.AsyncClient(**arguments)
        options = types.HttpOptions(
            base_url=self.url,
            timeout=round(self.timeout * 1000),  # milliseconds
            httpx_client=http,
            httpx_async_client=http_async,
            async_client_args={"ssl": arguments["verify"]},  # otherwise it loads certificates
        )
        api = genai.Client(enterprise=False, api_key=self.key, http_options=options)._api_client

        def stream(path: str, body: Json) -> Any:
            request = api._build_request("post", path, body)
            answer: Any = api._request(request, stream=True).response_stream
            return _read(answer.iter_bytes())

        async def async_stream(path: str, body: Json) -> Any:
            request = api._build_request("post", path, body)
            answer: Any = (await api._async_request(request, stream=True)).response_stream
            return _aread(answer.aiter_bytes())

        if is_async:
            return RawClient(api.async_request, async_stream, http_async.aclose)
        return RawClient(api.request, stream, http.close)

    def post(self, client: "RawClient", body: Json, *, stream: bool) -> Any:
        # Rule 2: the untyped client makes exactly one request.
        path = f"models/{self.model.removeprefix('models/')}"
        if stream:
            return client.stream(f"{path}:streamGenerateContent?alt=sse", body)
        return client.request("post", f"{path}:generateContent", body)

    def decode(self, answer: Any) -> Any:
        if isinstance(answer, types.HttpResponse):  # from `request`
            return json.loads(answer.body or "")
        return answer

    def translate(self, error: Any) -> ModelError:
        if not isinstance(error, errors.APIError):
            return super().translate(error)
        problem = self.make_error(error.details)
        details = str(error.details)
        delay = RETRY_DELAY.search(details)
        if delay:
            problem.retry_after = float(delay[1])
        if "PerDay" in details:  # a daily quota doesn't reset in seconds
            problem.retryable = False
        return problem


def _read(pieces: Iterator[bytes]) -> Iterator[Any]:
    """The events of a stream. The SDK's reader breaks at comments and at the names of events."""
    for event in read_events(pieces):
        if event.data != DONE:
            yield json.loads(event.data)


async def _aread(pieces: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for event in aread_events(pieces):
        if event.data != DONE:
            yield json.loads(event.data)


class RawClient(NamedTuple):
    """The untyped methods of one of the SDK's clients."""

    request: Any
    stream: Any
    close: Any
