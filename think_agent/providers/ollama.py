"""Ollama: models on your own machine, through the official `ollama` package (`/api/chat`).

Rule 1: Ollama knows no tool choice, so none is ever sent. Forcing becomes a matter of the prompt,
        and the final call, the one without tools, leaves the tools out.
Rule 2: the SDK drops without a word what its types do not name: call ids, empty content, most of a
        tool's schema. What a model needs of it is written where it survives.
Rule 3: an output schema is sent only when there are no tools: under a grammar a model cannot call
        one.
Rule 4: before the first request with tools the server is asked, once, whether the model takes any.

The edge: retries, minted call ids and remembered refusals are in `base.py`.
"""

import json
import os
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache, cached_property
from types import FrameType

import httpx
import ollama
import pydantic

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
from ..messages import Assistant, Json, Spoken, ToolCall, ToolResult, Usage, User
from ..model import Request, sendable
from ..streaming import Delta, whole_call
from ..tools import Tool
from .base import PerLoop, Provider, checked_key, checked_url

NAME = "ollama"
KEPT = {"type", "items", "description", "enum"}  # what the SDK sends of a property's schema
_tls = cache(httpx.create_ssl_context)  # reading the certificates takes 30 ms; once will do
BUSY = ("overloaded", "busy", "no slots available")
ADVICE = {  # by text, for there are no codes
    "does not support tools": "pick one that does, such as qwen2.5:7b",
    "does not support thinking": "leave out think=",
    "context length": "pass a larger num_ctx=",
}


def to_wire(
    request: Request,
    model: str,
    *,
    num_ctx: int,
    think: bool | str | None = None,
    keep_alive: float | str | None = None,
) -> Json:
    """The body of a chat request."""
    messages = [_message_to_wire(message) for message in sendable(request.messages, NAME)]
    if request.system:  # as a message: a `system` field would be dropped in silence
        messages.insert(0, {"role": "system", "content": request.system})
    body: Json = {"model": model, "messages": messages, "options": {"num_ctx": num_ctx}}
    if request.tools:
        body["tools"] = [_tool_to_wire(tool) for tool in request.tools]
    elif request.output_schema is not None:
        body["format"] = request.output_schema
    if think is not None:
        body["think"] = think
    if keep_alive is not None:
        body["keep_alive"] = keep_alive
    return body


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in the JSON of a chat response; `model` is the one asked, in case none is named."""
    message = response["message"]
    calls = tuple(
        ToolCall("", call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    if response.get("done_reason") == "length":
        stop_reason = "max_tokens"
    else:  # "stop", with calls too
        stop_reason = "tool_use" if calls else "end_turn"
    return Assistant(
        text=message.get("content") or "",
        thinking=message.get("thinking") or "",
        tool_calls=calls,
        stop_reason=stop_reason,
        usage=Usage(response.get("prompt_eval_count") or 0, response.get("eval_count") or 0),
        model=response.get("model") or model,
        provider=NAME,
        native={key: value for key, value in message.items() if value},
    )


class Fold:
    """Stream chunks into one chat response. Text and thinking come in pieces, calls come whole."""

    def __init__(self) -> None:
        self._thinking: list[str] = []
        self._content: list[str] = []
        self._calls: list[Json] = []
        self._last: Json = {}

    def feed(self, event: Json) -> list[Delta]:
        deltas = []
        message = event["message"]
        if thinking := message.get("thinking"):
            self._thinking.append(thinking)
            deltas.append(Delta("thinking", thinking))
        if content := message.get("content"):
            self._content.append(content)
            deltas.append(Delta("answer", content))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            deltas += whole_call(function["name"], function["arguments"], len(self._calls))
            self._calls.append(call)
        self._last = event
        return deltas

    def result(self) -> Json:
        if not self._last.get("done"):
            raise BadResponse(
                "ollama: the stream broke off before its end; ask again", retryable=True
            )
        message = {
            "role": self._last["message"]["role"],
            "content": "".join(self._content),
            "thinking": "".join(self._thinking),
            "tool_calls": self._calls,
        }
        return {**self._last, "message": message}


class Ollama(Provider):
    """A model of an Ollama server.

    `base_url`: the server's address; None means OLLAMA_HOST, or else this machine. `num_ctx`: the
    context window in tokens; the server's own default may be as small as 4096, and what does not
    fit is cut in silence. `think`: native thinking, a bool or `"low"`, `"medium"`, `"high"`; None
    leaves it to the server. `keep_alive`: how long the model stays in memory, in seconds or as
    `"5m"`.
    """

    name = NAME

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        num_ctx: int = 16384,
        think: bool | str | None = None,
        keep_alive: float | str | None = None,
    ) -> None:
        super().__init__(model, refused={"named", "required", "none"})
        self._key = checked_key(
            api_key or os.getenv("OLLAMA_API_KEY") or "", NAME, "OLLAMA_API_KEY"
        )
        host = checked_url(base_url or os.getenv("OLLAMA_HOST") or "http://127.0.0.1:11434", NAME)
        self._address = host.rpartition("@")[2]  # for messages: without user and password
        self._settings: Json = {"host": host, "timeout": timeout}
        if self._key:
            self._settings["headers"] = {"authorization": f"Bearer {self._key}"}
        self._options: Json = {"num_ctx": num_ctx, "think": think, "keep_alive": keep_alive}
        self._async_clients = PerLoop(lambda: ollama.AsyncClient(**self._settings, verify=_tls()))
        self._checked = False

    @cached_property
    def _client(self) -> ollama.Client:
        return ollama.Client(**self._settings)

    def check(self) -> None:
        """Raise the error a run would meet: no server, no such model, or one without tools."""
        self._checked = True  # already now, so that of many requests at once only one asks
        try:
            self._ask_for_tools()
        except Exception:
            self._checked = False
            raise

    def _ask_for_tools(self) -> None:
        capabilities: Sequence[str] | None = None
        try:
            capabilities = self._client.show(self.model).capabilities
        except pydantic.ValidationError:
            pass  # like the 404 below: not every server describes its models, or as Ollama does
        except Exception as error:
            ours = self.translate(error)
            if ours is None:
                raise
            if ours.status not in (404, 405, 501) or isinstance(ours, ModelNotFound):
                raise ours from error
        if capabilities and "tools" not in capabilities:
            raise _error_answer(400, f"model {self.model!r} does not support tools", self.model)

    async def _acheck(self) -> None:
        import asyncio

        await asyncio.to_thread(self.check)

    def to_wire(self, request: Request) -> Json:
        return to_wire(request, self.model, **self._options)

    def from_wire(self, response: Json) -> Assistant:
        return from_wire(response, self.model)

    def fold(self) -> Fold:
        return Fold()

    def send(self, body: Json) -> Json:
        if "tools" in body and not self._checked:
            self.check()
        return self._client.chat(**body).model_dump(exclude_none=True)

    async def asend(self, body: Json) -> Json:
        if "tools" in body and not self._checked:
            await self._acheck()
        with self._async_clients.client() as client:
            response = await client.chat(**body)
        return response.model_dump(exclude_none=True)

    def events(self, body: Json) -> Iterator[Json]:
        if "tools" in body and not self._checked:
            self.check()
        for chunk in self._client.chat(**body, stream=True):
            yield chunk.model_dump(exclude_none=True)

    async def aevents(self, body: Json) -> AsyncIterator[Json]:
        if "tools" in body and not self._checked:
            await self._acheck()
        with self._async_clients.client() as client:
            async for chunk in await client.chat(**body, stream=True):
                yield chunk.model_dump(exclude_none=True)

    def translate(self, error: Exception) -> ModelError | None:
        said = str(error.error if isinstance(error, ollama.ResponseError) else error)
        return _translate(error, quote(said, self._key), self.model, self._address)


def _message_to_wire(message: Spoken) -> Json:
    match message:
        case User(text=text):
            return {"role": "user", "content": text}
        case Assistant(native=dict() as native):
            return native
        case Assistant(text=text, tool_calls=calls):
            wire: Json = {"role": "assistant", "content": text}
            if calls:
                wire["tool_calls"] = [_call_to_wire(call) for call in calls]
            return wire
        case ToolResult(name=name, content=content):  # empty content would not be sent at all
            return {"role": "tool", "tool_name": name, "content": content or "(empty)"}


def _call_to_wire(call: ToolCall) -> Json:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}  # text is refused
    return {"function": {"name": call.name, "arguments": arguments}}


def _tool_to_wire(tool: Tool) -> Json:
    properties = tool.parameters.get("properties", {})
    parameters = {
        **tool.parameters,
        "properties": {name: _property_to_wire(schema) for name, schema in properties.items()},
    }
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _property_to_wire(schema: Json) -> Json:
    """The schema of a property; what the SDK would drop of it is told in the description."""
    match schema:
        case {"anyOf": [{"type": str(kind)} as option, {"type": "null"}], **rest}:  # X | None
            schema = {**option, **rest, "type": [kind, "null"]}
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
    told = {key: value for key, value in schema.items() if key not in ("title", "description")}
    if "default" in told and told["default"] is None:  # only says that it may be left out
        del told["default"]
    kept = {key: value for key, value in schema.items() if key in KEPT}
    if told.keys() <= KEPT:
        return kept
    text = json.dumps(told, ensure_ascii=False)
    return {**kept, "description": f"{schema.get('description', '')}\nJSON schema: {text}".strip()}


def _translate(error: Exception, said: str, model: str, address: str) -> ModelError | None:
    """`error` in our terms; `said` is its text, one line without secrets."""
    match error:
        case ollama.ResponseError():
            return _error_answer(error.status_code, said, model)
        case httpx.TimeoutException():
            return TimedOut(
                f"ollama: no answer from {address} in time; pass a longer timeout= "
                "(a large model takes long to load)"
            )
        case ConnectionError() | httpx.ConnectError():  # the SDK raises the second from streams
            return ConnectionFailed(
                f"ollama: no server at {address}; start it with: ollama serve "
                "(or install it from ollama.com)",
                retryable=True,
            )
        case httpx.TransportError():
            return ConnectionFailed(
                f"ollama: the connection to {address} broke ({said}); ask again", retryable=True
            )
        case pydantic.ValidationError(title="Tool" | "Spoken" | "ChatRequest"):
            return BadRequest(f"ollama: the SDK cannot send the request ({said}); mend the tools")
    # The SDK takes an answer apart without looking at what it is: anything may come of that.
    if any(_of_sdk(frame) for frame, _ in traceback.walk_tb(error.__traceback__)):
        return BadResponse(
            f"ollama: no readable answer from {address} ({type(error).__name__}: {said}); "
            "check that base_url points to an Ollama server"
        )
    return None


def _of_sdk(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("ollama.")


def _error_answer(status: int, said: str, model: str) -> ModelError:
    """The error for an error answer. `status` is -1 for one in the middle of a stream."""
    kind: type[ModelError]
    retryable = False
    match status:
        case 401 | 402 | 403:
            kind = AuthError
            advice = "run: ollama signin, or set OLLAMA_API_KEY (in code: api_key=)"
        case 404 if "model" in said:
            kind, advice = ModelNotFound, f"run: ollama pull {model}"
        case 404 | 405:
            kind, advice = BadRequest, "check that base_url points to an Ollama server"
        case 429:
            kind, advice = RateLimited, "wait, or use a model on your own machine"
            retryable = "usage limit" not in said  # a plan used up takes hours to mend
        case -1 if not any(word in said for word in BUSY):
            kind, advice, retryable = BadResponse, "this ended the stream; ask again", True
        case _ if status == -1 or status >= 500:
            kind, advice, retryable = Overloaded, "try again, or read the server's log", True
        case _:
            kind = BadRequest
            advice = next((ADVICE[text] for text in ADVICE if text in said), "mend the request")
    return kind(
        f"ollama: {said or f'HTTP {status}'}; {advice}",
        status=None if status == -1 else status,
        retryable=retryable,
    )
