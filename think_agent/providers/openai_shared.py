"""What OpenAI's two APIs have in common: arguments as JSON text, and what an error means.

Rule 1: nothing here knows the SDK. An error is judged by its HTTP status, code and text, so that
        one rule holds for an HTTP error, for an error inside a stream, and for an HTTP 200 that
        carries one.
Rule 2: inside an HTTP 200 nobody has tried again yet, so only there a passing trouble is
        `retryable`; HTTP errors come here after the SDK's own retries.
"""

import json
import re
from typing import Any

import pydantic_core

from ..errors import (
    AuthError,
    BadRequest,
    BadResponse,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    TimedOut,
    quote,
)
from ..messages import Json, ToolCall

NAME = "openai"

# The HTTP status that a code would have had; every other code speaks of the request itself.
STATUS = {
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "api_error": 500,
    "overloaded_error": 503,
    "vector_store_timeout": 503,
    "error": 500,  # the type of an `error` event that names no code
    "": 500,
}
QUOTA = {"insufficient_quota", "billing_hard_limit_reached"}
# Servers say "no such model" with 400 or 404, with this code or another, or with none.
NO_MODEL = re.compile(
    r"model.*(not found|not exist)|(invalid|not a valid|not a chat) model",
    re.IGNORECASE,
)


def parsed(arguments: str | None) -> Json | str:
    """The arguments of a call as an object; as they stand when they are none."""
    try:
        value = pydantic_core.from_json(arguments or "{}")
    except ValueError:
        return arguments or ""
    return value if isinstance(value, dict) else arguments or ""


def written(call: ToolCall, before: str | None) -> str:
    """The arguments of `call` as JSON text: as the model wrote them `before`, if that is an object.

    Servers refuse a history with invalid JSON in it; what was wrong is told by the tool result.
    """
    if isinstance(call.arguments, str):
        return "{}"
    return before or json.dumps(call.arguments)


def failure(
    error: Any,
    *,
    status: int | None = None,
    retry_after: float | None = None,
    secret: str | None = None,
) -> ModelError:
    """Our error for the provider's `error` JSON. No `status` means that HTTP said 200."""
    if not isinstance(error, dict):
        error = {"message": error}
    code = str(error.get("code") or error.get("type") or "")
    said = f"{NAME}: {_quote(error, secret)}"
    inside = status is None
    kind = status or (int(code) if code.isdecimal() else STATUS.get(code, 400))
    if QUOTA & {code, error.get("type")}:
        return RateLimited(f"{said}; no credit is left: check plan and billing", status=status)
    if kind in (400, 404) and (code == "model_not_found" or NO_MODEL.search(said)):
        return ModelNotFound(f"{said}; check the name of the model", status=status)
    if kind in (401, 402, 403):
        return AuthError(f"{said}; check OPENAI_API_KEY (in code: api_key=)", status=status)
    if kind == 408:
        return TimedOut(f"{said}; try again", status=status, retryable=inside)
    if kind == 429 and "too large" in said:  # it would be too large again
        return RateLimited(f"{said}; send less", status=status)
    if kind == 429:
        return RateLimited(
            f"{said}; wait, then try again",
            status=status,
            retry_after=retry_after,
            retryable=inside,
        )
    if kind >= 500:
        return Overloaded(
            f"{said}; try again later", status=status, retry_after=retry_after, retryable=inside
        )
    if kind == 404:
        return BadRequest(f"{said}; check base_url, it usually ends in /v1", status=status)
    if "use /v1/responses" in said:
        return BadRequest(f'{said}; pass api="responses"', status=status)
    return BadRequest(f"{said}; change the request", status=status)


def broken_off() -> BadResponse:
    """The error for a stream that ends before its end."""
    return BadResponse(
        f"{NAME}: the stream broke off before its end; try again, and check that base_url points "
        "to the right kind of server",
        retryable=True,
    )


def _quote(error: Json, secret: str | None) -> str:
    """The provider's own words, in short."""
    text = str(error.get("message") or error)
    if text.lstrip().startswith("<"):
        return "the server sent an HTML page instead of JSON"
    param = str(error.get("param") or "")
    about = f" ({param})" if param and param not in text else ""
    return quote(text.strip().rstrip("."), secret) + about
