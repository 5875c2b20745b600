"""What the SDKs of Anthropic and OpenAI share: both are made by one generator, on httpx2.

Rule 1: plain JSON goes in and comes out, by `client.post`, the SDK's documented generic door: keys,
        errors and streams are the SDK's, and no typed model is built only to be taken apart again.
Rule 2: the SDK tries once (`max_retries=0`): when to ask again is decided in `base.py`.
"""

from collections.abc import AsyncIterator, Collection, Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import httpx2

from ..messages import Json
from ..wire.common import Settings
from .base import Provider
from .errors import Account, Fault, quoted_error
from .transport import PerLoop, guard


class Stainless(Provider):
    """A provider whose SDK (`sdk`) Stainless has generated. `client`: what its clients take
    besides.
    """

    http = httpx2
    sdk: ModuleType
    client_class: str

    def __init__(
        self,
        account: Account,
        timeout: float,
        wire: ModuleType,
        settings: Settings,
        options: Json,
        client: Json,
        refused: Collection[str] = (),
    ) -> None:
        super().__init__(account, timeout, wire, settings, options, refused=refused)
        self._arguments: Json = {**client, "timeout": timeout, "max_retries": 0}
        self._async_clients = PerLoop(self._async_client)

    @cached_property
    def _client(self) -> Any:
        http_client = self.sdk.DefaultHttpxClient(**guard(httpx2))
        return getattr(self.sdk, self.client_class)(**self._arguments, http_client=http_client)

    def _async_client(self) -> Any:
        guards = guard(httpx2, is_async=True)
        http_client = self.sdk.DefaultAsyncHttpxClient(**guards)
        make = getattr(self.sdk, f"Async{self.client_class}")
        return make(**self._arguments, http_client=http_client)

    def send(self, body: Json) -> Any:
        return self._client.post(self.wire.PATH, body=body, cast_to=object)

    async def asend(self, body: Json) -> Any:
        with self._async_clients.client() as client:
            return await client.post(self.wire.PATH, body=body, cast_to=object)

    def events(self, body: Json) -> Iterator[Any]:
        body = {**body, **self.wire.STREAMED}
        kind: Any = self.sdk.Stream[object]
        with self._client.post(
            self.wire.PATH, body=body, cast_to=object, stream=True, stream_cls=kind
        ) as stream:
            for event in stream:
                yield event
                if _ends(event):
                    return

    async def aevents(self, body: Json) -> AsyncIterator[Any]:
        body = {**body, **self.wire.STREAMED}
        kind: Any = self.sdk.AsyncStream[object]
        with self._async_clients.client() as client:
            async with await client.post(
                self.wire.PATH, body=body, cast_to=object, stream=True, stream_cls=kind
            ) as stream:
                async for event in stream:
                    yield event
                    if _ends(event):
                        return

    def fault(self, error: Exception) -> Fault | None:
        if isinstance(error, self.sdk.APIStatusError):
            said, code = quoted_error(_error_in(error.body) or error.message)
            return Fault(said, error.status_code, code, error.response.headers)
        if isinstance(error, self.sdk.APIConnectionError) or not isinstance(
            error, self.sdk.APIError
        ):
            return None
        said, code = quoted_error(error.body or error.message)  # an error event in a stream
        return Fault(said, code=code)


def _ends(event: Any) -> bool:
    """Is this the last event? OpenRouter sends one after it that Anthropic's SDK cannot read."""
    return isinstance(event, dict) and event.get("type") == "message_stop"


def _error_in(body: Any) -> Any:
    """The error object of a body; Anthropic's SDK hands over the whole one."""
    return body["error"] if isinstance(body, dict) and "error" in body else body
