"""Anthropic's Messages API.

Rule 1: a reply goes back unchanged (`native`). A thinking block's signature covers everything
        before it, so a changed message, tool or system prompt is refused. A reply that was signed
        under other ones (`signed_under`) goes back without its thinking.
Rule 2: the two roles alternate. All results of a reply, and the user's text after them, are one
        user message.
Rule 3: `cache_control` marks what the cache keeps for later requests. One mark is at the end of the
        system prompt, because with another tool choice no messages come from the cache. One is at
        the end of the request. One is where the last request with this tool choice ended, because
        the API looks back only 20 blocks from a mark.
"""

from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolResult, Usage, User
from ..model import Request
from ..streaming import Delta
from .blocks import BlockAssembler
from .counts import merge_counts, read_count, read_first_count
from .incoming import (
    STREAM_BROKE_OFF,
    Identity,
    add_stop_reason,
    drop_repeats,
    extract_text,
    find_error_object,
    get_or_empty,
    parse_arguments,
    require_key,
)
from .outgoing import (
    drop_empty,
    is_closed,
    make_digest,
    prepare_messages,
    select_choice,
    wrap_arguments,
)
from .settings import Settings

NAME = "anthropic"
PATH = "/v1/messages"
KEYS = ("type", "content")  # a response or an event has one of these
STREAMED = {"stream": True}
MARK = {"type": "ephemeral"}
SHOWN: Json = {"type": "adaptive", "display": "summarized"}  # newest models hide it by default
DROP_BLOCK = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BINDING = "thinking-binding-controls-2026-08-01"  # the beta that it needs
MOST_STRICT = 20  # tools in a request
MOST_UNIONS = 16  # in all strict tools of a request
STOPPED = {
    "end_turn": "end_turn",
    "tool_use": "end_turn",
    "stop_sequence": "stop_sequence",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "compaction": "incomplete",
    "pause_turn": "pause_turn",
    "refusal": "refusal",
}


def to_wire(
    request: Request,
    model: str,
    settings: Settings,
    *,
    thinking: Json | None,
    strict: bool,
    cache: bool,
    drop_block: bool = False,
    host: str,
) -> Json:
    """The body of a request. With `cache`, the next request reads this one from the cache, which is
    cheaper. With `drop_block`, all thinking goes back, and the API drops what was signed under
    something else.
    """
    usual: Json = {}
    output: Json = {}
    if settings.reasoning == "off":
        usual = {"type": "disabled"}
    elif settings.reasoning:
        usual = SHOWN
        output["effort"] = settings.reasoning
    if not thinking:
        thinking = usual
    if request.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": request.output_schema}
    system = _blocks(User(request.system))
    tools = _tools(request, strict)
    # Rule 1: what was signed under something else goes back without its thinking.
    under: str | None = digest_signed({"model": model, "system": system, "tools": tools})
    if drop_block:
        thinking = {"type": "adaptive", **thinking, **DROP_BLOCK}
        under = None
    messages, end = _messages(request, host, under)
    body = drop_empty(
        model=model,
        # The API requires a bound, and it must be above the budget for thinking.
        max_tokens=max(settings.output_of(request), thinking.get("budget_tokens", 0) + 1),
        system=system,
        messages=messages,
        tools=tools,
        tool_choice=_choice(request),
        thinking=thinking,
        output_config=output,
    )
    if cache:
        for marked in [body, end, *system]:  # rule 3; on the body, it marks the last block
            marked["cache_control"] = MARK
    return body


def digest_signed(body: Json) -> str:
    """A digest of what a signature in the reply covers in addition to the messages."""
    system = [block["text"] for block in body.get("system", ())]  # without its mark
    return make_digest(body["model"], system, body.get("tools", []))


def _tools(request: Request, strict: bool) -> list[Json]:
    """The API allows 20 strict tools with 16 unions in total, so the first ones are strict."""
    wire: list[Json] = []
    unions = 0
    for tool in request.tools:
        schema = tool.parameters
        declared: Json = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": schema,
        }
        if strict and is_closed(schema):
            unions += str(schema).count("'anyOf':")
            declared["strict"] = len(wire) < MOST_STRICT and unions <= MOST_UNIONS
        wire.append(declared)
    return wire


def _choice(request: Request) -> Json:
    choice = select_choice(request)
    match choice:
        case Force(name):
            return {"type": "tool", "name": name}
        case "required":
            return {"type": "any"}
    return drop_empty(type=choice)


def _messages(request: Request, host: str, signed_under: str | None) -> tuple[list[Json], Json]:
    """The messages, and the block where the last request with this tool choice ended."""
    wire: list[Json] = []
    asked: Json = {}  # the last block of a request
    end = asked
    for message in prepare_messages(request.messages, NAME, host=host, signed_under=signed_under):
        role = "user"
        blocks = _blocks(message)
        if isinstance(message, Assistant):
            role = "assistant"
            if message.tool_choice == request.tool_choice:
                end = asked
        elif blocks:
            asked = blocks[-1]
        if wire and wire[-1]["role"] == role:  # rule 2
            wire[-1]["content"] += blocks
        elif blocks:
            wire.append({"role": role, "content": blocks})
    return wire, end


def _blocks(message: Spoken) -> list[Json]:
    match message:
        case Assistant(native={"content": own}):
            return [*own]
        case ToolResult(content=content):
            if not content.strip():
                content = "(empty)"  # the API refuses an error without content
            block: Json = {
                "type": "tool_result",
                "tool_use_id": message.call_id,
                "content": content,
            }
            if message.is_error:
                block["is_error"] = True
            return [block]
    blocks: list[Json] = []
    if message.text.strip():
        blocks.append({"type": "text", "text": message.text})
    if isinstance(message, Assistant):
        for call in message.tool_calls:
            blocks.append(
                {
                    "type": "tool_use",
                    "id": call.id,
                    "name": call.name,
                    "input": wrap_arguments(call),
                }
            )
    return blocks


def find_error(response: Json) -> Any:
    """The error in a response with status 200; None if there is none."""
    return find_error_object(response)


def read_usage(response: Json) -> Usage:
    """A response's tokens. The input has three separate counts."""
    counts = response.get("usage")
    read = read_count(counts, "cache_read_input_tokens")
    written = read_count(counts, "cache_creation_input_tokens")
    return Usage(
        input_tokens=read_first_count(counts, ("input_tokens",), ("prompt_tokens",))
        + read
        + written,
        output_tokens=read_first_count(counts, ("output_tokens",), ("completion_tokens",)),
        cached_tokens=read,
        written_tokens=written,
        reasoning_tokens=read_count(counts, "output_tokens_details", "thinking_tokens"),
    )


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    require_key(response, "content")
    if isinstance(response["content"], str):
        response = {**response, "content": [{"type": "text", "text": response["content"]}]}
    blocks = drop_repeats(get_or_empty(response, "content", list), _identify)
    content = []
    calls = []
    signatures = [block.get("signature", block.get("data")) for block in blocks]
    for number, block in enumerate(blocks):
        match block.get("type"):
            case "text" if not (extract_text([block]).strip() or any(signatures[number:])):
                continue  # the API refuses blank text, even its own, after the last signature
            case "tool_use":  # calls of the server's tools have other types
                id = get_or_empty(block, "id", str)
                name = get_or_empty(block, "name", str)
                call = ToolCall(id, name, parse_arguments(block.get("input")))
                calls.append(call)
                block = {**block, "input": wrap_arguments(call)}
        content.append(block)

    reply = Assistant(
        extract_text(blocks),
        extract_text(blocks, "thinking"),
        tuple(calls),
        usage=read_usage(response),
        model=get_or_empty(response, "model", str),
        native={"content": content},
        signed=any(signatures),
    )
    details = get_or_empty(response, "stop_details", dict)
    why = details.get("category"), details.get("explanation")
    return add_stop_reason(reply, response.get("stop_reason"), STOPPED, *why)


def _identify(block: Json) -> Identity | None:
    if block.get("type") != "tool_use":
        return None
    return block.get("id"), block.get("name"), parse_arguments(block.get("input"))


class Fold:
    """Accumulates the events of a stream into one message."""

    ended = False

    def __init__(self) -> None:
        self._message: Json = {}
        self._blocks = BlockAssembler()

    def feed(self, event: Json) -> list[Delta]:
        index = event.get("index", 0)
        match event.get("type"):
            case "message_start":
                return self._begin(get_or_empty(event, "message", dict))
            case "message":  # a whole one: the server doesn't stream
                self.ended = True
                return self._begin(event)
            case "content_block_start":
                return self._blocks.begin(index, get_or_empty(event, "content_block", dict))
            case "content_block_delta":
                return self._blocks.add(index, get_or_empty(event, "delta", dict))
            case "content_block_stop":
                self._blocks.end(index)
            case "message_delta":
                self._message |= drop_empty(**get_or_empty(event, "delta", dict))
                self._count(event)
            case "message_stop":
                self.ended = True
                self._count(event)
        return []

    def _begin(self, message: Json) -> list[Delta]:
        """The beginning of the message, usually without its blocks."""
        self._message |= message
        deltas = []
        for index, block in enumerate(get_or_empty(message, "content", list)):
            deltas += self._blocks.begin(index, block)
        return deltas

    def _count(self, event: Json) -> None:
        """An event's counts are totals, not increments."""
        now = get_or_empty(event, "usage", dict)
        counts = merge_counts(self._message.get("usage"), now)
        if now.get("output_tokens") == 0:  # the initial count was for the first piece
            counts["output_tokens"] = 0
        self._message["usage"] = counts

    def result(self) -> Json:
        message = {**self._message, "content": self._blocks.whole()}
        if not self.ended:
            message["stop_reason"] = STREAM_BROKE_OFF
        return message
