"""`from_history` undoes `to_wire`: on arbitrary conversations, and on what other programs keep."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recordings import cases, load, needs_wire
from tests.support.wires import WIRES, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, User

PROTOCOLS = ("openai-chat", "anthropic", "ollama")
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
    body = to_wire(name, Request(messages, system="Be kind."))
    assert WIRES[name][0].from_history(body["messages"]) == messages


NOT_WRITTEN = {  # of a history: what the API refuses, or what stands in mid-conversation
    "cache-read",
    "err-400-empty-content",
    "err-400-tool-use-without-result",
    # The recorder left out the calls, so the results answer nothing.
    "stream-tool-llama31-followup",
    "tool-second-round",
    "tool-single-llama31-followup",
    "tool-zero-args-followup",
    # The reasoning in them is read, but goes back in a native message alone.
    "docs-tool-followup",
    "stream-think-tool-followup",
    "stream-thinking-tool-followup",
    "stream-thinking-tool-haiku-followup",
    "thinking-redacted-history",
}
REQUESTS = [
    (name, case)
    for name in PROTOCOLS
    for case in cases(name)
    if case not in NOT_WRITTEN and ((load(name, case)["request"] or {}).get("body") or {})
]


def plain(value, skipped):
    """A recorded message in one of the several spellings that mean the same: without what is null,
    empty or set for a cache, with arguments as JSON and nothing but text as a text.
    """
    if isinstance(value, list) and value and all(part.get("type") == "text" for part in value):
        return "".join(part["text"] for part in value)
    if isinstance(value, list):
        return [plain(one, skipped) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("arguments"), str):
        value = {**value, "arguments": json.loads(value["arguments"])}
    return {
        key: plain(one, skipped)
        for key, one in value.items()
        if one not in (None, []) and key not in skipped
    }


@needs_wire
@pytest.mark.parametrize(("name", "case"), REQUESTS)
def test_a_recorded_history_is_written_as_it_was(name, case):
    recorded = load(name, case)["request"]["body"]["messages"]
    recorded = [message for message in recorded if message["role"] not in ("system", "developer")]
    messages = WIRES[name][0].from_history(recorded)
    written = to_wire(name, Request(messages))["messages"]
    ids = ("id", "tool_call_id", "type") if name == "ollama" else ()  # older servers gave none
    skipped = ("cache_control", "annotations", "is_error", *ids)
    assert plain(written, skipped) == plain(recorded, skipped)
