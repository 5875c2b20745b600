"""Ollama's native API (`/api/chat`, `/api/show`, `/api/ps`), stricter than the real one.

Where the real server silently drops or ignores what it does not understand, this one answers 400:
a request that means something else to the server than to its sender is a bug.

With a `Template` it shows its model what the chat template of a real family would show (PROVIDERS,
14.1: measured on a real server), counts the tokens of that as the real one does, and cuts a prompt
that is longer than the window, unless a request says not to.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from tests.servers import Protocol, Reply, check, in_order, in_pieces, shown_tool
from think_agent import Assistant, Force, Message, Request, Tool, ToolCall, ToolResult, Usage, User
from think_agent.messages import THINK_NAME, ToolChoice, to_json

ALL = ("completion", "tools", "thinking")
FIELDS = {"model", "messages", "tools", "stream", "format", "options", "think", "keep_alive"}
FIELDS |= {"truncate", "shift", "_debug_render_only"}
TEXT = {"type": "string"}
MESSAGE_FIELDS = {
    "user": {"role", "content"},
    "assistant": {"role", "content", "thinking", "tool_calls"},
    "tool": {"role", "content", "tool_name", "tool_call_id"},
}


@dataclass(frozen=True)
class Template:
    """What a chat template shows of a request, and what it refuses. `source`: its text in
    `/api/show`.
    """

    source: str = "{{ .Content }}{{ if .ToolCalls }}{{ .ToolCalls }}{{ end }}"
    hides_tools: bool = False  # except next to the newest user message
    hides_system: bool = False  # likewise
    text_hides_calls: bool = False  # of the same message
    hides_calls: bool = False  # always
    one_call: bool = False  # in a message
    nine: bool = False  # letters and digits in an id
    thinks: str = (
        ""  # where a prompt says whether to think: at its "end", or in the "system" prompt
    )

    def shown(self, request: Request) -> Request:
        """What the model gets to see."""
        messages = [self.without_hidden_calls(message) for message in request.messages]
        request = replace(request, messages=messages)
        if isinstance(messages[-1], ToolResult):
            system = "" if self.hides_system else request.system
            tools = () if self.hides_tools else request.tools
            return replace(request, system=system, tools=tools)
        return request

    def without_hidden_calls(self, message: Message) -> Message:
        if not isinstance(message, Assistant):
            return message
        if self.hides_calls or (self.text_hides_calls and message.text):
            return replace(message, tool_calls=())
        return message

    def check(self, messages: Sequence[Message]) -> None:
        for message in messages:
            calls = message.tool_calls if isinstance(message, Assistant) else ()
            single = len(calls) < 2 or not self.one_call
            check(single, "This model only supports single tool-calls at once!")
            ids = not self.nine or all(re.fullmatch("[a-zA-Z0-9]{9}", call.id) for call in calls)
            check(ids, "Tool call IDs should be alphanumeric strings with length 9!")


TEXT_OR_CALLS = (
    "{{- if .Content }}{{ .Content }}{{- else if .ToolCalls }}{{ .ToolCalls }}{{- end }}"
)
TEMPLATES = {
    "qwen3.5": Template(),
    "qwen2.5": Template(TEXT_OR_CALLS, text_hides_calls=True),
    "llama3.1": Template(hides_tools=True),
    "mistral": Template(TEXT_OR_CALLS, hides_tools=True, hides_system=True, text_hides_calls=True),
    "llama3.1 in Jinja": Template("", one_call=True),
    "mistral-small3.2 in Jinja": Template("", nine=True),
}


def tokens_of(request: Request) -> int:
    """The tokens of a prompt, about as a tokenizer counts them: its words and its signs."""
    tools = [(tool.name, tool.description, tool.parameters) for tool in request.tools]
    text = json.dumps([request.system, tools, *map(to_json, request.messages)])
    return len(re.findall(r"\w+|[^\w\s]", text))


@dataclass
class OllamaServer(Protocol):
    """`capabilities`: what `/api/show` says of a model, of all or by the model's name; None: there
    is no such endpoint. `template`: None shows everything and counts nothing. `made`: the window
    of the Modelfile; `longest`: that of the model; `loaded`: the models that `/api/ps` lists, with
    their windows, on the CPU, or `on_gpu`. `shown`: the models that `/api/show` was asked for.
    """

    stream_type = "application/x-ndjson"
    wants_no_shift = True  # the SDK's own `chat` cannot say it
    failure = b'{"error": "Server overloaded, retry"}\n'
    forced_refusal = json.dumps(  # as 0.34.4 passes it on from its engine
        {
            "error": {
                "code": 400,
                "message": "Failed to initialize samplers: failed to parse grammar",
                "type": "invalid_request_error",
            }
        }
    )

    capabilities: Any = ALL
    template: Template | None = None
    family: str = "qwen35"
    made: int | None = None
    longest: int = 262144
    loaded: dict[str, int] = field(default_factory=dict)
    on_gpu: bool = False
    renders: bool = True
    shown: list[str] = field(default_factory=list)

    def can(self, model: str) -> tuple[str, ...]:
        can = self.capabilities or ()
        return can[model] if isinstance(can, dict) else can

    def accepts(self, path: str, headers: Any) -> Reply | None:
        if path != "/api/chat":
            return Reply(404, "404 page not found", content_type="text/plain")
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return Reply(401, {"error": "unauthorized"})
        return None

    def other(self, method: str, path: str, body: Any) -> Reply | None:
        path = urlsplit(path).path  # of a proxy it is the whole address
        match method, path:
            case "GET", "/api/tags":
                return Reply(body={"models": [{"model": name} for name in self.models or ()]})
            case "GET", "/api/ps":
                size = 5_000_000_000 * self.on_gpu
                loaded = [
                    {"model": model, "context_length": window, "size_vram": size}
                    for model, window in self.loaded.items()
                ]
                return Reply(body={"models": loaded})
            case "POST", "/api/show":
                return self.about(body["model"])
        if path == "/api/chat" and self.renders and body.get("_debug_render_only"):
            return self.shown_prompt(body)
        return None

    def about(self, model: str) -> Reply:
        """The answer of `/api/show`."""
        self.shown.append(model)
        if self.capabilities is None:
            return Reply(404, "404 page not found", content_type="text/plain")
        if not self.knows(model):
            return Reply(404, {"error": f"model '{model}' not found"})
        return Reply(
            body={
                "capabilities": list(self.can(model)),
                "details": {"family": self.family},
                "model_info": {f"{self.family}.context_length": self.longest},
                "parameters": f"{'num_ctx':30} {self.made}" if self.made else "temperature 0.7",
                "template": self.template.source if self.template else "",
            }
        )

    def shown_prompt(self, body: dict[str, Any]) -> Reply:
        """The prompt that the template makes of a request. The model is not asked."""
        try:
            shown = self.decode("/api/chat", body)
        except ValueError as error:
            return self.refusal(str(error))
        messages = [to_json(message) for message in shown.messages]
        tools = [(tool.name, tool.description) for tool in shown.tools]
        asked = {"system": "", "end": ""}
        if self.template and self.template.thinks:
            asked[self.template.thinks] = "no thinking" if body.get("think") is False else "think"
        system = shown.system + asked["system"]
        prompt = json.dumps([system, tools, messages]) + asked["end"]
        message = {"role": "", "content": ""}
        debug = {"rendered_template": prompt}
        return Reply(body={**_head(body), "message": message, "done": False, "_debug_info": debug})

    def decode(self, path: str, body: dict[str, Any]) -> Request:
        name = body["model"]
        check(self.knows(name), f'model "{name}" not found, try pulling it first')
        can = self.can(name)
        plain = can and body.get("tools") and "tools" not in can
        check(not plain, f"registry.ollama.ai/library/{name} does not support tools")
        thinks = "thinking" in can or not body.get("think")
        check(thinks, f'"{name}" does not support thinking')
        check(not body.keys() - FIELDS, f"unknown fields {body.keys() - FIELDS}")
        check(isinstance(body["options"]["num_ctx"], int), "num_ctx is no number")
        if self.wants_no_shift:
            check(body.get("shift") is False, "the head of a prompt may be dropped")
        wire = list(body["messages"])
        system = wire.pop(0)["content"] if wire and wire[0]["role"] == "system" else ""
        tools = tuple(_tool(tool) for tool in body.get("tools") or ())
        choice: ToolChoice = "auto"
        schema = body.get("format")
        if schema and tools:  # a form beside tools does what a tool choice does elsewhere
            choice = Force(THINK_NAME) if _is_thought(schema) else "none"
        if schema == TEXT or choice == Force(THINK_NAME):
            schema = None  # no form of an answer
        request = Request(
            in_order(_messages(wire)),
            tools,
            tool_choice=choice,
            system=system,
            output_schema=schema,
        )
        return self.rendered(request, body)

    def ignoring(self, body: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in body.items() if key != "format"}

    def rendered(self, request: Request, body: dict[str, Any]) -> Request:
        """What the model gets to see of a request."""
        if self.template is None:
            return request
        self.template.check(request.messages)
        shown = self.template.shown(request)
        window = min(body["options"]["num_ctx"], self.longest)
        fits = body.get("truncate", True) or tokens_of(shown) <= window
        said = f"request ({tokens_of(shown)} tokens) exceeds the available context size"
        check(fits, f"{said} ({window} tokens), try increasing it")
        while tokens_of(shown) > window and len(shown.messages) > 1:
            shown = replace(shown, messages=shown.messages[1:])
        self.tokens = tokens_of(shown)
        return shown

    def cut(self, reply: Assistant, body: dict[str, Any]) -> Assistant:
        """`reply`, in the form that was asked for and cut at its bound, with the counts of a real
        server.
        """
        reply = _in_form(reply, body)
        if self.template is None:
            return reply
        words = re.findall(r"\s*\S+", f"{reply.text}{reply.tool_calls or ''}")
        most = body["options"]["num_predict"]
        usage = Usage(self.tokens, min(len(words), most))
        if len(words) > most:
            text = "".join(words[:most])
            reply = replace(reply, text=text, tool_calls=(), stop_reason="max_tokens")
        return replace(reply, usage=usage)

    def is_stream(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream", True))

    def encode(self, reply: Assistant, body: dict[str, Any]) -> Any:
        reply = self.cut(reply, body)
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.thinking:
            message["thinking"] = reply.thinking
        if reply.tool_calls:
            calls = enumerate(reply.tool_calls, _calls(body))
            message["tool_calls"] = [_call(index, call) for index, call in calls]
        return {**_head(body), "message": message, **_tail(reply)}

    def encode_stream(self, reply: Assistant, body: dict[str, Any]) -> Iterator[bytes]:
        reply = self.cut(reply, body)
        for piece in in_pieces(reply.thinking):
            yield _line(body, {"content": "", "thinking": piece})
        for piece in in_pieces(reply.text):
            yield _line(body, {"content": piece})
        for index, call in enumerate(reply.tool_calls, _calls(body)):  # each whole, one a line
            yield _line(body, {"content": "", "tool_calls": [_call(index, call)]})
        yield _line(body, {"content": ""}, **_tail(reply))

    def refusal(self, message: str) -> Reply:
        return Reply(404 if "try pulling" in message else 400, {"error": message})


def _is_thought(schema: dict[str, Any]) -> bool:
    names = list(schema.get("properties", {}))
    return names in (["thought"], ["thought", "should_continue"])


def _in_form(reply: Assistant, body: dict[str, Any]) -> Assistant:
    """`reply` as the grammar has it written. A forced thought that is none stays as it is: from a
    model for which the server ignores the grammar.
    """
    schema = body.get("format")
    if not (schema and body.get("tools")):
        return reply
    if not _is_thought(schema):
        text = json.dumps(reply.text) if schema == TEXT else reply.text
        return replace(reply, text=text, tool_calls=())
    for call in reply.tool_calls:
        if call.name == THINK_NAME:
            assert isinstance(call.arguments, dict)
            given = {name: call.arguments[name] for name in schema["properties"]}
            return replace(reply, text=json.dumps(given), tool_calls=())
    return reply


def _messages(wire: list[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    waiting: list[ToolCall] = []
    for number, item in enumerate(wire):
        role = item["role"]
        check(role in MESSAGE_FIELDS, f"role {role} in message {number}")
        extra = item.keys() - MESSAGE_FIELDS[role]
        check(not extra, f"unknown fields {extra} in message {number}")
        content = item.get("content", "")
        check(isinstance(content, str), f"message {number} has content that is no text")
        said = content or item.get("tool_calls") or role == "tool"
        check(said, f"message {number} is empty")
        match role:
            case "user":
                messages.append(User(content))
            case "tool":
                check(waiting, f"message {number} answers no call")
                call = waiting.pop(0)
                check(item.get("tool_name") == call.name, f"message {number}: not {call.name}")
                answers = item.get("tool_call_id", call.id)
                check(answers == call.id, f"message {number} is not for {call.id}")
                messages.append(ToolResult(call.id, call.name, item["content"]))
            case "assistant":
                calls = enumerate(item.get("tool_calls") or ())
                waiting = [_read_call(f"sent_{number}_{index}", call) for index, call in calls]
                messages.append(Assistant(content, item.get("thinking", ""), tuple(waiting)))
    return messages


def _read_call(call_id: str, wire: dict[str, Any]) -> ToolCall:
    function = wire["function"]
    check(isinstance(function["arguments"], dict), "arguments must be an object")
    return ToolCall(wire.get("id") or call_id, function["name"], function["arguments"])


def _tool(wire: dict[str, Any]) -> Tool:
    check(wire.keys() == {"type", "function"} and wire["type"] == "function", "no function tool")
    function = wire["function"]
    check(function.keys() == {"name", "description", "parameters"}, "malformed function")
    parameters = function["parameters"]
    check(set(parameters.get("required", ())) <= set(parameters["properties"]), "required")
    return shown_tool(**function)


def _calls(body: dict[str, Any]) -> int:
    """How many calls there are in the conversation: the next one's number, which makes its id."""
    return sum(len(message.get("tool_calls") or ()) for message in body.get("messages", ()))


def _head(body: dict[str, Any]) -> dict[str, Any]:
    return {"model": body["model"], "created_at": "2026-11-21T12:00:00Z"}


def _tail(reply: Assistant) -> dict[str, Any]:
    used = reply.usage
    counts = {"prompt_eval_count": used.input_tokens, "eval_count": used.output_tokens}
    return {
        "done": True,
        "done_reason": "length" if reply.stop_reason == "max_tokens" else "stop",
        "total_duration": 1000,
        **{name: count for name, count in counts.items() if count},  # zeros are left out
    }


def _line(body: dict[str, Any], message: dict[str, Any], **tail: Any) -> bytes:
    message = {"role": "assistant", **message}
    line = {**_head(body), "message": message, "done": False, **tail}
    return json.dumps(line).encode() + b"\n"


def _call(index: int, call: ToolCall) -> dict[str, Any]:
    function = {"index": index, "name": call.name, "arguments": call.arguments}
    return {"id": call.id or f"call_{index:08d}", "function": function}
