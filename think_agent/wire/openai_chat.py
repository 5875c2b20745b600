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
from .common import (
    ErrorAnswer,
    Settings,
    arguments_of,
    arguments_text,
    broken_off,
    openai_function,
    openai_usage,
    read_history,
    sendable,
)
from .pieces import CallReader

NAME = "openai"
PATH = "/chat/completions"
STREAMED: Json = {"stream": True, "stream_options": {"include_usage": True}}


def to_wire(
    request: Request,
    model: str,
    settings: Settings = Settings(),  # noqa: B008 (it is frozen)
    *,
    max_name: str = "max_tokens",
    strict: bool = False,
) -> Json:
    """The body of a request. `max_name`: what the server calls the bound on the output; OpenAI says
    `max_completion_tokens`.
    """
    messages = [_message(message) for message in sendable(request.messages, NAME)]
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


def _message(message: Spoken) -> Json:
    match message:
        case User(text=text):
            return {"role": "user", "content": text}
        case ToolResult(call_id=call_id, content=content):
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        case Assistant():
            return _assistant(message)


def _assistant(message: Assistant) -> Json:
    # A list is a native of the Responses API.
    native = message.native if isinstance(message.native, dict) else {}
    wire = native or {"role": "assistant", "content": message.text or None}
    if not message.tool_calls:
        return wire
    before = native.get("tool_calls") or [{}] * len(message.tool_calls)
    calls = [_call(*pair) for pair in zip(message.tool_calls, before, strict=True)]
    return {**wire, "tool_calls": calls}


def _call(call: ToolCall, before: Json) -> Json:
    function = before.get("function", {})
    arguments = arguments_text(call, function.get("arguments"))
    function = {**function, "name": call.name, "arguments": arguments}
    return {**before, "id": call.id, "type": "function", "function": function}


def _tool(tool: Tool, strict: bool) -> Json:
    function = openai_function(tool, strict)
    if not function["strict"]:
        del function["strict"]  # which other servers may not know
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> Any:
    if isinstance(choice, Force):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in a response; `model` is the one asked, in case none is named."""
    if response.get("error"):  # OpenRouter reports trouble at the model's host like this
        raise ErrorAnswer(response["error"])
    choice = response["choices"][0]
    filtered = choice.get("finish_reason") == "content_filter"  # then Azure leaves out the message
    message = (choice.get("message") or {}) if filtered else choice["message"]
    calls = tuple(
        ToolCall(
            call.get("id") or "",
            call["function"]["name"],
            arguments_of(call["function"].get("arguments")),
        )
        for call in message.get("tool_calls") or ()
    )
    kept = {key: value for key, value in message.items() if value not in (None, "", [])}
    text, thinking = _read(message.get("content"))
    return Assistant(
        text=text or message.get("refusal") or "",
        thinking=thinking or message.get("reasoning_content") or message.get("reasoning") or "",
        tool_calls=calls,
        stop_reason=_stop_reason(choice.get("finish_reason"), message, calls),
        usage=openai_usage(response.get("usage"), "prompt", "completion"),
        model=response.get("model") or model,
        provider=NAME,
        native={"role": "assistant", "content": None, **kept},
        signed=any(detail.get("signature") for detail in message.get("reasoning_details") or ()),
    )


def from_history(wire: Iterable[Json]) -> list[Spoken]:
    """The messages of a history in this protocol (`read_history`): the inverse of `to_wire`."""
    return read_history(
        wire,
        lambda content: _read(content)[0],
        lambda said: from_wire({"choices": [{"message": said}]}),
        _assistant,
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


def _stop_reason(finish_reason: str | None, message: Json, calls: tuple[ToolCall, ...]) -> str:
    if finish_reason == "length":
        return "max_tokens"
    if finish_reason == "content_filter" or message.get("refusal"):
        return "refusal"
    return "tool_use" if calls else "end_turn"


class Fold:
    """Collects the chunks of a stream into the response."""

    def __init__(self) -> None:
        self._model = ""
        self._usage: Json | None = None
        self._finish_reason: str | None = None
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._lists: defaultdict[str, list[Any]] = defaultdict(list)
        self._rest: Json = {}
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}

    def feed(self, chunk: Json) -> list[Delta]:
        self._model = chunk.get("model") or self._model
        self._usage = chunk.get("usage") or self._usage  # comes last, in a chunk without choices
        deltas: list[Delta] = []
        for choice in chunk.get("choices") or ():
            if choice.get("index"):  # not 0: a second reply, that was not asked for
                continue
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            delta = choice.get("delta") or {}
            text, thinking = _read(delta.get("content"))
            if shown := thinking or delta.get("reasoning_content") or delta.get("reasoning"):
                deltas.append(Delta("thinking", shown))
            if answer := text or delta.get("refusal"):
                deltas.append(Delta("answer", answer))
            for piece in delta.get("tool_calls") or ():
                deltas += self._call_of(piece).feed(piece)
            self._keep(delta)
        return deltas

    def result(self, *, cut: bool = False) -> Json:
        ended = self._finish_reason or self._usage  # Snowflake ends with usage alone
        if not (ended or cut):
            raise broken_off(NAME)
        message = {**self._rest, **{key: "".join(texts) for key, texts in self._texts.items()}}
        for key, parts in self._lists.items():
            if text := message.get(key):  # Mistral's thinking is a list of parts, its answer a text
                parts = [*parts, {"type": "text", "text": text}]
            message[key] = parts
        if self._calls:
            message["tool_calls"] = [call.result() for call in self._calls]
        choice = {"message": message, "finish_reason": self._finish_reason}
        return {"model": self._model, "choices": [choice], "usage": self._usage}

    def _keep(self, delta: Json) -> None:
        for key, value in delta.items():
            if key in ("role", "tool_calls") or value is None:
                continue
            if isinstance(value, str):
                self._texts[key].append(value)
            elif isinstance(value, list):  # such as OpenRouter's reasoning_details
                self._lists[key] += value
            else:
                self._rest[key] = value

    def _call_of(self, piece: Json) -> "_Call":
        index = piece.get("index") or 0
        call = self._call_at.get(index)
        # Some servers number every call 0; then a new id is a new call.
        if call is None or piece.get("id") not in (None, "", call.id):
            call = self._call_at[index] = _Call(piece, len(self._calls))
            self._calls.append(call)
        return call


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
