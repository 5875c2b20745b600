"""Odd replies of real servers, through the real SDKs over local HTTP (PROVIDERS, part 14.5)."""

from typing import Any

import pytest

from tests.servers import Reply, sse
from tests.support.providers import HELLO, talking
from think_agent import Assistant, Request, ToolCall, ToolResult, User


def answered(provider: str, body: Any) -> Assistant:
    """What comes of a whole response."""
    with talking(provider) as (server, model):
        server.canned = [Reply(body=body)]
        return model.complete(HELLO)


def streamed(provider: str, *events: Any) -> Assistant:
    """What comes of a stream."""
    chunks = [sse(event, event.get("type")) for event in events]
    with talking(provider) as (server, model):
        server.canned = [Reply(chunks=chunks, content_type="text/event-stream")]
        [*_, reply] = model.stream(HELLO)
    assert isinstance(reply, Assistant)
    return reply


FUNCTION = {"name": "pay", "arguments": '{"n": 1}'}
PAY = (ToolCall("", "pay", {"n": 1}),)


@pytest.mark.parametrize(
    ("message", "reason", "text", "calls", "stop_reason"),
    [
        ({"content": "Yes."}, "", "Yes.", (), "end_turn"),  # Snowflake
        ({"content": {"due": True}}, "stop", '{"due": true}', (), "end_turn"),  # Cloudflare
        ({"content": None, "function_call": FUNCTION}, "function_call", "", PAY, "tool_use"),
    ],
)
def test_a_whole_reply_of_chat_completions(message, reason, text, calls, stop_reason):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    reply = answered("openai-chat", {"choices": [choice]})
    assert (reply.text, reply.tool_calls, reply.stop_reason) == (text, calls, stop_reason)


def test_reasoning_that_came_in_fragments_goes_back_whole_and_only_to_its_host():
    detail = {"type": "reasoning.text", "index": 0}
    deltas = [
        {"reasoning_details": [{**detail, "text": "H"}]},
        {"reasoning_details": [{**detail, "text": "m."}]},
        {"reasoning_details": [{**detail, "signature": "abc"}]},
        {"content": "Yes."},
    ]
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    reply = streamed("openai-chat", *events)
    asked = Request([*HELLO.messages, reply, User("And?")])
    with talking("openai-chat") as (server, model):
        model.complete(asked)
        model.host = "elsewhere.example"
        model.complete(asked)
        back, elsewhere = [body["messages"][1] for body in server.requests]
    assert back["reasoning_details"] == [{**detail, "text": "Hm.", "signature": "abc"}]
    assert elsewhere == {"role": "assistant", "content": "Yes."}


def test_items_of_a_stream_of_responses_that_are_done_out_of_order():
    reasoning = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAA"}
    part = {"type": "output_text", "text": "Yes.", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    done = "response.output_item.done"
    reply = streamed(
        "openai-responses",
        {"type": done, "output_index": 1, "item": {**message, "status": "completed"}},
        {"type": done, "output_index": 0, "item": reasoning},
        {
            "type": "response.completed",
            "response": {"output": [], "status": "completed", "end_turn": False},
        },
    )
    assert [item["id"] for item in reply.native] == ["r", "m"]
    assert (reply.text, reply.not_done) == ("Yes.", True)


def test_a_tool_of_the_server_in_a_stream_of_anthropic():
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    asked = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    cited = {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}
    said = {"type": "text_delta", "text": "Yes."}
    empty = {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": search},
        {"type": "content_block_delta", "index": 0, "delta": asked},
        {"type": "content_block_start", "index": 1, "content_block": empty},
        {"type": "content_block_delta", "index": 1, "delta": said},
        {"type": "content_block_delta", "index": 1, "delta": cited},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
    reply = streamed("anthropic", *events)
    assert (reply.text, reply.tool_calls, reply.stop_reason) == ("Yes.", (), "end_turn")
    search["input"] = {"query": "x"}
    text = {"type": "text", "text": "Yes."}
    assert reply.native["content"] == [search, text]


def test_the_ids_of_another_provider_are_taken():
    calls = (ToolCall("functions.pay:0", "pay", {}), ToolCall("x" * 90, "pay", {}))
    results = [ToolResult(call.id, "pay", "paid") for call in calls]
    foreign = Assistant(tool_calls=calls, provider="openai", native={"role": "assistant"})
    asked = Request([*HELLO.messages, foreign, *results])
    for provider in ("anthropic", "openai-responses"):
        with talking(provider) as (_, model):
            assert model.complete(asked).text == "Hello."
