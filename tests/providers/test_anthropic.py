"""What only the Anthropic provider does, through the real SDK over local HTTP. `test_errors.py` and
`test_four_providers.py` test all providers.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.servers import Reply, bare
from tests.servers.anthropic import error_reply, event
from tests.support.pieces import told
from tests.support.providers import ASK, HELLO, KEY, failure, streamed_ways, talking
from tests.support.wires import to_anthropic
from think_agent import (
    AuthError,
    BadRequest,
    ModelError,
    Request,
    User,
    connect,
)


@pytest.mark.parametrize(
    ("name", "forces"),
    [
        ("claude-opus-5-5", False),
        ("claude-sonnet-5-5-20261001", False),
        ("claude-fable-5-2", False),
        ("claude-mythos-5-1", False),
        ("claude-haiku-5-5", True),
        ("claude-opus-5", True),
        ("claude-fable-5-20260801", True),
    ],
)
def test_models_known_to_refuse_forcing(name, forces):
    model = connect(f"anthropic:{name}", api_key=KEY)
    assert ("named" not in model.refused) is forces


def test_thinking_with_a_budget_keeps_a_bound_above_it():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    body = to_anthropic(replace(HELLO, max_output_tokens=1000), thinking=thinking)
    assert body["thinking"] == thinking
    assert body["max_tokens"] == 1025  # the API refuses less


def test_requests_go_to_the_address_that_is_given_also_without_a_key():
    client = bare(connect("anthropic", base_url="http://localhost:4000")).client
    assert str(client.base_url) == "http://localhost:4000"
    assert client.api_key == "not-needed"


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        ("Your credit balance is too low to access", AuthError, "and its credit"),
        ("long\n" * 999, BadRequest, "long long"),
    ],
)
def test_error_answers(message: str, kind: type[ModelError], words: str):
    with talking("anthropic") as (server, model):
        server.canned = [error_reply(400, "invalid_request_error", message)]
        error = failure(model)
        assert type(error) is kind
        assert words in str(error)
        assert len(server.requests) == 1


START = [
    event("message_start", message={"role": "assistant", "content": [], "usage": {}}),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hel"}),
]
END = [
    event("message_delta", delta={"stop_reason": "end_turn"}, usage={}),
    event("message_stop"),
]


def streaming(*events: bytes) -> Reply:
    return Reply(chunks=events, content_type="text/event-stream")


def test_halves_of_a_character_in_two_pieces_are_joined():
    """As servers send them that cut a text between the two."""

    def half(text: str) -> bytes:
        delta: dict[str, Any] = {"type": "text_delta", "text": text}
        return event("content_block_delta", index=0, delta=delta)

    with talking("anthropic") as (server, model):
        server.canned = [streaming(*START, half("\ud83d"), half("\ude00"), *END)]
        *deltas, reply = model.stream(HELLO)
        assert reply.text == reply.native["content"][0]["text"] == "Hel\U0001f600"
        assert told(deltas, "answer") == "Hel\ufffd\ufffd"  # what was shown cannot be taken back
        assert model.complete(Request([User("Hi"), reply, User("So?")])).text == "Hello."


@streamed_ways
def test_what_follows_the_end_event_is_not_read(way):
    """OpenRouter sends an event that the SDK cannot read."""
    with talking("anthropic") as (server, model):
        server.canned = [streaming(*START, *END, b"event: data\ndata: [DONE]\n\n")]
        assert ASK[way](model, HELLO).text == "Hel"
