"""Anthropic's Messages API, as far as the adapter meets it.

Written from the API's documents and the SDK's request types. As strict as the real one about
blocks, ids, roles and keys; and as the newest models are about thinking: a signature covers the
system prompt, the tools, every message before the block and its text, so a replay that changes any
of these is refused.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from anthropic.types import message_create_params
from anthropic.types.beta import BetaThinkingConfigParam

from tests.servers import (
    Protocol,
    Reply,
    check,
    fits,
    in_order,
    in_pieces,
    shown_tool,
    sse,
    text_of,
)
from think_agent import Assistant, Force, Request, Tool, ToolCall, ToolResult, User
from think_agent.messages import Message, ToolChoice

BODY = message_create_params.MessageCreateParamsStreaming
BINDING = "thinking-binding-controls-2026-08-01"
BLOCKS = {  # the roles of the messages that may have them
    "text": ("user", "assistant"),
    "tool_result": ("user",),
    "tool_use": ("assistant",),
    "thinking": ("assistant",),
    "redacted_thinking": ("assistant",),
}
ID = re.compile(r"[a-zA-Z0-9_-]+")

Body = dict[str, Any]


@dataclass
class AnthropicProtocol(Protocol):
    """`binding`: it knows the beta in which thinking that is not valid is dropped, if asked."""

    binding: bool = True
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    failure = sse(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"
    )
    forced_refusal = 'tool_choice: type "tool" and "any" are not supported for this model.'
    has_beta = False

    def accepts(self, path: str, headers: Any) -> Reply | None:
        if path.partition("?")[0] != "/v1/messages":
            return error_reply(404, "not_found_error", "Not Found")
        if not headers.get("anthropic-version"):
            return self.refusal("anthropic-version: header is required")
        key = (headers.get("authorization") or "").removeprefix("Bearer ")
        key = key or headers.get("x-api-key") or ""
        if not key or self.key not in (None, key):
            return error_reply(401, "authentication_error", "invalid x-api-key")
        betas = headers.get("anthropic-beta") or ""
        self.has_beta = betas == BINDING
        if betas and not (self.binding and self.has_beta):
            return self.refusal(f"Unexpected value(s) `{betas}` for the `anthropic-beta` header")
        return None

    def other(self, method: str, path: str, body: Any) -> Reply | None:
        if method == "POST" and not self.knows(body.get("model")):
            return error_reply(404, "not_found_error", f"model: {body.get('model')}")
        return None

    def refusal(self, message: str) -> Reply:
        return error_reply(400, "invalid_request_error", message)

    def decode(self, path: str, body: Body) -> Request:
        whole = {"stream": True, **body}
        if self.has_beta:
            check(fits(BetaThinkingConfigParam, whole.pop("thinking", None)), "thinking: invalid")
        check(fits(BODY, whole), "Extra inputs are not permitted, or a field is missing")
        check(body["max_tokens"] > 0, "max_tokens: Input should be greater than or equal to 1")
        check("temperature" not in body, "temperature: not supported in this API version")
        check(body.get("system") != "", "system: text content blocks must be non-empty")
        tools = tuple(decode_tool(index, tool) for index, tool in enumerate(body.get("tools", [])))
        choice = decode_choice(body, {tool.name for tool in tools})
        check_thinking(body, choice)
        check_marks(body)
        check_blocks(body["messages"])
        return Request(
            in_order(decode_messages(body)),
            tools,
            tool_choice=choice,
            system=system_of(body),
            output_schema=body.get("output_config", {}).get("format", {}).get("schema"),
        )

    def encode(self, reply: Assistant, body: Body) -> Body:
        content: list[Body] = []
        if reply.thinking:
            signature = sign(body, len(body["messages"]), reply.thinking)
            block = {"type": "thinking", "thinking": reply.thinking, "signature": signature}
            content.append(block)
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        for call in reply.tool_calls:
            id = call.id or f"toolu_{next(self.numbers):024d}"
            use = {"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}
            content.append(use)
        usage = reply.usage
        return {
            "id": f"msg_{next(self.numbers):024d}",
            "type": "message",
            "role": "assistant",
            "model": reply.model or body["model"],
            "content": content,
            "stop_reason": reply.stop_reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens - usage.cached_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": usage.cached_tokens,
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
            },
        }

    def encode_stream(self, reply: Assistant, body: Body) -> Iterator[bytes]:
        whole = self.encode(reply, body)
        usage = whole["usage"]
        early = {**usage, "output_tokens": 1, "output_tokens_details": None}
        start = {**whole, "content": [], "stop_reason": None, "usage": early}
        yield event("message_start", message=start)
        yield event("ping")
        for index, block in enumerate(whole["content"]):
            empty, deltas = pieces_of(block)
            yield event("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield event("message_delta", delta=stop, usage=usage)
        yield event("message_stop")


BOUND = (
    "The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


def error_reply(status: int, kind: str, message: str) -> Reply:
    error = {"type": kind, "message": message}
    return Reply(status, {"type": "error", "error": error, "request_id": "req_1"})


def event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


def pieces_of(block: Body) -> tuple[Body, list[Body]]:
    """A block as it starts in a stream, and the deltas that fill it."""
    kind = block["type"]
    if kind == "tool_use":
        # The first piece is always empty, and the only one of a call without arguments.
        pieces = ["", *in_pieces(text_of(block["input"]))] if block["input"] else [""]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return {**block, "input": {}}, deltas
    empty = {**block, kind: ""}
    deltas = [{"type": f"{kind}_delta", kind: piece} for piece in in_pieces(block[kind])]
    if kind == "thinking":
        empty["signature"] = ""
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return empty, deltas


def sign(body: Body, index: int, thinking: str) -> str:
    """The signature of a thinking block in message number `index`."""
    covered = [body.get("system"), body.get("tools"), body["messages"][:index], thinking]
    covered = without_marks(covered)
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def without_marks(value: Any) -> Any:
    """`value` without the marks for a cache, which a signature does not cover."""
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    if isinstance(value, dict):
        return {k: without_marks(item) for k, item in value.items() if k != "cache_control"}
    return value


def system_of(body: Body) -> str:
    """The system prompt, which is a text or blocks of text."""
    system = body.get("system", "")
    if isinstance(system, str):
        return system
    return "".join(block["text"] for block in system)


def check_marks(body: Body) -> None:
    """The API takes four marks, the one on the whole request included."""
    count = json.dumps(body).count('"cache_control": {')
    check(count <= 4, "A maximum of 4 blocks with cache_control may be provided.")


def decode_tool(index: int, tool: Body) -> Tool:
    schema = tool["input_schema"]
    check(schema.get("type") == "object", f"tools.{index}.custom.input_schema.type: Field required")
    closed = not tool.get("strict") or schema.get("additionalProperties") is False
    check(closed, f"tools.{index}.custom: 'additionalProperties' must be set to false")
    return shown_tool(tool["name"], tool.get("description", ""), schema)


def decode_choice(body: Body, names: set[str]) -> ToolChoice:
    if "tool_choice" not in body:
        return "auto"
    check(bool(names), "tool_choice may only be specified while providing `tools`.")
    match body["tool_choice"]:
        case {"type": "tool", "name": name}:
            check(name in names, f"tool_choice.name: Tool '{name}' not found in provided tools")
            return Force(name)
        case {"type": "any"}:
            return "required"
        case {"type": "none"}:
            return "none"
    return "auto"


def check_thinking(body: Body, choice: ToolChoice) -> None:
    thinking = body.get("thinking", {})
    if thinking.get("type") != "enabled":
        return
    enough = body["max_tokens"] > thinking.get("budget_tokens", 0)
    check(enough, "`max_tokens` must be greater than `thinking.budget_tokens`.")
    free = choice in ("auto", "none")
    check(free, "Thinking may not be enabled when tool_choice forces tool use.")


def check_blocks(messages: list[Body]) -> None:
    """Results stand first in a message, calls stand last, and each message is somebody else's."""
    for index, message in enumerate(messages):
        content = message["content"]
        check(content, f"messages.{index}: all messages must have non-empty content")
        if isinstance(content, str):  # short for one block of text
            content = message["content"] = [{"type": "text", "text": content}]
        for at, block in enumerate(content):
            check_block(message["role"], block, f"messages.{index}.content.{at}")
        kinds = [block["type"] for block in content]
        results = kinds.count("tool_result")
        first = "tool_result" not in kinds[results:]
        check(first, f"messages.{index}: `tool_result` blocks must begin the message")
        others = len(kinds) - kinds.count("tool_use")
        last = "tool_use" not in kinds[:others]
        check(last, f"messages.{index}: `tool_use` blocks must end the message")
    for before, after in itertools.pairwise(messages):  # the API would join them
        check(before["role"] != after["role"], "roles must alternate between user and assistant")


def check_block(role: str, block: Body, where: str) -> None:
    kind = block["type"]
    allowed = role in BLOCKS.get(kind, ())
    check(allowed, f"{where}: `{kind}` blocks are not permitted in {role} messages")
    if kind == "text":
        check(bool(block["text"].strip()), "messages: text content blocks must be non-empty")
    for key in {"id", "tool_use_id"} & set(block):
        check(ID.fullmatch(block[key]), f"{where}.{key}: String should match '{ID.pattern}'")


def decode_messages(body: Body) -> list[Message]:
    messages: list[Message] = []
    names: dict[str, str] = {}
    for index, message in enumerate(body["messages"]):
        if message["role"] == "assistant":
            reply = decode_reply(body, index)
            names |= {call.id: call.name for call in reply.tool_calls}
            messages.append(reply)
            continue
        for block in message["content"]:
            if block["type"] == "text":
                messages.append(User(block["text"]))
            else:
                id, content = block["tool_use_id"], block.get("content", "")
                error = block.get("is_error", False)
                messages.append(ToolResult(id, names.get(id, ""), content, is_error=error))
    return messages


def decode_reply(body: Body, index: int) -> Assistant:
    content = body["messages"][index]["content"]
    where = f"messages.{index}.content.0"
    kinds = [block["type"] for block in content]
    drops = "drop_block" in str(body.get("thinking"))
    for block in list(content):
        if block["type"] != "thinking":
            continue
        signed = block["signature"] == sign(body, index, block["thinking"])
        if not signed and drops:
            content = [one for one in content if one is not block]
        else:
            check(signed, f"{where}: Invalid `signature` in `thinking` block. {BOUND}")
    if body.get("thinking", {}).get("type") == "enabled" and "tool_use" in kinds:
        thinks = kinds[0] in ("thinking", "redacted_thinking")
        check(thinks, f"{where}.type: Expected `thinking`, but found `{kinds[0]}`.")
    return Assistant(
        text="".join(block["text"] for block in content if block["type"] == "text"),
        thinking="".join(block["thinking"] for block in content if block["type"] == "thinking"),
        tool_calls=tuple(
            ToolCall(block["id"], block["name"], block["input"])
            for block in content
            if block["type"] == "tool_use"
        ),
        provider="anthropic",
    )
