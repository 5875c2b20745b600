"""Gemini: Google's models, through the official `google-genai` package (`generateContent`).

Rule 1: plain JSON goes out and comes in. The SDK carries our body as its `extra_body` and hands
        back the raw answer; only a streamed chunk it must retype, and `_as_sent` undoes that.
Rule 2: a reply goes back part by part as it came, for Gemini 3 checks the thought signatures. A
        call that Gemini did not make carries the one signature that says so.
Rule 3: the results of a turn stand in one content, in the order of its calls: a call may have no
        id, and then only name and place tell which result is whose.
Rule 4: a reply with calls is a tool turn, unless it was cut or filtered; its finish reason is the
        "STOP" of any reply.

The edge: the Gemini API with a key, not Vertex. One request is one reply: the SDK's automatic
function calling and its automatic continuation are off.
"""

import json
import os
import re
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache, cached_property
from typing import Any

import httpx2
import pydantic
from google import genai
from google.genai import errors, types

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
from ..streaming import Delta, whole_call
from .base import PerLoop, Provider, checked_key, checked_url, seconds

NAME = "gemini"
NOT_BY_GEMINI = "skip_thought_signature_validator"  # Google's word for calls of other models
TRUNCATED = {"MAX_TOKENS", "CONTINUATION"}
FILTERED = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "ESCALATION",
}
REFUSED_MODE = re.compile(r"function[ _]?calling[ _]?(config|mode)", re.IGNORECASE)
RETRY_DELAY = re.compile(r"'retryDelay': '([\d.]+)s'")
_tls = cache(httpx2.create_ssl_context)  # reading the certificates takes 30 ms; once will do
TO_STANDARD_BASE64 = str.maketrans("-_", "+/")


def to_wire(request: Request, thinking: Json | None = None) -> Json:
    """The body of a generateContent request."""
    body: Json = {"contents": _contents(sendable(request.messages, NAME))}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": tool.parameters,
            }
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declarations}]
        if request.tool_choice != "auto":  # the default
            body["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
    generation: Json = {}
    if request.output_schema is not None:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = request.output_schema
    if thinking is not None:
        generation["thinkingConfig"] = thinking
    if generation:
        body["generationConfig"] = generation
    return body


def _choice(choice: ToolChoice) -> Json:
    match choice:
        case Force(name=name):
            return {"mode": "ANY", "allowedFunctionNames": [name]}
        case "required":
            return {"mode": "ANY"}
    return {"mode": choice.upper()}


def _contents(messages: Sequence[Spoken]) -> list[Json]:
    contents: list[Json] = []
    for index, message in enumerate(messages):
        match message:
            case User():
                contents.append({"role": "user", "parts": [{"text": message.text}]})
            case Assistant():
                content = message.native or _model_content(message)
                contents.append(content)
                if message.tool_calls:
                    contents.append(_results(content, message.tool_calls, messages[index + 1 :]))
    return contents


def _model_content(message: Assistant) -> Json:
    """The content of a reply that Gemini did not write."""
    parts: list[Json] = []
    if message.text.strip():
        parts.append({"text": message.text})
    for number, call in enumerate(message.tool_calls):
        # The wire takes an object only; what the model wrote in its place is kept inside one.
        args = call.arguments if isinstance(call.arguments, dict) else {"invalid": call.arguments}
        part: Json = {"functionCall": {"id": call.id, "name": call.name, "args": args}}
        if number == 0:
            part["thoughtSignature"] = NOT_BY_GEMINI
        parts.append(part)
    return {"role": "model", "parts": parts}


def _results(content: Json, calls: Sequence[ToolCall], after: Sequence[Spoken]) -> Json:
    """The content that answers the calls of `content`."""
    order = {call.id: number for number, call in enumerate(calls)}
    results: list[ToolResult] = []
    for message in after:
        if not isinstance(message, ToolResult):
            break
        if message.call_id in order:
            results.append(message)
    results.sort(key=lambda result: order[result.call_id])
    sent_ids = {
        part["functionCall"].get("id") for part in content["parts"] if "functionCall" in part
    }
    parts: list[Json] = []
    for result in results:
        key = "error" if result.is_error else "output"
        response: Json = {"name": result.name, "response": {key: result.content}}
        if result.call_id in sent_ids:  # an id minted by us is unknown to Gemini
            response["id"] = result.call_id
        parts.append({"functionResponse": response})
    return {"role": "user", "parts": parts}


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in the JSON of a response; `model` is the one asked, in case none is named."""
    if response.get("promptFeedback", {}).get("blockReason"):  # then there are no candidates
        candidate: Json = {"finishReason": "SAFETY"}
    else:
        candidate = response["candidates"][0]
    content = candidate.get("content") or {}
    parts = content.get("parts") or []  # "content" may be {}, and "parts" be missing
    calls = tuple(
        ToolCall(call.get("id") or "", call["name"], call.get("args") or {})
        for call in (part["functionCall"] for part in parts if "functionCall" in part)
    )
    usage = response.get("usageMetadata") or {}
    thoughts = usage.get("thoughtsTokenCount", 0)
    return Assistant(
        text="".join(part.get("text", "") for part in parts if not part.get("thought")),
        thinking="".join(part.get("text", "") for part in parts if part.get("thought")),
        tool_calls=calls,
        stop_reason=_stop_reason(candidate.get("finishReason"), bool(calls)),
        usage=Usage(
            input_tokens=usage.get("promptTokenCount", 0) + usage.get("toolUsePromptTokenCount", 0),
            output_tokens=usage.get("candidatesTokenCount", 0) + thoughts,
            cached_tokens=usage.get("cachedContentTokenCount", 0),
            reasoning_tokens=thoughts,
        ),
        model=response.get("modelVersion") or model,
        provider=NAME,
        native=content if parts else None,
    )


def _stop_reason(finish_reason: str | None, has_calls: bool) -> str:
    if finish_reason in FILTERED:
        return "refusal"
    if finish_reason in TRUNCATED:
        return "max_tokens"
    return "tool_use" if has_calls else "end_turn"


class Fold:
    """Stream chunks into one response. Each chunk is a small response; calls come whole."""

    def __init__(self) -> None:
        self._response: Json = {}
        self._candidate: Json = {}
        self._parts: list[Json] = []
        self._calls = 0

    def feed(self, event: Json) -> list[Delta]:
        self._response.update(event)  # the last token counts are the right ones
        candidate = (event.get("candidates") or [{}])[0]
        self._candidate.update(candidate)
        deltas: list[Delta] = []
        for part in (candidate.get("content") or {}).get("parts") or ():
            self._add(part)
            if call := part.get("functionCall"):
                deltas += whole_call(call["name"], call.get("args") or {}, self._calls)
                self._calls += 1
            elif text := part.get("text"):
                deltas.append(Delta("thinking" if part.get("thought") else "answer", text))
        return deltas

    def _add(self, part: Json) -> None:
        """Pieces of plain text grow together. A part with a signature, even an empty one, must go
        back as it came.
        """
        plain = part.keys() <= {"text", "thought"}
        if plain and not part.get("text"):
            return
        last = self._parts[-1] if self._parts else {}
        alike = last.keys() == part.keys() and last.get("thought") == part.get("thought")
        if plain and alike:
            last["text"] += part["text"]
        else:
            self._parts.append(dict(part))

    def result(self) -> Json:
        blocked = self._response.get("promptFeedback", {}).get("blockReason")
        if not blocked and "finishReason" not in self._candidate:
            raise BadResponse(
                "gemini: the stream broke off before its end; ask again", retryable=True
            )
        content = {"role": "model", "parts": self._parts}
        return {**self._response, "candidates": [{**self._candidate, "content": content}]}


class Gemini(Provider):
    """A model of the Gemini API.

    `thinking`: the API's `thinkingConfig`, such as `{"thinkingLevel": "low"}` or
    `{"includeThoughts": True}`. The key is `api_key`, else GOOGLE_API_KEY, else GEMINI_API_KEY.
    """

    name = NAME
    sends_halves = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        thinking: Json | None = None,
    ) -> None:
        super().__init__(model)
        key = (api_key or os.getenv("GOOGLE_API_KEY") or os.getenv("GEMINI_API_KEY") or "").strip()
        if not key:
            raise AuthError(
                "gemini: no API key; set the environment variable GEMINI_API_KEY "
                "(in code: api_key=)"
            )
        self._key = checked_key(key, NAME, "GEMINI_API_KEY")
        # The SDK knows the variable too; but of a URL that is none it says only ValueError.
        url = base_url or os.getenv("GOOGLE_GEMINI_BASE_URL")
        self._base_url = checked_url(url, NAME) if url else None
        self._timeout = timeout
        self._thinking = thinking
        self._async_clients = PerLoop(self._connect)

    @cached_property
    def _client(self) -> genai.Client:
        return self._connect()

    def _connect(self) -> genai.Client:
        # Left to itself the SDK picks one of three HTTP libraries, each with errors of its own, by
        # what is installed. This is the one that `_translate` knows.
        http = httpx2.Client(verify=_tls())
        options = types.HttpOptions(
            base_url=self._base_url,
            timeout=round(self._timeout * 1000),  # milliseconds
            httpx_client=http,
            httpx_async_client=httpx2.AsyncClient(verify=_tls()),
        )
        client = genai.Client(enterprise=False, api_key=self._key, http_options=options)
        weakref.finalize(client, http.close)  # the SDK closes only what it has made
        return client

    def _arguments(self, body: Json, *, raw: bool) -> Json:
        """The arguments of the SDK's call. Its own body is empty; ours is laid over it."""
        config = types.GenerateContentConfig(
            http_options=types.HttpOptions(extra_body=body),
            should_return_http_response=raw,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        )
        return {"model": self.model, "contents": "(in extra_body)", "config": config}

    # What base.py asks of a provider.

    def to_wire(self, request: Request) -> Json:
        return to_wire(request, self._thinking)

    def from_wire(self, response: Json) -> Assistant:
        return from_wire(response, self.model)

    def fold(self) -> Fold:
        return Fold()

    def send(self, body: Json) -> Any:
        return _body(self._client.models.generate_content(**self._arguments(body, raw=True)))

    async def asend(self, body: Json) -> Any:
        with self._async_clients.client() as client:
            models = client.aio.models
            return _body(await models.generate_content(**self._arguments(body, raw=True)))

    def events(self, body: Json) -> Iterator[Json]:
        models = self._client.models
        for chunk in models.generate_content_stream(**self._arguments(body, raw=False)):
            yield _as_sent(chunk)

    async def aevents(self, body: Json) -> AsyncIterator[Json]:
        with self._async_clients.client() as client:
            models = client.aio.models
            chunks = await models.generate_content_stream(**self._arguments(body, raw=False))
            async for chunk in chunks:
                yield _as_sent(chunk)

    def translate(self, error: Exception) -> ModelError | None:
        said = (
            error.message or str(error.details)
            if isinstance(error, errors.APIError)
            else str(error)
        )
        return _translate(error, quote(said, self._key), self.model)


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


def _translate(error: Exception, said: str, model: str) -> ModelError | None:
    """`error` in our terms; `said` is its text without secrets. The SDK itself retries nothing."""
    match error:
        case errors.APIError():
            return _error_answer(error, said, model)
        case httpx2.TimeoutException():
            return TimedOut(
                "gemini: no answer within the timeout; ask again, or pass a longer timeout="
            )
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return ConnectionFailed(f"gemini: {said}; pass base_url= as https://host")
        case httpx2.TransportError():
            return ConnectionFailed(
                f"gemini: no connection, or a broken one ({said}); check the network and base_url",
                retryable=True,
            )
        case (
            errors.UnknownApiResponseError()
            | json.JSONDecodeError()
            | pydantic.ValidationError()
            | httpx2.HTTPError()
        ):
            return BadResponse(
                f"gemini: an answer that cannot be read ({said}); "
                "check that base_url points to the Gemini API"
            )
        case ValueError():
            return BadRequest(f"gemini: the SDK refuses {model!r} ({said}); check the model's name")
    return None


def _error_answer(error: errors.APIError, said: str, model: str) -> ModelError:
    """The error for an error answer, or for an error event in a stream."""
    status, details = error.code, str(error.details)
    if status in (401, 402, 403) or (status == 400 and "API key" in said):  # a bad key is a 400
        return AuthError(
            f"gemini: not allowed ({said}); check GEMINI_API_KEY (in code: api_key=)", status=status
        )
    if status == 404 and "model" in said:
        return ModelNotFound(
            f"gemini: model {model!r} is not there ({said}); check its name", status=status
        )
    if status == 429:
        delay = RETRY_DELAY.search(details)
        return RateLimited(
            f"gemini: too many requests or tokens ({said}); wait, or raise the quota",
            status=status,
            retry_after=seconds(delay[1]) if delay else None,
            retryable="PerDay" not in details,  # a day's quota is not back in seconds
        )
    if status == 408 or status >= 500:
        return Overloaded(
            f"gemini: cannot serve now ({said}); try again later", status=status, retryable=True
        )
    if status < 400:
        return BadResponse(
            f"gemini: HTTP {status} is no answer ({said}); check base_url", status=status
        )
    what = "the tool choice" if REFUSED_MODE.search(said) else "the request"
    return BadRequest(f"gemini: {what} is refused ({said}); change it", status=status)
