"""The Anthropic adapter: real SDK, real HTTP, a local server or the recorded answers of the API."""

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.servers import ProviderServer, Reply, bare, serve
from tests.servers.anthropic import AnthropicProtocol, event
from tests.support.recordings import cases, load, needs_wire
from think_agent import (
    Assistant,
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    Force,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    TimedOut,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    User,
    connect,
)
from think_agent.messages import Message
from think_agent.model import Capabilities
from think_agent.providers.anthropic import Anthropic, Fold, from_wire, to_wire
from think_agent.streaming import Delta

KEY = "sk-ant-local-0123456789"
MODEL = "claude-haiku-5-5"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool(name="weather", description="The weather of a city.", parameters=SCHEMA)
THINK = Tool(name="think", description="Take notes.", parameters={"type": "object"})
ASK = Request([User("Weather in Oslo?")], [THINK, WEATHER], system="Be brief.")
HELLO = Request([User("Hello")])


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


def body_of(request: Request, **options: Any) -> dict[str, Any]:
    return to_wire(request, MODEL, max_tokens=100, **options)


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

ERRORS: dict[str, tuple[type[ModelError], str]] = {
    "err-400-budget-over-max-tokens": (BadRequest, "must be greater than"),
    "err-400-empty-content": (BadRequest, "non-empty content"),
    "err-400-strict-schema-anyof": (BadRequest, "input_schema.type: Field required"),
    "err-400-thinking-block-dropped": (BadRequest, "Expected `thinking`"),
    "err-400-thinking-with-forced-tool": (BadRequest, "tool_choice forces tool use"),
    "err-400-tool-use-without-result": (BadRequest, "without `tool_result` blocks"),
    "err-401-auth": (AuthError, "ANTHROPIC_API_KEY"),
    "err-404-model": (ModelNotFound, "claude-sonet-4-5"),
    "err-429-no-retry-after": (RateLimited, "concurrent connections"),
    "err-429-retry-after-7": (RateLimited, "per-minute rate limit"),
    "err-503-plain-text": (Overloaded, "upstream connect error"),
    "err-529-tool-history": (Overloaded, "Overloaded"),
    "stream-200-overloaded": (Overloaded, "Overloaded"),
    "stream-200-overloaded-2": (Overloaded, "Overloaded"),
}
SKIPPED: dict[str, str] = {}  # every recording is decoded
NOT_REBUILT = {
    "cache-read": "a system message in mid-conversation, which the kit never sends",
    "err-400-empty-content": "an empty message, which the kit never sends",
    "err-400-strict-schema-anyof": "a schema that Tool refuses",
    "err-400-thinking-block-dropped": "no request was recorded",
    "err-400-thinking-with-forced-tool": "no request was recorded",
    "err-400-tool-use-without-result": "text after a call, which the kit never sends",
}
STREAMS = [case for case in cases("anthropic") if case.startswith("stream-") and case not in ERRORS]
BODIES = [case for case in cases("anthropic") if case not in {*ERRORS, *STREAMS}]
REQUESTS = [case for case in cases("anthropic") if case not in NOT_REBUILT]


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
def test_every_recording_is_covered() -> None:
    assert {*ERRORS, *STREAMS, *BODIES, *SKIPPED} == set(cases("anthropic"))
    assert {*REQUESTS, *NOT_REBUILT} == set(cases("anthropic"))


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


def neutral(body: dict[str, Any], *, native: bool) -> Iterator[Message]:
    """The messages of a recorded request, as the kit would hold them."""
    names: dict[str, str] = {}
    for message in body["messages"]:
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message["role"] == "assistant":
            reply = from_wire({"content": blocks})
            names |= {call.id: call.name for call in reply.tool_calls}
            yield reply if native else replace(reply, native=None)
            continue
        for block in blocks:
            if block["type"] == "text":
                yield User(block["text"])
            else:
                id, error = block["tool_use_id"], block.get("is_error", False)
                yield ToolResult(id, names[id], result_text(block), is_error=error)


def result_text(block: dict[str, Any]) -> str:
    content = block["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def plain(messages: list[dict[str, Any]], *, join: bool) -> list[dict[str, Any]]:
    """Messages in one of the several spellings that the API takes for the same."""
    same = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        spelled: list[dict[str, Any]] = []
        for block in blocks:
            block = {key: value for key, value in block.items() if key != "cache_control"}
            if block["type"] == "tool_result":
                block |= {"content": result_text(block), "is_error": block.get("is_error", False)}
            if join and block["type"] == "text" and spelled and spelled[-1]["type"] == "text":
                spelled[-1]["text"] += block["text"]
            else:
                spelled.append(block)
        same.append({"role": message["role"], "content": spelled})
    return same


@needs_wire
@pytest.mark.parametrize("case", REQUESTS)
def test_a_recorded_request_is_built_again(case: str) -> None:
    recorded = load("anthropic", case)["request"]["body"]
    messages = list(neutral(recorded, native=True))
    native = body_of(Request(messages))["messages"]
    assert plain(native, join=False) == plain(recorded["messages"], join=False)
    if "thinking" in json.dumps(recorded["messages"]):
        return  # signed blocks cannot be built from neutral parts
    built = body_of(Request(list(neutral(recorded, native=False))))["messages"]
    assert plain(built, join=True) == plain(recorded["messages"], join=True)


# 2. Requests.


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", None),  # the default, and so left out
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        (Force("think"), {"type": "tool", "name": "think"}),
    ],
)
def test_each_tool_choice_with_the_same_tools(choice: Any, wire: dict[str, str] | None) -> None:
    body = body_of(replace(ASK, tool_choice=choice))
    assert body.get("tool_choice") == wire
    weather = {"name": "weather", "description": "The weather of a city.", "input_schema": SCHEMA}
    assert body["tools"] == [body["tools"][0], weather]
    assert body["tools"] == body_of(ASK)["tools"]


def test_the_rest_of_the_body_is_sent_only_where_it_says_something() -> None:
    assert body_of(HELLO) == {
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }
    full = body_of(replace(ASK, output_schema=SCHEMA), thinking={"type": "adaptive"})
    assert full["system"] == "Be brief."
    assert full["thinking"] == {"type": "adaptive"}
    assert full["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}


def test_results_and_what_is_said_after_them_are_one_user_message() -> None:
    calls = (ToolCall("a", "weather", {"city": "Oslo"}), ToolCall("b", "weather", {}))
    results = [ToolResult("a", "weather", "rain"), ToolResult("b", "weather", "", is_error=True)]
    messages = [User("Go"), Assistant(tool_calls=calls), *results, User("So?", kind="limit")]
    wire = body_of(Request(messages))["messages"]
    assert [message["role"] for message in wire] == ["user", "assistant", "user"]
    assert [block["type"] for block in wire[1]["content"]] == ["tool_use", "tool_use"]
    first, second, text = wire[2]["content"]
    assert first == {"type": "tool_result", "tool_use_id": "a", "content": "rain"}
    assert (second["tool_use_id"], second["is_error"]) == ("b", True)
    assert second["content"].strip()  # the API refuses an error without content
    assert text == {"type": "text", "text": "So?"}


def test_own_blocks_are_replayed_and_those_of_others_are_not() -> None:
    blocks = [
        {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "text", "text": "\n\n"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
    ]
    native = {"role": "assistant", "content": blocks}
    call, result = ToolCall("toolu_1", "weather", {}), ToolResult("toolu_1", "weather", "rain")
    own = Assistant(tool_calls=(call,), provider="anthropic", native=native)
    other = replace(own, provider="openai")
    sent = [
        body_of(Request([User("Go"), reply, result]))["messages"][1]["content"]
        for reply in (own, other)
    ]
    # Blank text is left out: the API writes it and refuses to read it.
    assert sent == [[blocks[0], blocks[2]], [blocks[2]]]


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


@pytest.mark.parametrize(
    ("wire", "calls", "ours"),
    [
        ("end_turn", False, "end_turn"),
        ("end_turn", True, "tool_use"),
        ("pause_turn", False, "pause_turn"),
        ("max_tokens", True, "max_tokens"),
        ("model_context_window_exceeded", False, "max_tokens"),
        ("refusal", True, "refusal"),
        (None, False, "end_turn"),
    ],
)
def test_stop_reasons(wire: str | None, calls: bool, ours: str) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    reply = from_wire({"content": [use] if calls else [], "stop_reason": wire}, "asked")
    assert (reply.stop_reason, reply.model, reply.usage) == (ours, "asked", Usage())


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


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_key_and_an_unknown_model(way: Way) -> None:
    with serve(AnthropicProtocol(key="another", models=(MODEL,)), says(Assistant())) as server:
        assert type(caught(way, at(server))) is AuthError
        error = caught(way, at(server, "claude-nobody"))
        assert type(error) is ModelNotFound
        assert "claude-nobody" in str(error)


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
        (error_reply(500, "api_error", "Internal server error"), Overloaded, "ask again"),
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


def passing(status: int, retry_after: str = "0.001") -> Reply:
    reply = error_reply(status, "some_error", "Not now.")
    reply.headers = {"retry-after": retry_after}
    return reply


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_what_may_pass_is_tried_three_times_in_all(way: Way, status: int) -> None:
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [passing(status)] * 3
        error = caught(way, at(server))
        assert type(error) is (RateLimited if status == 429 else Overloaded)
        assert (error.status, error.retryable) == (status, True)
        assert len(server.requests) == 3
        server.canned = [passing(status)] * 2
        assert way(at(server), ASK).text == "Hello."


@pytest.mark.parametrize("way", WAYS)
def test_a_wait_of_a_day_is_reported_and_not_waited_for(way: Way) -> None:
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [passing(429, "100000")]
        began = time.monotonic()
        error = caught(way, at(server))
        assert time.monotonic() - began < 2
        assert (type(error), error.retry_after) == (RateLimited, 100_000)
        assert len(server.requests) == 1


@pytest.mark.parametrize("header", ["-5", "nan", "inf", "²", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_wait_that_is_none(header: str) -> None:
    reply = passing(429, header.encode().decode("latin-1"))
    reply.headers["x-should-retry"] = "false"
    with serve(AnthropicProtocol(), says(Assistant("Hello."))) as server:
        server.canned = [reply]
        error = caught(completed, at(server))
    assert (type(error), error.retry_after, error.retryable) == (RateLimited, None, False)


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


def test_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = model_at(f"http://user:password@127.0.0.1:{port}")
    model.retries = 0
    error = caught(astreamed, model)
    assert type(error) is ConnectionFailed
    assert "127.0.0.1" in str(error)
    assert "password" not in str(error)
    assert error.retryable


def test_no_url() -> None:
    with pytest.raises(ConnectionFailed, match="base_url"):
        model_at("http://[::1")


def late(request: Request) -> Assistant:
    time.sleep(0.5)
    return Assistant("Too late.")


def slow_chunks() -> Iterator[bytes]:
    yield from START
    time.sleep(0.5)
    yield event("message_stop")


def test_no_answer_in_time() -> None:
    with serve(AnthropicProtocol(), late) as server:
        model = at(server, timeout=0.1)
        error = caught(completed, model)
        assert (type(error), error.retryable) == (TimedOut, True)
        assert len(server.requests) == 3
        server.canned = [Reply(chunks=slow_chunks(), content_type="text/event-stream")]
        assert type(caught(streamed, model)) is TimedOut


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
    assert replace(reply, native=None, provider="", model="") == script
    assert reply.native["content"][0]["signature"]  # which the server has checked on replay
    assert answer.text == "It says: result of think, result of weather, result of weather."


def test_a_fold_keeps_citations_and_leaves_the_events_as_they_were() -> None:
    cited: list[dict[str, Any]] = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "citations_delta", "citation": {"cited_text": text}},
        }
        for text in ("one", "two")
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        *cited,
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": None, "output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    for _ in range(2):
        fold = Fold()
        for item in events:
            fold.feed(item)
        reply = from_wire(fold.result())
        assert (reply.text, reply.usage) == ("Hi", Usage(input_tokens=5, output_tokens=2))
        [block] = reply.native["content"]
        assert block["citations"] == [{"cited_text": "one"}, {"cited_text": "two"}]
