"""Ollama's /api/chat, JSON in and JSON out."""

import pytest

from tests.support.wires import folded, reply_of, to_ollama
from think_agent import Assistant, Request, ToolCall, ToolResult, User


def test_a_reply_that_is_not_done_is_unfinished():
    """The server ends one so by itself, when the model repeats itself."""
    half = {"message": {"content": "two two"}, "done": False}
    streamed, _ = folded("ollama", half)
    for reply in (reply_of("ollama", half), streamed):
        assert reply.text == "two two"
        assert reply.stop_reason == "incomplete"
        assert "repeated itself" in reply.cause


def test_the_calls_of_a_stream_are_counted():
    call = {"function": {"name": "order", "arguments": {}}}
    chunks = [{"message": {"tool_calls": calls}} for calls in ([call, call], [call])]
    _, deltas = folded("ollama", *chunks)
    assert [delta.index for delta in deltas] == [0, 1, 2]


TWO = (ToolCall("x", "order", {"order_id": "1"}), ToolCall("y", "order", {"order_id": "2"}))
TALK = Request(
    [
        User("Where are they?"),
        Assistant("I look.", tool_calls=TWO),
        ToolResult("x", "order", "shipped"),
        ToolResult("y", "order", "lost"),
        Assistant(tool_calls=(ToolCall("x", "order"),)),
        ToolResult("x", "order", ""),
        Assistant("One was lost."),
        User("Oh."),
    ],
)


def shape(**options) -> list[tuple]:
    """What is sent of a conversation: who, the text, and the ids of calls and results."""
    sent = []
    for message in to_ollama(TALK, num_ctx=4096, **options)["messages"]:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        if "tool_call_id" in message:
            ids.append(message["tool_call_id"])
        sent.append((message["role"], message["content"], *ids))
    return sent


def test_content_is_always_a_text():
    """Also where the conversation began on another provider."""
    assert shape() == [
        ("user", "Where are they?"),
        ("assistant", "I look.", "x", "y"),
        ("tool", "shipped", "x"),
        ("tool", "lost", "y"),
        ("assistant", "", "call00002"),
        ("tool", "", "call00002"),
        ("assistant", "One was lost."),
        ("user", "Oh."),
    ]


def test_ids_of_nine_letters_and_digits_also_where_ids_repeat():
    assert [ids for _, _, *ids in shape(short_ids=True)][1:6] == [
        ["call00000", "call00001"],
        ["call00000"],
        ["call00001"],
        ["call00002"],
        ["call00002"],
    ]


def test_a_text_that_would_hide_the_calls_is_left_out():
    expected = shape()
    expected[1] = ("assistant", "", "x", "y")
    assert shape(text_hides_calls=True) == expected


def test_each_message_has_one_call_and_is_followed_by_its_result():
    assert shape(one_call=True)[1:5] == [
        ("assistant", "I look.", "x"),
        ("tool", "shipped", "x"),
        ("assistant", "", "y"),
        ("tool", "lost", "y"),
    ]
    assert shape(one_call=True)[5:] == shape()[4:]


@pytest.mark.parametrize(
    ("message", "count", "stop_reason"),
    [
        ({"content": ""}, 40, "malformed"),  # tokens were spent and nothing came
        ({"content": ""}, 1, "end_turn"),
        ({"content": ""}, 0, "end_turn"),
        ({"content": "\n \n", "thinking": "Hm."}, 40, "malformed"),
        ({"content": "Hm."}, 40, "end_turn"),
    ],
)
def test_a_call_that_the_server_swallowed(message, count, stop_reason):
    reply = reply_of("ollama", {"message": message, "done": True, "eval_count": count})
    assert reply.stop_reason == stop_reason
