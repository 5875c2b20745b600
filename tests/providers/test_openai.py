"""The OpenAI provider, through the real SDK over local HTTP, for both of its APIs."""

import asyncio
import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from tests.servers import Reply, serve, sse
from tests.servers.openai import error
from tests.servers.openai_chat import Chat
from tests.support.recordings import load, needs_wire
from tests.wire.test_openai import (
    DECODED,
    DIALECTS,
    DIALOG,
    ERRORS,
    HELLO,
    SERVERS,
    both,
    canonical,
    look_up,
)
from think_agent import (
    Agent,
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
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    User,
    connect,
)
from think_agent.providers.openai import OpenAI
from think_agent.running import with_ids
from think_agent.streaming import Delta
from think_agent.think import THINK
from think_agent.wire import openai_chat, openai_responses

KEY = "sk-test-0123456789-secret"


NO_PARAMETERS = Tool(name="ping", description="Ping.", parameters={"type": "object"})
ASKED = Request([User("where is ORD-1?")], [THINK, look_up], system="Be brief.")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)


def answer(request):
    return Assistant("All well.")


@contextmanager
def running(api, brain=answer, mode="honor", **options):
    """A server for one of the APIs, and a model that talks to it."""
    with serve(SERVERS[api](), brain, mode) as server:
        options = {"api_key": KEY, "api": api, **options}
        yield server, OpenAI("gpt-5.6-luna", base_url=f"{server.url}/v1", **options)


def streamed(model, request):
    *deltas, reply = model.stream(request)
    assert all(isinstance(delta, Delta) for delta in deltas)
    return deltas, reply


def joined(deltas, kind):
    return "".join(delta.text for delta in deltas if delta.kind == kind)


def four_ways(model, request):
    """The reply by each way to ask; the async ones in a loop of their own each."""

    async def in_a_stream():
        return [event async for event in model.astream(request)][-1]

    return [
        model.complete(request),
        asyncio.run(model.acomplete(request)),
        streamed(model, request)[1],
        asyncio.run(in_a_stream()),
    ]


# The recorded exchanges.

STOPPED = {
    ("chat", "length-reasoning-budget-empty"): "max_tokens",
    ("chat", "length-truncated-tool-args"): "max_tokens",
    ("chat", "stream-length-empty"): "max_tokens",
    ("chat", "stream-length-truncated-tool-args"): "max_tokens",
    ("chat", "refusal"): "refusal",
    ("chat", "stream-refusal"): "refusal",
    ("responses", "incomplete-text"): "max_tokens",
    ("responses", "refusal"): "refusal",
    ("responses", "stream-refusal"): "refusal",
}


def play(api, case):
    """The recorded response once more, by the way it was asked for; and the recording."""
    recording = load(f"openai-{api}", case)
    response = recording["response"]
    kind = response["headers"]["content-type"]
    reply = Reply(response["status"], response.get("body"), None, kind)
    if "stream" in response:
        reply.chunks = [response["stream"].encode()]
    with running(api) as (server, model):
        server.canned = [reply]
        model.retries = 0
        if (recording["request"]["body"] or {}).get("stream"):
            return streamed(model, HELLO), server, recording
        return ([], model.complete(HELLO)), server, recording


def expected(api, response):
    """Text, calls as (id, name, argument text), and usage, as the SDK's own types read them."""
    if api == "chat":
        if "stream" in response:
            state = ChatCompletionStreamState()
            for event in events_of(response):
                state.handle_chunk(ChatCompletionChunk.model_validate(event))
            whole = state.current_completion_snapshot
        else:
            whole = ChatCompletion.model_validate(response["body"])
        message = whole.choices[0].message
        calls = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()]
        return message.content or message.refusal or "", calls, chat_usage(whole.usage), whole.model
    body = events_of(response)[-1]["response"] if "stream" in response else response["body"]
    whole = Response.construct(**body)  # real answers lack fields that the types require
    calls = [(i.call_id, i.name, i.arguments) for i in whole.output if i.type == "function_call"]
    refusals = [
        part.refusal
        for item in whole.output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    ]
    used = whole.usage
    usage = Usage(
        used.input_tokens,
        used.output_tokens,
        used.input_tokens_details.cached_tokens,
        used.output_tokens_details.reasoning_tokens,
    )
    return whole.output_text or "".join(refusals), calls, usage, whole.model


def chat_usage(used):
    if used is None:
        return Usage()
    return Usage(
        used.prompt_tokens,
        used.completion_tokens,
        used.prompt_tokens_details.cached_tokens,
        used.completion_tokens_details.reasoning_tokens,
    )


def events_of(response):
    lines = (line.removeprefix("data: ") for line in response["stream"].splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def as_text(call):
    """The argument text of a call, canonical where it is JSON."""
    arguments = call.arguments
    return arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)


@needs_wire
@pytest.mark.parametrize(("api", "case"), DECODED)
def test_recorded_replies_are_read_as_the_sdk_reads_them(api, case):
    (deltas, reply), _, recording = play(api, case)
    text, calls, usage, name = expected(api, recording["response"])
    assert (reply.commentary or reply.text) == text
    assert [(c.id, c.name, as_text(c)) for c in reply.tool_calls] == [
        (call_id, tool_name, canonical(arguments)) for call_id, tool_name, arguments in calls
    ]
    assert reply.usage == usage
    assert (reply.model, reply.provider) == (name, "openai")
    otherwise = "tool_use" if calls else "end_turn"
    assert reply.stop_reason == STOPPED.get((api, case), otherwise)
    if "stream" in recording["response"]:
        assert joined(deltas, "commentary" if reply.commentary else "answer") == text
        for number, (_, tool_name, arguments) in enumerate(calls):
            pieces = [delta for delta in deltas if delta.index == number and delta.kind == "call"]
            assert "".join(delta.text for delta in pieces) == arguments
            assert {delta.name for delta in pieces} == {tool_name}


@needs_wire
@pytest.mark.parametrize(("api", "case"), ERRORS)
def test_recorded_errors_raise_the_right_error(api, case):
    kind, words = ERRORS[api, case]
    with pytest.raises(ModelError) as caught:
        play(api, case)
    raised = caught.value
    assert type(raised) is kind
    assert words in str(raised)
    assert "\n" not in str(raised)
    assert raised.status == load(f"openai-{api}", case)["response"]["status"]
    assert raised.retryable == (case in ("err-500-server-error", "err-503-plain-text"))


@needs_wire
@pytest.mark.parametrize(
    ("api", "case"), [key for key in DECODED if STOPPED.get(key) != "max_tokens"]
)
def test_recorded_replies_go_back_as_they_came(api, case):
    (_, reply), _, recording = play(api, case)
    results = [ToolResult(call.id, call.name, "42") for call in reply.tool_calls]
    body = DIALECTS[api].to_wire(Request([User("hello"), reply, *results]), "m")
    response = recording["response"]
    if api == "chat":
        before, sent = ["user"], body["messages"]
        assert [message["role"] for message in sent] == [
            *before,
            "assistant",
            *["tool"] * len(results),
        ]
        if "body" in response:
            message = response["body"]["choices"][0]["message"]
            came = {k: v for k, v in message.items() if k == "content" or v not in (None, [])}
            assert sent[1] == came
    else:
        output = (response.get("body") or events_of(response)[-1]["response"])["output"]
        sent = body["input"][1 : 1 + len(output)]
        if "stream" in response:  # the items count as they were when they were done
            done = [e for e in events_of(response) if e["type"] == "response.output_item.done"]
            output = [event["item"] for event in done]
        assert sent == output
        assert [item["type"] for item in body["input"][1 + len(output) :]] == [
            "function_call_output"
        ] * len(results)


@needs_wire
def test_a_recorded_reasoning_history_is_written_the_same():
    (_, reply), _, _ = play("responses", "reasoning-tool")
    recorded = load("openai-responses", "reasoning-tool-followup")["request"]["body"]
    (call,) = reply.tool_calls
    said = [
        User(recorded["input"][0]["content"]),
        reply,
        ToolResult(call.id, call.name, recorded["input"][-1]["output"]),
    ]
    body = openai_responses.to_wire(Request(said), "gpt-5-mini")
    results = body["input"][-1]
    assert results == recorded["input"][-1]
    # The recording project left out `status`; the API takes it either way.
    sent = [{k: v for k, v in item.items() if k != "status"} for item in body["input"]]
    assert sent == recorded["input"]
    assert body["include"] == recorded["include"]


# What is sent.


@both
def test_the_servers_take_what_is_sent(api):
    with running(api) as (server, model):
        said = Request(
            DIALOG, [THINK, look_up, NO_PARAMETERS], tool_choice=Force("think"), system="Be brief."
        )
        assert model.complete(said).text == "All well."
        assert streamed(model, said)[1].text == "All well."
        understood = []
        server.brain = lambda request: understood.append(request) or answer(request)
        model.complete(said)
        (request,) = understood
        assert list(request.messages) == [
            *DIALOG[:3],
            ToolResult("c2", "look_up", "error: none"),
        ]
        assert request.tool_choice == Force("think")
        assert request.system == "Be brief."
        assert [t.name for t in request.tools] == ["think", "look_up", "ping"]


@both
def test_an_answer_of_a_schema(api):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    with running(api, lambda request: Assistant(json.dumps(request.output_schema))) as (_, model):
        reply = model.complete(Request([User("n?")], output_schema=schema))
    assert json.loads(reply.text) == schema


@both
@pytest.mark.parametrize("wrong", ['{"order": ', "[1]", '"text"', '{"a": NaN}', '{"a": -Infinity}'])
def test_arguments_that_are_no_object_are_kept_as_text_and_sent_back_as_json(api, wrong):
    def brain(request):
        if isinstance(request.messages[-1], User):
            return Assistant(tool_calls=(ToolCall("c1", "look_up", wrong),))
        return Assistant(str(request.messages[-2].tool_calls[0].arguments))

    with running(api, brain) as (_, model):
        reply = model.complete(ASKED)
        assert [call.arguments for call in reply.tool_calls] == [wrong]
        assert streamed(model, ASKED)[1] == reply
        result = ToolResult("c1", "look_up", "error: no JSON")
        said = Request([*ASKED.messages, reply, result], ASKED.tools)
        assert model.complete(said).text == "{}"  # or the strict server had refused it
        elsewhere = Assistant(tool_calls=reply.tool_calls, provider="other")
        said = Request([*ASKED.messages, elsewhere, result], ASKED.tools)
        assert model.complete(said).text == "{}"


# The same brain, asked in four ways.

REPLIES = {
    "text": Assistant("All is well — so far."),
    "a thought and a call": Assistant(
        "Let me see.",
        thinking="It may be lost.",
        tool_calls=(
            ToolCall("", "think", {"thought": "Check “ORD-1” first.", "should_continue": "true"}),
            ToolCall("", "look_up", {"order": "ORD-1"}),
        ),
        stop_reason="tool_use",
        usage=Usage(100, 20, 60, 8),
    ),
    "no arguments": Assistant(tool_calls=(ToolCall("mine", "ping", {}),), stop_reason="tool_use"),
    "refused": Assistant("I cannot help with that.", stop_reason="refusal"),
    "cut": Assistant("Once upon a", stop_reason="max_tokens", usage=Usage(1, 2, 0, 0)),
    "cut in a call": Assistant(
        tool_calls=(ToolCall("c", "look_up", '{"order": "OR'),), stop_reason="max_tokens"
    ),
    "empty": Assistant(),
}


@both
@pytest.mark.parametrize("said", REPLIES.values(), ids=REPLIES)
def test_four_ways_to_ask_give_one_reply(api, said):
    with running(api, lambda request: said) as (server, model):
        first, *others = four_ways(model, ASKED)
        assert all(other == first for other in others)
        assert [bool(body.get("stream")) for body in server.requests] == [False, False, True, True]
        deltas, _ = streamed(model, ASKED)
    for name in ("text", "thinking", "stop_reason", "usage"):
        assert getattr(first, name) == getattr(said, name)
    for call, meant in zip(first.tool_calls, said.tool_calls, strict=True):
        assert (call.name, call.arguments) == (meant.name, meant.arguments)
        assert call.id == meant.id if meant.id else call.id
    assert joined(deltas, "answer") == said.text
    assert joined(deltas, "thinking") == said.thinking
    thoughts = [c.arguments["thought"] for c in said.tool_calls if c.name == "think"]
    assert joined(deltas, "thought") == "".join(thoughts)


@both
def test_a_whole_run_hands_the_reasoning_back(api):
    """The strict servers refuse a history without it."""

    def brain(request):
        if isinstance(request.messages[-1], User):
            return REPLIES["a thought and a call"]
        return Assistant("ORD-1 is lost.", thinking="Sure.")

    with running(api, brain) as (_, model):
        agent = Agent(model, [look_up], instructions="Be brief.")
        outcome = agent.run("where is ORD-1?")
        assert outcome.answer == "ORD-1 is lost."
        again = agent.run("sure?", transcript=outcome.transcript)
        assert again.answer == "ORD-1 is lost."
        assert asyncio.run(agent.arun("where is ORD-1?")) == outcome
        assert list(agent.stream("where is ORD-1?"))[-1] == outcome


# Forced choices.


@both
@pytest.mark.parametrize("choice", [Force("think"), "required"])
def test_a_refused_choice_is_asked_as_auto_and_remembered(api, choice):
    request = Request([User("hi")], [THINK], tool_choice=choice)
    with running(api, mode="refuse") as (server, model):
        replies = [model.complete(request), streamed(model, request)[1]]
        assert [reply.enforced for reply in replies] == ["prompt", "prompt"]
        assert ["tool_choice" in body for body in server.requests] == [True, False, False]


@both
def test_an_honored_choice_is_the_providers(api):
    call = Assistant(tool_calls=(ToolCall("", "think", {"thought": "x"}),))
    request = Request([User("hi")], [THINK], tool_choice=Force("think"))
    with running(api, lambda _: call) as (_, model):
        reply = model.complete(request)
    assert reply.enforced == "tool_choice"
    assert reply.stop_reason == "tool_use"  # Chat Completions says "stop" here


def test_a_server_that_only_takes_strings_is_sent_required_with_that_tool_alone():
    complaint = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
    request = Request([User("hi")], [THINK, look_up], tool_choice=Force("think"))
    with running("chat") as (server, model):
        server.canned = [error(400, complaint)]
        assert model.complete(request).enforced == "tool_choice"
        body = server.requests[-1]
    assert body["tool_choice"] == "required"
    assert [t["function"]["name"] for t in body["tools"]] == ["think"]


@pytest.mark.parametrize("way", [OpenAI.complete, lambda *asked: streamed(*asked)[1]])
def test_a_slip_of_the_model_is_no_refusal_of_the_choice(way):
    """Groq's words; the model is told, and forced the next time, too."""
    slip = error(400, "Tool choice is required, but model did not call a tool", code="x")
    request = Request([User("hi")], [THINK], tool_choice=Force("think"))
    with running("chat") as (server, model):
        server.canned = [slip, slip]
        assert way(model, request).stop_reason == "malformed"
        reply = way(model, request)
        assert [body.get("tool_choice") is not None for body in server.requests] == [True, True]
    assert "did not call a tool" in reply.mistake
    assert "The tools are: think." in reply.mistake


def test_a_bound_that_newer_models_know_by_another_name():
    refusal = "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    refusal += "'max_completion_tokens' instead."
    with running("chat") as (server, model):
        server.canned = [error(400, refusal)]
        assert [model.complete(HELLO).text for _ in range(2)] == ["All well."] * 2
        names = [key for body in server.requests for key in body if key.startswith("max_")]
    assert names == ["max_tokens", "max_completion_tokens", "max_completion_tokens"]


@both
def test_a_server_that_takes_no_strict_schemas_is_asked_without_from_the_first_request_on(api):
    refusal = error(400, "Unknown parameter: 'tools[0].strict'.")
    with running(api, strict=True) as (server, model):
        server.canned = [refusal]
        with pytest.warns(UserWarning, match="strict schemas are left out"):
            assert model.complete(ASKED).text == "All well."
        model.complete(ASKED)
        strict = [json.dumps(body).count('"strict": true') for body in server.requests]
        assert strict == [2, 0, 0]
    later = Request([*ASKED.messages, Assistant("So?"), User("Yes.")], ASKED.tools)
    with running(api, strict=True) as (server, model):
        server.canned = [refusal]
        with pytest.raises(BadRequest, match="strict"):  # tools stay the same for a whole run
            model.complete(later)


def test_the_words_of_the_host_behind_a_router():
    """OpenRouter."""
    body = {"error": {"message": "Provider returned error", "metadata": {"raw": "busy till noon"}}}
    with running("chat") as (server, model):
        server.canned = [Reply(429, body, headers={"retry-after": "100"})]
        with pytest.raises(RateLimited, match="busy till noon"):
            model.complete(HELLO)


# Hosts and keys.


def body_of(**options):
    return OpenAI("m", **options).to_wire(HELLO)


def test_the_host_chooses_the_api(monkeypatch):
    assert "input" in body_of(api_key=KEY)
    assert "input" in body_of(api_key=KEY, base_url="https://eu.api.openai.com/v1")
    assert "messages" in body_of(base_url="http://127.0.0.1:1/v1")
    assert "messages" in body_of(base_url="https://api.openai.com.example.net/v1")
    assert "messages" in body_of(api_key=KEY, api="chat")
    assert "input" in body_of(base_url="http://127.0.0.1:1/v1", api="responses")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert "messages" in body_of()
    with pytest.raises(ValueError, match="unknown api 'completions'"):
        body_of(api="completions")


def test_the_official_host_needs_a_key():
    with pytest.raises(AuthError, match="OPENAI_API_KEY"):
        connect("openai")


@pytest.mark.parametrize(
    ("given", "in_the_environment", "sent"),
    [
        (KEY, "sk-other", KEY),
        (f" {KEY}\n", None, KEY),
        (None, "sk-other", "sk-other"),
        (None, None, "not-needed"),
    ],
)
def test_keys(monkeypatch, given, in_the_environment, sent):
    if in_the_environment:
        monkeypatch.setenv("OPENAI_API_KEY", in_the_environment)
    with serve(Chat(), answer) as server:
        model = connect("openai:m", base_url=f"{server.url}/v1", api_key=given)
        assert model.complete(HELLO).text == "All well."
        assert asyncio.run(model.acomplete(HELLO)).text == "All well."
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {sent}"}


# Errors.


def raised(model, request=HELLO):
    """The error of all four ways to ask, which is one and the same."""

    async def in_a_stream():
        return [event async for event in model.astream(request)]

    errors = []
    for ask in (
        lambda: model.complete(request),
        lambda: list(model.stream(request)),
        lambda: asyncio.run(model.acomplete(request)),
        lambda: asyncio.run(in_a_stream()),
    ):
        with pytest.raises(ModelError) as caught:
            ask()
        errors.append(caught.value)
    assert len({(type(one), str(one)) for one in errors}) == 1
    assert "\n" not in str(errors[0])
    assert KEY not in str(errors[0])
    return errors[0]


@both
def test_a_wrong_key(api):
    with running(api) as (server, model):
        server.protocol.key = "sk-the-right-one"
        wrong = raised(model)  # the server's words hold the whole key
    assert type(wrong) is AuthError
    assert "Incorrect API key provided: ***" in str(wrong)
    assert "api_key=" in str(wrong)
    assert wrong.status == 401


@both
def test_an_unknown_model(api):
    with running(api) as (server, model):
        server.protocol.models = {"another"}
        wrong = raised(model)
    assert type(wrong) is ModelNotFound
    assert "gpt-5.6-luna" in str(wrong)


@both
def test_an_html_page(api):
    page = "<!doctype html>\n<html><title>Welcome</title></html>\n"
    with running(api) as (server, model):
        server.canned = [Reply(200, page, content_type="text/html")]
        with pytest.raises(BadResponse, match="check that base_url") as caught:
            model.complete(HELLO)
        assert "\n" not in str(caught.value)
        server.canned = [Reply(404, page, content_type="text/html")]
        with pytest.raises(BadRequest, match="an HTML page instead of JSON"):
            model.complete(HELLO)
        server.canned = [Reply(200, "{not json")]
        with pytest.raises(BadResponse, match=r"what is no reply.*JSON"):
            model.complete(HELLO)
        server.canned = [Reply(chunks=[b"data: {not json\n\n"], content_type="text/event-stream")]
        with pytest.raises(BadResponse, match=r"what is no reply.*JSON"):
            streamed(model, HELLO)
        server.canned = [Reply(200, {"unexpected": True})]
        with pytest.raises(BadResponse, match="what is no reply"):
            model.complete(HELLO)


def test_text_that_cannot_be_sent(monkeypatch):
    with running("chat") as (_, model):
        assert "lone surrogate" in str(raised(model, Request([User("\ud800")])))
    monkeypatch.setenv("OPENAI_ORG_ID", "örg")  # the SDK sends it along
    with running("chat") as (_, model):
        wrong = raised(model)
    assert type(wrong) is BadRequest
    assert "no header can carry" in str(wrong)


def test_function_tools_that_need_the_other_api():
    refusal = (
        "Function tools with reasoning_effort are not supported for gpt-5.6-luna in "
        "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort "
        "to 'none'."
    )
    with running("chat") as (server, model):
        server.canned = [error(400, refusal)] * 4
        assert 'set api to "responses"' in str(raised(model, ASKED))


# Streams that go wrong.


def stream_of(api, *, until=None, then=()):
    """The stream of a text, cut after `until` chunks, and what follows."""
    protocol = SERVERS[api]()
    body = {"model": "m", "input": (), "messages": ()}
    chunks = list(protocol.encode_stream(Assistant("All is well. " * 4), body))
    return Reply(chunks=[*chunks[:until], *then], content_type="text/event-stream")


FAILURES = {
    "an error chunk": (
        "chat",
        {"error": {"message": "Boom", "type": "server_error", "code": 500}},
        Overloaded,
    ),
    "a refusal in a chunk": (
        "chat",
        {"error": {"message": "Too long", "type": "BadRequestError", "code": 400}},
        BadRequest,
    ),
    "an error event": (
        "responses",
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": None},
        RateLimited,
    ),
    "an error event without a code": (
        "responses",
        {"type": "error", "code": None, "message": "Boom", "param": None},
        Overloaded,
    ),
    "an error event with an error": (
        "responses",
        {"type": "error", "error": {"code": "insufficient_quota", "message": "No credit"}},
        RateLimited,
    ),
    "a failed response": (
        "responses",
        {
            "type": "response.failed",
            "response": {"output": [], "error": {"code": "server_error", "message": "Boom"}},
        },
        Overloaded,
    ),
    "a refused prompt": (
        "responses",
        {
            "type": "response.failed",
            "response": {"output": [], "error": {"code": "invalid_prompt", "message": "No"}},
        },
        BadRequest,
    ),
}
PASSING = {"an error chunk", "an error event", "an error event without a code", "a failed response"}


@pytest.mark.parametrize("name", FAILURES)
def test_errors_inside_a_stream(name, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    api, event, kind = FAILURES[name]
    with running(api) as (server, model):
        server.canned = [Reply(chunks=[sse(event)], content_type="text/event-stream")] * 3
        with pytest.raises(ModelError) as caught:
            streamed(model, HELLO)
        assert type(caught.value) is kind
        assert caught.value.retryable == (name in PASSING)
        assert len(server.requests) == (3 if name in PASSING else 1)
        server.canned = [stream_of(api, until=5, then=[sse(event)])]
        with pytest.raises(kind):  # a part was shown, so there is no second try
            streamed(model, HELLO)
        assert server.canned == []
        assert len(server.requests) == (4 if name in PASSING else 2)


@both
def test_an_error_in_a_response_that_says_200(api):
    with running(api) as (server, model):
        body = {"error": {"message": "Provider returned error", "code": 400}}
        server.canned = [Reply(200, body)]
        with pytest.raises(BadRequest, match="Provider returned error"):
            model.complete(HELLO)


@both
def test_a_stream_that_breaks_off(api, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with running(api) as (server, model):
        server.canned = [stream_of(api, until=5)]
        with pytest.raises(BadResponse, match="broke off"):
            streamed(model, HELLO)
        cut = stream_of(api, until=5)
        cut.headers["content-length"] = "100000"  # so that the end is a broken line
        server.canned = [cut]
        with pytest.raises(ConnectionFailed) as caught:
            streamed(model, HELLO)
        assert caught.value.retryable
        server.canned = [stream_of(api, until=0)]  # nothing was shown yet: asked again
        assert streamed(model, HELLO)[1].text == "All well."


# What compatible servers do.


def chunk(finish=None, **delta):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"model": "m", "choices": [choice]})


def piece(**call):
    return {"type": "function", **call}


def folded(*chunks):
    with running("chat") as (server, model):
        server.canned = [
            Reply(chunks=[*chunks, sse("[DONE]")], content_type="text/event-stream"),
        ]
        return streamed(model, ASKED)


def test_every_call_numbered_0():
    function = {"name": "ping", "arguments": "{}"}
    _, reply = folded(
        chunk(tool_calls=[piece(index=0, id="a", function=function)]),
        chunk(tool_calls=[piece(index=0, id="b", function=function)]),
        chunk("stop"),
    )
    assert [call.id for call in reply.tool_calls] == ["a", "b"]
    assert reply.stop_reason == "tool_use"


def test_ids_repeated_or_null_in_later_pieces():
    _, reply = folded(
        chunk(tool_calls=[piece(index=0, id="a", function={"name": "x", "arguments": '{"n"'})]),
        chunk(tool_calls=[piece(index=0, id="a", function={"name": None, "arguments": ": "})]),
        chunk(tool_calls=[piece(index=0, id=None, function={"arguments": "1}"})]),
        chunk("tool_calls"),
    )
    assert reply.tool_calls == (ToolCall("a", "x", {"n": 1}),)


def test_calls_without_ids_get_ids_that_go_back():
    calls = [{"type": "function", "function": {"name": "ping", "arguments": ""}}] * 2
    message = {"role": "assistant", "content": None, "tool_calls": calls, "function_call": None}
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    with running("chat") as (server, model):
        server.canned = [Reply(200, body)]
        reply = model.complete(Request([User("hi")], [NO_PARAMETERS]))
        assert [(c.id, c.arguments) for c in reply.tool_calls] == [("", {})] * 2
        reply = replace(reply, tool_calls=with_ids(reply.tool_calls, Turn()))  # as the loop does
        assert reply.model == "gpt-5.6-luna"  # the wire did not say
        results = [ToolResult(call.id, "ping", "pong") for call in reply.tool_calls]
        said = Request([User("hi"), reply, *results], [NO_PARAMETERS])
        assert model.complete(said).text == "All well."


def test_reasoning_under_two_names_is_shown_once_and_kept_whole():
    deltas, reply = folded(
        chunk(role="assistant", reasoning="Hm", reasoning_content="Hm"),
        chunk(reasoning="m.", reasoning_content="m."),
        chunk(reasoning_details=[{"text": "Hm"}]),
        chunk(reasoning_details=[{"text": "m."}], content="Yes."),
        chunk("stop"),
    )
    assert joined(deltas, "thinking") == reply.thinking == "Hmm."
    assert reply.native == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning": "Hmm.",
        "reasoning_content": "Hmm.",
        "reasoning_details": [{"text": "Hm"}, {"text": "m."}],
    }


def test_the_signature_of_a_call_is_kept():
    """Gemini's compatible endpoint refuses a call that comes back without it."""
    signed = {"google": {"thought_signature": "abc"}}
    first = piece(
        index=0, id="a", function={"name": "ping", "arguments": "{}"}, extra_content=signed
    )
    _, reply = folded(chunk(tool_calls=[first]), chunk("stop"))
    body = openai_chat.to_wire(
        Request([User("hi"), reply, ToolResult("a", "ping", "pong")], [NO_PARAMETERS]), "m"
    )
    assert body["messages"][1]["tool_calls"][0]["extra_content"] == signed
