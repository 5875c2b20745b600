"""Ollama's /api/chat: recorded exchanges and bodies, JSON in and JSON out."""

from dataclasses import replace

import pytest

from tests.support.recordings import cases, events_of, needs_wire
from tests.support.wires import to_ollama
from think_agent import THINK, Assistant, Request, ToolCall, User, tool
from think_agent.wire.ollama import STOPPED, Fold, from_wire


@tool
def order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: shipped"


WITH_TOOLS = Request([User("Where is ORD-1?")], [THINK, order], system="Be brief.")


@needs_wire
@pytest.mark.parametrize(
    "case", [case for case in cases("ollama") if case.startswith(("stream-t", "docs-stream-"))]
)
def test_a_recorded_stream_cut_off_anywhere_is_an_unfinished_reply(case: str) -> None:
    """The server ends one so by itself, when the model repeats itself."""
    lines = events_of("ollama", case)
    for end in {0, len(lines) // 2, len(lines) - 1}:
        fold = Fold()
        for line in lines[:end]:
            fold.feed(line)
        reply = from_wire(fold.result())
        assert (reply.stop_reason, reply.cause) == ("incomplete", STOPPED)


def test_the_body_of_a_request() -> None:
    assert to_ollama(replace(WITH_TOOLS, tools=[order]), num_ctx=4096) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where is ORD-1?"},
        ],
        "options": {"num_ctx": 4096, "num_predict": 100},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "order",
                    "description": "Look an order up.",
                    "parameters": order.parameters,
                },
            }
        ],
    }


def test_a_reply_as_json() -> None:
    call = {"function": {"name": "order", "arguments": {"order_id": "1"}}}
    message = {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]}
    response = {"message": message, "done": True, "done_reason": "stop"}
    assert from_wire(response, "asked") == Assistant(
        thinking="hm",
        tool_calls=(ToolCall("", "order", {"order_id": "1"}),),
        stop_reason="tool_use",
        model="asked",
        provider="ollama",
        native={"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]},
    )
    cut = from_wire({**response, "done_reason": "length"})
    assert (cut.stop_reason, len(cut.tool_calls)) == ("max_tokens", 1)


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
def test_a_call_that_the_server_swallowed(message, count, stop_reason) -> None:
    reply = from_wire({"message": message, "done": True, "eval_count": count})
    assert reply.stop_reason == stop_reason
