"""OpenAI's Responses API, for the official host. A reply is a list of items.

Rule 1: the host stores nothing (`store` is false). So reasoning is encrypted, and its items go back
        unchanged, right before the item they led to.
Rule 2: the streamed pieces and the end of the response form one reply (`items.py`).
Rule 3: what OpenAI marks as not the answer is kept separate: a message with the `phase`
        "commentary" is commentary, and a response with `end_turn: false` is `not_done`.
"""

import re
from typing import Any

from ..messages import Assistant, Force, Json, ToolCall, ToolResult, Usage, User
from ..model import Request
from ..streaming import Delta
from .counts import read_openai_usage
from .incoming import (
    STREAM_BROKE_OFF,
    ErrorAnswer,
    Identity,
    add_stop_reason,
    drop_repeats,
    extract_text,
    find_error_object,
    find_meaning,
    get_or_empty,
    parse_arguments,
    require_key,
)
from .items import KINDS, ItemAssembler
from .outgoing import (
    describe_function,
    drop_empty,
    make_digest,
    prepare_messages,
    select_choice,
    write_arguments,
)
from .settings import Settings

NAME = "openai"
PATH = "/responses"
KEYS = ("type", "output")  # a response, or an event of it, has one of them
STREAMED = {"stream": True}
STOPPED = {
    "completed": "end_turn",
    "in_progress": "incomplete",
    "queued": "incomplete",
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
    "incomplete": "incomplete",
    "failed": "incomplete",
}
LEAST_OUTPUT = 16  # tokens; the API's minimum
# They answer 400 "Encrypted content is not supported with this model" to the `include` below.
NO_REASONING = re.compile(r"(ft:)?(chatgpt|gpt-3|gpt-4)")


def to_wire(request: Request, model: str, settings: Settings, *, strict: bool, host: str) -> Json:
    """The body of a request."""
    choice: Any = select_choice(request)
    if isinstance(choice, Force):
        choice = {"type": "function", "name": choice.name}
    # A missing `strict` means true to the API, which then refuses optional parameters.
    tools = [
        {"type": "function", "strict": False, **describe_function(tool, strict)}
        for tool in request.tools
    ]
    body = drop_empty(
        model=model,
        input=_input(request, host),
        store=False,  # rule 1
        max_output_tokens=max(settings.output_of(request), LEAST_OUTPUT),
        temperature=settings.temperature,
        instructions=request.system,
        tools=tools,
        tool_choice=choice,
        prompt_cache_key=make_digest(
            request.system, tools
        ),  # requests with the same beginning share a cache
    )
    if settings.reasoning == "off":
        body["reasoning"] = {"effort": "none"}
    elif settings.reasoning:  # it isn't shown without `summary`
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
    for message in prepare_messages(request.messages, NAME, host=host, native=list):
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
            items += _write_items(message)
    return items


def _write_items(reply: Assistant) -> list[Json]:
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
            arguments = write_arguments(call, item.get("arguments"))
            item = {**item, "call_id": call.id, "arguments": arguments}
        items.append(item)
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # refused without the item it led to
    return items


def find_error(response: Json) -> Any:
    """The error in a response with status 200; None if there is none."""
    return find_error_object(response)


def read_usage(response: Json) -> Usage:
    """The tokens of a response."""
    return read_openai_usage(response.get("usage"))


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    require_key(response, "output")
    items = drop_repeats(get_or_empty(response, "output", list), _identify)
    reason = get_or_empty(response, "incomplete_details", dict).get("reason")
    if find_meaning(reason, STOPPED) is None:
        reason = response.get("status")
    text = ""
    refusal = ""
    asides = []
    thoughts = []
    calls = []
    for item in items:
        match item.get("type"):
            case "message" if item.get("phase") == "commentary":  # rule 3
                asides.append(extract_text(item.get("content")))
            case "message":
                text += extract_text(item.get("content"))
                refusal += extract_text(item.get("content"), "refusal")
            case "reasoning":
                thoughts += _thoughts(item)
            case "function_call":
                arguments = parse_arguments(item.get("arguments"))
                name = get_or_empty(item, "name", str)
                calls.append(ToolCall(get_or_empty(item, "call_id", str), name, arguments))
    if refusal:
        reason = "content_filter"
    reply = Assistant(
        text + refusal,
        "\n\n".join(thoughts),
        tuple(calls),
        commentary="\n\n".join(asides),
        usage=read_usage(response),
        model=get_or_empty(response, "model", str),
        native=items,
        signed=any(item.get("encrypted_content") for item in items),
        not_done=response.get("end_turn") is False,
    )
    return add_stop_reason(reply, reason, STOPPED, refusal)


def _identify(item: Json) -> Identity | None:
    if item.get("type") != "function_call":
        return None
    return item.get("call_id"), item.get("name"), parse_arguments(item.get("arguments"))


def _thoughts(item: Json) -> list[str]:
    parts = [*get_or_empty(item, "summary", list), *get_or_empty(item, "content", list)]
    texts = [get_or_empty(part, "text", str) for part in parts]
    return [text for text in texts if text]


class Fold:
    """Accumulates the events of a stream into one response."""

    ended = False

    def __init__(self) -> None:
        self._response: Json = {"status": STREAM_BROKE_OFF}  # until the end arrives
        self._items = ItemAssembler()

    def feed(self, event: Json) -> list[Delta]:
        _, _, name = get_or_empty(event, "type", str).partition("response.")
        match name:
            case "output_item.added":
                return self._items.add_item(event, is_done=False)
            case "output_item.done":
                return self._items.add_item(event, is_done=True)
            case "completed" | "incomplete" | "failed" | "cancelled" | "done":
                return self._end(name, get_or_empty(event, "response", dict))
            case "content_part.done" | "reasoning_summary_part.done":
                return self._end_part(event)
            case "" if "output" in event:  # a whole response: the server doesn't stream
                return self._end("completed", event)
        kind, _, step = name.partition(".")
        if kind in KINDS and step == "delta":
            return self._items.add_piece(kind, event)
        if kind in KINDS and step == "done":
            return self._items.end_text(kind, event)
        if event.get("type") == "error":
            raise ErrorAnswer(event)
        return []

    def _end(self, name: str, response: Json) -> list[Delta]:
        self.ended = True
        self._response = {"status": name, **response}
        if self._response["status"] in ("in_progress", "queued"):  # as it was at the beginning
            self._response["status"] = name
        return self._items.end(get_or_empty(response, "output", list))

    def _end_part(self, event: Json) -> list[Delta]:
        """The whole of a part of an item. Its text may not have come in any other event."""
        part = get_or_empty(event, "part", dict)
        kind = part.get("type")
        if kind == "summary_text":
            kind = "reasoning_summary_text"
        if kind not in KINDS:
            return []
        return self._items.end_text(kind, {**event, **part})

    def result(self) -> Json:
        return {**self._response, "output": self._items.whole()}
