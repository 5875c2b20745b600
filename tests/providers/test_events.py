"""How servers write the events of a stream, through the real SDKs."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.servers import Reply
from tests.support.answers import ASKED
from tests.support.combined import combined
from tests.support.counting import grows_evenly
from tests.support.providers import ASK, talking
from think_agent import Assistant
from think_agent.messages import Json
from think_agent.providers.sse import Event, EventReader

COUNTS = {"input_tokens": 12, "output_tokens": 7}
ITEM = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Yes."}],
}
RESPONSE = {"status": "completed", "output": [ITEM], "usage": COUNTS}
BLOCK = {"type": "text", "text": "Yes."}
CANDIDATE = {"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}

STREAMS: dict[str, list[Json]] = {
    "openai-chat": [
        {"choices": [{"index": 0, "delta": {"content": "Yes."}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
    "openai-responses": [
        {"type": "response.output_text.delta", "item_id": "m", "delta": "Yes."},
        {"type": "response.completed", "response": RESPONSE},
    ],
    "anthropic": [
        {"type": "content_block_start", "index": 0, "content_block": {**BLOCK, "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Yes."},
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": COUNTS},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Ye"}]}}]},
        {"candidates": [{**CANDIDATE, "content": {"role": "model", "parts": [{"text": "s."}]}}]},
    ],
}
WHOLE: dict[str, Json] = {
    "openai-chat": {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]},
    "openai-responses": {"object": "response", **RESPONSE},
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "content": [BLOCK],
        "stop_reason": "end_turn",
        "usage": COUNTS,
    },
    "gemini": {"candidates": [CANDIDATE]},
}


def lines(event: Json, *, end: str = "\n", before: str = "", space: str = " ") -> str:
    name = ""
    if "type" in event:
        name = f"event: {event['type']}{end}"
    return f"{before}{name}data:{space}{json.dumps(event)}{end}{end}"


def in_each(**how: str) -> Callable[[Sequence[Json]], str]:
    return lambda events: "".join([lines(event, **how) for event in events])


def without_types(events: Sequence[Json]) -> str:
    """The type is in the name of the event alone."""
    texts = []
    for event in events:
        plain = {key: value for key, value in event.items() if key != "type"}
        texts.append(lines(event).replace(json.dumps(event), json.dumps(plain)))
    return "".join(texts)


def over_lines(events: Sequence[Json]) -> str:
    data = [json.dumps(event, indent=1).replace("\n", "\ndata: ") for event in events]
    return "".join([f"data: {text}\n\n" for text in data])


WRITTEN: dict[str, Callable[[Sequence[Json]], str]] = {
    "as usual": in_each(),
    "CRLF": in_each(end="\r\n"),
    "no space before the data": in_each(space=""),
    "comments: OpenRouter": in_each(before=": PROCESSING\n\n"),
    "an id and a time to wait": in_each(before="id: 1\nretry: 300\n"),
    "a time to wait alone": in_each(before="retry: 300\n\n"),
    "no data": in_each(before="event: ping\ndata:\n\n"),
    "no type in the data": without_types,
    "no names": lambda events: "".join([f"data: {json.dumps(event)}\n\n" for event in events]),
    "other names": lambda events: "".join(
        [f"event: message\ndata: {json.dumps(event)}\n\n" for event in events]
    ),
    "data over several lines": over_lines,
    "no blank lines": lambda events: "".join([f"data: {json.dumps(event)}\n" for event in events]),
    "no blank line at the end": lambda events: in_each()(events).rstrip("\n"),
    "no line feed at the end, and [DONE]": lambda events: f"{in_each()(events)}data: [DONE]",
    "a mark of a text file": lambda events: f"\ufeff{in_each()(events)}",
}


def reply_to_text(provider: str, way: str, text: str, kind: str) -> Assistant:
    with talking(provider) as (server, model):
        server.canned = [Reply(chunks=[text.encode()], content_type=kind)]
        reply = ASK[way](model, ASKED)
        assert len(server.requests) == 1
    return reply


@combined(provider=STREAMS, written=WRITTEN, way=["streamed", "async streamed"])
def test_an_event_is_read_however_it_is_written(provider, written, way):
    text = WRITTEN[written](STREAMS[provider])
    reply = reply_to_text(provider, way, text, "text/event-stream")
    assert reply.text == "Yes."
    assert reply.stop_reason == "end_turn"


@combined(
    provider=WHOLE,
    way=["streamed", "async streamed"],
    kind=["application/json", "text/event-stream"],
    indent=[None, 2],
)
def test_a_server_that_does_not_stream_is_read_all_the_same(provider, way, kind, indent):
    text = json.dumps(WHOLE[provider], indent=indent)
    reply = reply_to_text(provider, way, text, kind)
    assert reply.text == "Yes."
    assert reply.stop_reason == "end_turn"


def test_a_stream_of_gemini_may_be_a_list():
    """As its API answers without `alt=sse`, which some gateways leave out."""
    reply = reply_to_text("gemini", "streamed", json.dumps(STREAMS["gemini"]), "application/json")
    assert reply.text == "Yes."


def read_in_pieces(data: bytes, size: int) -> list[Event]:
    reader = EventReader()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    events: list[Event] = []
    for piece in pieces:
        events += reader.feed(piece)
    return [*events, *reader.close()]


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("provider", STREAMS)
def test_a_stream_reads_the_same_wherever_it_is_cut(provider, written):
    data = WRITTEN[written](STREAMS[provider]).encode()
    once = read_in_pieces(data, len(data))
    for size in (1, 2, 7):
        assert read_in_pieces(data, size) == once


def test_a_piece_of_a_long_line_costs_no_more_than_the_first():
    def stream(pieces: int) -> None:
        reader = EventReader()
        for _ in range(pieces):
            _read_all(reader.feed(b"data: x"))
        _read_all(reader.close())

    assert grows_evenly(stream, 100, 1000)


def _read_all(events: Iterator[Any]) -> None:
    for _ in events:
        pass
