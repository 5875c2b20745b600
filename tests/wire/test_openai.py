"""OpenAI's two APIs, JSON in and JSON out."""

from dataclasses import replace

import pytest

from tests.support.pieces import told
from tests.support.wires import folded, reply_of, to_chat, to_responses, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, Usage, User, tool

CHAT, RESPONSES = "openai-chat", "openai-responses"


@tool
def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order}: lost"


HELLO = Request([User("hello")])


DIALOG = [
    User("lost?"),
    Assistant("A moment.", tool_calls=(ToolCall("c1", "look_up", {"order": "1"}),)),
    ToolResult("c1", "look_up", "error: none", is_error=True),
]


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_a_request_without_tools_mentions_none(api):
    body = to_wire(api, Request([User("hi")], tool_choice="none"))
    assert not {"tools", "tool_choice", "temperature", "response_format", "text"} & body.keys()


def test_an_output_schema_is_a_strict_one():
    request = Request([User("hi")], output_schema={"type": "object"})
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    in_chat = {"type": "json_schema", "json_schema": schema}
    assert to_chat(request)["response_format"] == in_chat
    assert to_responses(request)["text"] == {"format": {"type": "json_schema", **schema}}


def test_a_conversation_in_chat():
    body = to_chat(Request(DIALOG, [look_up], system="Be brief."))
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "lost?"},
        {
            "role": "assistant",
            "content": "A moment.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": '{"order":"1"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "error: none"},
    ]
    (sent,) = body["tools"]
    assert sent["function"]["parameters"] == look_up.parameters


def test_a_conversation_in_responses():
    body = to_responses(Request(DIALOG, [look_up], system="Be brief."))
    assert body["instructions"] == "Be brief."
    assert body["input"] == [
        {"role": "user", "content": "lost?"},
        {"role": "assistant", "content": "A moment."},
        {
            "type": "function_call",
            "name": "look_up",
            "call_id": "c1",
            "arguments": '{"order":"1"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "error: none"},
    ]
    assert body["store"] is False
    assert body["tools"][0]["strict"] is False


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("gpt-6-astra", True),
        ("gpt-5-mini", True),
        ("o4-mini", True),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("ft:gpt-4o-mini:me", False),
    ],
)
def test_only_models_that_reason_are_asked_for_encrypted_reasoning(model, reasons):
    body = to_responses(HELLO, model=model)
    assert ("include" in body) == reasons


MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}


def test_reasoning_that_led_to_nothing_is_not_sent():
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    reply = Assistant("Hm.", provider="openai", native=[MESSAGE, reasoning])
    body = to_responses(Request([User("hi"), reply]))
    assert body["input"][1:] == [MESSAGE]


def event(kind, index, **fields):
    return {"type": f"response.output_{kind}", "output_index": index, **fields}


def message(phase, text):
    part = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "phase": phase, "content": [part]}


def test_commentary_is_kept_apart_from_the_answer():
    items = [
        message("commentary", "Looking."),
        message("commentary", "Found it."),
        message("final_answer", "It is lost."),
    ]
    response = {"output": items, "status": "completed"}
    events = []
    for index, item in enumerate(items):
        events.append(event("item.added", index, item=item))
        for letter in item["content"][0]["text"]:
            events.append(event("text.delta", index, delta=letter))
        events.append(event("item.done", index, item=item))
    reply, deltas = folded(RESPONSES, *events, {"type": "response.completed", "response": response})
    reply = replace(reply, provider="openai")
    assert reply == reply_of(RESPONSES, response)
    assert reply.commentary == told(deltas, "commentary") == "Looking.\n\nFound it."
    assert reply.text == told(deltas, "answer") == "It is lost."
    assert to_responses(Request([User("hi"), reply]))["input"][1:] == items


def test_the_pieces_of_two_messages_may_come_by_turns():
    comment = message("commentary", "Looking.")
    reply, deltas = folded(
        RESPONSES,
        event("item.added", 0, item=comment),
        event("item.added", 1, item=message("final_answer", "")),
        event("text.delta", 1, delta="It is "),
        event("text.delta", 0, delta="Looking."),
        event("text.delta", 1, delta="lost."),
        event("item.done", 0, item=comment),
    )
    assert [delta.kind for delta in deltas] == ["answer", "commentary", "answer"]
    assert reply.commentary == "Looking."
    assert reply.text == "It is lost."
    assert reply.stop_reason == "incomplete"


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}


def test_a_reply_may_be_whole_although_a_tool_of_the_server_is_not_done():
    reply = reply_of(RESPONSES, {"output": [SEARCH, MESSAGE], "status": "completed"})
    assert reply.stop_reason == "end_turn"
    assert reply.tool_calls == ()


@pytest.mark.parametrize("end_turn", [True, False, None])
def test_a_response_that_says_it_is_not_done(end_turn):
    response = {"output": [MESSAGE], "end_turn": end_turn}
    streamed, _ = folded(RESPONSES, {"type": "response.completed", "response": response})
    for reply in (reply_of(RESPONSES, response), streamed):
        assert reply.not_done == (end_turn is False)


def test_tokens_written_to_the_cache_are_counted():
    details = {"cached_tokens": 3, "cache_write_tokens": 4}
    usage = {"input_tokens": 10, "output_tokens": 1, "input_tokens_details": details}
    reply = reply_of(RESPONSES, {"output": [MESSAGE], "usage": usage})
    assert reply.usage == Usage(10, 1, cached_tokens=3, written_tokens=4)
