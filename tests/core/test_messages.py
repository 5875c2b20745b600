import json
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given

from tests.support.strategies import messages, replies, transcripts
from think_agent import Assistant, Force, ToolCall, ToolResult, Usage, User
from think_agent.messages import current_turn, from_json, mint_ids, to_json, unanswered


@given(messages)
def test_json_brings_back_the_same_message(message):
    back = from_json(json.loads(json.dumps(to_json(message))))
    assert back == message
    assert type(back) is type(message)
    assert back.at == message.at  # == does not look at the time


def test_json_is_short_and_readable():
    assert to_json(User("hi")) == {"type": "user", "text": "hi"}
    assert to_json(Assistant()) == {"type": "assistant"}
    reply = Assistant(tool_calls=(ToolCall("c1", "add", {"n": 1}),), tool_choice=Force("think"))
    assert to_json(reply) == {
        "type": "assistant",
        "tool_calls": [{"id": "c1", "name": "add", "arguments": {"n": 1}}],
        "tool_choice": {"name": "think"},
    }
    assert to_json(ToolResult("c1", "add", "2", at="2026-01-01T00:00:00Z")) == {
        "type": "toolresult",
        "call_id": "c1",
        "name": "add",
        "content": "2",
        "at": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": "system", "text": "x"},
        {"type": ["user"]},
        {"type": "user"},
        {"type": "user", "text": "x", "mood": "good"},
        {"type": "assistant", "tool_calls": [{"name": "add", "typo": 1}]},
        {"type": "assistant", "tool_calls": 5},
        {"type": "assistant", "usage": {"tokens": 1}},
        {"type": "assistant", "tool_choice": {"named": "think"}},
    ],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ValueError, match="not a message"):
        from_json(data)


def test_from_json_leaves_its_argument_alone():
    data = {"type": "assistant", "tool_calls": [{"id": "1", "name": "a", "arguments": "{"}]}
    before = json.dumps(data)
    from_json(data)
    assert json.dumps(data) == before


def test_messages_are_frozen_and_time_does_not_count():
    with pytest.raises(FrozenInstanceError):
        User("a").text = "b"
    assert User("a", at="now") == User("a")
    assert User("a", kind="nudge") != User("a")


def test_usage_adds_up():
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
    assert sum([Usage(1), Usage(2)], Usage()) == Usage(3)


def test_missing_ids_are_counted_over_the_whole_history():
    history = [
        User("a"),
        Assistant(tool_calls=(ToolCall("x", "f"), ToolCall("y", "f"))),
        ToolResult("x", "f", ""),
        Assistant(tool_calls=(ToolCall("z", "f"),)),
    ]
    reply = Assistant(tool_calls=(ToolCall("", "f"), ToolCall("own", "f"), ToolCall("", "g")))
    assert [call.id for call in mint_ids(reply, history).tool_calls] == ["call_3", "own", "call_5"]


@given(replies, transcripts)
def test_minting_gives_every_call_an_id_and_changes_nothing_else(reply, history):
    minted = mint_ids(reply, history)
    assert all(call.id for call in minted.tool_calls)
    assert mint_ids(minted, history) == minted
    for old, new in zip(reply.tool_calls, minted.tool_calls, strict=True):
        assert (new.name, new.arguments) == (old.name, old.arguments)
        assert not old.id or new.id == old.id


@pytest.mark.parametrize(
    ("history", "calls"),
    [
        ((), (ToolCall("call_1", "f"), ToolCall("", "g"))),
        ((Assistant(tool_calls=(ToolCall("call_1", "f"),)),), (ToolCall("", "g"),)),
    ],
)
def test_a_minted_id_is_new(history, calls):
    taken = [call.id for reply in history for call in reply.tool_calls]
    ids = [*taken, *(call.id for call in mint_ids(Assistant(tool_calls=calls), history).tool_calls)]
    assert len(set(ids)) == len(ids)


A, B, C = ToolCall("a", "f"), ToolCall("b", "f"), ToolCall("c", "f")
A_AGAIN = ToolCall("a", "g")


@pytest.mark.parametrize(
    ("calls", "answered", "left"),
    [
        ((), "", ()),
        ((A, B), "", (A, B)),
        ((A, B), "a", (B,)),
        ((A, B), "b", (A,)),
        ((A, B), "ba", ()),
        ((A, B), "zz", (A, B)),
        ((A, A_AGAIN, B), "a", (A_AGAIN, B)),  # a doubled id is answered once per call, in order
        ((A, A_AGAIN), "aa", ()),
        ((A, C, A_AGAIN), "ca", (A_AGAIN,)),
    ],
)
def test_unanswered(calls, answered, left):
    after = [User("noise"), *(ToolResult(call_id, "f", "") for call_id in answered)]
    assert unanswered(Assistant(tool_calls=calls), after) == left


def test_the_turn_starts_where_a_person_last_spoke():
    old = [User("one"), Assistant("first")]
    new = [User("two"), Assistant(), User("again", kind="nudge"), User("stop", kind="limit")]
    assert list(current_turn([*old, *new])) == new
    assert list(current_turn(old)) == old
    assert list(current_turn([])) == []
    assert list(current_turn([Assistant("only")])) == [Assistant("only")]
