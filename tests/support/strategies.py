"""Arbitrary messages and scripts, for the property tests.

A script is a list of replies. After the last one it starts again, so no run is too long for it. The
place in it is the number of replies in the request, never a counter. So the same history always
gets the same reply, in a plain run, streamed or resumed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

from hypothesis import strategies as st

from think_agent import Force, Request, Usage
from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Kind,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)

T = TypeVar("T")

texts = st.text(max_size=12)
answers = st.sampled_from(["", " \n", "Done.", "Refunded."]) | texts
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
stop_reasons = st.sampled_from(
    ["end_turn", "tool_use", "stop_sequence", "max_tokens", "pause_turn", "refusal", "incomplete"]
)
tool_choices = st.sampled_from(["auto", "required", "none"]) | st.builds(Force, texts)
times = st.none() | st.just("2026-01-01T00:00:00Z")
ids = st.sampled_from(["", "a", "b", "call_0", "call_1"])  # missing, doubled, like minted ones
names = st.sampled_from(
    ["add", "fail", "odd", "hang", "pay", "keyed", "unknown", "", "na\nme", "\x1b[2J", "\ud800"]
)

exit_signals = st.one_of(
    st.booleans(),
    st.sampled_from(["true", "false", " FALSE ", "False", "no", "0", ""]),
    json_values,
)
think_arguments = st.one_of(
    st.fixed_dictionaries({"thought": texts, "should_continue": exit_signals}),
    st.fixed_dictionaries({}, optional={"thought": json_values, "should_continue": exit_signals}),
    texts,
)
think_calls = st.builds(ToolCall, ids, st.just("think"), think_arguments)
numbers = st.fixed_dictionaries({"n": st.integers(0, 5)}, optional={"thought": texts})
calls = st.builds(ToolCall, ids, names, numbers | numbers | objects | texts) | think_calls
replies = st.builds(
    Assistant,
    text=answers | st.just("\x1b]0;owned\x07 \ud800 \0"),
    thinking=texts,
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    stop_reason=st.just("end_turn") | st.just("malformed") | stop_reasons,
    mistake=texts,
    usage=st.builds(Usage, *[st.integers(0, 99)] * 4),
    native=st.none() | json_values,
)
scripts = st.lists(replies, min_size=1, max_size=5)

kinds = get_args(Kind)
users = st.builds(User, texts, kind=st.sampled_from(kinds), at=times)
codes = st.sampled_from(["", "gate", "limit", "person", "failed", "invalid", "text", "doubt"])
given = st.none() | objects
flags = st.booleans()
results = st.builds(
    ToolResult, ids, texts, texts, flags, codes, given, flags, st.integers(0, 9), times
)
starts = st.builds(Started, ids, texts, texts, texts, given, times)
decisions = st.sampled_from(["yes", "no", "quit"])
verdicts = st.builds(Verdict, decisions, ids, texts, texts, given, flags, flags, texts, times)
checks = st.builds(Checked, texts, st.none() | texts, times)
exits = st.sampled_from(["signal", "silence", "unmet", "limit", "truncated", "gave_up"])
ends = st.builds(Ended, exits, texts, times)
enforced = st.sampled_from(["tool_choice", "schema", "prompt", "ignored", None])
assistants = st.builds(
    replace,
    replies,
    model=texts,
    provider=texts,
    enforced=enforced,
    tool_choice=tool_choices,
    at=times,
)
pauses = st.builds(Paused, texts, ids, given, texts, times)
messages = users | assistants | results | starts | verdicts | checks | ends | pauses
transcripts = st.lists(messages, max_size=8)


def cyclic(script: Sequence[T]) -> Callable[[Request], T]:
    """The script as a function of the request: replies in turn, and from the start again."""

    def reply(request: Request) -> T:
        place = sum(isinstance(message, Assistant) for message in request.messages)
        return script[place % len(script)]

    return reply
