"""How servers stream the blocks of a message (the Messages API), through the real SDK. Each row is
a shape that was reported of some server; the ids and texts are made up.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answers import STREAMED, reply_to
from tests.support.counting import grows_evenly
from tests.support.pieces import told
from tests.support.wires import folded
from think_agent.messages import Json
from think_agent.wire.blocks import BlockAssembler

ONE = '{"id": "1"}'
TWO = '{"id": "2"}'
LOOK_1 = ("look", {"id": "1"})
LOOK_2 = ("look", {"id": "2"})
HEAD = {"type": "message", "role": "assistant", "model": "m", "content": []}
START = {"type": "message_start", "message": {**HEAD, "usage": {"input_tokens": 12}}}
TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def begins(block: Json, index: int = 0) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int = 0, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def words(text: str, index: int = 0) -> Json:
    return delta(index, type="text_delta", text=text)


def arguments(text: str, index: int = 0) -> Json:
    return delta(index, type="input_json_delta", partial_json=text)


def thinks(text: str, index: int = 0) -> Json:
    return delta(index, type="thinking_delta", thinking=text)


def stops(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def ends(reason: str) -> list[Json]:
    counted = {"usage": {"output_tokens": 7}}
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, **counted},
        {"type": "message_stop"},
    ]


def call(number: int = 1, **more: Any) -> Json:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}, **more}


class Case(NamedTuple):
    server: str  # or its report
    events: Sequence[Json]
    calls: Sequence[tuple[str, Any]] = ()
    text: str = ""
    thinking: str = ""


CASES = [
    Case(
        "a well-behaved one",
        [
            *[begins(THINKING), thinks("Hm."), delta(signature="abc"), stops()],
            *[begins(TEXT, 1), words("I look.", 1), stops(1)],
            *[begins(call(), 2), arguments('{"id":', 2), arguments(' "1"}', 2), stops(2)],
        ],
        [LOOK_1],
        "I look.",
        "Hm.",
    ),
    Case(
        "a text in an open call: sglang #24293",
        [
            begins(call()),
            arguments('{"id":'),
            words("Look"),
            words("ing."),
            arguments(' "1"}'),
            stops(),
        ],
        [LOOK_1],
        "Looking.",
    ),
    Case(
        "a line break in an open call: sglang #24293",
        [begins(call()), arguments(ONE), words("\n"), stops()],
        [LOOK_1],
        "\n",
    ),
    Case(
        "thinking in an open call",
        [begins(call()), thinks("Hm."), arguments(ONE), stops()],
        [LOOK_1],
        thinking="Hm.",
    ),
    Case(
        "a text in open thinking",
        [begins(THINKING), thinks("Hm."), words("Yes."), stops()],
        text="Yes.",
        thinking="Hm.",
    ),
    Case(
        "arguments in an open text",
        [
            begins(call()),
            begins(TEXT, 1),
            words("I look.", 1),
            arguments(ONE, 1),
            stops(1),
            stops(),
        ],
        [LOOK_1],
        "I look.",
    ),
    Case(
        "a block begins with each token: llama.cpp #18551",
        [
            *[begins(THINKING), thinks("H"), begins(THINKING), thinks("m.")],
            *[begins(TEXT, 1), words("Ye", 1), begins(TEXT, 1), words("s.", 1), stops(1)],
        ],
        text="Yes.",
        thinking="Hm.",
    ),
    Case(
        "a block begins and ends with each token",
        [step for token in ("I", " ", "look.") for step in (begins(TEXT), words(token), stops())],
        text="I look.",
    ),
    Case(
        "a block begins with its token in it",
        [begins({"type": "text", "text": token}) for token in ("I", " ", "look.")],
        text="I look.",
    ),
    Case(
        "a block begins with each token, at another index each",
        [
            step
            for index, token in enumerate(("I", " ", "look."))
            for step in (begins(TEXT, index), words(token, index), stops(index))
        ],
        text="I look.",
    ),
    Case(
        "a call begins with each piece",
        [begins(call()), arguments('{"id":'), begins(call()), arguments(' "1"}'), stops()],
        [LOOK_1],
    ),
    Case(
        "a call begins with each piece, without an id",
        [
            *[begins(call(id=None)), arguments('{"id":')],
            *[begins(call(id=None)), arguments(' "1"}'), stops()],
        ],
        [LOOK_1],
    ),
    Case(
        "all calls at index 0",
        [
            *[begins(call(1)), arguments(ONE), stops()],
            *[begins(call(2)), arguments(TWO), stops()],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "all calls at index 0, without ids and ends",
        [
            *[begins(call(id=None)), arguments(ONE)],
            *[begins(call(id=None)), arguments(TWO)],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "a call without an input: llama.cpp #22960",
        [begins({"type": "tool_use", "id": "toolu_1", "name": "look"}), arguments(ONE), stops()],
        [LOOK_1],
    ),
    Case(
        "a call without an input and without arguments",
        [begins({"type": "tool_use", "id": "toolu_1", "name": "look"}), stops()],
        [("look", {})],
    ),
    Case("a call whose input is in its beginning", [begins(call(input={"id": "1"}))], [LOOK_1]),
    Case("no block begins", [words("I "), words("look.")], text="I look."),
    Case("the text of a block is missing", [begins({"type": "text"}), words("Yes.")], text="Yes."),
    Case("a text is null", [begins({**TEXT, "text": None}), words("Yes.")], text="Yes."),
]


# These differ in more than their events: what is shown, or how they end.
ODD = [
    Case(
        "no beginning",
        [begins(TEXT), words("Yes."), *ends("end_turn")],
        text="Yes.",
    ),
    Case(
        "a second count without a reason",
        [
            *[START, begins(TEXT), words("Yes."), ends("end_turn")[0]],
            {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"input_tokens": 9}},
            {"type": "message_stop"},
        ],
        text="Yes.",
    ),
    Case(
        "the message begins with all of its blocks",
        [
            {"type": "message_start", "message": {**HEAD, "content": [{**TEXT, "text": "Yes."}]}},
            *ends("end_turn"),
        ],
        text="Yes.",
    ),
    Case(
        "arguments as an object",
        [
            *[START, begins(call()), delta(type="input_json_delta", partial_json={"id": "1"})],
            *ends("tool_use"),
        ],
        [LOOK_1],
    ),
    Case(
        "an empty object before the arguments",
        [START, begins(call()), arguments("{}"), arguments(ONE), *ends("tool_use")],
        [LOOK_1],
    ),
    Case(
        "the arguments twice",
        [START, begins(call()), arguments(ONE), arguments(ONE), *ends("tool_use")],
        [LOOK_1],
    ),
    Case(
        "one id for all calls",
        [
            *[START, begins(call()), arguments(ONE), stops()],
            *[begins(call(), 1), arguments(TWO, 1), stops(1), *ends("tool_use")],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "one id for calls of two tools",
        [
            *[START, begins(call()), arguments(ONE), stops()],
            *[begins(call(name="pay"), 1), arguments('{"amount": 5}', 1), *ends("tool_use")],
        ],
        [LOOK_1, ("pay", {"amount": 5})],
    ),
    Case(
        "a call comes again at the end",
        [
            *[START, begins(call()), arguments(ONE), stops()],
            *[begins(call(input={"id": "1"}), 1), stops(1), *ends("tool_use")],
        ],
        [LOOK_1],
    ),
]


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("case", ODD, ids=lambda case: case.server)
def test_a_message_is_read_however_it_begins_and_ends(case, way):
    reply = reply_to("anthropic", way, case.events)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == list(case.calls)
    assert reply.text == case.text
    assert reply.is_usable


def test_a_content_may_be_a_text():
    body = {**HEAD, "content": "Yes.", "stop_reason": "end_turn"}
    assert reply_to("anthropic", "plain", body).text == "Yes."


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_nothing_of_a_block_is_lost(case, way):
    reason = "tool_use" if case.calls else "end_turn"
    reply = reply_to("anthropic", way, [START, *case.events, *ends(reason)])
    assert [(made.name, made.arguments) for made in reply.tool_calls] == list(case.calls)
    assert reply.text == case.text
    assert reply.thinking == case.thinking
    assert reply.stop_reason == reason
    assert not reply.usage.estimated


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_a_stream_without_event_lines_is_read(case, way):
    """The SDK passes over events without a name (aiproxy #609)."""
    reason = "tool_use" if case.calls else "end_turn"
    events = [START, *case.events, *ends(reason)]
    reply = reply_to("anthropic", way, [f"data: {json.dumps(event)}\n\n" for event in events])
    assert [(made.name, made.arguments) for made in reply.tool_calls] == list(case.calls)
    assert reply.text == case.text
    assert reply.thinking == case.thinking


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_all_of_it_is_shown_once(case):
    reply, deltas = folded("anthropic", START, *case.events, *ends("end_turn"))
    assert told(deltas, "answer") == reply.text
    assert told(deltas, "thinking") == reply.thinking
    assert {delta.index for delta in deltas if delta.kind == "call"} <= {*range(len(case.calls))}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_a_stream_that_broke_off_anywhere_is_not_usable(case):
    events = [START, *case.events, *ends("tool_use" if case.calls else "end_turn")]
    for length in range(len(events)):
        assert not folded("anthropic", *events[:length])[0].is_usable


def test_words_in_an_open_call_go_back_before_the_first_call():
    """The API wants the result of a call right after it."""
    events = [begins(call(1)), arguments(ONE), stops(), begins(call(2), 1), words("I look.", 1)]
    reply, _ = folded("anthropic", START, *events, arguments(TWO, 1), *ends("tool_use"))
    types = [block["type"] for block in reply.native["content"]]
    assert types == ["text", "tool_use", "tool_use"]


def test_signed_thinking_is_not_gone_on_with():
    """Its signature covers what it was."""
    reply, _ = folded(
        "anthropic",
        START,
        *[begins(THINKING), thinks("Hm."), delta(signature="abc")],
        *[begins(THINKING), thinks("Well."), delta(signature="def")],
        *ends("end_turn"),
    )
    signed = [(block["thinking"], block["signature"]) for block in reply.native["content"]]
    assert signed == [("Hm.", "abc"), ("Well.", "def")]


def test_arguments_without_a_call_make_a_reply_unusable():
    reply, deltas = folded("anthropic", START, arguments(ONE), *ends("tool_use"))
    assert reply.stop_reason == "malformed"
    assert deltas == []


@given(st.lists(st.text(min_size=1, max_size=5), max_size=6), st.data())
def test_a_text_may_come_anywhere(texts, data):
    """In a block of its own, in an open call, in one that has ended, and in none."""
    events = []
    for text in texts:
        events.append(words(text, data.draw(st.integers(0, 3))))
    at = data.draw(st.integers(0, len(texts)))
    events[at:at] = [begins(call(), 0), arguments(ONE, 0)]
    at = data.draw(st.integers(0, len(events)))
    events[at:at] = data.draw(st.sampled_from([[], [begins(TEXT, 1)], [begins(TEXT, 1), stops(1)]]))
    reply, deltas = folded("anthropic", START, *events, *ends("tool_use"))
    assert sorted(reply.text) == sorted("".join(texts))
    assert told(deltas, "answer") == "".join(texts)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [LOOK_1]


def test_a_piece_of_a_long_text_costs_no_more_than_the_first():
    def stream(pieces: int) -> None:
        blocks = BlockAssembler()
        for _ in range(pieces):
            blocks.begin(0, THINKING)
            blocks.add(0, {"thinking": "text "})

    assert grows_evenly(stream, 100, 1000)
