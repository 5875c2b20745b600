"""Messages are values, and survive JSON (`messages.py`)."""

import json
from collections import deque
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given

from tests.support.strategies import messages
from think_agent import Assistant, Force, Started, ToolCall, ToolResult, Usage, User
from think_agent.messages import from_json, take_answered, to_json


@given(messages)
def test_a_message_survives_json(message):
    text = json.dumps(to_json(message))
    data = json.loads(text)
    back = from_json(data)
    assert json.dumps(data) == text  # it did not change its argument
    assert back == message
    assert type(back) is type(message)
    assert back.at == message.at  # == does not look at the time, nor at a key
    assert not isinstance(message, Started) or back.key == message.key


def test_json_is_short_and_readable():
    assert to_json(User("hi")) == {"type": "user", "text": "hi"}
    assert to_json(Assistant()) == {"type": "assistant"}
    reply = Assistant(tool_calls=(ToolCall("c1", "add", {"n": 1}),), tool_choice=Force("think"))
    assert json.loads(json.dumps(to_json(reply))) == {
        "type": "assistant",
        "tool_calls": [{"id": "c1", "name": "add", "arguments": {"n": 1}}],
        "tool_choice": {"name": "think"},
    }


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "no message of type None"),
        ({"type": "system", "text": "x"}, "no message of type 'system'"),
        ({"type": ["user"]}, r"no message of type \['user'\]"),
        ({"type": "user"}, "text: "),
        ({"type": "user", "text": 5}, "text: "),
        ({"type": "user", "text": "x", "mood": "good"}, "mood: Unexpected keyword argument"),
        ({"type": "assistant", "tool_calls": [{"name": "add"}]}, "tool_calls.0.id: "),
        ({"type": "assistant", "tool_calls": 5}, "tool_calls: "),
        ({"type": "assistant", "tool_calls": [{"id": "1", "name": "a", "typo": 1}]}, "typo"),
        ({"type": "assistant", "usage": {"tokens": 1}}, "usage.tokens"),
        ({"type": "assistant", "usage": {"input_tokens": "many"}}, "usage.input_tokens: "),
        ({"type": "assistant", "tool_choice": {"named": "think"}}, "tool_choice"),
        ({"type": "verdict", "decision": "perhaps"}, "decision: "),
    ],
)
def test_data_that_is_no_message_is_refused_with_the_name_of_the_field(data, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        from_json(data)
    assert len(str(caught.value).splitlines()) == 1


def test_messages_are_frozen_and_compared_without_their_time():
    with pytest.raises(FrozenInstanceError):
        User("a").text = "b"
    assert User("a", at="now") == User("a")
    assert User("a", kind="nudge") != User("a")


def test_usage_adds_up():
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
    assert sum([Usage(1), Usage(2)], Usage()) == Usage(3)


def test_a_result_answers_the_first_open_call_with_its_id():
    first, second = ToolCall("a", "look"), ToolCall("a", "pay")
    other = ToolCall("b", "look")
    open_calls = deque([other, first, second])
    result = ToolResult("a", "look", "ok")
    assert take_answered(open_calls, result) is first
    assert take_answered(open_calls, result) is second
    assert take_answered(open_calls, result) is None
    assert list(open_calls) == [other]
