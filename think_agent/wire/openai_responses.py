"""OpenAI's Responses API: what the official host speaks; a reply is a list of items.

Rule 1: nothing is kept at the host (`store` is false). Reasoning therefore comes encrypted, and its
        items go back verbatim and in their place, before the item they led to.
Rule 2: what a stream gives in `response.output_item.done` is what counts; earlier versions of an
        item may be incomplete.
"""

import re
from collections.abc import Iterator
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, User
from ..model import Request
from ..streaming import Delta
from . import common
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
    body: Json = {
        "model": model,
        "input": [item for message in sent for item in _items(message)],
        "store": False,
    }
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
        body["tools"] = [{"type": "function", **function} for function in declared]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None:
        schema = {"name": "answer", "schema": request.output_schema, "strict": True}
        body["text"] = {"format": {"type": "json_schema", **schema}}
    return body


def _items(message: Spoken) -> list[Json]:
    match message:
        case User(text=text):
            return [{"role": "user", "content": text}]
        case ToolResult(call_id=call_id, content=content):
            return [{"type": "function_call_output", "call_id": call_id, "output": content}]
        case Assistant(native=list() as items, tool_calls=calls):
            return _replayed(items, iter(calls))
        case Assistant(text=text, tool_calls=calls):
            made = [_call(call, {"type": "function_call", "name": call.name}) for call in calls]
            return [{"role": "assistant", "content": text}, *made] if text else made


def _calls_in(native: Any) -> list[Json]:
    return [item for item in native if item.get("type") == "function_call"]


def _replayed(items: list[Json], calls: Iterator[ToolCall]) -> list[Json]:
    replayed = [
        _call(next(calls), item) if item.get("type") == "function_call" else item for item in items
    ]
    while replayed and replayed[-1].get("type") == "reasoning":
        replayed.pop()  # cut off before the item it led to; refused without that
    return replayed


def _call(call: ToolCall, before: Json) -> Json:
    return {
        **before,
        "call_id": call.id,
        "arguments": common.arguments_text(call, before.get("arguments")),
    }


def _choice(choice: ToolChoice) -> Any:
    return {"type": "function", "name": choice.name} if isinstance(choice, Force) else choice


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in a response; `model` is the one asked, in case none is named."""
    parts: list[Json] = []
    commentary: list[str] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    for item in response["output"]:
        match item["type"]:
            case "message" if item.get("phase") == "commentary":
                commentary.append(_text(item["content"]))
            case "message":
                parts += item["content"]
            case "reasoning":
                shown = (*(item.get("summary") or ()), *(item.get("content") or ()))
                thinking += [part["text"] for part in shown]
            case "function_call":
                arguments = common.arguments_of(item.get("arguments"))
                calls.append(ToolCall(item.get("call_id") or "", item["name"], arguments))
    reason = response.get("status")
    cut = (response.get("incomplete_details") or {}).get("reason")
    unfinished = [i["status"] for i in response["output"] if i.get("status") not in DONE]
    if cut or reason == "incomplete":
        reason = cut
    elif unfinished and reason == "completed":
        reason = f"an item is {unfinished[0]}"
    elif any(part["type"] == "refusal" for part in parts):
        reason = "content_filter"
    return Assistant(
        text=_text(parts),
        commentary="\n\n".join(commentary),
        thinking="\n\n".join(thinking),
        tool_calls=tuple(calls),
        **common.ended(reason, STOPPED, calls),
        usage=common.openai_usage(response.get("usage"), "input", "output"),
        model=response.get("model") or model,
        provider=NAME,
        native=response["output"],
        signed=any(item.get("encrypted_content") for item in response["output"]),
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
        self._phases: dict[int, str | None] = {}  # of the messages, by their index
        self._commented: int | None = None  # the last commentary
        self._unfinished: list[str] = []  # the text of the item that is under way

    def feed(self, event: Json) -> list[Delta]:
        match event["type"]:
            case "response.output_text.delta" | "response.refusal.delta":
                self._unfinished.append(event["delta"])
                return self._said(event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [Delta("thinking", event["delta"])]
            case "response.output_item.added" if event["item"]["type"] == "message":
                self._phases[event["output_index"]] = event["item"].get("phase")
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                reader = CallReader(event["item"]["name"], len(self._readers))
                self._readers[event["output_index"]] = reader
                return reader.feed("")
            case "response.function_call_arguments.delta":
                return self._readers[event["output_index"]].feed(event["delta"])
            case "response.output_item.done":
                self._items.append(event["item"])
                self._unfinished.clear()
            case "response.completed" | "response.incomplete" | "response.failed":
                self.ended = True
                status, own = {"status": event["type"].removeprefix("response.")}, event["response"]
                self._response = status | own if "completed" in event["type"] else own | status
            case "error":
                raise common.ErrorAnswer(event.get("error") or event)
        return []

    def _said(self, event: Json) -> list[Delta]:
        index = event.get("output_index", 0)
        if self._phases.get(index) != "commentary":
            return [Delta("answer", event["delta"])]
        gap = [] if self._commented in (None, index) else [Delta("commentary", "\n\n")]
        self._commented = index
        return [*gap, Delta("commentary", event["delta"])]

    def result(self) -> Json:
        if not self.ended:
            text = {"type": "output_text", "text": "".join(self._unfinished)}
            phase = self._phases.get(max(self._phases, default=0))
            unfinished = {"type": "message", "phase": phase, "content": [text]}
            return {"output": [*self._items, unfinished]}
        done, whole = self._items, self._response.get("output") or []
        items = done if len(done) >= len(whole) else whole
        agree = not (done and whole) or _made(done) == _made(whole)
        ready = all(item.get("status") in DONE for item in whole)
        if agree and ready and len(self._readers) <= len(_made(items)):
            return {**self._response, "output": items}
        own = self._response.get("incomplete_details")
        why = own or {"reason": "its parts contradict each other"}
        return {**self._response, "output": items, "incomplete_details": why}


def _made(items: list[Json]) -> list[Any]:
    """What is called in these items: the same calls, whatever the items are called."""
    return [(call.get("call_id"), call["name"], call["arguments"]) for call in _calls_in(items)]
