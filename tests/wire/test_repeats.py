"""A call that comes again in a whole reply, or at the end of a stream, is one call."""

from typing import Any

import pytest

from tests.support.wires import WIRES, reply_of
from think_agent.messages import Json

ONE = {"id": "1"}
TWO = {"id": "2"}


def body(wire: str, *calls: tuple[str | None, str, Any]) -> Json:
    """A response with these calls: the id, the tool and the arguments of each."""
    functions = [
        {"id": id, "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls
    ]
    match wire:
        case "openai-chat":
            return {"choices": [{"message": {"tool_calls": functions}, "finish_reason": "stop"}]}
        case "openai-responses":
            output = [
                {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
                for id, name, arguments in calls
            ]
            return {"output": output, "status": "completed"}
        case "anthropic":
            blocks = [
                {"type": "tool_use", "id": id, "name": name, "input": arguments}
                for id, name, arguments in calls
            ]
            return {"content": blocks, "stop_reason": "tool_use"}
        case "gemini":
            parts = [
                {"functionCall": {"id": id, "name": name, "args": arguments}}
                for id, name, arguments in calls
            ]
            return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
        case _:
            return {"message": {"tool_calls": functions}, "done": True, "done_reason": "stop"}


REPEATS: dict[str, list[tuple[str | None, str, Any]]] = {
    "the same": [("a", "look", ONE), ("a", "look", ONE)],
    "without its arguments": [("a", "look", ONE), ("a", "look", {})],
    "after another one": [("a", "look", ONE), ("b", "look", TWO), ("a", "look", ONE)],
}
OTHERS: dict[str, list[tuple[str | None, str, Any]]] = {
    "another id": [("a", "look", ONE), ("b", "look", ONE)],
    "other arguments": [("a", "look", ONE), ("a", "look", TWO)],
    "another tool": [("a", "look", ONE), ("a", "pay", ONE)],
    "no ids": [(None, "look", ONE), (None, "look", ONE)],
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("how", REPEATS)
def test_a_call_that_comes_again_is_one_call(wire, how):
    *calls, _ = REPEATS[how]
    reply = reply_of(wire, body(wire, *REPEATS[how]))
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        (name, arguments) for _, name, arguments in calls
    ]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("how", OTHERS)
def test_another_call_is_a_call_of_its_own(wire, how):
    assert len(reply_of(wire, body(wire, *OTHERS[how])).tool_calls) == 2
