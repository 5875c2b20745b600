"""The Anthropic adapter: real SDK, real HTTP, a local server or the recorded answers of the API."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.servers import ProviderServer, Reply, bare, serve
from tests.servers.anthropic import AnthropicProtocol, event
from tests.support.recordings import load, needs_wire
from tests.wire.test_anthropic import (
    ASK,
    BODIES,
    ERRORS,
    HELLO,
    MODEL,
    STREAMS,
    WEATHER,
)
from think_agent import (
    Assistant,
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    Force,
    ModelError,
    Overloaded,
    Request,
    ToolCall,
    ToolResult,
    Usage,
    User,
    connect,
)
from think_agent.messages import Message
from think_agent.model import Capabilities
from think_agent.providers.anthropic import Anthropic
from think_agent.streaming import Delta

KEY = "sk-ant-local-0123456789"


@pytest.fixture(autouse=True)
def _only_our_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))  # the SDK looks for profiles there


def model_at(url: str, name: str = MODEL, **options: Any) -> Anthropic:
    model = bare(connect(f"anthropic:{name}", base_url=url, api_key=KEY, **options))
    assert isinstance(model, Anthropic)
    return model


def at(server: ProviderServer, name: str = MODEL, **options: Any) -> Anthropic:
    return model_at(server.url, name, **options)


def says(reply: Assistant) -> Callable[[Request], Assistant]:
    return lambda request: reply


# Four ways to ask.


def completed(model: Anthropic, request: Request) -> Assistant:
    return model.complete(request)


def acompleted(model: Anthropic, request: Request) -> Assistant:
    return asyncio.run(model.acomplete(request))


def streamed(model: Anthropic, request: Request) -> Assistant:
    return collected(list(model.stream(request)))


def astreamed(model: Anthropic, request: Request) -> Assistant:
    async def collect() -> list[Delta | Assistant]:
        return [item async for item in model.astream(request)]

    return collected(asyncio.run(collect()))


WAYS = [completed, acompleted, streamed, astreamed]
Way = Callable[[Anthropic, Request], Assistant]


def collected(items: list[Delta | Assistant]) -> Assistant:
    """The reply at the end of a stream, after a check that the deltas before it told the same."""
    reply = items[-1]
    assert isinstance(reply, Assistant)
    deltas = [item for item in items if isinstance(item, Delta)]
    assert len(deltas) == len(items) - 1
    assert "".join(d.text for d in deltas if d.kind == "answer") == reply.text
    assert "".join(d.text for d in deltas if d.kind == "thinking") == reply.thinking
    for number, call in enumerate(reply.tool_calls):
        pieces = [d for d in deltas if d.kind in ("call", "thought") and d.index == number]
        assert {d.name for d in pieces} <= {call.name}
        told: Any = "".join(d.text for d in pieces)
        assert isinstance(call.arguments, dict)
        if call.name == "think":
            assert told == call.arguments["thought"]
        else:
            assert json.loads(told or "{}") == call.arguments
    return reply


# 1. The recorded exchanges with the real API.


def canned(case: str) -> Reply:
    """The recorded response. The header says that there is no use in asking again."""
    response = load("anthropic", case)["response"]
    headers = {**response["headers"], "x-should-retry": "false"}
    kind = headers.pop("content-type")
    if "stream" not in response:
        return Reply(response["status"], response["body"], content_type=kind, headers=headers)
    raw = response["stream"].encode()
    chunks = [raw[i : i + 1000] for i in range(0, len(raw), 1000)]
    return Reply(response["status"], chunks=chunks, content_type=kind, headers=headers)


def ask_canned(reply: Reply, way: Way, request: Request = HELLO) -> Assistant:
    with serve(AnthropicProtocol(), says(Assistant())) as server:
        server.canned = [reply]
        model = at(server)
        model.retries = 0
        return way(model, request)


def expect_message(reply: Assistant, message: dict[str, Any]) -> None:
    """Does `reply` say what the message of the API says? Read block by block."""
    texts, thoughts, calls = [], [], []
    for block in message["content"]:
        if block["type"] == "text":
            texts.append(block["text"])
        elif block["type"] == "thinking":
            thoughts.append(block["thinking"])
        elif block["type"] == "tool_use":
            calls.append(ToolCall(block["id"], block["name"], block["input"]))
    usage = message["usage"]
    cached = usage["cache_read_input_tokens"]
    details = usage.get("output_tokens_details") or {"thinking_tokens": 0}
    assert reply.text == "".join(texts)
    assert reply.thinking == "".join(thoughts)
    assert reply.tool_calls == tuple(calls)
    assert reply.stop_reason == message["stop_reason"]
    assert reply.model == message["model"]
    assert reply.provider == "anthropic"
    assert reply.usage == Usage(
        input_tokens=usage["input_tokens"] + cached + usage["cache_creation_input_tokens"],
        output_tokens=usage["output_tokens"],
        cached_tokens=cached,
        reasoning_tokens=details["thinking_tokens"],
    )


@needs_wire
@pytest.mark.parametrize("case", BODIES)
def test_a_recorded_message_is_decoded_and_kept(case: str) -> None:
    recorded = load("anthropic", case)["response"]["body"]
    reply = ask_canned(canned(case), completed)
    expect_message(reply, recorded)
    assert reply.native == {"role": "assistant", "content": recorded["content"]}


@needs_wire
@pytest.mark.parametrize("case", STREAMS)
def test_a_recorded_stream_folds_as_the_sdk_folds_it(case: str) -> None:
    with serve(AnthropicProtocol(), says(Assistant())) as server:
        server.canned = [canned(case)]
        client = anthropic.Anthropic(base_url=server.url, api_key=KEY)
        talk = [{"role": "user", "content": "Hello"}]
        with client.messages.stream(model=MODEL, max_tokens=9, messages=talk) as stream:
            message = stream.get_final_message().to_dict()
    reply = ask_canned(canned(case), streamed)
    expect_message(reply, message)
    assert reply.native == {"role": "assistant", "content": message["content"]}
    assert reply == ask_canned(Reply(body=message), completed)


@needs_wire
@pytest.mark.parametrize("case", ERRORS)
def test_a_recorded_error_becomes_one_of_ours(case: str) -> None:
    kind, words = ERRORS[case]
    with pytest.raises(ModelError) as caught:
        ask_canned(canned(case), streamed if case.startswith("stream-") else completed)
    error = caught.value
    assert type(error) is kind
    assert words in str(error)
    assert "\n" not in str(error)
    assert str(error).startswith("anthropic: ")
    assert error.status == load("anthropic", case)["response"]["status"]
    assert error.retry_after == (7 if case == "err-429-retry-after-7" else None)
    assert error.retryable == case.startswith("stream-")  # the header is no word about those


# 2. Requests.


def test_ids_of_other_providers_are_spelled_as_the_api_takes_them() -> None:
    call = ToolCall("functions.weather:0", "weather", {"city": "Oslo"})
    foreign = Assistant(tool_calls=(call,), provider="openai")
    history = [User("Go"), foreign, ToolResult(call.id, "weather", "rain")]
    with serve(AnthropicProtocol(), says(Assistant("Rain."))) as server:
        assert at(server).complete(Request(history, [WEATHER])).text == "Rain."


@pytest.mark.parametrize("raw", ["{", "[1]", '"text"'])
def test_arguments_that_are_no_object_are_kept_and_can_be_replayed(raw: str) -> None:
    call = ToolCall("toolu_1", "weather", raw)
    brain = says(Assistant(tool_calls=(call,), stop_reason="tool_use"))
    with serve(AnthropicProtocol(), brain) as server:
        *_, reply = at(server).stream(ASK)
    assert isinstance(reply, Assistant)
    assert reply.tool_calls == (call,)
    for replayed in (reply, replace(reply, native=None)):
        history = [*ASK.messages, replayed, ToolResult("toolu_1", "weather", "no", is_error=True)]
        with serve(AnthropicProtocol(), says(Assistant("Sorry."))) as server:
            assert at(server).complete(replace(ASK, messages=history)).text == "Sorry."
            assert server.requests[0]["messages"][1]["content"][0]["input"] == {"INVALID_JSON": raw}


# 3. Tool choices that are refused.


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_choice_is_asked_again_as_auto_and_remembered(way: Way) -> None:
    brain = says(Assistant("Hello.", stop_reason="end_turn"))
    with serve(AnthropicProtocol(), brain, mode="refuse") as server:
        model = at(server)
        assert model.capabilities == Capabilities(forcing="tool")
        forced = replace(ASK, tool_choice=Force("think"))
        assert [way(model, forced).enforced, way(model, forced).enforced] == ["prompt", "prompt"]
        choices = [body.get("tool_choice") for body in server.requests]
        assert choices == [{"type": "tool", "name": "think"}, None, None]
        assert model.capabilities == Capabilities(forcing="none")


def test_an_honored_choice_says_so() -> None:
    brain = says(Assistant(tool_calls=(ToolCall("", "think", {"thought": "x"}),)))
    with serve(AnthropicProtocol(), brain) as server:
        model = at(server)
        assert model.complete(replace(ASK, tool_choice=Force("think"))).enforced == "tool_choice"
        assert model.complete(replace(ASK, tool_choice="none")).enforced == "tool_choice"
        assert model.complete(ASK).enforced is None


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
def test_models_known_to_refuse_forcing(name: str, forces: bool) -> None:
    model = model_at("http://127.0.0.1:9", name)
    assert model.capabilities == Capabilities(forcing="tool" if forces else "none")


def test_thinking_with_a_budget_excludes_forcing() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        model = at(server, thinking=thinking)
        assert model.complete(replace(ASK, tool_choice=Force("think"))).enforced == "prompt"
        [body] = server.requests
        assert (body.get("tool_choice"), body["thinking"]) == (None, thinking)


# 4. Errors.


def caught(way: Way, model: Anthropic, request: Request = ASK) -> ModelError:
    with pytest.raises(ModelError) as info:
        way(model, request)
    assert "\n" not in str(info.value)
    assert KEY not in str(info.value)
    return info.value


def test_no_key() -> None:
    with pytest.raises(AuthError, match=r"ANTHROPIC_API_KEY \(in code: api_key=\)"):
        connect("anthropic")


def test_the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(AnthropicProtocol(key=KEY), says(Assistant("Hello."))) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        model = connect("anthropic", base_url=server.url)
        assert model.complete(HELLO).text == "Hello."


def test_credentials_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_PROFILE", "nobody")
    with pytest.raises(AuthError, match="nobody"):
        connect("anthropic")


def error_reply(status: int, kind: str, message: str, **headers: str) -> Reply:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Reply(status, body, headers={"x-should-retry": "false", **headers})


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (
            error_reply(400, "invalid_request_error", "Your credit balance is too low to access"),
            AuthError,
            "add credit",
        ),
        (error_reply(403, "permission_error", "not allowed"), AuthError, "rights"),
        (error_reply(413, "request_too_large", "too large"), BadRequest, "shorter"),
        (error_reply(500, "api_error", "Internal server error"), Overloaded, "try again"),
        (error_reply(401, "authentication_error", f"bad key {KEY}"), AuthError, r"bad key \*\*\*"),
        (error_reply(400, "invalid_request_error", "long\n" * 999), BadRequest, "long long"),
        (Reply(404, "<html>not\nhere</html>", content_type="text/html"), BadRequest, "base_url"),
    ],
)
def test_error_answers(reply: Reply, kind: type[ModelError], words: str) -> None:
    with serve(AnthropicProtocol(), says(Assistant())) as server:
        server.canned = [reply]
        error = caught(completed, at(server))
        assert type(error) is kind
        assert len(str(error)) < 500
        with pytest.raises(kind, match=words):
            raise error
        assert len(server.requests) == 1


def test_a_server_may_ask_to_be_asked_again() -> None:
    reply = error_reply(400, "some_error", "Not now.", **{"x-should-retry": "true"})
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [reply]
        assert at(server).complete(ASK).text == "Hello."


def test_halves_of_a_character_in_two_pieces_are_joined() -> None:
    """As servers send them that cut a text between the two."""
    halves = [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": half})
        for half in ("\ud83d", "\ude00")
    ]
    end = [
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={}),
        event("message_stop"),
    ]
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [Reply(chunks=[*START, *halves, *end], content_type="text/event-stream")]
        *deltas, reply = at(server).stream(HELLO)
        assert isinstance(reply, Assistant)
        assert reply.text == reply.native["content"][0]["text"] == "Hel\U0001f600"
        told = "".join(delta.text for delta in deltas if isinstance(delta, Delta))
        assert told == "Hel\ufffd\ufffd"  # a piece that was shown cannot be taken back
        assert at(server).complete(Request([User("Hi"), reply, User("So?")])).text == "Hello."


@pytest.mark.parametrize("way", [streamed, astreamed])
def test_a_call_of_nothing_in_a_stream(way: Way) -> None:
    block = {"type": "tool_use", "id": None, "name": None, "input": None}
    chunks = [START[0], event("content_block_start", index=0, content_block=block)]
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [Reply(chunks=chunks, content_type="text/event-stream")]
        assert type(caught(way, at(server))) is BadResponse
        assert len(server.requests) == 1


def overload(*before: bytes) -> Reply:
    error = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    return Reply(chunks=[*before, error], content_type="text/event-stream")


START = [
    event("message_start", message={"role": "assistant", "content": [], "usage": {}}),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hel"}),
]


@pytest.mark.parametrize("way", [streamed, astreamed])
def test_an_overload_inside_a_stream_is_tried_again(way: Way) -> None:
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [overload()]
        assert way(at(server), ASK).text == "Hello."
        assert len(server.requests) == 2


@pytest.mark.parametrize("way", [streamed, astreamed])
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (overload(*START), Overloaded),
        (Reply(chunks=START, content_type="text/event-stream"), BadResponse),
        (Reply(chunks=START, headers={"content-length": "99999"}), ConnectionFailed),
        (Reply(chunks=[b"event: message_start\ndata: {\n\n"]), BadResponse),
    ],
)
def test_a_stream_that_breaks_off_after_its_beginning(
    way: Way, reply: Reply, kind: type[ModelError]
) -> None:
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [reply]
        assert type(caught(way, at(server))) is kind
        assert len(server.requests) == 1  # a part of the reply has been shown


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
def test_a_page_in_place_of_an_answer(way: Way, content_type: str) -> None:
    with serve(AnthropicProtocol(), says(Assistant())) as server:
        server.canned = [Reply(body="<html>Welcome</html>", content_type=content_type)]
        error = caught(way, at(server))
        assert type(error) is BadResponse
        assert "base_url" in str(error)


def test_no_url() -> None:
    with pytest.raises(ConnectionFailed, match="base_url"):
        model_at("http://[::1")


def late(request: Request) -> Assistant:
    time.sleep(0.5)
    return Assistant("Too late.")


@pytest.mark.parametrize("way", [streamed, astreamed])
def test_what_follows_the_end_event_is_not_read(way: Way) -> None:
    """OpenRouter sends an event that the SDK cannot read."""
    end = [
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={}),
        event("message_stop"),
    ]
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        chunks = [*START, *end, b"event: data\ndata: [DONE]\n\n"]
        server.canned = [Reply(chunks=chunks, content_type="text/event-stream")]
        assert way(at(server), HELLO).text == "Hel"


# 5. Four ways, one conversation.


def brain(request: Request) -> Assistant:
    """Thinks natively, calls two tools at once, then answers."""
    usage = Usage(input_tokens=120, output_tokens=30, cached_tokens=100, reasoning_tokens=7)
    if isinstance(request.messages[-1], User):
        thought = {"thought": "Two cities. «Ask»", "should_continue": "true"}
        return Assistant(
            text="Let me see.",
            thinking="Which tools are there?",
            tool_calls=(
                ToolCall("toolu_1", "think", thought),
                ToolCall("toolu_2", "weather", {"city": "Oslo"}),
                ToolCall("toolu_3", "weather", {}),
            ),
            stop_reason="tool_use",
            usage=usage,
        )
    assert request.tool_choice == "none"
    said = ", ".join(m.content for m in request.messages if isinstance(m, ToolResult))
    return Assistant(text=f"It says: {said}.", thinking="Done.", usage=usage)


def converse(way: Way, model: Anthropic) -> list[Message]:
    messages: list[Message] = [User("Weather in Oslo?")]
    reply = way(model, replace(ASK, messages=messages))
    messages.append(reply)
    messages += [ToolResult(c.id, c.name, f"result of {c.name}") for c in reply.tool_calls]
    messages.append(way(model, replace(ASK, messages=messages, tool_choice="none")))
    messages.append(User("And now?"))
    messages.append(way(model, replace(ASK, messages=messages)))
    return messages


@pytest.mark.parametrize("thinking", [None, {"type": "enabled", "budget_tokens": 1024}])
def test_all_ways_to_ask_give_the_same_conversation(thinking: dict[str, Any] | None) -> None:
    with serve(AnthropicProtocol(), brain) as server:
        model = at(server, thinking=thinking)  # asyncio.run comes and goes six times
        first, *others = [converse(way, model) for way in WAYS]
    assert all(other == first for other in others)
    reply, answer = first[1], first[5]
    assert isinstance(reply, Assistant)
    assert isinstance(answer, Assistant)
    script = brain(ASK)
    assert replace(reply, native=None, signed=False, provider="", model="") == script
    assert reply.native["content"][0]["signature"]  # which the server has checked on replay
    assert answer.text == "It says: result of think, result of weather, result of weather."
