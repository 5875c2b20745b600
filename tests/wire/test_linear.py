"""The cost of a body grows with its messages, and not faster: counted, without a clock."""

import pytest

from tests.support.counting import grows_evenly
from tests.support.wires import WIRES, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.messages import Message


def conversation(replies: int) -> Request:
    messages: list[Message] = [User("hi")]
    for number in range(replies):
        messages += one_reply(1, f"{number} ").messages[1:]
    return Request(messages)


def one_reply(calls: int, turn: str = "") -> Request:
    made = tuple(ToolCall(f"{turn}call_{number}", "look", {}) for number in range(calls))
    results = [ToolResult(call.id, call.name, "shipped") for call in made]
    return Request([User("hi"), Assistant("Let me see.", tool_calls=made), *results])


@pytest.mark.parametrize("shape", [conversation, one_reply])
@pytest.mark.parametrize("wire", WIRES)
def test_ten_times_the_messages_cost_ten_times_as_much(wire, shape):
    assert grows_evenly(lambda size: to_wire(wire, shape(size)), 50, 500)
