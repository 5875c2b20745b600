"""OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio, OpenRouter and DeepSeek speak too.

Rule 1: whether a reply asks for tools is read from its calls, not from its `finish_reason`, which
        is "stop" after a forced call.
Rule 2: a reply goes back as it came, with its reasoning; only what servers refuse to read again is
        repaired: missing call ids, arguments that are no JSON, nulls and empty lists.
Rule 3: one reply is one choice, the first, however many a server sends.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, User
from ..model import Request
from ..streaming import Delta
from ..tools import Tool
from . import common
from .common import Settings
from .pieces import CallReader

NAME = "openai"
PATH = "/chat/completions"
STOPPED = dict.fromkeys(("stop", "tool_calls", "function_call", "eos"), "end_turn")
STOPPED |= {"length": "max_tokens", "model_length": "max_tokens", "content_filter": "refusal"}
STREAMED: Json = {"stream": True, "stream_options": {"include_usage": True}}


def to_wire(
    request: Request, model: str, settings: Settings, *, strict: bool, max_name: str = "max_tokens"
) -> Json:
    """The body of a request. `max_name`: what the server calls the bound on the output; OpenAI says
    `max_completion_tokens`.
    """
    messages = _messages(common.sendable(request.messages, NAME, calls_in=common.functions_in))
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    body: Json = {"model": model, "messages": messages}
    body |= settings.named(max_output_tokens=max_name, temperature="temperature", seed="seed")
    if settings.reasoning:
        body["reasoning_effort"] = "none" if settings.reasoning == "off" else settings.reasoning
    if request.tools:
        body["tools"] = [_tool(tool, strict) for tool in request.tools]
        if request.tool_choice != "auto":  # the default; some servers refuse even to hear it
            body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None:
        schema = {"name": "answer", "schema": request.output_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _messages(messages: Iterable[Spoken]) -> list[Json]:
    return list(map(_message, messages))


def _message(message: Spoken) -> Json:
    match message:
        case ToolResult(call_id=call_id, content=content):
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        case Assistant(tool_calls=calls):
            own = message.native or {}
            wire = own or {"role": "assistant", "content": message.text or None}
            if not calls:
                return wire
            before = own.get("tool_calls") or [{}] * len(calls)
            sent = [_call(call, was) for call, was in zip(calls, before, strict=True)]
            return {**wire, "tool_calls": sent}
        case User(text=text):
            return {"role": "user", "content": text}


def _call(call: ToolCall, before: Json) -> Json:
    function = before.get("function", {})
    arguments = common.arguments_text(call, function.get("arguments"))
    function = {**function, "name": call.name, "arguments": arguments}
    return {**before, "id": call.id, "type": "function", "function": function}


def _tool(tool: Tool, strict: bool) -> Json:
    function = common.openai_function(tool, strict)
    if not function["strict"]:
        del function["strict"]  # which other servers may not know
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> Any:
    if isinstance(choice, Force):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in a response; `model` is the one asked, in case none is named."""
    choice = common.first_choice(response["choices"])
    if choice.get("error"):  # OpenRouter reports trouble at the model's host like this
        raise common.ErrorAnswer(choice["error"])
    reason = choice.get("finish_reason")
    if reason == "content_filter":  # then Azure leaves out the message
        choice = {**choice, "message": choice.get("message") or {}}
    message = choice["message"]
    if message.get("refusal") and reason != "length":
        reason = "content_filter"
    calls = common.function_calls(message)
    kept = {key: value for key, value in message.items() if value not in (None, "", [])}
    text, thinking = _read(message.get("content"))
    return Assistant(
        text=text or message.get("refusal") or "",
        thinking=thinking or message.get("reasoning_content") or message.get("reasoning") or "",
        tool_calls=calls,
        **common.ended(reason, STOPPED, calls),
        usage=common.openai_usage(response.get("usage"), "prompt", "completion"),
        model=response.get("model") or model,
        provider=NAME,
        native={"role": "assistant", "content": None, **kept},
        signed=any(detail.get("signature") for detail in message.get("reasoning_details") or ()),
    )


def from_history(wire: Iterable[Json]) -> list[Spoken]:
    """The messages of a history in this protocol (`read_history`): the inverse of `to_wire`."""
    return common.read_history(
        wire,
        lambda content: _read(content)[0],
        lambda said: from_wire({"choices": [{"message": said, "finish_reason": "stop"}]}),
        _messages,
    )


def _read(content: str | list[Json] | None) -> tuple[str, str]:
    """The text and the thinking of a content, which with Mistral may be a list of parts."""
    if not isinstance(content, list):
        return content or "", ""
    thoughts = (part["thinking"] for part in content if part["type"] == "thinking")
    return (
        "".join(part["text"] for part in content if part["type"] == "text"),
        "".join(_read(thought)[0] for thought in thoughts),
    )


class Fold:
    """Collects the chunks of a stream into the response."""

    def __init__(self) -> None:
        self._model = ""
        self._usage: Json | None = None
        self._counted = False
        self.ended = False
        self._finish_reason: str | None = None
        self._fields: defaultdict[str, list[Any]] = defaultdict(list)  # the pieces of each
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}

    def feed(self, chunk: Json) -> list[Delta]:
        self._model = chunk.get("model") or self._model
        self._usage = chunk.get("usage") or self._usage
        # The usage comes last, in a chunk without choices; but some servers send it in all of them.
        self._counted = bool(chunk.get("usage") and not chunk.get("choices"))
        self.ended = self._counted and bool(self._finish_reason)
        deltas: list[Delta] = []
        for choice in chunk.get("choices") or ():
            if choice.get("index"):  # not 0: a second reply, that was not asked for
                continue
            reason = choice.get("finish_reason")
            self._finish_reason = common.worse(self._finish_reason, reason, STOPPED)
            delta = choice.get("delta") or {}
            text, thinking = _read(delta.get("content"))
            if shown := thinking or delta.get("reasoning_content") or delta.get("reasoning"):
                deltas.append(Delta("thinking", shown))
            if answer := text or delta.get("refusal"):
                deltas.append(Delta("answer", answer))
            for piece in delta.get("tool_calls") or ():
                deltas += self._call_of(piece).feed(piece)
            for key, value in delta.items():
                if value is not None and key not in ("role", "tool_calls"):
                    self._fields[key].append(value)
        return deltas

    def result(self) -> Json:
        message = {key: _joined(pieces) for key, pieces in self._fields.items()}
        if self._calls:
            message["tool_calls"] = [call.result() for call in self._calls]
        sound = all(isinstance(call.arguments, dict) for call in common.function_calls(message))
        # Snowflake gives no reason.
        reason = self._finish_reason or ("stop" if self._counted and sound else None)
        choice = {"message": message, "finish_reason": reason}
        return {"model": self._model, "choices": [choice], "usage": self._usage}

    def _call_of(self, piece: Json) -> "_Call":
        index = piece.get("index") or 0
        call = self._call_at.get(index)
        # Some servers number every call 0; then a new id is a new call.
        if call is None or piece.get("id") not in (None, "", call.id):
            call = self._call_at[index] = _Call(piece, len(self._calls))
            self._calls.append(call)
        return call


def _joined(pieces: list[Any]) -> Any:
    """A field of the message: a text, a list (such as OpenRouter's reasoning_details), or what came
    last. Mistral's thinking is a list of parts, its answer a text.
    """
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    parts = [part for piece in pieces if isinstance(piece, list) for part in piece]
    if text and parts:
        parts.append({"type": "text", "text": text})
    return parts or text or pieces[-1]


class _Call:
    """A tool call that arrives in pieces. Its id and name are in the first one."""

    def __init__(self, piece: Json, number: int) -> None:
        self.id = piece.get("id")
        self._wire = {key: value for key, value in piece.items() if key != "index"}
        self._arguments: list[str] = []
        self._reader = CallReader(piece["function"]["name"], number)

    def feed(self, piece: Json) -> list[Delta]:
        text = (piece.get("function") or {}).get("arguments") or ""
        self._arguments.append(text)
        return self._reader.feed(text) if text or len(self._arguments) == 1 else []

    def result(self) -> Json:
        function = {**self._wire["function"], "arguments": "".join(self._arguments)}
        return {**self._wire, "function": function}
