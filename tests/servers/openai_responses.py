"""A local server that speaks OpenAI's Responses API, with encrypted reasoning.

A reasoning item must come back whole and before the item it led to; its blob is checked.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from openai.types.responses.response_create_params import ResponseCreateParamsBase

from tests.servers import check, in_pieces, sse, text_of
from tests.servers.openai import OpenAIProtocol, arguments_of, usage
from think_agent import Assistant, ToolCall, ToolResult, User
from think_agent.messages import Json, Message

ENCRYPTED = "reasoning.encrypted_content"


class Responses(OpenAIProtocol):
    path = "/responses"
    body_type = ResponseCreateParamsBase
    failure = sse({"type": "error", "code": None, "message": "Boom", "param": None})
    forced_refusal = "Tool choice 'required' is not supported with this model."

    def schema(self, body: Json) -> Json | None:
        return body.get("text", {}).get("format", {}).get("schema")

    def messages(self, body: Json) -> tuple[str, list[Message]]:
        plain = ENCRYPTED not in body.get("include", ()) or not body["model"].startswith("gpt-4")
        check(plain, "Encrypted content is not supported with this model.")
        items = body["input"]
        for before, item in pairwise([{}, *items, {}]):
            check_reasoning(before, item, body.get("store", True))
        names: dict[str, str] = {}
        messages: list[Message] = []
        for item in items:
            match item:
                case {"type": "reasoning"}:
                    pass
                case {"type": "function_call_output", "call_id": call_id, "output": output}:
                    messages.append(ToolResult(call_id, names.get(call_id, ""), output))
                case {"type": "function_call"}:
                    arguments = arguments_of(item["arguments"])
                    call = ToolCall(item["call_id"], item["name"], arguments)
                    names[call.id] = call.name
                    if not messages or not isinstance(messages[-1], Assistant):
                        messages.append(Assistant())
                    calls = (*messages[-1].tool_calls, call)
                    messages[-1] = replace(messages[-1], tool_calls=calls)
                case {"role": "user", "content": str(text)} if text:
                    messages.append(User(text))
                case {"role": "assistant", "content": str(text)} if text:
                    messages.append(Assistant(text))
                case {"role": "assistant", "content": [*parts]} if parts:
                    said = [part.get("text") or part["refusal"] for part in parts]
                    messages.append(Assistant("".join(said)))
                case _:
                    raise ValueError(f"Invalid value: {json.dumps(item)[:80]}")
        return body.get("instructions", ""), messages

    def encode(self, reply: Assistant, body: Json) -> Json:
        stop = reply.stop_reason
        return {
            **head(body),
            "status": "incomplete" if stop == "max_tokens" else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if stop == "max_tokens" else None,
            "output": items_of(reply, body),
            "usage": usage(reply, "input", "output"),
        }

    def encode_stream(self, reply: Assistant, body: Json) -> Iterator[bytes]:
        number = 0

        def event(kind: str, **data: object) -> bytes:
            nonlocal number
            number += 1
            return sse({"type": kind, **data, "sequence_number": number - 1}, event=kind)

        whole = self.encode(reply, body)
        begun = {**head(body), "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=begun)
        for index, item in enumerate(whole["output"]):
            at = {"item_id": item["id"], "output_index": index}
            early, kind, text, more = begins(item)
            yield event("response.output_item.added", output_index=index, item=early)
            for piece in in_pieces(text):
                yield event(f"response.{kind}.delta", delta=piece, **more, **at)
            yield event(f"response.{kind}.done", **more, **at)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event(f"response.{whole['status']}", response=whole)


def begins(item: Json) -> tuple[Json, str, str, Json]:
    """An item as a stream begins it; the kind, the text and further fields of its pieces."""
    match item["type"]:
        case "reasoning":
            early = {**item, "summary": []}
            if blob := item.get("encrypted_content"):
                early["encrypted_content"] = blob[:-4]  # incomplete, as the real one
            text = item["summary"][0]["text"]
            return early, "reasoning_summary_text", text, {"summary_index": 0}
        case "message":
            early = {**item, "status": "in_progress", "content": []}
            [part] = item["content"]
            kind = part["type"]
            return early, kind, part.get("text") or part["refusal"], {"content_index": 0}
    early = {**item, "status": "in_progress", "arguments": ""}
    return early, "function_call_arguments", item["arguments"], {}


def items_of(reply: Assistant, body: Json) -> list[Json]:
    """The output items. Ids count on from the input: the same request gets the same ones."""
    count = len(body["input"])
    status = "incomplete" if reply.stop_reason == "max_tokens" else "completed"
    items: list[Json] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        items.append({"id": f"rs_{count}", "type": "reasoning", "summary": summary})
        if ENCRYPTED in body.get("include", ()):
            items[0]["encrypted_content"] = encrypted(reply.thinking)
    if reply.text:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": reply.text}
        if reply.stop_reason == "refusal":
            part = {"type": "refusal", "refusal": reply.text}
        items.append({"type": "message", "status": status, "role": "assistant", "content": [part]})
    for index, call in enumerate(reply.tool_calls):
        call_id = call.id or f"call_resp{count + index}"
        item = {"type": "function_call", "status": status, "call_id": call_id, "name": call.name}
        items.append({**item, "arguments": text_of(call.arguments)})
    for index, item in enumerate(items):
        led_to = index == 1 and items[0]["type"] == "reasoning"
        item.setdefault("id", f"after_rs_{count}" if led_to else f"item_{count + index}")
    return items


def check_reasoning(before: Json, item: Json, stored: bool) -> None:
    """Reasoning is whole, and the item that it led to comes right after it, and nowhere else."""
    id = before.get("id")
    leads = before.get("type") == "reasoning"
    is_led_to = str(item.get("id")).startswith("after_")
    belongs = item.get("id") == f"after_{id}"
    check(
        belongs or not (leads or is_led_to), f"Item '{id}' was provided without its required item."
    )
    if leads:
        check(stored or "encrypted_content" in before, f"Item with id '{id}' not found.")
        thinking = "".join(part["text"] for part in before["summary"])
        verified = before["encrypted_content"] == encrypted(thinking)
        check(verified, "The encrypted content could not be verified.")


def encrypted(thinking: str) -> str:
    return "gAAAA" + base64.b64encode(thinking.encode()).decode()


def head(body: Json) -> Json:
    model = f"{body['model']}-2026-01-01"
    named = {"id": "resp_local", "object": "response", "created_at": 1}
    return {**named, "model": model, "error": None}
