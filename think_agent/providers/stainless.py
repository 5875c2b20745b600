"""What the SDKs of Anthropic and OpenAI share: both are made by one generator, on httpx2.

Rule 1: plain JSON goes in and comes out, by `client.post`, the SDK's documented generic door: keys,
        errors and streams are the SDK's, and no typed model is built only to be taken apart again.
Rule 2: the SDK tries once (`max_retries=0`): when to ask again is decided in `base.py`.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx2

from ..messages import Json
from .base import Provider
from .errors import Fault, quoted_error
from .settings import is_exposed
from .transport import guard


class Stainless(Provider):
    """A provider whose SDK (`sdk`) Stainless has generated. `arguments`: what its clients take
    besides.
    """

    http = httpx2
    sdk: ModuleType
    client_class: str
    arguments: Json

    def connect(self, *, is_async: bool) -> tuple[Any, Callable[[], Any]]:
        kind = "Async" if is_async else ""
        http_client = getattr(self.sdk, f"Default{kind}HttpxClient")(
            **guard(httpx2, self.url, is_async=is_async)
        )
        client = getattr(self.sdk, kind + self.client_class)(
            **self.arguments, timeout=self.timeout, max_retries=0, http_client=http_client
        )
        for attribute, nothing in self.extras.values() if is_exposed(self.url) else ():
            setattr(client, attribute, nothing)
        return client, http_client.aclose if is_async else http_client.close

    def post(self, client: Any, body: Json, *, stream: bool = False) -> Any:
        body = body | self.wire.STREAMED if stream else body
        return client.post(self.wire.PATH, body=body, cast_to=object, stream=stream)

    def fault(self, error: Exception) -> Fault | None:
        api = self.sdk.APIError
        if not isinstance(error, api.__base__) or isinstance(error, self.sdk.APIConnectionError):
            return None
        if not isinstance(error, api):  # such as a token of a profile that cannot be had
            return Fault(str(error), 401)
        body = error.body
        if isinstance(body, dict) and "error" in body:  # Anthropic's SDK hands over the whole one
            body = body["error"]
        said, code = quoted_error(body or error.message)
        if not isinstance(error, self.sdk.APIStatusError):  # an error event in a stream
            return Fault(said, code=code)
        return Fault(said, error.status_code, code, error.response.headers)
