"""OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio, OpenRouter and DeepSeek speak too.

Rule 1: whether a reply asks for tools is read from its calls, not from its `finish_reason`, which
        is "stop" after a forced call.
Rule 2: a reply goes back as it came, with its reasoning; only what servers refuse to read again is
        repaired: missing call ids, arguments that are no JSON, nulls and empty lists.
Rule 3: one reply is one choice, the first, however many a server sends.
"""

from collections.abc import Iterable
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice
from ..model import Request
from ..streaming import Delta
from ..text import json_object
from . import common
from .common import Settings, text_of
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
    body: Json = {"model": model, "messages": common.chat_messages(request, NAME, _call)}
    body |= settings.named(max_output_tokens=max_name, temperature="temperature", seed="seed")
    if settings.reasoning:
        body["reasoning_effort"] = "none" if settings.reasoning == "off" else settings.reasoning
    if request.tools:
        functions = [common.openai_function(tool, strict) for tool in request.tools]
        body["tools"] = [{"type": "function", "function": function} for function in functions]
        if request.tool_choice != "auto":  # the default; some servers refuse even to hear it
            body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None:
        schema = {"name": "answer", "schema": request.output_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _call(call: ToolCall, before: Json) -> Json:
    said = before["function"].get("arguments") if before else None
    function = {"name": call.name, "arguments": common.arguments_text(call, said)}
    return {"id": call.id, "type": "function", "function": function}


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
    # Where it has filtered, Azure leaves out the message.
    message = choice.get("message") or {} if reason == "content_filter" else choice["message"]
    if message.get("refusal") and reason != "length":
        reason = "content_filter"
    calls = common.function_calls(message)
    kept = {key: value for key, value in message.items() if value not in (None, "", [])}
    return Assistant(
        *_said(message),
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

    def read(said: Json) -> Assistant:
        return from_wire({"choices": [{"message": said, "finish_reason": "stop"}]})

    return common.read_history(wire, read)


def _said(message: Json) -> tuple[str, str]:
    """The text and the thinking of a message or a part of one, which Mistral has in one list."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    thoughts = "".join(text_of(part["thinking"]) for part in parts if part["type"] == "thinking")
    thinking = thoughts or message.get("reasoning_content") or message.get("reasoning") or ""
    return text_of(content) or message.get("refusal") or "", thinking


class Fold:
    """Collects the chunks of a stream into the response."""

    def __init__(self) -> None:
        self.ended = False
        self._response: Json = {}  # but for its choice
        self._counted = False
        self._finish_reason: str | None = None
        self._pieces: list[Json] = []  # of the message
        self._calls: list[Json] = []  # the first piece of each; id and name are in that
        self._readers: list[CallReader] = []  # of their arguments
        self._number_at: dict[int, int] = {}  # of the call that a server gives this index

    def feed(self, chunk: Json) -> list[Delta]:
        self._response |= {key: chunk[key] for key in ("model", "usage") if chunk.get(key)}
        # The usage comes last, in a chunk without choices; but some servers send it in all of them.
        self._counted = bool(chunk.get("usage") and not chunk.get("choices"))
        self.ended = self._counted and bool(self._finish_reason)
        choice = common.first_choice(chunk.get("choices") or ())
        reason = choice.get("finish_reason")
        self._finish_reason = common.worse(self._finish_reason, reason, STOPPED)
        piece = choice.get("delta") or {}
        self._pieces.append(piece)
        deltas = common.deltas_of(Assistant(*_said(piece)))
        for call in piece.get("tool_calls") or ():
            arguments = (call.get("function") or {}).get("arguments") or ""
            deltas += self._reader_of(call).feed(arguments)
        return deltas

    def _reader_of(self, piece: Json) -> CallReader:
        """What reads the call that this is a piece of."""
        index = piece.get("index") or 0
        number = self._number_at.get(index)
        said = {"id": piece.get("id"), "name": (piece.get("function") or {}).get("name")}
        known = {} if number is None else self._calls[number] | self._calls[number]["function"]
        # Some servers number every call 0; then a new id or name is a new call.
        if number is None or any(new not in (None, "", known.get(of)) for of, new in said.items()):
            number = self._number_at[index] = len(self._calls)
            self._calls.append({key: value for key, value in piece.items() if key != "index"})
            self._readers.append(CallReader(piece["function"]["name"], number))
        return self._readers[number]

    def result(self) -> Json:
        message = {**common.joined(self._pieces), "role": "assistant", "tool_calls": self._calls}
        for call, reader in zip(self._calls, self._readers, strict=True):
            call["function"] = {**call["function"], "arguments": "".join(reader.pieces)}
        said = (call["function"]["arguments"] for call in self._calls)
        sound = all(isinstance(json_object(text), dict) for text in said)
        # Snowflake gives no reason.
        reason = self._finish_reason or ("stop" if self._counted and sound else None)
        return {**self._response, "choices": [{"message": message, "finish_reason": reason}]}
