"""A local server that speaks OpenAI's Responses API, with encrypted reasoning.

A reasoning item must come back whole and before the item it led to; its blob is checked.
"""

import base64
import json
import re
from collections.abc import Iterator

from openai.types.responses import FunctionToolParam, ResponseInputItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import TypeAdapter

from tests.servers import in_pieces, sse
from tests.servers.openai import OpenAIProtocol, arguments_of, check_strict, conforms, text_of
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.messages import Json, Message

ITEM: TypeAdapter[ResponseInputItemParam] = TypeAdapter(ResponseInputItemParam)
TOOL: TypeAdapter[FunctionToolParam] = TypeAdapter(FunctionToolParam)
ENCRYPTED = "reasoning.encrypted_content"


class Responses(OpenAIProtocol):
    path = "/responses"
    body_type = ResponseCreateParamsBase
    forced_refusal = "Tool choice 'required' is not supported with this model."

    def decode(self, path: str, body: Json) -> Request:
        self.check_body(body)
        if ENCRYPTED in body.get("include", ()) and re.match("gpt-4", body["model"]):
            raise ValueError("Encrypted content is not supported with this model.")
        for index, tool in enumerate(body.get("tools", ())):
            conforms(TOOL, tool, f"tools[{index}]")
        tools = self.tools(body.get("tools", []))
        choice = body.get("tool_choice")
        name = choice.get("name") if isinstance(choice, dict) else None
        schema = None
        if "text" in body:
            schema = body["text"]["format"]["schema"]
            check_strict(schema)
        return Request(
            self.messages(body["input"], stored=body.get("store", True)),
            tools,
            tool_choice=self.choice(body, name, tools),
            system=body.get("instructions", ""),
            output_schema=schema,
        )

    def messages(self, items: list[Json], *, stored: bool) -> tuple[Message, ...]:
        for index, item in enumerate(items):
            conforms(ITEM, item, f"input[{index}]")
            if item.get("type") == "reasoning":
                check_reasoning(item, items[index + 1 : index + 2], stored)
            elif item.get("id") and item["id"].startswith("after_"):
                check_led_to(item, items[index - 1] if index else {})
        check_answered(items)
        names = {
            item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"
        }
        messages: list[Message] = []
        for item in items:
            match item:
                case {"type": "reasoning"}:
                    pass
                case {"type": "function_call_output", "call_id": call_id, "output": output}:
                    messages.append(ToolResult(call_id, names[call_id], output))
                case {
                    "type": "function_call",
                    "call_id": call_id,
                    "name": name,
                    "arguments": arguments,
                }:
                    call = ToolCall(call_id, name, arguments_of(arguments))
                    match messages:
                        case [*_, Assistant(text=text, tool_calls=calls)]:
                            messages[-1] = Assistant(text, tool_calls=(*calls, call))
                        case _:
                            messages.append(Assistant(tool_calls=(call,)))
                case {"role": "user", "content": str(text)} if text:
                    messages.append(User(text))
                case {"role": "assistant", "content": str(text)} if text:
                    messages.append(Assistant(text))
                case {"role": "assistant", "content": [*parts]} if parts:
                    messages.append(
                        Assistant("".join(part.get("text") or part["refusal"] for part in parts))
                    )
                case _:
                    raise ValueError(f"Invalid value: {json.dumps(item)[:80]}")
        if not messages:
            raise ValueError("Invalid 'input': empty array.")
        return tuple(messages)

    def encode(self, reply: Assistant, body: Json) -> Json:
        stop = reply.stop_reason
        return {
            **head(body),
            "status": "incomplete" if stop == "max_tokens" else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if stop == "max_tokens" else None,
            "output": items_of(reply, body),
            "usage": usage(reply),
        }

    def encode_stream(self, reply: Assistant, body: Json) -> Iterator[bytes]:
        number = 0

        def event(kind: str, **data: object) -> bytes:
            nonlocal number
            number += 1
            return sse({"type": kind, **data, "sequence_number": number - 1}, event=kind)

        whole = self.encode(reply, body)
        yield event(
            "response.created",
            response={**head(body), "status": "in_progress", "output": [], "usage": None},
        )
        for index, item in enumerate(whole["output"]):
            at = {"item_id": item["id"], "output_index": index}
            match item["type"]:
                case "reasoning":
                    early = {**item, "summary": []}
                    if blob := item.get("encrypted_content"):
                        early["encrypted_content"] = blob[:-4]  # incomplete, as the real one
                    yield event("response.output_item.added", output_index=index, item=early)
                    for piece in in_pieces(item["summary"][0]["text"]):
                        yield event(
                            "response.reasoning_summary_text.delta",
                            summary_index=0,
                            delta=piece,
                            **at,
                        )
                case "message":
                    early = {**item, "status": "in_progress", "content": []}
                    yield event("response.output_item.added", output_index=index, item=early)
                    part = item["content"][0]
                    kind = "refusal" if part["type"] == "refusal" else "text"
                    name = "refusal" if kind == "refusal" else "output_text"
                    yield event(
                        "response.content_part.added",
                        content_index=0,
                        part={**part, kind: ""},
                        **at,
                    )
                    for piece in in_pieces(part[kind]):
                        yield event(f"response.{name}.delta", content_index=0, delta=piece, **at)
                    yield event(
                        f"response.{name}.done", content_index=0, **{kind: part[kind]}, **at
                    )
                    yield event("response.content_part.done", content_index=0, part=part, **at)
                case "function_call":
                    early = {**item, "status": "in_progress", "arguments": ""}
                    yield event("response.output_item.added", output_index=index, item=early)
                    for piece in in_pieces(item["arguments"]):
                        yield event("response.function_call_arguments.delta", delta=piece, **at)
                    yield event(
                        "response.function_call_arguments.done", arguments=item["arguments"], **at
                    )
            yield event("response.output_item.done", output_index=index, item=item)
        yield event(f"response.{whole['status']}", response=whole)


def items_of(reply: Assistant, body: Json) -> list[Json]:
    """The output items. Ids count on from the input: the same request gets the same ones."""
    count = len(body["input"])
    status = "incomplete" if reply.stop_reason == "max_tokens" else "completed"
    items: list[Json] = []
    if reply.thinking:
        blob = encrypted(reply.thinking)
        item = {
            "id": f"rs_{count}",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": reply.thinking}],
        }
        items.append(
            {**item, "encrypted_content": blob} if ENCRYPTED in body.get("include", ()) else item
        )
    if reply.text:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": reply.text}
        if reply.stop_reason == "refusal":
            part = {"type": "refusal", "refusal": reply.text}
        items.append({"type": "message", "status": status, "role": "assistant", "content": [part]})
    for index, call in enumerate(reply.tool_calls):
        call_id = call.id or f"call_resp{count + index}"
        arguments = text_of(call.arguments)
        items.append(
            {
                "type": "function_call",
                "status": status,
                "call_id": call_id,
                "name": call.name,
                "arguments": arguments,
            }
        )
    for index, item in enumerate(items):
        led_to = index == 1 and items[0]["type"] == "reasoning"
        item.setdefault("id", f"after_rs_{count}" if led_to else f"item_{count + index}")
    return items


def check_reasoning(item: Json, following: list[Json], stored: bool) -> None:
    if not stored and "encrypted_content" not in item:
        raise ValueError(
            f"Item with id '{item['id']}' not found. "
            "Items are not persisted when `store` is set to false."
        )
    thinking = "".join(part["text"] for part in item["summary"])
    if item["encrypted_content"] != encrypted(thinking):
        raise ValueError("The encrypted content could not be verified.")
    if not following or following[0].get("id") != f"after_{item['id']}":
        raise ValueError(
            f"Item '{item['id']}' of type 'reasoning' was provided without its required "
            "following item."
        )


def check_led_to(item: Json, before: Json) -> None:
    if item["id"] != f"after_{before.get('id')}":
        raise ValueError(
            f"Item '{item['id']}' of type '{item['type']}' was provided without its required "
            "'reasoning' item."
        )


def check_answered(items: list[Json]) -> None:
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    for index, item in enumerate(items):
        if item.get("type") == "function_call_output":
            earlier = [
                one["call_id"] for one in items[:index] if one.get("type") == "function_call"
            ]
            if item["call_id"] not in earlier:
                raise ValueError(
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
            calls.remove(item["call_id"])
    if calls:
        raise ValueError(f"No tool output found for function call {calls[0]}.")


def encrypted(thinking: str) -> str:
    return "gAAAA" + base64.b64encode(thinking.encode()).decode()


def head(body: Json) -> Json:
    model = f"{body['model']}-2026-01-01"
    return {
        "id": "resp_local",
        "object": "response",
        "created_at": 1,
        "model": model,
        "error": None,
    }


def usage(reply: Assistant) -> Json:
    used = reply.usage
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.input_tokens + used.output_tokens,
    }
