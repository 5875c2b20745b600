"""What the SDKs of Anthropic and OpenAI share: one generator makes both, on httpx2.

Rule 1: plain JSON is sent and read with `client.post`, the SDK's documented generic method. The SDK
        handles keys, errors and streams, but builds no typed models. It gets the whole address and
        the written body: it would copy an object, and parse a path again for each request.
Rule 2: the SDK tries once (`max_retries=0`): retries are decided in `provider.py`.
"""

from types import ModuleType
from typing import Any

import httpx2

from ..errors import ModelError
from ..messages import Json
from ..wire.outgoing import encode_body
from .address import is_exposed
from .provider import Provider


class Stainless(Provider):
    """A provider whose SDK (`sdk`) Stainless has generated."""

    http = httpx2
    sdk: ModuleType
    client_class: str

    def connect(self, arguments: Json, *, is_async: bool) -> Any:
        kind = "Async" if is_async else ""
        make_http_client = getattr(self.sdk, f"Default{kind}HttpxClient")
        client = getattr(self.sdk, kind + self.client_class)(
            base_url=self.url,
            api_key=self.key,
            timeout=self.timeout,
            max_retries=0,  # rule 2
            http_client=make_http_client(**arguments),
        )
        if is_exposed(self.url):
            for attribute, nothing in self.extras.values():
                setattr(client, attribute, nothing)
        return client

    def post(self, client: Any, body: Json, *, stream: bool) -> Any:
        return client.post(
            self.url.rstrip("/") + self.wire.PATH,
            content=encode_body(body).encode(),
            cast_to=object,
            stream=stream,
            stream_cls=self.stream_class(client),
            options={"headers": self.headers(body)},
        )

    def stream_class(self, client: Any) -> Any:
        """The class that reads a stream, if the SDK's own one doesn't do."""
        return None

    def headers(self, body: Json) -> dict[str, str]:
        """What a request needs besides the headers that the SDK sends."""
        return {}

    def translate(self, error: Any) -> ModelError:
        sdk = self.sdk
        if isinstance(error, sdk.APIConnectionError):
            error = error.__cause__  # raised by the transport
        elif isinstance(error, sdk.APIError):
            return self.make_error(error.body or error.message)
        return super().translate(error)
