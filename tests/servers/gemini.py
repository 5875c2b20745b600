"""The Gemini API (generateContent, streamed or not), as strict as Google documents it.

With `ids`, calls carry an id and a thought signature and both are checked when they come back, as
Gemini 3 does; without, neither is there, as before Gemini 3. Errors are in Google's words where
those are known.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pydantic
from google.genai import types

from tests.servers import Protocol, Reply, check, in_order, in_pieces, shown_tool, sse
from think_agent import Assistant, Force, Request, ToolCall, ToolResult, User
from think_agent.messages import Message, ToolChoice
from think_agent.tools import Tool

KEY = "AIza-good+key"
MODEL = "gemini-3.8-flash"
STREAM = "streamGenerateContent?alt=sse"
NOT_BY_THE_MODEL = "skip_thought_signature_validator"
CHOICES: dict[str, ToolChoice] = {
    "AUTO": "auto",
    "VALIDATED": "auto",
    "ANY": "required",
    "NONE": "none",
}
FINISH = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}


class Body(pydantic.BaseModel, extra="forbid"):
    """What a request may hold."""

    contents: list[types.Content]
    tools: list[types.Tool] = []
    toolConfig: types.ToolConfig | None = None
    systemInstruction: types.Content | None = None
    generationConfig: types.GenerationConfig | None = None


def error(status: int, message: str, code: str = "INVALID_ARGUMENT", details: Any = None) -> Reply:
    body: dict[str, Any] = {"code": status, "message": message, "status": code}
    if details:
        body["details"] = details
    return Reply(status, {"error": body})


@dataclass
class GeminiProtocol(Protocol):
    key: str = KEY
    models: Any = (MODEL,)
    ids: bool = True

    failure = sse({"error": {"code": 503, "message": "Later.", "status": "UNAVAILABLE"}})
    forced_refusal = "Function calling mode `ANY` is not enabled for api version v1"

    def accepts(self, path: str, headers: Any) -> Reply | None:
        key = headers.get("x-goog-api-key")
        if key is None:
            return error(403, "Method doesn't allow unregistered callers.", "PERMISSION_DENIED")
        if key != self.key:
            return error(400, "API key not valid. Please pass a valid API key.")
        name, _, method = path.removeprefix("/v1/models/").partition(":")
        if not self.knows(name) or method not in ("generateContent", STREAM):
            return error(404, f"models/{name} is not found for API version v1.", "NOT_FOUND")
        return None

    def is_stream(self, path: str, body: dict[str, Any]) -> bool:
        return path.endswith(STREAM)

    # The request.

    def decode(self, path: str, body: dict[str, Any]) -> Request:
        Body.model_validate(body)
        tools = [self._tool(tool) for tool in self._declarations(body)]
        config = body.get("generationConfig", {})
        as_json = config.get("responseMimeType") == "application/json"
        check(as_json or "responseJsonSchema" not in config, "responseJsonSchema needs a mime type")
        system = body.get("systemInstruction")
        return Request(
            in_order(self._messages(body["contents"])),
            tools,
            tool_choice=self._choice(body, {tool.name for tool in tools}),
            system=system["parts"][0]["text"] if system else "",
            output_schema=config.get("responseJsonSchema"),
        )

    def _declarations(self, body: dict[str, Any]) -> list[Any]:
        if "tools" not in body:
            check("toolConfig" not in body, "Function calling config is set without tools.")
            return []
        found = [item for tool in body["tools"] for item in tool.get("functionDeclarations", [])]
        check(found, "tools[0].tool_type: required one_of 'tool_type' must have one initialized")
        return found

    def _tool(self, declaration: dict[str, Any]) -> Tool:
        check(declaration.get("description"), "function_declarations[0].description is empty")
        # Google's own SDK sends the second spelling.
        schema = declaration.get("parametersJsonSchema") or declaration["parameters_json_schema"]
        return shown_tool(declaration["name"], declaration["description"], schema)

    def _choice(self, body: dict[str, Any], declared: set[str]) -> ToolChoice:
        config = body.get("toolConfig", {}).get("functionCallingConfig", {"mode": "AUTO"})
        names = config.get("allowedFunctionNames", [])
        check(set(names) <= declared, "allowed_function_names: not a declared function")
        check(not names or config["mode"] == "ANY", "allowed_function_names needs the mode ANY")
        if names:
            return Force(names[0])
        return CHOICES[config["mode"]]

    def _messages(self, contents: list[Any]) -> list[Message]:
        check(contents, "GenerateContentRequest.contents: contents is not specified")
        messages: list[Message] = []
        waiting: list[ToolCall] = []
        for content in contents:
            parts = content.get("parts")
            check(parts, "Unable to submit request because it must have a parts field")
            for part in parts:
                kinds = part.keys() - {"thought", "thoughtSignature"}
                check(len(kinds) == 1, "required oneof field 'data' must have one initialized")
            answers = [part for part in parts if "functionResponse" in part]
            if waiting or answers:
                check(waiting and answers, "function responses come right after function calls")
                messages += self._results(content, waiting)
                waiting = []
                continue
            match content.get("role"):
                case "user":
                    text = "".join(part["text"] for part in parts)
                    check(text, "Unable to submit request because it has an empty text parameter")
                    messages.append(User(text))
                case "model":
                    check(messages, "Please ensure that the first content is of the role user.")
                    reply = self._reply(parts, len(messages))
                    messages.append(reply)
                    waiting = list(reply.tool_calls)
                case _:
                    raise ValueError("Please use a valid role: user, model.")
        return messages

    def _reply(self, parts: list[Any], turn: int) -> Assistant:
        calls: list[ToolCall] = []
        for part in parts:
            if "functionCall" not in part:
                continue
            call = part["functionCall"]
            signature = part.get("thoughtSignature")
            if self.ids and not calls:
                check(signature, "Function call is missing a thought_signature.")
            if signature and signature != NOT_BY_THE_MODEL:
                # Bytes in JSON may come in either alphabet; Google's own SDK changes it.
                standard = signature.replace("-", "+").replace("_", "/")
                check(standard == self._sign(call), "Thought signature is not valid.")
            id = call.get("id") or f"{turn}.{len(calls)}"
            calls.append(ToolCall(id, call["name"], call["args"]))
        return Assistant(
            text="".join(part.get("text", "") for part in parts if not part.get("thought")),
            thinking="".join(part.get("text", "") for part in parts if part.get("thought")),
            tool_calls=tuple(calls),
        )

    def _results(self, content: dict[str, Any], calls: list[ToolCall]) -> list[Message]:
        check(content.get("role") == "user", "Please use the role user for function responses.")
        answers = [p["functionResponse"] for p in content["parts"] if "functionResponse" in p]
        equal = len(answers) == len(content["parts"]) == len(calls)
        check(equal, "there must be as many function response parts as function call parts")
        results: list[Message] = []
        for answer, call in zip(answers, calls, strict=True):
            check(answer["name"] == call.name, f"no function call of the name {answer['name']}")
            id = None if "." in call.id else call.id  # with a dot, it was made here
            check(answer.get("id") == id, f"{answer.get('id')} does not match its function call")
            [(key, text)] = answer["response"].items()
            check(key in ("output", "error"), "response must have output or error")
            results.append(ToolResult(call.id, call.name, text, is_error=key == "error"))
        return results

    # The reply.

    def encode(self, reply: Assistant, body: dict[str, Any]) -> Any:
        return self._response(reply, self._parts(reply, body), finishReason=self._finish(reply))

    def encode_stream(self, reply: Assistant, body: dict[str, Any]) -> Iterator[bytes]:
        for part in self._parts(reply, body):
            pieces = [part]
            if "text" in part:
                pieces = [{**part, "text": piece} for piece in in_pieces(part["text"])]
            for piece in pieces:
                yield self._chunk(reply, piece)
        yield self._chunk(reply, {"text": ""}, finishReason=self._finish(reply))

    def _chunk(self, reply: Assistant, part: dict[str, Any], **more: str) -> bytes:
        return f"data: {json.dumps(self._response(reply, [part], **more))}\r\n\r\n".encode()

    def _response(self, reply: Assistant, parts: list[Any], **more: str) -> dict[str, Any]:
        content: dict[str, Any] = {"role": "model", "parts": parts}
        if reply.stop_reason == "refusal" and not parts:
            content = {}
        usage = reply.usage
        counts = {
            "promptTokenCount": usage.input_tokens,
            "cachedContentTokenCount": usage.cached_tokens,
            "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
            "thoughtsTokenCount": usage.reasoning_tokens,
            "totalTokenCount": usage.input_tokens + usage.output_tokens,
        }
        return {
            "candidates": [{"content": content, "index": 0, **more}],
            "usageMetadata": {name: count for name, count in counts.items() if count},
            "modelVersion": reply.model or MODEL,
            "responseId": "r1",
        }

    def _finish(self, reply: Assistant) -> str:
        return FINISH.get(reply.stop_reason, "STOP")

    def _parts(self, reply: Assistant, body: dict[str, Any]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        if reply.stop_reason == "refusal":
            return parts
        if reply.thinking:
            parts.append({"text": reply.thinking, "thought": True})
        if reply.text:
            parts.append({"text": reply.text})
        for number, call in enumerate(reply.tool_calls):
            made: dict[str, Any] = {"name": call.name, "args": call.arguments}
            if self.ids:
                made["id"] = call.id or _digest([body["contents"], number]).hex()[:8]
            parts.append({"functionCall": made})
            if self.ids and number == 0:
                parts[-1]["thoughtSignature"] = self._sign(made)
        return parts

    def _sign(self, call: dict[str, Any]) -> str:
        return base64.b64encode(b"\xfb\xff\xbf" + _digest(call)).decode()  # begins with +/+/

    def refusal(self, message: str) -> Reply:
        return error(400, message)


def _digest(value: Any) -> bytes:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
