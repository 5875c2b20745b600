"""OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio, OpenRouter and DeepSeek speak too.

Rule 1: JSON in, JSON out. Nothing here knows the SDK or waits.
Rule 2: whether a reply asks for tools is read from its calls, not from its `finish_reason`, which
        is "stop" after a forced call.
Rule 3: a reply goes back as it came, with its reasoning; only what servers refuse to read again is
        mended: missing call ids, arguments that are no JSON, nulls and empty lists.
"""

from collections import defaultdict
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, Usage, User
from ..model import Request, sendable
from ..providers.openai_shared import NAME, broken_off, failure, parsed, written
from ..streaming import CallReader, Delta
from ..tools import Tool

PATH = "/chat/completions"
STREAMED: Json = {"stream": True, "stream_options": {"include_usage": True}}


def to_wire(request: Request, model: str) -> Json:
    """The body of a request."""
    messages = [_message(message) for message in sendable(request.messages, NAME)]
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    body: Json = {"model": model, "messages": messages}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice != "auto":  # the default; some servers refuse even to hear it
            body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None:
        schema = {"name": "answer", "schema": request.output_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    if response.get("error"):  # OpenRouter reports trouble at the model's host like this
        raise failure(response["error"])
    choice = response["choices"][0]
    message = choice["message"]
    calls = tuple(
        ToolCall(
            call.get("id") or "",
            call["function"]["name"],
            parsed(call["function"].get("arguments")),
        )
        for call in message.get("tool_calls") or ()
    )
    said = {key: value for key, value in message.items() if value not in (None, "", [])}
    return Assistant(
        text=message.get("content") or message.get("refusal") or "",
        thinking=message.get("reasoning_content") or message.get("reasoning") or "",
        tool_calls=calls,
        stop_reason=_stop_reason(choice.get("finish_reason"), message, calls),
        usage=_usage(response.get("usage") or {}),
        model=response.get("model") or "",
        provider=NAME,
        native={"role": "assistant", "content": None, **said},
    )


class Fold:
    """Collects the chunks of a stream into the response."""

    def __init__(self) -> None:
        self._model = ""
        self._usage: Json | None = None
        self._finish_reason: str | None = None
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._rest: Json = {}
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}

    def feed(self, chunk: Json) -> list[Delta]:
        self._model = chunk.get("model") or self._model
        self._usage = chunk.get("usage") or self._usage  # comes last, in a chunk without choices
        deltas: list[Delta] = []
        for choice in chunk.get("choices") or ():
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            delta = choice.get("delta") or {}
            if thinking := delta.get("reasoning_content") or delta.get("reasoning"):
                deltas.append(Delta("thinking", thinking))
            if answer := delta.get("content") or delta.get("refusal"):
                deltas.append(Delta("answer", answer))
            for piece in delta.get("tool_calls") or ():
                deltas += self._call_of(piece).feed(piece)
            self._keep(delta)
        return deltas

    def result(self) -> Json:
        if self._finish_reason is None:
            raise broken_off()
        message = {**self._rest, **{key: "".join(texts) for key, texts in self._texts.items()}}
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
                self._rest[key] = [*self._rest.get(key, ()), *value]
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
    arguments = written(call, function.get("arguments"))
    function = {**function, "name": call.name, "arguments": arguments}
    return {**before, "id": call.id, "type": "function", "function": function}


def _tool(tool: Tool) -> Json:
    function = {
        "name": tool.name,
        "description": tool.description,
        # Refused without `properties`, which a tool without parameters may leave out.
        "parameters": {"type": "object", "properties": {}, **tool.parameters},
    }
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> Any:
    if isinstance(choice, Force):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _stop_reason(finish_reason: str | None, message: Json, calls: tuple[ToolCall, ...]) -> str:
    if finish_reason == "length":
        return "max_tokens"
    if finish_reason == "content_filter" or message.get("refusal"):
        return "refusal"
    return "tool_use" if calls else "end_turn"


def _usage(usage: Json) -> Usage:
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        reasoning_tokens=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
        or 0,
    )
