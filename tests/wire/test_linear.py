"""The cost of a body grows with its messages, and not faster: held without a clock."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.wires import WIRES, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.messages import Message
from think_agent.wire.pieces import CallReader


def conversation(replies: int) -> Request:
    messages: list[Message] = [User("hi")]
    for number in range(replies):
        call = ToolCall(f"call_{number}", "look", {"order_id": f"ORD-{number}"})
        messages.append(Assistant("Let me see.", tool_calls=(call,)))
        messages.append(ToolResult(call.id, call.name, "shipped"))
    return Request(tuple(messages))


def one_reply(calls: int) -> Request:
    made = tuple(ToolCall(f"call_{number}", "look", {}) for number in range(calls))
    results = [ToolResult(call.id, call.name, "shipped") for call in made]
    return Request((User("hi"), Assistant(tool_calls=made), *results))


def lines_run(function: Callable[[], Any]) -> int:
    """How many lines of Python `function` runs, loops inside of it counted each time."""
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", [conversation, one_reply])
@pytest.mark.parametrize("wire", WIRES)
def test_ten_times_the_messages_cost_ten_times_as_much(wire, shape):
    short, long = shape(50), shape(500)
    costs = [lines_run(lambda ask=ask: to_wire(wire, ask)) for ask in (short, long)]
    assert costs[1] < 11 * costs[0]


@pytest.mark.parametrize("piece", ["\\u00e9", "\\ud83d\\ude00", "\\n", "\\q"])
def test_a_streamed_thought_full_of_escapes_costs_little_more_than_a_plain_one(piece):
    def read(piece: str, times: int) -> int:
        reader = CallReader("think")
        reader.feed('{"thought": "')
        return lines_run(lambda: [reader.feed(piece) for _ in range(times)])

    assert read(piece, 2000) < 11 * read(piece, 200)
    assert read(piece, 200) < 3 * read("abcdef", 200)  # each escape is decoded
