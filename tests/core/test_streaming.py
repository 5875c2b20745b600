"""A stream shows a reply early and ends with the reply that `complete` gives. Half a reply is never
acted on.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demos.refund.offline import reply as desk_reply
from demos.refund.shop import Shop
from tests.servers import bare, serve
from tests.support.counting import counted, grows_evenly
from tests.support.pieces import told
from tests.support.providers import SPEAKS, desk, every_provider, model_of, says
from tests.support.strategies import replies
from think_agent import (
    Agent,
    Assistant,
    Delta,
    ModelError,
    Outcome,
    Progress,
    Request,
    ScriptedModel,
    User,
)
from think_agent.testing import call
from think_agent.wire.incoming import make_call_delta
from think_agent.wire.pieces import CallReader, JsonReader


def test_a_thought_is_shown_before_its_json_ends_but_no_half_surrogate_pair():
    reader = CallReader("think")
    assert told(reader.feed('{"thought": "Check the da'), "thought") == "Check the da"
    shown = [told(reader.feed(c), "thought") for c in r"te \ud83d\ude00\ud83dz"]
    assert "".join(shown) == "te 😀\ufffdz"
    assert not any("\ud800" <= char <= "\udfff" for char in "".join(shown))
    assert reader.feed('!", "should_continue": "tr') == [Delta("thought", "!", "think")]


@settings(max_examples=50)
@given(
    value=st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
    ),
    indent=st.sampled_from([None, 2]),
    ascii_only=st.booleans(),
)
def test_json_in_pieces_gives_every_string_of_the_outer_object(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    def read(pieces) -> dict:
        reader, strings = JsonReader(), {}
        for key, piece in (found for p in pieces for found in reader.feed(p)):
            strings[key] = strings.get(key, "") + piece
        return strings

    own = {key: item for key, item in value.items() if item and isinstance(item, str)}
    assert read([text]) == read(text) == own


def test_the_cost_of_a_piece_does_not_depend_on_length_or_escapes():
    def read(unit: str, count: int) -> None:
        text, reader = json.dumps({"thought": unit * count}), CallReader("think")
        size = len(text) // count
        for at in range(0, len(text), size):
            reader.feed(text[at : at + size])

    steps = []
    for unit in ("Hello, word", "é😀"):
        assert grows_evenly(partial(read, unit), 200, 2_000)
        with counted() as found:
            read(unit, 200)
        steps.append(found.total())
    assert steps[1] < 3 * steps[0]


@given(junk=st.text())
def test_arguments_that_are_no_json_raise_nothing(junk):
    reader = CallReader("think")
    for char in junk:
        reader.feed(char)
    assert told(CallReader("pay").feed(junk), "call") == junk


@given(reply=replies)
def test_the_pieces_of_a_reply_join_to_its_parts(reply):
    *deltas, whole = ScriptedModel([reply]).stream(Request([User("Go on.")]))
    assert whole.text == reply.text
    assert told(deltas, "thinking") == reply.thinking
    assert told(deltas, "answer") == reply.text


def test_a_call_that_arrives_whole_is_shown_by_its_kind():
    assert make_call_delta(call("think", thought="Hm."), 1) == Delta("thought", "Hm.", "think", 1)
    assert make_call_delta(call("pay", n=1), 2) == Delta("call", '{"n": 1}', "pay", 2)


@every_provider
@pytest.mark.parametrize("is_async", [False, True])
def test_the_first_delta_arrives_before_the_last_is_sent(provider, is_async):
    """The server keeps its last chunk until the client has the first delta of the answer."""
    seen, too_late, events = threading.Event(), [], []
    protocol = SPEAKS[provider][0]()
    encode = protocol.encode_stream

    def pausing(reply: Assistant, body) -> Iterator[bytes]:
        *chunks, last = encode(reply, body)
        yield from chunks
        if not seen.wait(60):
            too_late.append(reply)
        yield last

    protocol.encode_stream = pausing
    words = "It was bought 13 days ago, so it is approved."

    def note(event) -> None:
        events.append(event)
        if isinstance(event, Delta) and event.kind == "answer":
            seen.set()

    with serve(protocol, says(words)) as server:
        agent = Agent(model_of(provider, server), force="never")
        if is_async:
            asyncio.run(agent.arun("Why?", on_event=note))
        else:
            agent.run("Why?", on_event=note)
    assert not too_late
    assert told(events, "answer") == events[-1].answer == words


@every_provider
def test_a_streamed_run_shows_thoughts_thinking_calls_and_the_answer(provider):
    def thinking(request: Request) -> Assistant:
        return replace(desk_reply(request), thinking="The customer wants money back.")

    with serve(SPEAKS[provider][0](), thinking) as server:
        events = list(desk(model_of(provider, server), Shop()).stream("Refund ORD-001, please"))
    outcome = events[-1]
    assert isinstance(outcome, Outcome)
    assert told(events, "thought") == "".join(outcome.thoughts)
    assert told(events, "answer") == outcome.answer
    assert told(events, "thinking") == "".join(step.thinking for step in outcome.turn.replies)
    assert '"ORD-001"' in told(events, "call")
    assert "customer wants" not in outcome.answer
    others = (Delta, Progress, Outcome)
    assert [e for e in events if not isinstance(e, others)] == list(outcome.transcript)


@every_provider
def test_a_reply_that_broke_off_is_never_acted_on(provider):
    """Cut after every chunk. If nothing was shown yet, that is a ModelError; else the reply is
    unfinished and says why. No tool is called.
    """
    protocol, lengths = SPEAKS[provider][0](), []
    cut_at = [None]  # first it is whole, to know what a whole one has
    whole = protocol.encode_stream

    def cut(reply: Assistant, body) -> Iterator[bytes]:
        chunks = list(whole(reply, body))
        lengths.append(len(chunks))
        yield from chunks[: cut_at[0]]

    def hasty(request: Request) -> Assistant:
        return desk_reply(replace(request, tool_choice="required"))

    protocol.encode_stream = cut
    with serve(protocol, hasty) as server:
        model = model_of(provider, server)
        bare(model).retries = 0
        agent = desk(model, Shop(), force="never")
        list(agent.stream("ORD-001"))
        length = lengths[0]
        if provider == "openai-chat":  # after the finish reason come but the usage and [DONE]
            length -= 2
        for cut_at[0] in range(length):
            events, error = [], ""
            try:
                events.extend(agent.stream("ORD-001"))
            except ModelError as raised:
                error = str(raised)
            if error:
                said = [event for event in events if not isinstance(event, Progress)]
                assert said == [User("ORD-001")]
                assert len(error.splitlines()) == 1
                continue
            *before, reply, _, outcome = events
            assert reply.stop_reason == "incomplete"
            assert reply.cause
            assert outcome.exit == "truncated"
            assert outcome.actions == ()
            assert any(isinstance(event, Delta) for event in before)
