"""Anthropic: the Messages API, through the official SDK.

Rule 1: plain JSON goes in and comes out, by `client.post`, the SDK's documented generic door: keys,
        errors and streams are the SDK's, and no typed model is built only to be taken apart again.
Rule 2: a reply is replayed as it came (`native`). Thinking blocks are signed over all that stands
        before them: a changed message, tool or system prompt is refused.
Rule 3: the SDK tries once. It would wait as long as a server says, be it days; so what it would try
        again is `retryable` here, and `base.py` does it, with an end to its patience.

The edge: how often to retry, and what to do about a refused tool choice, is in `base.py`. A token
that a profile holds and that was revoked before its time is an AuthError: only with retries of its
own would the SDK fetch another.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from typing import Any

import anthropic
import httpx2

from ..errors import (
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    TimedOut,
    quote,
)
from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, Usage, User
from ..model import Request, sendable
from ..streaming import CallReader, Delta
from .base import PerLoop, Provider, checked_key, seconds

NAME = "anthropic"
PATH = "/v1/messages"
_tls = cache(httpx2.create_ssl_context)  # reading the certificates takes 30 ms; once will do
# These answer 400 to any forced tool use. A date may follow the name, but no digit right away:
# claude-fable-5-20260801 is another model.
REFUSES_FORCING = re.compile(r"claude-(fable-5-[12]|mythos-5-[12]|opus-5-5|sonnet-5-5)(?!\d)")
# The status that an `error` event inside a stream (whose own is 200) would have had.
STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
}


def to_wire(request: Request, model: str, *, max_tokens: int, thinking: Json | None = None) -> Json:
    """The body of a request."""
    messages = _messages_to_wire(sendable(request.messages, NAME))
    body: Json = {"model": model, "max_tokens": max_tokens, "messages": messages}
    if request.system:
        body["system"] = request.system
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        if request.tool_choice != "auto":  # the default
            body["tool_choice"] = _choice_to_wire(request.tool_choice)
    if request.output_schema is not None:
        output = {"type": "json_schema", "schema": request.output_schema}
        body["output_config"] = {"format": output}
    if thinking is not None:
        body["thinking"] = thinking
    return body


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in the JSON of a message; `model` is the one asked, in case none is named."""
    content = response["content"]
    calls = tuple(
        ToolCall(block["id"], block["name"], block["input"])
        for block in content
        if block["type"] == "tool_use"
    )
    stop_reason = response.get("stop_reason") or "end_turn"
    if stop_reason == "model_context_window_exceeded":
        stop_reason = "max_tokens"
    elif calls and stop_reason not in ("max_tokens", "refusal"):
        stop_reason = "tool_use"
    return Assistant(
        text="".join(block["text"] for block in content if block["type"] == "text"),
        thinking="".join(block["thinking"] for block in content if block["type"] == "thinking"),
        tool_calls=calls,
        stop_reason=stop_reason,
        usage=_usage_from_wire(response.get("usage") or {}),
        model=response.get("model") or model,
        provider=NAME,
        native={"role": "assistant", "content": content},
    )


class Fold:
    """Stream events into one message."""

    def __init__(self) -> None:
        self._message: Json = {}
        self._inputs: dict[int, str] = {}  # argument JSON so far, by the index of its block
        self._readers: dict[int, CallReader] = {}
        self._ended = False

    def feed(self, event: Json) -> list[Delta]:
        match event["type"]:
            case "message_start":
                self._message = {**event["message"], "content": []}
            case "content_block_start":
                return self._start(event["index"], event["content_block"])
            case "content_block_delta":
                return self._add(event["index"], event["delta"])
            case "message_delta":
                # The counts are totals, not increments; one that is null has not changed.
                named = {key: n for key, n in event.get("usage", {}).items() if n is not None}
                usage = {**self._message.get("usage", {}), **named}
                self._message |= {**event["delta"], "usage": usage}
            case "message_stop":
                self._ended = True
        return []

    def _start(self, index: int, block: Json) -> list[Delta]:
        self._message["content"].append(dict(block))
        if block["type"] != "tool_use":
            return []
        self._readers[index] = CallReader(block["name"], len(self._readers))
        return self._readers[index].feed("")

    def _add(self, index: int, delta: Json) -> list[Delta]:
        block = self._message["content"][index]
        match delta:
            case {"type": "text_delta", "text": text}:
                block["text"] += text
                return [Delta("answer", text)]
            case {"type": "thinking_delta", "thinking": text}:
                block["thinking"] += text
                return [Delta("thinking", text)]
            case {"type": "signature_delta", "signature": signature}:
                block["signature"] = signature
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case {"type": "input_json_delta", "partial_json": piece}:
                self._inputs[index] = self._inputs.get(index, "") + piece
                if index in self._readers:  # calls of the provider's own tools have none
                    return self._readers[index].feed(piece)
        return []

    def result(self) -> Json:
        if not self._message:
            raise BadResponse(
                "anthropic: the stream holds no message; check that base_url points to a server "
                "that speaks the Messages API"
            )
        if not self._ended:
            raise BadResponse(
                "anthropic: the stream broke off before its end; ask again", retryable=True
            )
        for index, text in self._inputs.items():
            if text:  # a call without arguments has one empty piece
                self._message["content"][index]["input"] = _object_or_text(text)
        return self._message


class Anthropic(Provider):
    """A Claude model, or another one behind a server that speaks the Messages API.

    `max_tokens` bounds one reply, thinking included. `thinking` is the API's own setting for native
    thinking, such as `{"type": "adaptive"}`; None leaves it to the model.
    """

    name = NAME

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        max_tokens: int = 8192,
        thinking: Json | None = None,
    ) -> None:
        budgeted = thinking is not None and thinking.get("type") == "enabled"
        no_forcing = budgeted or REFUSES_FORCING.search(model)
        super().__init__(model, refused={"named", "required"} if no_forcing else frozenset())
        self._options: Json = {"max_tokens": max_tokens, "thinking": thinking}
        settings: Json = {"base_url": base_url, "timeout": timeout, "max_retries": 0}
        try:
            client = anthropic.Anthropic(api_key=api_key, **settings)
        except (anthropic.AnthropicError, httpx2.InvalidURL) as error:
            raise self.translate(error) or error from error
        if not (client.api_key or client.auth_token or client.credentials):
            # The SDK would find out at the first request, by a TypeError.
            raise AuthError(
                "anthropic: no API key; set the environment variable ANTHROPIC_API_KEY "
                "(in code: api_key=)"
            )
        checked_key(client.api_key or "", NAME, "ANTHROPIC_API_KEY")
        checked_key(client.auth_token or "", NAME, "ANTHROPIC_AUTH_TOKEN")
        self._client = client
        self._async_clients = PerLoop(
            lambda: anthropic.AsyncAnthropic(
                api_key=client.api_key,
                http_client=anthropic.DefaultAsyncHttpxClient(verify=_tls()),
                **settings,
            )
        )

    def to_wire(self, request: Request) -> Json:
        return to_wire(request, self.model, **self._options)

    def from_wire(self, response: Json) -> Assistant:
        return from_wire(response, self.model)

    def fold(self) -> Fold:
        return Fold()

    def send(self, body: Json) -> Any:
        return self._client.post(PATH, body=body, cast_to=object)

    async def asend(self, body: Json) -> Any:
        with self._async_clients.client() as client:
            return await client.post(PATH, body=body, cast_to=object)

    def events(self, body: Json) -> Iterator[Any]:
        with self._client.post(
            PATH,
            body={**body, "stream": True},
            cast_to=object,
            stream=True,
            stream_cls=anthropic.Stream[object],
        ) as stream:
            yield from stream

    async def aevents(self, body: Json) -> AsyncIterator[Any]:
        with self._async_clients.client() as client:
            async with await client.post(
                PATH,
                body={**body, "stream": True},
                cast_to=object,
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            ) as stream:
                async for event in stream:
                    yield event

    def translate(self, error: Exception) -> ModelError | None:
        return translate(error)


def _choice_to_wire(choice: ToolChoice) -> Json:
    match choice:
        case Force(name=name):
            return {"type": "tool", "name": name}
        case "required":
            return {"type": "any"}
    return {"type": choice}


def _messages_to_wire(messages: Sequence[Spoken]) -> list[Json]:
    """In two roles, by turns: all results of a reply, and what is said after them, are one user
    message.
    """
    wire: list[Json] = []
    ids: dict[str, str] = {}
    for message in messages:
        role = "assistant" if isinstance(message, Assistant) else "user"
        # The API refuses blank text, even where it wrote it itself.
        blocks = [b for b in _blocks(message, ids) if b["type"] != "text" or b["text"].strip()]
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        elif blocks:
            wire.append({"role": role, "content": blocks})
    return wire


def _blocks(message: Spoken, ids: dict[str, str]) -> list[Json]:
    """The content of a message. `ids` keeps what the calls of other providers are called here."""
    match message:
        case User(text=text):
            return [{"type": "text", "text": text}]
        case Assistant(native=dict() as native):
            return [_mended(block) for block in native["content"]]
        case Assistant(text=text, tool_calls=calls):
            blocks: list[Json] = [{"type": "text", "text": text}]
            for call in calls:
                ids[call.id] = re.sub(r"[^a-zA-Z0-9_-]", "_", call.id)
                use = {"id": ids[call.id], "name": call.name, "input": call.arguments}
                blocks.append(_mended({"type": "tool_use", **use}))
            return blocks
        case ToolResult(call_id=id, content=content, is_error=is_error):
            result: Json = {"type": "tool_result", "tool_use_id": ids.get(id, id)}
            result["content"] = content if content.strip() else "(empty)"
            return [{**result, "is_error": True} if is_error else result]


def _mended(block: Json) -> Json:
    """The block itself; but broken argument JSON is wrapped, for the model to see, as the docs of
    fine-grained tool streaming advise.
    """
    broken = isinstance(block.get("input"), str)
    return {**block, "input": {"INVALID_JSON": block["input"]}} if broken else block


def _usage_from_wire(usage: Json) -> Usage:
    """On the wire, input tokens come in three kinds, none counted in another."""
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    details = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=(usage.get("input_tokens") or 0) + cached + written,
        output_tokens=usage.get("output_tokens") or 0,
        cached_tokens=cached,
        reasoning_tokens=details.get("thinking_tokens") or 0,
    )


def _object_or_text(text: str) -> Json | str:
    """Arguments as a dict, or as written when they are no JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def translate(error: Exception) -> ModelError | None:
    """`error` in our terms: the SDK's, and those of its HTTP library, which it lets through once a
    stream has begun.
    """
    match error:
        case anthropic.APIStatusError():
            return _error_answer(error)
        case anthropic.APITimeoutError():
            return TimedOut("anthropic: no answer in time; pass a longer timeout=", retryable=True)
        case anthropic.APIConnectionError():
            # Not the text of the cause: about a malformed key, it quotes the key.
            address, cause = error.request.url.host, type(error.__cause__).__name__
            return ConnectionFailed(
                f"anthropic: no connection to {address or 'that base_url'} ({cause}); "
                "check the network and base_url",
                retryable=True,
            )
        case anthropic.APIError() | json.JSONDecodeError() | UnicodeDecodeError():
            return BadResponse("anthropic: the answer is no JSON; check base_url")
        case anthropic.AnthropicError():
            return AuthError(f"anthropic: {error} Or set ANTHROPIC_API_KEY (in code: api_key=)")
        case httpx2.InvalidURL():
            return ConnectionFailed("anthropic: base_url is no URL; write https://host")
        case httpx2.TimeoutException():
            return TimedOut(
                "anthropic: the stream fell silent; pass a longer timeout=", retryable=True
            )
        case httpx2.HTTPError():
            cause = type(error).__name__
            return ConnectionFailed(
                f"anthropic: the connection broke in mid-reply ({cause}); ask again",
                retryable=True,
            )
    return None


def _error_answer(error: anthropic.APIStatusError) -> ModelError:
    in_stream = error.status_code == 200
    status = STATUS.get(error.type or "", 500) if in_stream else error.status_code
    key = error.request.headers.get("authorization", "").removeprefix("Bearer ")
    said = quote(str(error.api_message or error.message), key)
    kind: type[ModelError]
    match status:
        case 401 | 402 | 403:
            kind, advice = AuthError, "check ANTHROPIC_API_KEY (in code: api_key=) and its rights"
        case 400 if "credit balance" in said:
            kind, advice = AuthError, "add credit to the account"
        case 404 if "model" in said:
            kind, advice = ModelNotFound, "check the name of the model"
        case 404 | 405:
            kind, advice = BadRequest, "check that base_url points to the Messages API"
        case 413:
            kind, advice = BadRequest, "send a shorter conversation"
        case 429:
            kind, advice = RateLimited, "wait, or send less at a time"
        case _ if status in (408, 409) or status >= 500:
            kind, advice = Overloaded, "ask again later"
        case _:
            kind, advice = BadRequest, "mend the request"
    headers = error.response.headers
    retryable = kind in (RateLimited, Overloaded)
    if not in_stream and (told := headers.get("x-should-retry")):
        retryable = told == "true"
    return kind(
        f"anthropic: {said}; {advice}",
        status=error.status_code,
        retry_after=seconds(headers.get("retry-after", "")),
        retryable=retryable,
    )
