"""A local server that speaks OpenAI's Chat Completions, with reasoning as DeepSeek shows it.

It remembers the reasoning of replies with calls and wants it back, as DeepSeek does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from tests.servers import check, in_pieces, sse, text_of
from tests.servers.openai import OpenAIProtocol, arguments_of, usage
from think_agent import Assistant, ToolCall, ToolResult, User
from think_agent.messages import Json, Message

REASONING_LOST = "The `reasoning_content` in the thinking mode must be passed back to the API."


@dataclass
class Chat(OpenAIProtocol):
    reasoning: dict[str, str] = field(default_factory=dict)
    """By the id of the first call of the reply."""

    path = "/chat/completions"
    body_type = CompletionCreateParamsBase
    failure = sse({"error": {"message": "Boom", "type": "server_error", "code": 500}})
    forced_refusal = "Thinking mode does not support this tool_choice"

    def typed(self, body: Json) -> Json:
        """The type has no key for reasoning; the hosts that show it have added theirs."""
        messages = []
        for message in body.get("messages", ()):
            own = {key: value for key, value in message.items() if "reasoning" not in key}
            messages.append(own)
        return {**super().typed(body), "messages": messages}

    def schema(self, body: Json) -> Json | None:
        return body.get("response_format", {}).get("json_schema", {}).get("schema")

    def messages(self, body: Json) -> tuple[str, list[Message]]:
        whole = not body.get("stream")
        check(not (whole and "stream_options" in body), "'stream_options' is for streams only.")
        system = ""
        messages: list[Message] = []
        names: dict[str, str] = {}
        for index, item in enumerate(body["messages"]):
            match item["role"]:
                case "system":
                    check(index == 0, "System message must be at the beginning.")
                    system = item["content"]
                case "user":
                    messages.append(User(item["content"]))
                case "tool":
                    id = item["tool_call_id"]
                    messages.append(ToolResult(id, names.get(id, ""), item["content"]))
                case "assistant":
                    reply = self.assistant(item, index)
                    messages.append(reply)
                    names |= {call.id: call.name for call in reply.tool_calls}
                case role:
                    raise ValueError(f"Invalid value: '{role}'.")
        return system, messages

    def assistant(self, item: Json, index: int) -> Assistant:
        check(item.get("tool_calls") != [], f"[] is too short - 'messages.{index}.tool_calls'")
        functions = [(call["id"], call["function"]) for call in item.get("tool_calls", ())]
        calls = tuple(ToolCall(id, f["name"], arguments_of(f["arguments"])) for id, f in functions)
        text = item.get("content") or item.get("refusal") or ""
        check(text or calls, "Invalid value for 'content': expected a string, got null.")
        thinking = item.get("reasoning_content", "")
        check(not calls or thinking == self.reasoning.get(calls[0].id, ""), REASONING_LOST)
        return Assistant(text, thinking, calls)

    def encode(self, reply: Assistant, body: Json) -> Json:
        message: Json = {"role": "assistant", "content": reply.text or None, "annotations": []}
        if reply.stop_reason == "refusal":
            message |= {"content": None, "refusal": reply.text}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if calls := self.calls(reply, body):
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply, body)}
        used = usage(reply, "prompt", "completion")
        return {**head(body, "chat.completion"), "choices": [choice], "usage": used}

    def encode_stream(self, reply: Assistant, body: Json) -> Iterator[bytes]:
        def chunk(delta: Json, finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return sse({**head(body, "chat.completion.chunk"), "choices": [choice], "usage": None})

        yield chunk({"role": "assistant", "content": "" if reply.text else None, "refusal": None})
        for piece in in_pieces(reply.thinking):
            yield chunk({"reasoning_content": piece})
        for piece in in_pieces(reply.text):
            yield chunk({"refusal" if reply.stop_reason == "refusal" else "content": piece})
        for index, call in enumerate(self.calls(reply, body)):
            function = call["function"]
            first = {**call, "index": index, "function": {**function, "arguments": ""}}
            yield chunk({"tool_calls": [first]})
            for piece in in_pieces(function["arguments"]):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, finish_reason(reply, body))
        if body.get("stream_options", {}).get("include_usage"):
            used = usage(reply, "prompt", "completion")
            yield sse({**head(body, "chat.completion.chunk"), "choices": [], "usage": used})
        yield sse("[DONE]")

    def calls(self, reply: Assistant, body: Json) -> list[Json]:
        earlier = sum(len(message.get("tool_calls", ())) for message in body["messages"])
        calls = [
            {
                "id": call.id or f"call_chat{earlier + index}",
                "type": "function",
                "function": {"name": call.name, "arguments": text_of(call.arguments)},
            }
            for index, call in enumerate(reply.tool_calls)
        ]
        if calls:
            self.reasoning[calls[0]["id"]] = reply.thinking
        return calls


def head(body: Json, kind: str) -> Json:
    model = f"{body['model']}-2026-01-01"
    return {"id": "chatcmpl-local", "object": kind, "created": 1, "model": model}


def finish_reason(reply: Assistant, body: Json) -> str:
    if reply.stop_reason == "max_tokens":
        return "length"
    forced = isinstance(body.get("tool_choice"), dict)
    return "tool_calls" if reply.tool_calls and not forced else "stop"  # as the API has it
