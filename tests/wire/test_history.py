"""`from_history` undoes `to_wire`: on arbitrary conversations, and on what other programs keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.wire import anthropic, ollama, openai_chat
from think_agent.wire.common import Settings

PROTOCOLS = {
    "openai": (lambda request: openai_chat.to_wire(request, "m"), openai_chat.from_history),
    "anthropic": (
        lambda request: anthropic.to_wire(request, "m", Settings()),
        anthropic.from_history,
    ),
    "ollama": (lambda request: ollama.to_wire(request, "m", num_ctx=9), ollama.from_history),
}
word = st.text(st.characters(codec="utf-8"), max_size=5)
values = st.none() | st.booleans() | st.integers() | word | st.lists(word, max_size=2)
objects = st.dictionaries(word, values, max_size=2)
names = st.sampled_from(["think", "pay"])
words = word.map("={}".format)


@st.composite
def conversations(draw):
    """Turns of a person's words, replies that call, a result for each call, and an answer."""
    messages = []
    for turn in range(draw(st.integers(1, 3))):
        messages.append(User(draw(words)))
        for reply in range(draw(st.integers(0, 2))):
            calls = tuple(
                ToolCall(
                    f"id_{turn}_{reply}_{n}", draw(st.sampled_from(["think", "pay"])), arguments
                )
                for n, arguments in enumerate(draw(st.lists(objects, min_size=1, max_size=2)))
            )
            text = draw(st.just("") | words)
            messages.append(Assistant(text, tool_calls=calls, stop_reason="tool_use"))
            for call in calls:
                failed = draw(st.booleans())
                content = "error: " * failed + draw(words)
                messages.append(ToolResult(call.id, call.name, content, is_error=failed))
        messages.append(Assistant(draw(words), stop_reason="end_turn"))
    return messages


@pytest.mark.parametrize("name", PROTOCOLS)
@given(messages=conversations())
def test_from_history_undoes_to_wire(name, messages):
    to_wire, from_history = PROTOCOLS[name]
    body = to_wire(Request(messages, system="Be kind."))
    assert from_history(body["messages"]) == messages


KEPT = {
    "openai": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"n":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}],
        },
    ],
    "ollama": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "thinking": "Hm.",
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"n": 1}}}],
        },
        {"role": "tool", "tool_call_id": "a", "tool_name": "f", "content": "ok"},
    ],
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_a_protocol_says_beyond_our_messages_goes_back_as_it_came(name):
    to_wire, from_history = PROTOCOLS[name]
    messages = from_history(KEPT[name])
    assert messages[1].thinking == "Hm."
    assert to_wire(Request(messages))["messages"] == KEPT[name]
