"""The Gemini adapter: recorded exchanges with Google, and talks with a strict local server."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from google import genai
from google.genai import types

from tests.servers import ProviderServer, Reply, bare, serve, sse
from tests.servers.gemini import KEY, MODEL, GeminiProtocol, error
from tests.support.recordings import load, needs_wire
from tests.wire.test_gemini import ADD, BODIES, ERRORS, EXPECTED, HI, STREAMS
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
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    User,
    connect,
)
from think_agent.messages import Message
from think_agent.providers.gemini import Gemini
from think_agent.running import with_ids
from think_agent.think import THINK
from think_agent.wire.gemini import Fold, from_wire, to_wire


def model_at(url: str, model: str = MODEL, **options: Any) -> Gemini:
    made = bare(
        connect(f"gemini:{model}", **{"base_url": url, "api_key": KEY, "timeout": 5, **options})
    )
    assert isinstance(made, Gemini)
    made.retries = 0
    return made


@contextmanager
def canned(*replies: Reply) -> Iterator[ProviderServer]:
    with serve(GeminiProtocol(), lambda request: Assistant("unasked")) as server:
        server.canned = list(replies)
        yield server


def complete(model: Gemini, request: Request) -> Assistant:
    return model.complete(request)


def acomplete(model: Gemini, request: Request) -> Assistant:
    return asyncio.run(model.acomplete(request))


def stream(model: Gemini, request: Request) -> Assistant:
    *_, reply = model.stream(request)
    assert isinstance(reply, Assistant)
    return reply


def astream(model: Gemini, request: Request) -> Assistant:
    async def collect() -> list[Any]:
        return [item async for item in model.astream(request)]

    *_, reply = asyncio.run(collect())
    assert isinstance(reply, Assistant)
    return reply


Way = Callable[[Gemini, Request], Assistant]
WAYS = [complete, acomplete, stream, astream]
every_way = pytest.mark.parametrize("ask", WAYS)
two_ways = pytest.mark.parametrize("ask", [complete, astream])  # for what is slow


# Recorded exchanges. What each must come to: a stop reason or an error.


def recorded(case: str) -> Reply:
    response = load("gemini", case)["response"]
    kind = response["headers"]["content-type"]
    if "stream" in response:
        return Reply(chunks=[response["stream"].encode()], content_type=kind)
    return Reply(response["status"], response["body"], content_type=kind)


@cache
def sdk() -> genai.Client:
    return genai.Client(api_key=KEY)


def at(url: str) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(http_options=types.HttpOptions(base_url=url))


def oracle(chunks: list[types.GenerateContentResponse]) -> tuple[str, str, list[Any], int]:
    """Text, thinking, calls and all tokens, read off the SDK's own typed objects."""
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.candidates or []
        for part in (candidate.content and candidate.content.parts) or []
    ]
    usage = chunks[-1].usage_metadata
    return (
        "".join(part.text or "" for part in parts if not part.thought),
        "".join(part.text or "" for part in parts if part.thought),
        [(c.id or "", c.name, c.args) for p in parts if (c := p.function_call)],
        (usage and usage.total_token_count) or 0,
    )


def facts(reply: Assistant) -> tuple[str, str, list[Any], int]:
    calls = [(call.id, call.name, call.arguments) for call in reply.tool_calls]
    total = reply.usage.input_tokens + reply.usage.output_tokens
    return reply.text, reply.thinking, calls, total


@needs_wire
@pytest.mark.parametrize("case", BODIES)
def test_recorded_responses(case: str) -> None:
    body = load("gemini", case)["response"]["body"]
    with canned(recorded(case), recorded(case)) as server:
        model = model_at(server.url)
        reply = model.complete(HI)
        models = sdk().models
        typed = models.generate_content(model=MODEL, contents="hi", config=at(server.url))
    assert facts(from_wire(body)) == oracle([typed])
    assert reply.stop_reason == EXPECTED[case]
    assert reply.model == body["modelVersion"]
    assert reply.provider == "gemini"
    if parts := body.get("candidates", [{}])[0].get("content", {}).get("parts"):
        assert reply.native == {"role": "model", "parts": parts}  # signatures and all
    else:
        assert reply.native is None


@needs_wire
@pytest.mark.parametrize("case", STREAMS)
def test_recorded_streams(case: str) -> None:
    lines = load("gemini", case)["response"]["stream"].split("\r\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    fold = Fold()
    deltas = [delta for event in events for delta in fold.feed(event)]
    folded = from_wire(fold.result())
    whole = Reply(body=fold.result())  # the same reply, had it not been streamed
    with canned(recorded(case), recorded(case), whole, recorded(case)) as server:
        model = model_at(server.url)
        reply, areply, unstreamed = stream(model, HI), astream(model, HI), complete(model, HI)
        chunks = sdk().models.generate_content_stream(
            model=MODEL, contents="hi", config=at(server.url)
        )
        typed = list(chunks)
    assert facts(folded) == oracle(typed)
    assert folded.stop_reason == reply.stop_reason == EXPECTED[case]
    assert folded.usage == reply.usage
    assert "".join(d.text for d in deltas if d.kind == "answer") == reply.text
    assert "".join(d.text for d in deltas if d.kind == "thinking") == reply.thinking
    assert reply == areply
    signatures = [p["thoughtSignature"] for p in folded.native["parts"] if "thoughtSignature" in p]
    on_wire = [
        part["thoughtSignature"]
        for event in events
        for part in event["candidates"][0]["content"].get("parts", [])
        if "thoughtSignature" in part
    ]
    assert signatures == on_wire
    if not any("REDACTED" in signature for signature in on_wire):  # a placeholder is no base64
        assert reply == unstreamed


@needs_wire
@pytest.mark.parametrize("case", ERRORS)
def test_recorded_errors(case: str) -> None:
    said = load("gemini", case)["response"]["body"]["error"]["message"]
    for ask in (complete, astream):
        with canned(recorded(case)) as server, pytest.raises(ModelError) as caught:
            ask(model_at(server.url), HI)
        assert type(caught.value) is EXPECTED[case]
        assert caught.value.status == load("gemini", case)["response"]["status"]
        assert caught.value.retryable == (caught.value.status in (429, 503))
        assert said[:60].rstrip(".") in str(caught.value)
        assert "\n" not in str(caught.value)


@needs_wire
def test_the_delay_google_asks_for() -> None:
    with canned(recorded("err-429-retry-info")) as server, pytest.raises(RateLimited) as caught:
        model_at(server.url).complete(HI)
    assert caught.value.retry_after == 3.0


# The request.


def test_system_schema_and_thinking() -> None:
    schema = {"type": "object", "properties": {"max_items": {"type": "integer"}}}
    body = to_wire(
        Request([User("hi")], system="Be kind.", output_schema=schema),
        thinking={"thinkingBudget": 0},
    )
    assert body["systemInstruction"] == {"parts": [{"text": "Be kind."}]}
    assert body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
        "thinkingConfig": {"thinkingBudget": 0},
    }
    body = model_at("http://localhost", thinking={"thinkingLevel": "low"}).to_wire(HI)
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "low"}


def test_our_json_is_what_arrives() -> None:
    schema = {"type": "object", "properties": {"snake_case": {"const": None}}}
    native = {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "add", "args": {"a_b": None}}, "thoughtSignature": "+/+/"}
        ],
    }
    said = Assistant(
        tool_calls=(ToolCall("call_0", "add", {"a_b": None}),), native=native, provider="gemini"
    )
    messages: list[Message] = [User("hi"), said, ToolResult("call_0", "add", "")]
    request = Request(messages, [ADD], output_schema=schema, system="Be kind.")
    answer = Reply(body={"candidates": [{"content": {"parts": [{"text": "ok"}]}}]})
    stream_answer = Reply(chunks=[sse({"candidates": [{"finishReason": "STOP"}]})])
    with canned(answer, answer, stream_answer, stream_answer) as server:
        model = model_at(server.url)
        for ask in WAYS:
            ask(model, request)
        assert server.requests == [model.to_wire(request)] * 4
        assert {headers["x-goog-api-key"] for headers in server.headers} == {KEY}


def test_a_reply_of_another_provider() -> None:
    calls = (ToolCall("toolu_1", "add", '{"a_b": 1'), ToolCall("toolu_2", "add", {"a_b": 2}))
    messages: list[Message] = [
        User("hi"),
        Assistant("Let me add.", "secret", calls, native={"sealed": "x"}, provider="anthropic"),
        ToolResult("toolu_1", "add", "no JSON", is_error=True),
        ToolResult("toolu_2", "add", "2"),
    ]
    body = to_wire(Request(messages, [ADD]))
    first = {"id": "toolu_1", "name": "add", "args": {"invalid": '{"a_b": 1'}}
    second = {"id": "toolu_2", "name": "add", "args": {"a_b": 2}}
    assert body["contents"][1] == {
        "role": "model",
        "parts": [
            {"text": "Let me add."},
            {"functionCall": first, "thoughtSignature": "skip_thought_signature_validator"},
            {"functionCall": second},
        ],
    }
    ids = [part["functionResponse"]["id"] for part in body["contents"][2]["parts"]]
    assert ids == ["toolu_1", "toolu_2"]
    with serve(GeminiProtocol(), lambda request: Assistant("Done.")) as server:
        assert model_at(server.url).complete(Request(messages, [ADD])).text == "Done."


# The reply.


# Conversations with the strict server.


def brain(request: Request) -> Assistant:
    """Thinks (with two calls), then adds, then answers what it was told."""
    usage = Usage(input_tokens=20, output_tokens=9, cached_tokens=5, reasoning_tokens=4)
    last = request.messages[-1]
    thought = ToolCall("", "think", {"thought": "Is it + or -?", "should_continue": "true"})
    if request.tool_choice == "none" or not request.tools:
        return Assistant("The sum is 3, I am sure.", "All done here.", usage=usage)
    if isinstance(last, User):
        add = ToolCall("", "add", {"a_b": 1})
        return Assistant("Let me see.", "A sum, then.", (thought, add, add), "tool_use", usage)
    assert isinstance(last, ToolResult)
    return Assistant(f"It is {last.content}.", usage=usage)


def conversation(ask: Way, model: Gemini) -> list[Message]:
    messages: list[Message] = [User("1 + 2?")]
    for choice in (Force("think"), "auto", "none"):
        reply = ask(
            model, Request(tuple(messages), [THINK, ADD], tool_choice=choice, system="Be kind.")
        )
        reply = replace(reply, tool_calls=with_ids(reply.tool_calls, Turn.of(messages)))
        messages.append(reply)
        if not reply.tool_calls:
            messages.append(User("Sure?"))
        for number, call in enumerate(reply.tool_calls):
            messages.append(ToolResult(call.id, call.name, f"{number}", is_error=number == 1))
    return messages


@pytest.mark.parametrize("ids", [True, False])
def test_four_ways_to_ask_are_one(ids: bool) -> None:
    with serve(GeminiProtocol(ids=ids), brain) as server:
        model = model_at(server.url)  # one model, and a new event loop for every async call
        plain, *others = (conversation(ask, model) for ask in WAYS)
        bodies = server.requests
    assert others == [plain] * 3
    assert bodies[:3] * 4 == bodies
    first, second, last = (m for m in plain if isinstance(m, Assistant))
    assert [call.name for call in first.tool_calls] == ["think", "add", "add"]
    assert (first.text, first.thinking) == ("Let me see.", "A sum, then.")
    assert (first.stop_reason, first.enforced) == ("tool_use", "tool_choice")
    assert first.usage == Usage(20, 9, 5, 4)
    assert (second.text, second.stop_reason, second.enforced) == ("It is 2.", "end_turn", None)
    assert last.text == "The sum is 3, I am sure."


def test_deltas_come_before_the_reply() -> None:
    with serve(GeminiProtocol(), brain) as server:
        *deltas, _ = model_at(server.url).stream(Request([User("1 + 2?")], [THINK, ADD]))
    kinds = [getattr(delta, "kind", "") for delta in deltas]
    assert kinds.count("thinking") >= 2
    assert kinds.count("answer") >= 2
    assert kinds[-3:] == ["thought", "call", "call"]
    assert [getattr(delta, "index", -1) for delta in deltas[-3:]] == [0, 1, 2]


@every_way
def test_a_refusal_of_the_model(ask: Way) -> None:
    with serve(GeminiProtocol(), lambda request: Assistant(stop_reason="refusal")) as server:
        reply = ask(model_at(server.url), HI)
    assert (reply.stop_reason, reply.text, reply.native) == ("refusal", "", None)


@every_way
def test_one_request_is_one_reply(ask: Way) -> None:
    half = {"content": {"role": "model", "parts": [{"text": "Half a"}]}}
    body = {"candidates": [{**half, "finishReason": "CONTINUATION", "continuationToken": "AAAA"}]}
    streamed = ask in (stream, astream)
    with canned(Reply(chunks=[sse(body)]) if streamed else Reply(body=body)) as server:
        reply = ask(model_at(server.url), HI)
        assert len(server.requests) == 1
    assert (reply.text, reply.stop_reason) == ("Half a", "max_tokens")


@every_way
def test_a_refused_choice_is_asked_as_auto_and_remembered(ask: Way) -> None:
    request = Request([User("hi")], [THINK, ADD], tool_choice=Force("think"))
    with serve(GeminiProtocol(), brain, mode="refuse") as server:
        model = model_at(server.url)
        assert ask(model, request).enforced == "prompt"
        assert ask(model, request).enforced == "prompt"
        choices = [body.get("toolConfig") for body in server.requests]
    any_think = {"mode": "ANY", "allowedFunctionNames": ["think"]}
    assert choices == [{"functionCallingConfig": any_think}, None, None]
    assert model.capabilities.forcing == "none"


# Errors.


def failure(ask: Way, model: Gemini, key: str = KEY) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(model, HI)
    text = str(caught.value)
    assert text.startswith("gemini")
    assert "\n" not in text
    assert len(text) < 500
    assert key not in text
    return caught.value


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(AuthError, match="GEMINI_API_KEY"):
        connect("gemini")
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    assert connect("gemini").name == "gemini"


@two_ways
def test_an_unknown_model(ask: Way) -> None:
    with serve(GeminiProtocol(), brain) as server:
        missing = failure(ask, model_at(server.url, "gemini-0"))
        assert type(missing) is ModelNotFound
        assert "gemini-0" in str(missing)
        assert type(failure(ask, model_at(server.url, "a?b"))) is BadRequest


@two_ways
def test_error_answers(ask: Way) -> None:
    suspended = f"Consumer 'api_key:{KEY}' has been\n suspended."
    quota = [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}]
    page = "<html>\n<body>" + "Welcome to nginx. " * 50
    answers: list[tuple[Reply, type[ModelError], bool]] = [
        (error(403, suspended, "PERMISSION_DENIED"), AuthError, False),
        (error(429, "Too much.", "RESOURCE_EXHAUSTED"), RateLimited, True),
        (error(429, "Too much.", "RESOURCE_EXHAUSTED", quota), RateLimited, False),
        (error(500, "Internal.", "INTERNAL"), Overloaded, True),
        (Reply(503, "upstream connect error", content_type="text/plain"), Overloaded, True),
        (Reply(502, page, content_type="text/html"), Overloaded, True),
        (Reply(413, page, content_type="text/html"), BadRequest, False),
        (Reply(404, page, content_type="text/html"), BadRequest, False),
        (Reply(302, "", headers={"location": "/"}), BadResponse, False),
        (Reply(400, {"error": "odd"}), BadRequest, False),
    ]
    with canned(*(answer for answer, _, _ in answers)) as server:
        model = model_at(server.url)
        for answer, expected, retryable in answers:
            problem = failure(ask, model)
            assert (type(problem), problem.retryable) == (expected, retryable)
            assert problem.status == answer.status


@every_way
def test_answers_that_are_none(ask: Way) -> None:
    page = "<html>\n<body>" + "Welcome to nginx. " * 50
    answers = [Reply(body=page, content_type="text/html"), Reply(body={"a": 1}), Reply(body="")]
    with canned(*answers) as server:
        model = model_at(server.url)
        for _ in answers:
            assert type(failure(ask, model)) is BadResponse


CHUNK = sse({"candidates": [{"content": {"role": "model", "parts": [{"text": "half a"}]}}]})


@pytest.mark.parametrize("ask", [stream, astream])
def test_broken_streams(ask: Way) -> None:
    overloaded = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}
    chunked = {"transfer-encoding": "chunked"}
    streams: list[tuple[Reply, type[ModelError]]] = [
        (Reply(chunks=[CHUNK]), BadResponse),
        (Reply(chunks=[]), BadResponse),
        (Reply(chunks=[CHUNK, CHUNK[:30]]), BadResponse),
        (Reply(chunks=[b"ff\r\n" + CHUNK], headers=chunked), ConnectionFailed),
        (Reply(chunks=[CHUNK, sse(overloaded)]), Overloaded),
    ]
    with canned(*(answer for answer, _ in streams)) as server:
        model = model_at(server.url)
        for number, (_, expected) in enumerate(streams, 1):
            assert type(failure(ask, model)) is expected
            assert len(server.requests) == number
