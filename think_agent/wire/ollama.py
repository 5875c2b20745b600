"""Ollama's native API, `/api/chat`.

Rule 1: Ollama knows no tool choice, so none is ever sent. Forcing becomes a matter of the prompt,
        and the final call, the one without tools, leaves the tools out.
Rule 2: an output schema is sent only when there are no tools: under a grammar a model cannot call
        one.

The edge: the library's template of qwen2.5 shows, of a message with text and calls, the text alone.
Two messages in its place do not help: Ollama's renderer joins them, and the calls are lost as well
(rendered with its own Go package `template`, v0.17.4, 2026-11-22). So history goes out as it was.
"""

from collections.abc import Iterable
from operator import itemgetter

from ..messages import Assistant, Json, Spoken, ToolCall, ToolResult, Usage, User
from ..model import Request
from ..streaming import Delta, whole_call
from ..tools import Tool
from .common import Settings, count, ended, function_calls, functions_in, read_history, sendable

NAME = "ollama"
PATH = "/api/chat"
# Older servers give no reason: it is done.
REASONS = {"stop": "end_turn", "": "end_turn", "length": "max_tokens"}
STOPPED = "the server stopped in the middle of the reply, mostly because the model repeated itself"


def to_wire(
    request: Request,
    model: str,
    settings: Settings,
    *,
    num_ctx: int,
    think: bool | str | None = None,
    keep_alive: float | str | None = None,
) -> Json:
    """The body of a request."""
    messages = list(map(_message, sendable(request.messages, NAME, calls_in=functions_in)))
    if request.system:  # as a message: a `system` field would be dropped in silence
        messages.insert(0, {"role": "system", "content": request.system})
    named = settings.named(max_output_tokens="num_predict", temperature="temperature", seed="seed")
    options: Json = {"num_ctx": num_ctx, **named}
    body: Json = {"model": model, "messages": messages, "options": options}
    if request.tools:
        body["tools"] = list(map(_tool, request.tools))
    elif request.output_schema is not None:
        body["format"] = request.output_schema
    if think is None and settings.reasoning:
        think = settings.reasoning != "off" and settings.reasoning
    if think is not None:
        body["think"] = think
    if keep_alive is not None:
        body["keep_alive"] = keep_alive
    return body


def _message(message: Spoken) -> Json:
    match message:
        case User(text=text):
            return {"role": "user", "content": text}
        case Assistant(native=dict() as native, tool_calls=calls):
            if not calls:
                return native
            wires = native["tool_calls"]  # an older server gives no ids; a result names one
            return {**native, "tool_calls": list(map(_call, calls, wires))}
        case Assistant(text=text, tool_calls=calls):
            wire: Json = {"role": "assistant", "content": text}
            if calls:
                wire["tool_calls"] = list(map(_call, calls))
            return wire
        case ToolResult(call_id=id, name=name, content=content):
            return {"role": "tool", "tool_call_id": id, "tool_name": name, "content": content}


def _call(call: ToolCall, before: Json | None = None) -> Json:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}  # text is refused
    function = {"name": call.name, "arguments": arguments}
    if before is None:
        return {"id": call.id, "function": function}
    return {**before, "id": call.id, "function": {**before["function"], **function}}


def _tool(tool: Tool) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in the JSON of a chat response; `model` is the one asked, in case none is named."""
    message = response["message"]
    calls = function_calls(message)
    reason = response.get("done_reason") or ""
    end = ended(reason, REASONS, calls)
    if response.get("done") is not True and reason != "length":
        end = {"stop_reason": "incomplete", "cause": STOPPED}
    said = (message.get("content") or "").strip() or calls
    if end["stop_reason"] == "end_turn" and not said and count(response, "eval_count") > 1:
        # A call that the server's parser has swallowed; 1: nothing was said.
        end = {"stop_reason": "malformed"}
    return Assistant(
        text=message.get("content") or "",
        thinking=message.get("thinking") or "",
        tool_calls=calls,
        **end,
        usage=Usage(count(response, "prompt_eval_count"), count(response, "eval_count")),
        model=response.get("model") or model,
        provider=NAME,
        native={"role": "assistant", "content": "", **dict(filter(itemgetter(1), message.items()))},
    )


def from_history(wire: Iterable[Json]) -> list[Spoken]:
    """The messages of a history in this protocol (`read_history`): the inverse of `to_wire`."""
    encode = lambda messages: list(map(_message, messages))  # noqa: E731
    return read_history(wire, str, lambda said: from_wire({"message": said, "done": True}), encode)


class Fold:
    """Stream chunks into one chat response. Text and thinking come in pieces, calls come whole."""

    def __init__(self) -> None:
        self._thinking: list[str] = []
        self._content: list[str] = []
        self._calls: list[Json] = []
        self.ended = False
        self._last: Json = {"message": {"role": "assistant"}}

    def feed(self, event: Json) -> list[Delta]:
        deltas = []
        message = event["message"]
        if thinking := message.get("thinking"):
            self._thinking.append(thinking)
            deltas.append(Delta("thinking", thinking))
        if content := message.get("content"):
            self._content.append(content)
            deltas.append(Delta("answer", content))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = function.get("arguments") or {}
            deltas += whole_call(function["name"], arguments, len(self._calls))
            self._calls.append(call)
        self._last = event
        self.ended = event.get("done") is True
        return deltas

    def result(self) -> Json:
        message = {
            "role": self._last["message"]["role"],
            "content": "".join(self._content),
            "thinking": "".join(self._thinking),
            "tool_calls": self._calls,
        }
        return {**self._last, "message": message}
