"""OpenAI's Responses API: what the official host speaks; a reply is a list of items.

Rule 1: nothing is kept at the host (`store` is false). Reasoning therefore comes encrypted, and its
        items go back verbatim and in their place, before the item they led to.
Rule 2: what a stream gives in `response.output_item.done` is what counts; earlier versions of an
        item may be incomplete.
"""

import re
from collections.abc import Sequence
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, User
from ..model import Request
from ..streaming import Delta
from . import common
from .common import arguments_of
from .pieces import CallReader

NAME = "openai"
PATH = "/responses"
STREAMED: Json = {"stream": True}
STOPPED = {"completed": "end_turn", "max_output_tokens": "max_tokens", "content_filter": "refusal"}
DONE = ("completed", None)  # the status of an item
# They answer 400 "Encrypted content is not supported with this model" to the `include` below.
NO_REASONING = re.compile(r"(ft:)?(chatgpt|gpt-3|gpt-4)")


def to_wire(request: Request, model: str, settings: common.Settings, *, strict: bool) -> Json:
    """The body of a request."""
    sent = common.sendable(request.messages, NAME, calls_in=_calls_in)
    body: Json = {"model": model, "input": _input(sent), "store": False}
    body |= settings.named(max_output_tokens="max_output_tokens", temperature="temperature")
    if settings.reasoning == "off":
        body["reasoning"] = {"effort": "none"}
    elif settings.reasoning:  # without `summary` none of it is shown
        body["reasoning"] = {"effort": settings.reasoning, "summary": "auto"}
    if not NO_REASONING.match(model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        # `strict`, left out, would be true, and refuse every optional parameter.
        declared = [common.openai_function(tool, strict) for tool in request.tools]
        body["tools"] = [{"type": "function", **one, "strict": "strict" in one} for one in declared]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None:
        schema = {"name": "answer", "schema": request.output_schema, "strict": True}
        body["text"] = {"format": {"type": "json_schema", **schema}}
    return body


def _input(messages: Sequence[Spoken]) -> list[Json]:
    items: list[Json] = []
    for message in messages:
        if isinstance(message, ToolResult):
            id, content = message.call_id, message.content
            items.append({"type": "function_call_output", "call_id": id, "output": content})
        elif isinstance(message, User):
            items.append({"role": "user", "content": message.text})
        elif isinstance(message.native, list):
            called = iter(message.tool_calls)
            for item in message.native:
                if item.get("type") == "function_call":
                    call = next(called)
                    arguments = common.arguments_text(call, item.get("arguments"))
                    item = {**item, "call_id": call.id, "arguments": arguments}
                items.append(item)
            while items and items[-1].get("type") == "reasoning":
                items.pop()  # it is refused without the item it led to
        else:
            items += [{"role": "assistant", "content": message.text}] if message.text else []
            for call in message.tool_calls:
                item = {"type": "function_call", "name": call.name, "call_id": call.id}
                items.append({**item, "arguments": common.arguments_text(call)})
    return items


def _calls_in(native: Any) -> list[Json]:
    return [item for item in native if item.get("type") == "function_call"]


def _choice(choice: ToolChoice) -> Any:
    return {"type": "function", "name": choice.name} if isinstance(choice, Force) else choice


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in a response; `model` is the one asked, in case none is named."""
    items = response["output"]
    said = [item for item in items if item["type"] == "message"]
    asides = [item["content"] for item in said if item.get("phase") == "commentary"]
    parts = [p for item in said if item.get("phase") != "commentary" for p in item["content"]]
    reasoning = [item for item in items if item["type"] == "reasoning"]
    shown = [p for i in reasoning for key in ("summary", "content") for p in i.get(key) or ()]
    calls = tuple(
        ToolCall(item.get("call_id") or "", item["name"], arguments_of(item.get("arguments")))
        for item in _calls_in(items)
    )
    reason = response.get("status")
    cut = (response.get("incomplete_details") or {}).get("reason")
    unfinished = [item["status"] for item in items if item.get("status") not in DONE]
    if cut or reason == "incomplete":
        reason = cut
    elif unfinished and reason == "completed":
        reason = f"an item is {unfinished[0]}"
    elif any(part["type"] == "refusal" for part in parts):
        reason = "content_filter"
    return Assistant(
        text=_text(parts),
        commentary="\n\n".join(map(_text, asides)),
        thinking="\n\n".join(part["text"] for part in shown),
        tool_calls=calls,
        **common.ended(reason, STOPPED, calls),
        usage=common.openai_usage(response.get("usage"), "input", "output"),
        model=response.get("model") or model,
        provider=NAME,
        native=items,
        signed=any(item.get("encrypted_content") for item in items),
    )


def _text(parts: list[Json]) -> str:
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts)


class Fold:
    """Collects the events of a stream into the response."""

    def __init__(self) -> None:
        self.ended = False
        self._response: Json = {}
        self._items: list[Json] = []  # those that are done
        self._readers: dict[int, CallReader] = {}
        self._item: Json = {}  # the one that is under way
        self._texts: list[str] = []  # of it
        self._commented = False  # in an item before it

    def feed(self, event: Json) -> list[Delta]:
        match event["type"]:
            case "response.output_item.added":
                self._item = event["item"]
                if self._item["type"] == "function_call":
                    reader = CallReader(self._item["name"], len(self._readers))
                    self._readers[event["output_index"]] = reader
                    return reader.feed("")
            case "response.output_text.delta" | "response.refusal.delta":
                self._texts.append(event["delta"])
                if self._item.get("phase") != "commentary":
                    return [Delta("answer", event["delta"])]
                gap = "\n\n" if self._commented and len(self._texts) == 1 else ""
                return [Delta("commentary", gap + event["delta"])]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [Delta("thinking", event["delta"])]
            case "response.function_call_arguments.delta":
                return self._readers[event["output_index"]].feed(event["delta"])
            case "response.output_item.done":
                self._items.append(event["item"])
                self._commented = self._commented or event["item"].get("phase") == "commentary"
                self._item, self._texts = {}, []
            case "response.completed" | "response.incomplete" | "response.failed":
                self.ended = True
                status, own = {"status": event["type"].removeprefix("response.")}, event["response"]
                self._response = status | own if "completed" in event["type"] else own | status
            case "error":
                raise common.ErrorAnswer(event.get("error") or event)
        return []

    def result(self) -> Json:
        if not self.ended:
            text = {"type": "output_text", "text": "".join(self._texts)}
            said = {"type": "message", "phase": self._item.get("phase"), "content": [text]}
            return {"output": [*self._items, said]}
        done, whole = self._items, self._response.get("output") or []
        items = done if len(done) >= len(whole) else whole
        agree = not (done and whole) or _made(done) == _made(whole)
        ready = all(item.get("status") in DONE for item in whole)
        if agree and ready and len(self._readers) <= len(_made(items)):
            return {**self._response, "output": items}
        contradiction = {"reason": "its parts contradict each other"}
        why = self._response.get("incomplete_details") or contradiction
        return {**self._response, "output": items, "incomplete_details": why}


def _made(items: list[Json]) -> list[Any]:
    """What is called in these items: the same calls, whatever the items are called."""
    return [(call.get("call_id"), call["name"], call["arguments"]) for call in _calls_in(items)]
