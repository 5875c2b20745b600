"""OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio, OpenRouter and DeepSeek speak too.

Rule 1: whether a reply asks for tools is read from its calls, not from its `finish_reason`, which
        is "stop" after a forced call.
Rule 2: a reply goes back as it came, with its reasoning; only what servers refuse to read again is
        repaired: missing call ids, arguments that are no JSON, nulls and empty lists, a call in the
        form of 2023 (`function_call`), an answer that the server has parsed.
Rule 3: one reply is one choice, the first, however many a server sends.
"""

from collections.abc import Iterable
from typing import Any

from ..messages import Assistant, Force, Json, ToolCall, ToolChoice
from ..model import Request
from ..streaming import Delta
from ..text import json_text
from .chat import chat_messages, function_calls, joined, text_of
from .incoming import ErrorAnswer, deltas_of, ended, first_choice, worse
from .json_reading import json_object
from .outgoing import arguments_text, openai_function
from .pieces import CallReader
from .settings import Settings
from .usage import openai_usage

NAME = "openai"
PATH = "/chat/completions"
STREAMED: Json = {"stream": True, "stream_options": {"include_usage": True}}
STOPPED = {
    "stop": "end_turn",
    "tool_calls": "end_turn",
    "function_call": "end_turn",
    "eos": "end_turn",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
}
REASONING = ("text", "summary", "data")  # fields of `reasoning_details` that come in pieces


def to_wire(
    request: Request,
    model: str,
    settings: Settings,
    *,
    strict: bool,
    max_name: str = "max_tokens",
    host: str | None = None,
) -> Json:
    """The body of a request. `max_name`: what the server calls the bound on the output; OpenAI says
    `max_completion_tokens`.
    """
    messages = chat_messages(request, NAME, _encoded, host=host)
    body: Json = {"model": model, "messages": messages}
    body |= settings.named(max_output_tokens=max_name, temperature="temperature", seed="seed")
    if settings.reasoning:
        body["reasoning_effort"] = "none" if settings.reasoning == "off" else settings.reasoning
    if request.tools:
        functions = [openai_function(tool, strict) for tool in request.tools]
        body["tools"] = [{"type": "function", "function": function} for function in functions]
        if request.tool_choice != "auto":  # the default; some servers refuse even to hear it
            body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None:
        schema = {"name": "answer", "schema": request.output_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _encoded(call: ToolCall, before: Json) -> Json:
    written = before.get("function", {}).get("arguments")
    function = {"name": call.name, "arguments": arguments_text(call, written)}
    return {"id": call.id, "type": "function", "function": function}


def _choice(choice: ToolChoice) -> Any:
    if isinstance(choice, Force):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in a response; `model` is the one asked, in case none is named."""
    choice = first_choice(response["choices"])
    if choice.get("error"):  # OpenRouter reports trouble at the model's host like this
        raise ErrorAnswer(choice["error"])
    message = _message(choice)
    calls = function_calls(message)
    details = message.get("reasoning_details", ())
    return Assistant(
        _text(message),
        _thinking(message),
        calls,
        **ended(_reason(choice, message), STOPPED, calls),
        usage=openai_usage(response.get("usage"), "prompt", "completion"),
        model=response.get("model") or model,
        provider=NAME,
        native={"role": "assistant", "content": None, **message},
        signed=any(detail.get("signature") for detail in details),
    )


def _message(choice: Json) -> Json:
    if choice.get("finish_reason") == "content_filter" and not choice.get("message"):
        return {}  # Azure leaves out what it has filtered
    return _plain(choice["message"])


def _plain(message: Json) -> Json:
    """A message, or a piece of one, without the fields that say nothing, in the form of today."""
    plain = {key: value for key, value in message.items() if value not in (None, "", [])}
    if "function_call" in plain:  # one call, as in 2023
        plain["tool_calls"] = [{"function": plain.pop("function_call")}]
    if isinstance(plain.get("content"), dict):  # Cloudflare parses an answer in JSON
        plain["content"] = json_text(plain["content"])
    return plain


def _reason(choice: Json, message: Json) -> Any:
    reason = choice.get("finish_reason")
    if "refusal" in message and reason != "length":
        return "content_filter"
    if reason == "" and _are_readable(message.get("tool_calls", ())):  # Snowflake gives none
        return "stop"
    return reason


def _are_readable(calls: Iterable[Json]) -> bool:
    """Are the arguments of these calls there, and whole?"""
    found = [json_object(call["function"]["arguments"]) for call in calls]
    return all(isinstance(arguments, dict) for arguments in found)


def _text(message: Json) -> str:
    text: str = text_of(message.get("content")) or message.get("refusal", "")
    return text


def _thinking(message: Json) -> str:
    """The reasoning, which Mistral has in one list with the text."""
    thinking = ""
    if isinstance(message.get("content"), list):
        for part in message["content"]:
            if part["type"] == "thinking":
                thinking += text_of(part["thinking"])
    for key in ("reasoning_content", "reasoning"):  # some servers send it under both names
        thinking = thinking or message.get(key, "")
    return thinking


class _Call:
    """A call of a stream as it grows. Its id and its name are in its first piece."""

    def __init__(self, first: Json, number: int) -> None:
        self.first = {key: value for key, value in first.items() if key != "index"}
        self.id = first.get("id")
        self.name = first["function"]["name"]
        self.reader = CallReader(self.name, number)

    def is_other(self, id: str | None, name: str | None) -> bool:
        """Are these of another call? Some servers give all calls the same index."""
        if id and id != self.id:
            return True
        return bool(name) and name != self.name

    def whole(self) -> Json:
        arguments = "".join(self.reader.pieces)
        return {**self.first, "function": {**self.first["function"], "arguments": arguments}}


class Fold:
    """Collects the chunks of a stream into the response."""

    def __init__(self) -> None:
        self.ended = False
        self._response: Json = {}  # but for its choice
        self._counted = False
        self._finish_reason: str | None = None
        self._pieces: list[Json] = []  # of the message
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}  # the last call to which the server gave this index

    def feed(self, chunk: Json) -> list[Delta]:
        for key in ("model", "usage"):
            if chunk.get(key):
                self._response[key] = chunk[key]
        # The usage comes last, in a chunk without choices; but some servers send it in all of them.
        choices = chunk.get("choices") or ()
        self._counted = bool(chunk.get("usage")) and not choices
        self.ended = self._counted and bool(self._finish_reason)
        choice = first_choice(choices)
        reason = choice.get("finish_reason")
        self._finish_reason = worse(self._finish_reason, reason, STOPPED)
        piece = _plain(choice.get("delta") or {})
        self._pieces.append(piece)
        deltas = deltas_of(Assistant(_text(piece), _thinking(piece)))
        for call in piece.get("tool_calls", ()):
            deltas += self._add(call)
        return deltas

    def _add(self, piece: Json) -> list[Delta]:
        """Add a piece of a call."""
        index = piece.get("index") or 0
        function = piece.get("function") or {}
        call = self._at.get(index)
        if call is None or call.is_other(piece.get("id"), function.get("name")):
            call = _Call(piece, len(self._calls))
            self._calls.append(call)
            self._at[index] = call
        return call.reader.feed(function.get("arguments") or "")

    def result(self) -> Json:
        calls = [call.whole() for call in self._calls]
        message = {**joined(self._pieces), "role": "assistant", "tool_calls": calls}
        if "reasoning_details" in message:
            message["reasoning_details"] = _entries(message["reasoning_details"])
        reason = self._finish_reason
        is_counted = self._counted and _are_readable(calls)
        if reason is None and is_counted:  # Snowflake gives none
            reason = "stop"
        return {**self._response, "choices": [{"message": message, "finish_reason": reason}]}


def _entries(pieces: Iterable[Json]) -> list[Json]:
    """The reasoning, one entry for each type and index. In fragments its signature is refused."""
    entries: dict[tuple[Any, Any], Json] = {}
    for piece in pieces:
        entry = entries.setdefault((piece.get("type"), piece.get("index")), {})
        for key, value in piece.items():
            if key in REASONING:
                entry[key] = entry.get(key, "") + (value or "")
            elif value is not None:
                entry[key] = value
    return list(entries.values())
