"""OpenAI's Responses API: what the official host speaks; a reply is a list of items.

Rule 1: JSON in, JSON out. Nothing here knows the SDK or waits.
Rule 2: nothing is kept at the host (`store` is false). Reasoning therefore comes encrypted, and its
        items go back verbatim and in their place, before the item they led to.
Rule 3: what a stream gives in `response.output_item.done` is what counts; earlier versions of an
        item may be incomplete.
"""

import re
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, Usage, User
from ..model import Request, sendable
from ..providers.openai_shared import NAME, broken_off, failure, parsed, written
from ..streaming import CallReader, Delta
from ..tools import Tool

PATH = "/responses"
STREAMED: Json = {"stream": True}
# They answer 400 "Encrypted content is not supported with this model" to the `include` below.
NO_REASONING = re.compile(r"(ft:)?(chatgpt|gpt-3|gpt-4)")


def to_wire(request: Request, model: str) -> Json:
    """The body of a request."""
    sent = sendable(request.messages, NAME)
    body: Json = {
        "model": model,
        "input": [item for message in sent for item in _items(message)],
        "store": False,
    }
    if not NO_REASONING.match(model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None:
        schema = {"name": "answer", "schema": request.output_schema, "strict": True}
        body["text"] = {"format": {"type": "json_schema", **schema}}
    return body


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    if response.get("error"):  # status "failed"
        raise failure(response["error"])
    parts: list[Json] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    for item in response["output"]:
        match item["type"]:
            case "message":
                parts += item["content"]
            case "reasoning":
                shown = (*(item.get("summary") or ()), *(item.get("content") or ()))
                thinking += [part["text"] for part in shown]
            case "function_call":
                arguments = parsed(item.get("arguments"))
                calls.append(ToolCall(item.get("call_id") or "", item["name"], arguments))
    return Assistant(
        text="".join(part.get("text") or part.get("refusal") or "" for part in parts),
        thinking="\n\n".join(thinking),
        tool_calls=tuple(calls),
        stop_reason=_stop_reason(response, parts, calls),
        usage=_usage(response.get("usage") or {}),
        model=response.get("model") or "",
        provider=NAME,
        native=response["output"],
    )


class Fold:
    """Collects the events of a stream into the response."""

    def __init__(self) -> None:
        self._response: Json | None = None
        self._items: dict[int, Json] = {}
        self._readers: dict[int, CallReader] = {}

    def feed(self, event: Json) -> list[Delta]:
        match event["type"]:
            case "response.output_text.delta" | "response.refusal.delta":
                return [Delta("answer", event["delta"])]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [Delta("thinking", event["delta"])]
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                reader = CallReader(event["item"]["name"], len(self._readers))
                self._readers[event["output_index"]] = reader
                return reader.feed("")
            case "response.function_call_arguments.delta":
                return self._readers[event["output_index"]].feed(event["delta"])
            case "response.output_item.done":
                self._items[event["output_index"]] = event["item"]
            case "response.completed" | "response.incomplete" | "response.failed":
                self._response = event["response"]
            case "error":
                raise failure(event)
        return []

    def result(self) -> Json:
        if self._response is None:
            raise broken_off()
        items = dict(enumerate(self._response["output"])) | self._items
        return {**self._response, "output": [items[index] for index in sorted(items)]}


def _items(message: Spoken) -> list[Json]:
    match message:
        case User(text=text):
            return [{"role": "user", "content": text}]
        case ToolResult(call_id=call_id, content=content):
            return [{"type": "function_call_output", "call_id": call_id, "output": content}]
        case Assistant():
            # A dict is a native of Chat Completions.
            native = message.native if isinstance(message.native, list) else _neutral(message)
            return _replayed(native, message)


def _neutral(message: Assistant) -> list[Json]:
    text = [{"role": "assistant", "content": message.text}] if message.text else []
    return [*text, *({"type": "function_call", "name": call.name} for call in message.tool_calls)]


def _replayed(items: list[Json], message: Assistant) -> list[Json]:
    calls = iter(message.tool_calls)
    replayed = [
        _call(next(calls), item) if item.get("type") == "function_call" else item for item in items
    ]
    while replayed and replayed[-1].get("type") == "reasoning":
        replayed.pop()  # cut off before the item it led to; refused without that
    return replayed


def _call(call: ToolCall, before: Json) -> Json:
    return {**before, "call_id": call.id, "arguments": written(call, before.get("arguments"))}


def _tool(tool: Tool) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        # Refused without `properties`, which a tool without parameters may leave out.
        "parameters": {"type": "object", "properties": {}, **tool.parameters},
        "strict": False,  # left out, it would be true, and refuse every optional parameter
    }


def _choice(choice: ToolChoice) -> Any:
    return {"type": "function", "name": choice.name} if isinstance(choice, Force) else choice


def _stop_reason(response: Json, parts: list[Json], calls: list[ToolCall]) -> str:
    if response.get("status") == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        return "refusal" if reason == "content_filter" else "max_tokens"
    if any(part["type"] == "refusal" for part in parts):
        return "refusal"
    return "tool_use" if calls else "end_turn"


def _usage(usage: Json) -> Usage:
    return Usage(
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cached_tokens=(usage.get("input_tokens_details") or {}).get("cached_tokens") or 0,
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
