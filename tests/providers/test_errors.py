"""One table of errors and one retry regime, asked of all five protocols over real HTTP."""

import re
import threading
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.servers import Reply
from tests.support.providers import (
    ASK,
    HELLO,
    KEY,
    NO_TOOLS,
    SPEAKS,
    VARIABLES,
    at_once,
    every_provider,
    every_way,
    failure,
    model_of,
    streamed_ways,
    talking,
)
from think_agent import (
    THINK,
    Assistant,
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    Usage,
    User,
    connect,
)
from think_agent.errors import ToolsUnsupported
from think_agent.providers.errors import read_wait

PAGE = "<html>\n<body>" + "Welcome to nginx. " * 50


def refusing(status: int, message: str, **headers: str) -> Reply:
    """An error in the shape that OpenAI, Anthropic and Google have; Ollama quotes it whole."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"error": {"message": message}}, headers=named)


TABLE: list[tuple[int, str, type[ModelError], bool, str]] = [
    (400, "No.", BadRequest, False, "change the request"),
    (401, "Who are you?", AuthError, False, ""),
    (403, "Not you.", AuthError, False, ""),
    (404, "the model is not there", ModelNotFound, False, ""),
    (404, "no such path", BadRequest, False, "base_url"),
    (408, "Too slow.", Overloaded, True, "try again"),
    (409, "Conflict.", Overloaded, True, "try again"),
    (413, "Too much.", BadRequest, False, "show fewer turns"),
    (422, "No.", BadRequest, False, ""),
    (429, "Slow down.", RateLimited, True, ""),
    (500, "Oh.", Overloaded, True, "try again later"),
    (529, "Oh.", Overloaded, True, "try again later"),
    # By the message, where the status does not tell.
    (400, "The supported API model names are a and b", ModelNotFound, False, ""),  # DeepSeek
    (400, "Incorrect API key provided: xai-no", AuthError, False, ""),  # xAI
    (400, "messages.1.content.0.type: Expected `thinking`, but found `tool_use`", BadRequest, False,
     "or begin a new turn"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum", BadRequest, False, "keep_turns"),
    (400, "The input token count exceeds the maximum of 1048576", BadRequest, False, "keep_turns"),
    (500, "llama runner: unable to allocate CPU buffer", BadRequest, False,
     "how the server is started"),
    *((status, message, ToolsUnsupported, False, "--dialect json") for status, message in NO_TOOLS),
]  # fmt: skip


@every_provider
@every_way
def test_a_status_means_the_same_everywhere(provider, way):
    with talking(provider) as (server, model):
        model.retries = 0
        for status, message, kind, retryable, advice in TABLE:
            server.canned = [refusing(status, message)] * 2  # some are asked again in another form
            error = failure(model, way)
            assert type(error) is kind
            assert error.status == status
            assert error.retryable == retryable
            assert message.rstrip(".") in str(error)
            assert advice in str(error)


@every_provider
@every_way
def test_a_temporary_error_is_tried_three_times_in_all(provider, way):
    with talking(provider) as (server, model):
        server.canned = [refusing(429, "Slow down.", retry_after="0.001")] * 2
        assert ASK[way](model, HELLO).text == "Hello."
        server.canned = [refusing(503, "Not now.", retry_after="0.001")] * 3
        assert type(failure(model, way)) is Overloaded
        assert len(server.requests) == 6


@every_provider
@every_way
def test_a_long_wait_is_reported_and_not_waited_for(provider, way):
    with talking(provider) as (server, model):
        server.canned = [refusing(429, "Slow down.", retry_after="100")]
        error = failure(model, way)
        assert len(server.requests) == 1
    assert type(error) is RateLimited
    assert error.retry_after == 100
    assert "asks to wait 100 s" in str(error)


@every_provider
@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1\t@127.0.0.1:1", "http://a\nb", "ws://models.example"]
)
def test_an_address_that_is_not_valid(provider, url):
    with talking(provider) as (server, _), pytest.raises(ConnectionFailed) as caught:
        model_of(provider, server, base_url=url)
    assert "isn't a URL" in str(caught.value)
    assert "\n" not in str(caught.value)


# Keys.


@every_provider
def test_a_wrong_key(provider):
    with talking(provider, protocol=SPEAKS[provider][0](key=KEY)) as (server, _):
        model = model_of(provider, server, api_key="sk-wrong-0123456789")
        for way in ASK:
            error = failure(model, way)
            assert type(error) is AuthError
            assert VARIABLES[provider][-1] in str(error)
            assert "sk-wrong" not in str(error)  # which the server may quote
        assert ASK["plain"](model_of(provider, server, api_key=f" {KEY}\n"), HELLO).text


@every_provider
def test_the_key_of_the_environment(provider, monkeypatch):
    with talking(provider, protocol=SPEAKS[provider][0](key=KEY)) as (server, _):
        for name in VARIABLES[provider]:
            monkeypatch.setenv(name, KEY)
            model = model_of(provider, server, api_key=None)
            for way in ("plain", "async"):
                assert ASK[way](model, HELLO).text == "Hello."
            monkeypatch.delenv(name)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
def test_no_key(provider):
    variable = VARIABLES.get(provider, VARIABLES["openai-chat"])[-1]
    with pytest.raises(AuthError, match=rf"{variable} \(in code: api_key=\)"):
        connect(provider)


def test_a_server_of_ones_own_needs_no_key():
    for provider in ("openai-chat", "openai-responses", "ollama"):
        with talking(provider, api_key=None) as (_, model):
            assert model.complete(HELLO).text == "Hello."


# Answers that are not replies.


@every_provider
@every_way
def test_an_answer_that_is_not_a_reply(provider, way):
    with talking(provider) as (server, model):
        model.retries = 0
        for body in (PAGE, "{not json", "[1]", '{"a": 1}'):
            if (provider, body) == ("gemini", '{"a": 1}'):
                continue  # it lacks candidates: see test_said.py
            kind = "text/html" if body is PAGE else "application/json"
            server.canned = [Reply(body=body, content_type=kind)]
            error = failure(model, way)
            assert type(error) is BadResponse
            assert "base_url" in str(error)
        for status, kind in ((404, BadRequest), (502, Overloaded)):
            server.canned = [Reply(status, PAGE, content_type="text/html")]
            error = failure(model, way)
            assert type(error) is kind
            assert "an HTML page instead of JSON" in str(error) or provider == "gemini"


@pytest.mark.parametrize("provider", [*SPEAKS][1:])  # no header of Ollama's is known
@every_way
def test_a_server_that_says_not_to_ask_again_is_not_asked_again(provider, way):
    with talking(provider) as (server, model):
        server.canned = [refusing(500, "Oh.", x_should_retry="false")]
        error = failure(model, way)
        assert type(error) is Overloaded
        assert error.retryable is False
        assert len(server.requests) == 1
        server.canned = [refusing(500, "Oh.", x_should_retry="true", retry_after="0.001")]
        assert ASK[way](model, HELLO).text == "Hello."


def whole_stream(provider: str) -> list[bytes]:
    body = {"model": "m", "messages": (), "input": (), "contents": ()}
    body["stream_options"] = {"include_usage": True}
    reply = Assistant("All is well. " * 4, usage=Usage(9, 13))
    return list(SPEAKS[provider][0]().encode_stream(reply, body))


def beginning(provider: str) -> list[bytes]:
    """The first pieces of a stream; a part of the text is among them."""
    return whole_stream(provider)[:5]


@every_provider
@streamed_ways
def test_a_stream_that_goes_wrong(provider, way):
    some, failed = beginning(provider), SPEAKS[provider][0].failure
    with talking(provider) as (server, model):
        server.canned = [Reply(chunks=[*some, failed], content_type=server.stream_type)]
        assert_unfinished(ASK[way](model, HELLO), "try again later")
        assert len(server.requests) == 1  # a part was shown: there is no second try
        for nothing in ([], [failed]):
            server.canned = [Reply(chunks=nothing, content_type=server.stream_type)]
            assert ASK[way](model, HELLO).text == "Hello."
        model.retries = 0
        server.canned = [Reply(chunks=[], content_type=server.stream_type)]
        error = failure(model, way)
        is_gemini = provider == "gemini"
        assert type(error) is (Overloaded if is_gemini else BadResponse)
        assert error.status == (503 if is_gemini else None)
        assert re.search("broke off|holds no reply", str(error))


def in_own_contexts(events):
    """The last of the events, each taken in a context of its own."""
    last = None
    while event := copy_context().run(next, events, None):
        last = event
    return last


@every_provider
def test_a_stream_goes_wrong_where_each_step_has_a_context_of_its_own(provider):
    """As where a web server takes the steps of a generator in threads."""
    with talking(provider) as (server, model):
        chunks = [*beginning(provider), SPEAKS[provider][0].failure]
        server.canned = [Reply(chunks=chunks, content_type=server.stream_type)]
        assert_unfinished(in_own_contexts(model.stream(HELLO)), "try again later")


@every_provider
@streamed_ways
def test_a_stream_that_breaks_off_is_an_unfinished_reply(provider, way):
    some = beginning(provider)
    broken = [
        (some, {}, "stopped|broke off"),
        ([*some, some[-1][:20]], {}, "stopped|broke off|not a reply"),
        (some, {"content-length": "99999"}, "broke"),
    ]
    with talking(provider) as (server, model):
        for number, (chunks, headers, cause) in enumerate(broken, 1):
            server.canned = [Reply(200, None, chunks, server.stream_type, headers)]
            assert_unfinished(ASK[way](model, HELLO), cause)
            assert len(server.requests) == number


def test_a_stream_that_falls_silent_is_an_unfinished_reply():
    given_up = threading.Event()

    def silent(provider):
        yield from beginning(provider)
        given_up.wait(30)

    def check(provider, way):
        with talking(provider, timeout=3) as (server, model):
            server.canned = [Reply(chunks=silent(provider), content_type=server.stream_type)]
            assert_unfinished(ASK[way](model, HELLO), r"no answer from \S+ within 3 s")
            assert len(server.requests) == 1

    at_once(check, "streamed", "async streamed")
    given_up.set()


def assert_unfinished(reply, cause):
    assert reply.stop_reason == "incomplete"
    assert reply.native is None
    assert re.search(cause, reply.cause)
    assert "All is" in reply.text
    assert reply.usage.estimated
    assert reply.usage.output_tokens >= len(reply.text) // 4  # Anthropic's `message_start` says 1


@every_provider
@streamed_ways
def test_a_stream_is_over_with_its_last_event(provider, way):
    """Even if the server leaves the line open. Gemini's has none, and is over with the silence."""
    is_read = threading.Event()
    in_vain: list[str] = []

    def left_open():
        yield from whole_stream(provider)
        if not is_read.wait(30):
            in_vain.append("the reply was not read while the line was open")

    silence = 1 if provider == "gemini" else 60
    with talking(provider, timeout=silence) as (server, model):
        server.canned = [Reply(chunks=left_open(), content_type=server.stream_type)]
        reply = ASK[way](model, HELLO)
        is_read.set()
        assert reply.text == "All is well. " * 4
        assert reply.stop_reason == "end_turn"
        assert reply.native  # with what is signed in it
        assert not in_vain


@pytest.mark.parametrize("header", ["-5", "nan", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", ""])
def test_a_time_to_wait_that_is_not_valid_is_ignored(header):
    assert read_wait({"retry-after": header}) is None


def test_a_time_to_wait_in_each_of_its_forms():
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert read_wait({"retry-after": "7.5"}) == 7.5
    assert read_wait({"retry-after": in_a_minute}) == pytest.approx(60, abs=2)
    assert read_wait({"retry-after-ms": "250"}) == 0.25
    assert read_wait({"retry-after-ms": "250", "retry-after": "1"}) == 0.25
    assert read_wait({"retry-after-ms": "soon", "retry-after": "1"}) == 1


@every_provider
@every_way
def test_an_error_of_a_proxy_is_not_blamed_on_the_model(provider, way):
    errors = [
        (500, 'Post "http://127.0.0.1:41/completion": EOF', Overloaded),
        (400, "tool parser 'hermes' was not found", BadRequest),
    ]
    if provider != "ollama":
        errors += [(500, "invalid character '<' looking for beginning of value", Overloaded)]
    with talking(provider) as (server, model):
        model.retries = 0
        for status, message, kind in errors:
            server.canned = [refusing(status, message)]
            assert type(failure(model, way, Request([User("Hi")], [THINK]))) is kind
