"""Gemini: Google's models, through the official `google-genai` package.

Rule 1: plain JSON is sent and read, through the client under the SDK's typed methods: these drop
        fields that they do not know, and write signatures in another alphabet. A stream is read one
        layer deeper: there, an error inside it breaks on a code that is no number.
Rule 2: one request is one reply: that client calls no functions and continues nothing by itself.

Limitation: it speaks to the Gemini API with a key, not to Vertex.
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

    `strict`: the sampler keeps to the schemas of the tools (mode VALIDATED).
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
        # By itself the SDK picks one of three HTTP libraries, whichever is installed, each with its
        # own errors; and it closes only clients that it has made.
        http = httpx2.Client(**arguments)
        http_async = httpx2.AsyncClient(**arguments)
        options = types.HttpOptions(
            base_url=self.url,
            timeout=round(self.timeout * 1000),  # milliseconds
            httpx_client=http,
            httpx_async_client=http_async,
            async_client_args={"ssl": arguments["verify"]},  # else it loads certificates
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
        # Rule 2: untyped, so nothing is called or continued here.
        path = f"models/{self.model.removeprefix('models/')}"
        if stream:
            return client.stream(f"{path}:streamGenerateContent?alt=sse", body)
        return client.request("post", f"{path}:generateContent", body)

    def decode(self, answer: Any) -> Any:
        if isinstance(answer, types.HttpResponse):  # of `request`
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
        if "PerDay" in details:  # a quota of a day does not come back in seconds
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
