"""OpenAI's Responses API, which the official host speaks. A reply is a list of items.

Rule 1: the host stores nothing (`store` is false). So reasoning comes encrypted, and its items go
        back verbatim and in their place, before the item they led to.
Rule 2: of a stream, the items in `response.output_item.done` count, in the order of `output_index`.
        Earlier versions of an item may be incomplete.
Rule 3: what OpenAI marks as not yet the answer is kept apart: a message of the `phase` "commentary"
        is commentary, and a response with `end_turn: false` is `not_done`.
"""

import re
from typing import Any

from ..messages import Assistant, Force, Json, ToolCall, ToolResult, User
from ..model import Request
from ..streaming import Delta
from .incoming import (
    STREAM_BROKE_OFF,
    ErrorAnswer,
    extract_text,
    parse_arguments,
    read_openai_usage,
    read_stop_reason,
)
from .outgoing import arguments_text, choice_of, digest, filled, openai_function, sendable
from .pieces import CallReader
from .settings import Settings

NAME = "openai"
PATH = "/responses"
STREAMED = {"stream": True}
STOPPED = {
    "completed": "end_turn",
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
    "incomplete": "incomplete",
    "failed": "incomplete",
}
LEAST_OUTPUT = 16  # tokens; the API refuses less
# They answer 400 "Encrypted content is not supported with this model" to the `include` below.
NO_REASONING = re.compile(r"(ft:)?(chatgpt|gpt-3|gpt-4)")


def to_wire(request: Request, model: str, settings: Settings, *, strict: bool, host: str) -> Json:
    """The body of a request."""
    choice: Any = choice_of(request)
    if isinstance(choice, Force):
        choice = {"type": "function", "name": choice.name}
    # Without `strict` the API takes it as true, and refuses every optional parameter.
    tools = [
        {"type": "function", "strict": False, **openai_function(tool, strict)}
        for tool in request.tools
    ]
    body = filled(
        model=model,
        input=_input(request, host),
        store=False,  # rule 1
        max_output_tokens=max(settings.output_of(request), LEAST_OUTPUT),
        temperature=settings.temperature,
        instructions=request.system,
        tools=tools,
        tool_choice=choice,
        prompt_cache_key=digest(request.system, tools),  # requests that begin alike share a cache
    )
    if settings.reasoning == "off":
        body["reasoning"] = {"effort": "none"}
    elif settings.reasoning:  # none of it is shown without `summary`
        body["reasoning"] = {"effort": settings.reasoning, "summary": "auto"}
    if not NO_REASONING.match(model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.output_schema is not None:
        body["text"] = {
            "format": {
                "type": "json_schema",
                "name": "answer",
                "schema": request.output_schema,
                "strict": True,
            }
        }
    return body


def _input(request: Request, host: str) -> list[Json]:
    items = []
    for message in sendable(request.messages, NAME, host=host, native=list):
        if isinstance(message, ToolResult):
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message.call_id,
                    "output": message.content,
                }
            )
        elif isinstance(message, User):
            items.append({"role": "user", "content": message.text})
        else:
            items += _reply(message)
    return items


def _reply(reply: Assistant) -> list[Json]:
    """The provider's own items, or new ones."""
    native = reply.native
    if native is None:
        native = [{"type": "function_call", "name": call.name} for call in reply.tool_calls]
        if reply.text:
            native.insert(0, {"role": "assistant", "content": reply.text})
    items = []
    calls = iter(reply.tool_calls)
    for item in native:
        if item.get("type") == "function_call":
            call = next(calls)
            arguments = arguments_text(call, item.get("arguments"))
            item = {**item, "call_id": call.id, "arguments": arguments}
        items.append(item)
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # it is refused without the item it led to
    return items


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    items = response["output"]
    details = response.get("incomplete_details") or {}
    reason = details.get("reason")
    if reason not in STOPPED:
        reason = response.get("status")
    text = ""
    refusal = ""
    asides = []
    thoughts = []
    calls = []
    for item in items:
        match item["type"]:
            case "message" if item.get("phase") == "commentary":  # rule 3
                asides.append(extract_text(item["content"]))
            case "message":
                text += extract_text(item["content"])
                refusal += extract_text(item["content"], "refusal")
            case "reasoning":
                thoughts += _thoughts(item)
            case "function_call":
                arguments = parse_arguments(item.get("arguments"))
                calls.append(ToolCall(item.get("call_id", ""), item["name"], arguments))
    if refusal:
        reason = "content_filter"
    usage = read_openai_usage(response.get("usage"), "input", "output")
    return Assistant(
        text + refusal,
        "\n\n".join(thoughts),
        tuple(calls),
        commentary="\n\n".join(asides),
        usage=usage,
        model=response.get("model", ""),
        native=items,
        signed=any(item.get("encrypted_content") for item in items),
        not_done=response.get("end_turn") is False,
        **read_stop_reason(calls, usage, reason, STOPPED, refusal),
    )


def _thoughts(item: Json) -> list[str]:
    parts = [*item.get("summary", ()), *(item.get("content") or ())]
    return [part["text"] for part in parts]


class Fold:
    """Accumulates the events of a stream into one response."""

    ended = False
    _commented = False

    def __init__(self) -> None:
        self._response: Json = {"status": STREAM_BROKE_OFF}  # until its end has come
        self._items: dict[int, Json] = {}  # by `output_index`; a message with its text so far
        self._calls: dict[int, CallReader] = {}

    def feed(self, event: Json) -> list[Delta]:
        index = event.get("output_index", 0)
        match event["type"]:
            case "response.output_item.added":
                item = event["item"]
                if item["type"] == "message":
                    self._items[index] = {**item, "content": []}
                elif item["type"] == "function_call":
                    self._calls[index] = CallReader(item["name"], len(self._calls))
            case "response.output_text.delta" | "response.refusal.delta":
                return self._add_text(index, event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [Delta("thinking", event["delta"])]
            case "response.function_call_arguments.delta":
                return self._calls[index].feed(event["delta"])
            case "response.output_item.done":  # rule 2
                self._items[index] = event["item"]
            case "response.completed" | "response.incomplete" | "response.failed":
                self.ended = True
                self._response = event["response"]
            case "error":
                raise ErrorAnswer(event)
        return []

    def _add_text(self, index: int, text: str) -> list[Delta]:
        message = self._items[index]
        is_first = not message["content"]
        message["content"].append({"type": "output_text", "text": text})
        if message.get("phase") != "commentary":
            return [Delta("answer", text)]
        if is_first and self._commented:
            text = "\n\n" + text
        self._commented = True
        return [Delta("commentary", text)]

    def result(self) -> Json:
        items = [self._items[index] for index in sorted(self._items)]
        if not items:  # some servers send them only at the end
            items = self._response.get("output", [])
        return {**self._response, "output": items}
