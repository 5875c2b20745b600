"""One table of errors and one retry regime, asked of all five protocols over real HTTP."""

import asyncio
import time
from email.utils import formatdate
from typing import Any

import pytest

from tests.servers import Reply, bare, serve
from tests.support.providers import SPEAKS, model_of
from think_agent import (
    Assistant,
    AuthError,
    BadRequest,
    ConnectionFailed,
    Model,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    ToolsUnsupported,
    User,
)
from think_agent.providers.errors import asked_wait

HELLO = Request([User("Hello")])


def hello(request: Request) -> Assistant:
    return Assistant("Hello.")


def failure(status: int, said: str, **headers: str) -> Reply:
    """An error in the shape that OpenAI, Anthropic and Google have; Ollama quotes it whole."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"error": {"message": said}}, headers=named)


async def last_of(model: Model) -> Any:
    return [event async for event in model.astream(HELLO)][-1]


WAYS = {
    "plain": lambda model: model.complete(HELLO),
    "async": lambda model: asyncio.run(model.acomplete(HELLO)),
    "streamed": lambda model: list(model.stream(HELLO))[-1],
    "async streamed": lambda model: asyncio.run(last_of(model)),
}
every_way = pytest.mark.parametrize("way", WAYS)
every_provider = pytest.mark.parametrize("provider", SPEAKS)
TABLE: list[tuple[int, str, type[ModelError], bool]] = [
    (400, "No.", BadRequest, False),
    (400, "the model qwen does not support tools", ToolsUnsupported, False),
    (401, "Who are you?", AuthError, False),
    (403, "Not you.", AuthError, False),
    (404, "the model is not there", ModelNotFound, False),
    (404, "no such path", BadRequest, False),
    (408, "Too slow.", Overloaded, True),
    (409, "Conflict.", Overloaded, True),
    (413, "Too much.", BadRequest, False),
    (422, "No.", BadRequest, False),
    (429, "Slow down.", RateLimited, True),
    (500, "Oh.", Overloaded, True),
    (529, "Oh.", Overloaded, True),
    (400, "The supported API model names are a and b", ModelNotFound, False),
    (400, "prompt is too long: 210000 tokens > 200000 maximum", BadRequest, False),
    (500, "tools param requires --jinja flag", BadRequest, False),
]


@every_provider
@every_way
def test_a_status_means_the_same_everywhere(provider, way):
    with serve(SPEAKS[provider][0](), hello) as server:
        model = model_of(provider, server)
        bare(model).retries = 0
        for status, said, kind, retryable in TABLE:
            server.canned = [failure(status, said)]
            with pytest.raises(ModelError) as caught:
                WAYS[way](model)
            error = caught.value
            assert (type(error), error.status, error.retryable) == (kind, status, retryable)
            assert said.rstrip(".") in str(error)


@every_provider
@every_way
def test_what_may_pass_is_tried_three_times_in_all(provider, way):
    with serve(SPEAKS[provider][0](), hello) as server:
        model = model_of(provider, server)
        server.canned = [failure(429, "Slow down.", retry_after_ms="1")] * 2
        assert WAYS[way](model).text == "Hello."
        server.canned = [failure(503, "Not now.", retry_after="0.001")] * 3
        with pytest.raises(Overloaded):
            WAYS[way](model)
        assert len(server.requests) == 6


@every_provider
@every_way
def test_a_long_wait_is_reported_and_not_waited_for(provider, way):
    began = time.monotonic()
    with serve(SPEAKS[provider][0](), hello) as server:
        server.canned = [failure(429, "Slow down.", retry_after="100")]
        with pytest.raises(RateLimited, match="asks to wait 100 s") as caught:
            WAYS[way](model_of(provider, server))
        assert len(server.requests) == 1
    assert caught.value.retry_after == 100
    assert time.monotonic() - began < 5


@every_provider
@every_way
def test_nobody_is_at_the_address(provider, way):
    with serve(SPEAKS[provider][0](), hello) as server:
        model = model_of(provider, server)
    bare(model).retries = 0
    with pytest.raises(ConnectionFailed, match="no server at http://127"):
        WAYS[way](model)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_what_a_server_asks_to_wait(headers, wait):
    assert asked_wait(headers) == wait


def test_a_wait_may_be_a_date():
    in_a_minute = formatdate(time.time() + 60, usegmt=True)
    assert 55 < (asked_wait({"retry-after": in_a_minute}) or 0) <= 60
