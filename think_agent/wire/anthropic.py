"""Anthropic's Messages API.

Rule 1: a reply is replayed as it came (`native`). Thinking blocks are signed over all that stands
        before them: a changed message, tool or system prompt is refused.
Rule 2: two roles, by turns: all results of a reply, and what is said after them, are one user
        message.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, Usage
from ..model import Request
from ..streaming import Delta
from ..tools import Tool
from . import common
from .common import arguments_of, count
from .pieces import CallReader

NAME = "anthropic"
PATH = "/v1/messages"
STREAMED: Json = {"stream": True}
NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
MOST_STRICT, MOST_UNIONS = 20, 16
STOPPED = {"tool_use": "end_turn", "model_context_window_exceeded": "max_tokens"}
STOPPED |= {a: a for a in ("end_turn", "stop_sequence", "max_tokens", "pause_turn", "refusal")}


def to_wire(
    request: Request, model: str, settings: common.Settings, *, thinking: Json | None, strict: bool
) -> Json:
    """The body of a request. The API insists on a bound, above what is set apart for thinking."""
    messages = _messages(common.sendable(request.messages, NAME, calls_in=_calls_in))
    bound = max(settings.max_output_tokens or 0, (thinking or {}).get("budget_tokens", 0) + 1)
    body: Json = {"model": model, "max_tokens": bound, "messages": messages}
    if request.system:
        body["system"] = request.system
    if request.tools:
        body["tools"] = _tools(request.tools, strict)
        if request.tool_choice != "auto":  # the default
            body["tool_choice"] = _choice(request.tool_choice)
    output: Json = {}
    if request.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": request.output_schema}
    if settings.reasoning == "off":
        body["thinking"] = {"type": "disabled"}
    elif settings.reasoning:  # without `display`, the newest models show none of it
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        output["effort"] = settings.reasoning
    if thinking is not None:
        body["thinking"] = thinking
    if output:
        body["output_config"] = output
    return body


def _tools(tools: Sequence[Tool], strict: bool) -> list[Json]:
    """The API takes 20 strict tools and 16 unions in all of them: the first ones get it."""
    wire: list[Json] = []
    left, unions = MOST_STRICT, MOST_UNIONS
    for tool in tools:
        schema = tool.parameters
        wire.append({"name": tool.name, "description": tool.description, "input_schema": schema})
        used = str(schema).count("'anyOf':") if strict and common.is_closed(schema) else unions + 1
        if left and used <= unions:
            wire[-1]["strict"] = True
            left, unions = left - 1, unions - used
    return wire


def _choice(choice: ToolChoice) -> Json:
    if isinstance(choice, Force):
        return {"type": "tool", "name": choice.name}
    return {"type": "any" if choice == "required" else choice}


def _messages(messages: Sequence[Spoken]) -> list[Json]:
    wire: list[Json] = []
    ids: dict[str, str] = {}
    for message in messages:
        role = "assistant" if isinstance(message, Assistant) else "user"
        blocks = _blocks(message, ids)
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        elif blocks:
            wire.append({"role": role, "content": blocks})
    return wire


def _blocks(message: Spoken, ids: dict[str, str]) -> list[Json]:
    """The content of a message. `ids` keeps what the calls of other providers are called here."""
    if isinstance(message, ToolResult):
        id, said = message.call_id, message.content
        result: Json = {"type": "tool_result", "tool_use_id": ids.get(id, id)}
        result["content"] = said if said.strip() else "(empty)"
        return [{**result, "is_error": True} if message.is_error else result]
    blocks: list[Json] = [{"type": "text", "text": message.text}]
    if isinstance(message, Assistant) and message.native:
        blocks = message.native["content"]
    elif isinstance(message, Assistant):
        for call in message.tool_calls:
            ids[call.id] = id = NOT_IN_IDS.sub("_", call.id)
            use = {"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}
            blocks.append(use)
    # The API refuses blank text, even where it wrote it itself.
    return [_with_object(b) for b in blocks if b["type"] != "text" or str(b.get("text")).strip()]


def _with_object(block: Json) -> Json:
    """The block itself; but broken argument JSON is wrapped, for the model to see, as the docs of
    fine-grained tool streaming advise.
    """
    if isinstance(block.get("input", {}), dict):
        return block
    said = arguments_of(block["input"])
    return {**block, "input": said if isinstance(said, dict) else {"INVALID_JSON": said}}


def _calls_in(native: Any) -> list[Json]:
    return [block for block in native["content"] if block["type"] == "tool_use"]


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in the JSON of a message; `model` is the one asked, in case none is named."""
    content = response["content"]
    calls = tuple(
        ToolCall(block["id"], block["name"], arguments_of(block["input"]))
        for block in _calls_in(response)
    )
    return Assistant(
        text="".join(block["text"] for block in content if block["type"] == "text"),
        thinking="".join(block["thinking"] for block in content if block["type"] == "thinking"),
        tool_calls=calls,
        **common.ended(response.get("stop_reason"), STOPPED, calls),
        usage=_usage(response.get("usage")),
        model=response.get("model") or model,
        provider=NAME,
        native={"role": "assistant", "content": content},
        signed=any(b.get("signature") or b["type"] == "redacted_thinking" for b in content),
    )


def _usage(usage: Json | None) -> Usage:
    """On the wire, input tokens come in three kinds, none counted in another."""
    kinds = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Usage(
        input_tokens=sum(count(usage, kind) for kind in kinds),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=count(usage, "cache_read_input_tokens"),
        reasoning_tokens=count(usage, "output_tokens_details", "thinking_tokens"),
    )


def from_history(wire: Iterable[Json]) -> list[Spoken]:
    """The messages of a history in this protocol (`read_history`): the inverse of `to_wire`."""
    whole = {"stop_reason": "end_turn"}
    return common.read_history(_in_roles(wire), lambda said: from_wire(said | whole))


def _in_roles(wire: Iterable[Json]) -> Iterator[Json]:
    """The messages with each tool result in one of its own."""
    for message in wire:
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        results = [block for block in blocks if block["type"] == "tool_result"]
        for block in results:
            result = {"content": block.get("content") or "", "role": "tool"}
            failed = bool(block.get("is_error"))
            yield {**result, "tool_call_id": block["tool_use_id"], "is_error": failed}
        if message["role"] != "user" or len(results) < len(blocks):
            yield {"role": message["role"], "content": blocks}


class Fold:
    """Stream events into one message."""

    def __init__(self) -> None:
        self.ended = False
        self._message: Json = {}
        self._blocks: list[list[Json]] = []  # the pieces of each
        self._readers: dict[int, CallReader] = {}  # of those that are calls, by their index

    def feed(self, event: Json) -> list[Delta]:
        if event["type"] == "content_block_delta":
            self._blocks[event["index"]].append(event["delta"])
        match event:
            case {"delta": {"type": "text_delta", "text": text}}:
                return [Delta("answer", text)]
            case {"delta": {"type": "thinking_delta", "thinking": text}}:
                return [Delta("thinking", text)]
            case {"delta": {"type": "input_json_delta", "partial_json": piece}, "index": index}:
                return self._readers[index].feed(piece)
            case {"type": "content_block_start", "content_block": block, "index": index}:
                self._blocks.append([block])
                if "name" in block:  # a call
                    self._readers[index] = CallReader(block["name"], len(self._readers))
                    return self._readers[index].feed("")
            case {"type": "message_start", "message": message}:
                self._message = message
            case {"type": "message_delta", "delta": delta}:
                # The counts are totals, not increments; one that is null has not changed.
                counts = {k: n for k, n in (event.get("usage") or {}).items() if n is not None}
                usage = {**(self._message.get("usage") or {}), **counts}
                before = self._message.get("stop_reason")
                reason = common.worse(before, delta["stop_reason"], STOPPED)
                self._message = {**self._message, "usage": usage, "stop_reason": reason}
            case {"type": "message_stop"}:
                self.ended = True
        return []

    def result(self) -> Json:
        content = []
        for pieces in self._blocks:
            block = {**common.joined(pieces), "type": pieces[0]["type"]}
            if said := block.pop("partial_json", ""):  # a call without arguments has an empty one
                block["input"] = arguments_of(said)
            content.append(block)
        reason = self._message.get("stop_reason") if self.ended else None
        return {**self._message, "content": content, "stop_reason": reason}
