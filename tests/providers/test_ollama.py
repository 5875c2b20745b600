"""The Ollama adapter, through the real SDK: against recorded answers, and against a strict local
server.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ollama
import pytest

from tests.servers import ProviderServer, Reply, serve
from tests.servers.ollama import OllamaServer
from tests.support.recordings import cases, load, needs_wire
from think_agent import (
    THINK,
    Agent,
    Assistant,
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    Delta,
    Force,
    Message,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    ToolsUnsupported,
    Usage,
    User,
    connect,
    tool,
)
from think_agent.providers.errors import UnreadCall
from think_agent.providers.ollama import Ollama

HELLO = Request([User("Hello")])
SECRET = "sk-very-secret-0123"


@tool
def order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: shipped"


WITH_TOOLS = Request([User("Where is ORD-1?")], [THINK, order], system="Be brief.")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with serve(OllamaServer(), lambda request: Assistant(text="Hi there.")) as running:
        yield running


def model_at(server: ProviderServer, **options: Any) -> Ollama:
    return Ollama("qwen3:4b", base_url=server.url, **options)


def once(model: Ollama) -> Ollama:
    model.retries = 0
    return model


def streamed(model: Ollama, request: Request) -> tuple[list[Delta], Assistant]:
    *deltas, reply = model.stream(request)
    assert isinstance(reply, Assistant)
    return [delta for delta in deltas if isinstance(delta, Delta)], reply


async def astreamed(model: Ollama, request: Request) -> tuple[list[Delta], Assistant]:
    *deltas, reply = [item async for item in model.astream(request)]
    assert isinstance(reply, Assistant)
    return [delta for delta in deltas if isinstance(delta, Delta)], reply


# Recorded exchanges.

ERRORS: dict[str, tuple[type[ModelError], str]] = {
    "err-400-context-length": (BadRequest, "raise num_ctx"),
    "err-400-no-thinking-support": (BadRequest, "leave out think"),
    "err-404-model": (ModelNotFound, "ollama pull qwen3:4b"),
    "stream-200-error-parsing-tool-call": (UnreadCall, "error parsing tool call"),
}
SKIPPED: dict[str, str] = {}
REPLIES = [case for case in cases("ollama") if case not in ERRORS and case not in SKIPPED]
STREAMS = [case for case in REPLIES if case.startswith(("stream-", "docs-stream-"))]
WHOLE = [case for case in REPLIES if case not in STREAMS]
# The recorder left the calls out of the assistant message, so its results answer nothing.
RESULTS_WITHOUT_CALLS = {
    "stream-tool-llama31-followup",
    "tool-second-round",
    "tool-single-llama31-followup",
    "tool-zero-args-followup",
}


def canned(recording: dict[str, Any]) -> Reply:
    response = recording["response"]
    kind = response["headers"]["content-type"]
    if "stream" in response:
        lines = response["stream"].encode().splitlines(keepends=True)
        return Reply(response["status"], chunks=lines, content_type=kind)
    return Reply(response["status"], response["body"], content_type=kind)


@needs_wire
@pytest.mark.parametrize("case", WHOLE)
def test_recorded_reply(case: str, server: ProviderServer) -> None:
    recording = load("ollama", case)
    server.canned = [canned(recording)]
    reply = model_at(server).complete(HELLO)

    body = recording["response"]["body"]
    calls = body["message"].get("tool_calls", [])
    assert reply.text == body["message"]["content"]
    assert reply.thinking == body["message"].get("thinking", "")
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [
        (c["function"]["name"], c["function"]["arguments"]) for c in calls
    ]
    assert [c.id for c in reply.tool_calls] == [call.get("id", "") for call in calls]
    assert reply.usage == Usage(body.get("prompt_eval_count", 0), body.get("eval_count", 0))
    assert (reply.model, reply.provider) == (body["model"], "ollama")
    if case == "stop-length":
        assert reply.stop_reason == "max_tokens"
    else:
        assert reply.stop_reason == ("tool_use" if calls else "end_turn")


@needs_wire
@pytest.mark.parametrize("case", STREAMS)
def test_recorded_stream(case: str, server: ProviderServer) -> None:
    recording = load("ollama", case)
    server.canned = [canned(recording)]
    deltas, reply = streamed(model_at(server), HELLO)

    # The oracle: the SDK's own types, line by line.
    lines = recording["response"]["stream"].splitlines()
    chunks = [ollama.ChatResponse.model_validate_json(line) for line in lines]
    calls = [call.function for chunk in chunks for call in chunk.message.tool_calls or ()]
    last = chunks[-1]
    assert last.done
    assert reply.text == "".join(chunk.message.content or "" for chunk in chunks)
    assert reply.thinking == "".join(chunk.message.thinking or "" for chunk in chunks)
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [
        (call.name, call.arguments) for call in calls
    ]
    assert reply.usage == Usage(last.prompt_eval_count or 0, last.eval_count or 0)
    expected = "max_tokens" if case == "stream-stop-length" else "tool_use" if calls else "end_turn"
    assert reply.stop_reason == expected

    assert "".join(d.text for d in deltas if d.kind == "answer") == reply.text
    assert "".join(d.text for d in deltas if d.kind == "thinking") == reply.thinking
    shown = [(d.name, json.loads(d.text)) for d in deltas if d.kind == "call"]
    assert shown == [(c.name, c.arguments) for c in reply.tool_calls]

    # The same answer, had it not been streamed.
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.thinking:
        message["thinking"] = reply.thinking
    if calls:
        message["tool_calls"] = [
            call for line in lines for call in json.loads(line)["message"].get("tool_calls") or ()
        ]
    server.canned = [Reply(body={**json.loads(lines[-1]), "message": message})]
    assert model_at(server).complete(HELLO) == reply


@needs_wire
@pytest.mark.parametrize("case", ERRORS)
def test_recorded_error(case: str, server: ProviderServer) -> None:
    kind, advice = ERRORS[case]
    recording = load("ollama", case)
    model = once(model_at(server))
    server.canned = [canned(recording)] * 2
    with pytest.raises(kind) as streaming:
        list(model.stream(HELLO))
    assert type(streaming.value) is kind
    assert advice in str(streaming.value)
    assert "\n" not in str(streaming.value)
    if "body" in recording["response"]:
        assert recording["response"]["body"]["error"] in str(streaming.value)
        assert streaming.value.status == recording["response"]["status"]
        with pytest.raises(kind) as plain:
            model.complete(HELLO)
        assert str(plain.value) == str(streaming.value)


def wire_history(case: str) -> list[dict[str, Any]]:
    if case in RESULTS_WITHOUT_CALLS:
        return []
    body = (load("ollama", case)["request"] or {}).get("body") or {}
    return list(body.get("messages", []))


@needs_wire
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("case", [case for case in cases("ollama") if wire_history(case)])
def test_recorded_history_is_sent_as_it_was(
    case: str, native: bool, server: ProviderServer
) -> None:
    recorded = wire_history(case)
    messages: list[Message] = []
    expected = []
    for item in recorded:
        expected.append(dict(item))
        if item["role"] == "user":
            messages.append(User(item["content"]))
        elif item["role"] == "tool":
            results = sum(isinstance(m, ToolResult) for m in messages)
            messages.append(ToolResult(f"call_{results}", item["tool_name"], item["content"]))
            expected[-1]["tool_call_id"] = f"call_{results}"
        elif item["role"] == "assistant":
            calls = [call["function"] for call in item.get("tool_calls", ())]
            if calls:
                expected[-1]["tool_calls"] = [
                    {**(call if native else {"function": call["function"]}), "id": f"call_{i}"}
                    for i, call in enumerate(item["tool_calls"])
                ]
            messages.append(
                Assistant(
                    item["content"],
                    item.get("thinking", ""),
                    tuple(
                        ToolCall(f"call_{i}", call["name"], call["arguments"])
                        for i, call in enumerate(calls)
                    ),
                    provider="ollama",
                    native=item if native else None,
                )
            )
            if not native:
                expected[-1].pop("thinking", None)
    system = recorded[0]["content"] if recorded[0]["role"] == "system" else ""
    model_at(server).complete(Request(messages, system=system))
    assert server.requests[-1]["messages"] == expected


@needs_wire
@pytest.mark.parametrize(
    ("first", "followup"),
    [
        ("stream-think-tool", "stream-think-tool-followup"),
        ("stream-text-then-tool", "stream-text-then-tool-followup"),
        ("think-false-duplicate-calls", "think-false-duplicate-calls-followup"),
    ],
)
def test_a_recorded_reply_goes_back_verbatim(
    first: str, followup: str, server: ProviderServer
) -> None:
    server.canned = [canned(load("ollama", first))]
    model = model_at(server)
    if "stream" in first:
        _, reply = streamed(model, HELLO)
    else:
        reply = model.complete(HELLO)
    results = [ToolResult(call.id, call.name, "done") for call in reply.tool_calls]
    model.complete(Request([User("Hello"), reply, *results]))
    [recorded] = [item for item in wire_history(followup) if item["role"] == "assistant"]
    sent = server.requests[-1]["messages"][1]
    for call in recorded["tool_calls"]:
        del call["type"]
    for call in sent["tool_calls"]:  # which the recorder left out
        assert call.pop("id").startswith("call_")
        call["function"].pop("index", None)
    assert sent == {key: value for key, value in recorded.items() if value or key == "content"}


# What is sent.


def test_options_are_sent_only_when_given(server: ProviderServer) -> None:
    model_at(server).complete(HELLO)
    model_at(server, think=False, keep_alive="5m", num_ctx=512).complete(HELLO)
    plain, given = server.requests
    assert plain["options"] == {"num_ctx": 16384, "num_predict": 8192}
    assert not {"think", "keep_alive", "format"} & plain.keys()
    assert (given["think"], given["keep_alive"], given["options"]) == (
        False,
        "5m",
        {"num_ctx": 512, "num_predict": 8192},
    )


@pytest.mark.parametrize("choice", ["auto", "required", Force("think")])
def test_a_tool_choice_is_a_matter_of_the_prompt(choice: Any, server: ProviderServer) -> None:
    reply = model_at(server).complete(replace(WITH_TOOLS, tool_choice=choice))
    assert reply.enforced == (None if choice == "auto" else "prompt")
    [body] = server.requests  # asked once: nothing has to be refused first
    assert "tool_choice" not in body
    assert [item["function"]["name"] for item in body["tools"]] == ["think", "order"]


def test_the_final_call_leaves_the_tools_out(server: ProviderServer) -> None:
    call = ToolCall("call_0", "order", {"order_id": "ORD-1"})
    history = [
        *WITH_TOOLS.messages,
        Assistant(tool_calls=(call,)),
        ToolResult("call_0", "order", "x"),
    ]
    model_at(server).complete(replace(WITH_TOOLS, messages=history, tool_choice="none"))
    [body] = server.requests
    assert not body.get("tools")
    assert [item["role"] for item in body["messages"]] == ["system", "user", "assistant", "tool"]


def test_an_output_schema_is_sent_only_without_tools(server: ProviderServer) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    model = model_at(server)
    model.complete(replace(HELLO, output_schema=schema))
    model.complete(replace(WITH_TOOLS, output_schema=schema))
    model.complete(replace(WITH_TOOLS, output_schema=schema, tool_choice="none"))
    assert [body.get("format") for body in server.requests] == [schema, None, schema]


def test_results_of_one_turn_stay_in_order_and_name_their_calls(server: ProviderServer) -> None:
    calls = (ToolCall("b", "order", {"order_id": "2"}), ToolCall("a", "think", "{not json"))
    results = [ToolResult("b", "order", ""), ToolResult("a", "think", "error: no object")]
    model_at(server).complete(Request([User("go"), Assistant(tool_calls=calls), *results]))
    assert server.requests[0]["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "b", "function": {"name": "order", "arguments": {"order_id": "2"}}},
                {"id": "a", "function": {"name": "think", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "tool_name": "order", "content": ""},
        {
            "role": "tool",
            "tool_call_id": "a",
            "tool_name": "think",
            "content": "error: no object",
        },
    ]


@pytest.mark.parametrize(("provider", "sent"), [("ollama", "native"), ("anthropic", "neutral")])
def test_native_messages_go_back_to_their_own_provider_only(
    provider: str, sent: str, server: ProviderServer
) -> None:
    native = {"role": "assistant", "content": "native", "thinking": "hm"}
    said = Assistant("neutral", "hm", provider=provider, native=native)
    model_at(server).complete(Request([User("a"), said, User("b")]))
    message = server.requests[0]["messages"][1]
    assert message["content"] == sent
    assert ("thinking" in message) == (sent == "native")


def test_a_tool_schema_reaches_the_server_as_it_is(server: ProviderServer) -> None:
    """The SDK's own types would drop `anyOf`, `default`, `const` and all that is nested."""
    item = {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 8}}}
    properties = {
        "many": {"type": "array", "items": item},
        "maybe": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
        "nested": item,
        "constant": {"const": "é"},
    }
    parameters = {"type": "object", "properties": properties, "required": ["many"]}
    shown = Tool(name="shop", description="A shop.", parameters=parameters)
    model_at(server).complete(Request([User("buy")], [shown]))
    assert server.requests[0]["tools"][0]["function"]["parameters"] == parameters


# What comes back.


def scripted(request: Request) -> Assistant:
    """Thinks, then makes two calls beside some text, then answers."""
    rounds = sum(isinstance(message, Assistant) for message in request.messages)
    if rounds == 0:
        notes = {"thought": 'I look "both" up.\nÜber.', "should_continue": "true"}
        call = ToolCall("", "think", notes)
        return Assistant(thinking="native thoughts", tool_calls=(call,), usage=Usage(11, 7))
    if rounds == 1:
        calls = tuple(ToolCall("", "order", {"order_id": f"ORD-{n}"}) for n in (1, 2))
        return Assistant("Looking them up.", tool_calls=calls, usage=Usage(20, 8))
    said = [message.content for message in request.messages if isinstance(message, ToolResult)]
    return Assistant("; ".join(said[1:]), "enough", usage=Usage(30, 9))


Ask = Callable[[Ollama, Request], Assistant]
WAYS: dict[str, Ask] = {
    "plain": lambda model, request: model.complete(request),
    "async": lambda model, request: asyncio.run(model.acomplete(request)),
    "streamed": lambda model, request: streamed(model, request)[1],
    "async streamed": lambda model, request: asyncio.run(astreamed(model, request))[1],
}


def conversation(model: Ollama, ask: Ask) -> list[Message]:
    messages: list[Message] = [*WITH_TOOLS.messages]
    for _ in range(3):  # the async ways open a new event loop each time
        reply = ask(model, replace(WITH_TOOLS, messages=messages))
        messages.append(reply)
        messages += [ToolResult(c.id, c.name, f"{c.name} {c.id}") for c in reply.tool_calls]
    return messages


def test_the_four_ways_to_ask_give_the_same() -> None:
    with serve(OllamaServer(), scripted) as server:
        plain = conversation(model_at(server), WAYS["plain"])
        bodies = [{**body, "stream": None} for body in server.requests]
        for way in WAYS.values():
            server.requests.clear()
            assert conversation(model_at(server), way) == plain
            assert [{**body, "stream": None} for body in server.requests] == bodies
    first, second, last = (message for message in plain if isinstance(message, Assistant))
    assert first.thinking == "native thoughts"
    assert [call.id for call in first.tool_calls + second.tool_calls] == [
        "call_00000000",
        "call_00000001",
        "call_00000002",
    ]
    assert last.text == "order call_00000001; order call_00000002"
    assert [reply.usage for reply in (first, second, last)] == [
        Usage(11, 7),
        Usage(20, 8),
        Usage(30, 9),
    ]
    assert bodies[1]["messages"][2]["thinking"] == "native thoughts"


def test_both_streams_show_the_same_deltas() -> None:
    with serve(OllamaServer(), scripted) as server:
        deltas, _ = streamed(model_at(server), WITH_TOOLS)
        again, _ = asyncio.run(astreamed(model_at(server), WITH_TOOLS))
    assert deltas == again
    thinking = [delta.text for delta in deltas if delta.kind == "thinking"]
    assert len(thinking) > 1
    assert "".join(thinking) == "native thoughts"
    assert deltas[-1] == Delta("thought", 'I look "both" up.\nÜber.', "think", 0)


def test_calls_are_counted_in_a_stream(server: ProviderServer) -> None:
    calls = [{"function": {"name": "order", "arguments": {"order_id": n}}} for n in ("1", "2", "3")]
    lines = [
        line("", message={"role": "assistant", "tool_calls": calls[:2]}),
        line("", message={"role": "assistant", "tool_calls": calls[2:]}),
        line("", done=True),
    ]
    server.canned = [Reply(chunks=lines)]
    deltas, _ = streamed(model_at(server), HELLO)
    assert [(d.index, json.loads(d.text)["order_id"]) for d in deltas] == [
        (0, "1"),
        (1, "2"),
        (2, "3"),
    ]


def test_an_agent_runs_through_connect() -> None:
    with serve(OllamaServer(), scripted) as server:
        model = connect("ollama:qwen3:4b", base_url=server.url)
        outcome = Agent(model, [order]).run("Where are ORD-1 and ORD-2?")
    assert (outcome.exit, outcome.answer) == ("silence", "ORD-1: shipped; ORD-2: shipped")
    assert server.requests[0]["model"] == "qwen3:4b"


# What the model can do.


@pytest.mark.parametrize("capabilities", [None, ()])
def test_a_server_that_tells_no_capabilities_is_believed(
    capabilities: tuple[str, ...] | None,
) -> None:
    with serve(OllamaServer(capabilities), lambda request: Assistant("ok")) as server:
        model_at(server).check()


def test_a_description_that_cannot_be_read_tells_nothing(server: ProviderServer) -> None:
    server.protocol.other = lambda method, path, body: (  # type: ignore[method-assign]
        Reply(body={"capabilities": 5}) if path == "/api/show" else None
    )
    model_at(server).check()


def test_check_says_what_is_wrong(server: ProviderServer) -> None:
    model_at(server).check()
    with (
        serve(OllamaServer(models=("other",)), scripted) as empty,
        pytest.raises(ModelNotFound, match="run: ollama pull qwen3:4b"),
    ):
        model_at(empty).check()
    with (
        serve(OllamaServer(("completion",)), scripted) as plain,
        pytest.raises(ToolsUnsupported),
    ):
        model_at(plain).check()
    with pytest.raises(ConnectionFailed, match="start it with: ollama serve"):
        Ollama("m", base_url=closed_port()).check()


# What goes wrong.


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("way", WAYS)
def test_no_server(way: str) -> None:
    url = closed_port()
    with pytest.raises(ConnectionFailed, match="ollama serve") as caught:
        WAYS[way](once(Ollama("m", base_url=url)), HELLO)
    assert url in str(caught.value)
    assert caught.value.retryable


def test_the_address_in_a_message_has_no_password() -> None:
    url = closed_port().replace("//", f"//me:{SECRET}@")
    with pytest.raises(ConnectionFailed) as caught:
        once(Ollama("m", base_url=url)).complete(HELLO)
    assert SECRET not in str(caught.value)


def test_the_address_comes_from_the_environment(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    assert Ollama("m").complete(HELLO).text == "Hi there."


STATUS: list[tuple[int, Any, type[ModelError], bool, str]] = [
    (401, {"error": "unauthorized"}, AuthError, False, "OLLAMA_API_KEY"),
    (403, {"error": "upgrade to use this model"}, AuthError, False, "ollama signin"),
    (404, {"error": 'model "x" not found, try pulling it first'}, ModelNotFound, False, "pull"),
    (404, "404 page not found", BadRequest, False, "base_url"),
    (400, {"error": '"x" does not support thinking'}, BadRequest, False, "leave out think"),
    (400, {"error": '"x" does not support tools'}, ToolsUnsupported, False, "pick one that does"),
    (400, {"error": "invalid options"}, BadRequest, False, "invalid options"),
    (400, {"error": {"message": "not as Ollama does"}}, BadRequest, False, "not as Ollama does"),
    (429, {"error": "too many concurrent requests"}, RateLimited, True, "too many concurrent"),
    (429, {"error": "you've reached your hourly usage limit"}, RateLimited, False, "wait"),
    (500, {"error": "model requires more system memory"}, Overloaded, True, "more system memory"),
    (503, {"error": "server busy, please try again."}, Overloaded, True, "server busy"),
    (502, "upstream connect error\nor disconnect", Overloaded, True, "upstream connect error or"),
    (500, "", Overloaded, True, "HTTP 500"),
    (500, '"just a string"', BadResponse, False, "base_url"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "body", "kind", "retryable", "says"), STATUS)
def test_error_answers(
    status: int,
    body: Any,
    kind: type[ModelError],
    retryable: bool,
    says: str,
    stream: bool,
    server: ProviderServer,
) -> None:
    server.canned = [Reply(status, body)]
    model = once(model_at(server))
    with pytest.raises(kind) as caught:
        list(model.stream(HELLO)) if stream else model.complete(HELLO)
    error = caught.value
    assert type(error) is kind
    assert error.retryable == retryable
    assert error.status == (None if kind is BadResponse else status)
    assert says in str(error)
    assert str(error).startswith("ollama: ")
    assert "\n" not in str(error)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "body", ["<html><body>Welcome to nginx!</body></html>", "[1]", "null", '{"hello": 1}']
)
def test_an_answer_that_is_none(way: str, body: str, server: ProviderServer) -> None:
    server.canned = [Reply(body=body)]
    with pytest.raises(BadResponse, match="base_url"):
        WAYS[way](model_at(server), HELLO)


def line(content: str, **more: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"model": "m", "message": message, "done": False, **more}).encode() + b"\n"


BROKEN: list[tuple[list[bytes], dict[str, str], type[ModelError], str]] = [
    ([], {}, BadResponse, "broke off"),
    ([line("one"), line("two")[:20]], {}, BadResponse, "base_url"),
    ([line("one")], {"content-length": "999"}, ConnectionFailed, "broke"),
    ([line("one"), b'{"error": "llama runner crashed"}\n'], {}, Overloaded, "runner crashed"),
    ([line("one"), b'{"error": {"message": "odd"}}\n'], {}, BadResponse, "base_url"),
    ([line("one"), b'{"error": "Server overloaded, retry"}\n'], {}, Overloaded, "overloaded"),
]


@pytest.mark.parametrize("way", ["streamed", "async streamed"])
@pytest.mark.parametrize(("chunks", "headers", "kind", "says"), BROKEN)
def test_a_broken_stream(
    chunks: list[bytes],
    headers: dict[str, str],
    kind: type[ModelError],
    says: str,
    way: str,
    server: ProviderServer,
) -> None:
    server.canned = [Reply(chunks=chunks, headers=headers)]
    with pytest.raises(kind, match=says) as caught:
        WAYS[way](once(model_at(server)), HELLO)
    assert type(caught.value) is kind
    assert caught.value.status is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", [False, True])
def test_half_a_reply_is_an_unfinished_one(way: str, call: bool, server: ProviderServer) -> None:
    """As the server ends one when the model repeats itself: HTTP 200, `"done": false`."""
    calls = [{"id": "c", "function": {"name": "order", "arguments": {"order_id": "1"}}}]
    message = {"role": "assistant", "content": "two two", **({"tool_calls": calls} if call else {})}
    last = line("", message=message)
    server.canned = [Reply(chunks=[last]) if "stream" in way else Reply(body=json.loads(last))]
    reply = WAYS[way](model_at(server), WITH_TOOLS)
    assert (reply.text, reply.stop_reason) == ("two two", "incomplete")
    assert "repeated itself" in reply.cause


def test_a_call_in_half_a_reply_is_not_run(server: ProviderServer) -> None:
    ran = []

    def pay(amount: int) -> None:
        """Pay."""
        ran.append(amount)

    function = {"name": "pay", "arguments": {"amount": 5}}
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
    server.canned = [Reply(chunks=[line("", message=message)])]
    model = connect("ollama:qwen3:4b", base_url=server.url)
    outcome = list(Agent(model, [tool(pay)], force="never").stream("Pay 5"))[-1]
    assert (outcome.exit, ran) == ("truncated", [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "said", ["error parsing tool call: raw='ls', err=invalid", "XML syntax error on line 3"]
)
def test_a_call_that_the_server_cannot_read_is_said_to_the_model(
    way: str, said: str, server: ProviderServer
) -> None:
    in_a_stream = Reply(chunks=[line("Hm."), json.dumps({"error": said}).encode() + b"\n"])
    for canned in (Reply(500, {"error": said}), in_a_stream if "stream" in way else None):
        server.canned = [canned] if canned else [Reply(500, {"error": said})]
        reply = WAYS[way](model_at(server), WITH_TOOLS)
        assert (reply.stop_reason, reply.tool_calls) == ("malformed", ())
        assert said in reply.mistake
        assert "think, order" in reply.mistake
    server.canned = [Reply(500, {"error": said})]
    with pytest.raises(BadResponse):  # without tools there is no call to read
        WAYS[way](once(model_at(server)), HELLO)


@pytest.mark.parametrize("way", WAYS)
def test_a_swallowed_call_is_said_to_the_model(way: str, server: ProviderServer) -> None:
    empty = line("", done=True, done_reason="stop", eval_count=30)
    for request in (WITH_TOOLS, HELLO):
        server.canned = [Reply(chunks=[empty])]
        reply = WAYS[way](model_at(server), request)
        assert reply.stop_reason == ("malformed" if request is WITH_TOOLS else "end_turn")
        assert ("think, order" in reply.mistake) == (request is WITH_TOOLS)


def test_what_was_shown_is_never_asked_again(server: ProviderServer) -> None:
    server.canned = [Reply(chunks=[line("one"), b'{"error": "busy"}\n'])]
    stream = model_at(server).stream(HELLO)
    assert next(stream) == Delta("answer", "one")
    with pytest.raises(Overloaded):
        next(stream)
    assert len(server.requests) == 1


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(OllamaServer(key=SECRET), lambda request: Assistant("ok")) as server:
        with pytest.raises(AuthError, match="OLLAMA_API_KEY"):
            model_at(server).complete(HELLO)
        with pytest.raises(AuthError):
            model_at(server, api_key="wrong").complete(HELLO)
        assert model_at(server, api_key=SECRET).complete(HELLO).text == "ok"
        assert asyncio.run(model_at(server, api_key=SECRET).acomplete(HELLO)).text == "ok"
        monkeypatch.setenv("OLLAMA_API_KEY", SECRET)
        assert model_at(server).complete(HELLO).text == "ok"
        server.canned = [Reply(401, {"error": f"the key {SECRET} has expired"})]
        with pytest.raises(AuthError, match="has expired") as caught:
            model_at(server).complete(HELLO)
    assert SECRET not in str(caught.value)


def test_a_model_that_cannot_think() -> None:
    with (
        serve(OllamaServer(("completion",)), lambda request: Assistant("ok")) as server,
        pytest.raises(BadRequest, match="does not support thinking; leave out think"),
    ):
        model_at(server, think=True).complete(HELLO)


def test_a_short_key_is_no_secret(server: ProviderServer) -> None:
    server.canned = [Reply(400, {"error": "ollama says no"})]
    with pytest.raises(BadRequest, match="ollama says no"):
        model_at(server, api_key="ollama").complete(HELLO)


def test_mistakes_of_our_own_stay_what_they_are(server: ProviderServer) -> None:
    with pytest.raises(AttributeError):
        model_at(server).complete(Request([User("go")], ["no tool"]))  # type: ignore[list-item]


# The local server is strict, or the tests above prove little.

ASK = {"role": "user", "content": "go"}
CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "order", "arguments": {}}}]}
RESULT = {"role": "tool", "tool_name": "order", "content": "x"}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([ASK, CALL], "calls without a result at the end"),
        ([ASK, CALL, ASK], "calls without a result before message 2"),
        ([ASK, CALL, RESULT, RESULT], "answers no call"),
        ([ASK, CALL, {**RESULT, "tool_name": "think"}], "is not for order"),
        ([{"role": "user", "content": ""}], "is empty"),
        ([{"role": "developer", "content": "go"}], "role developer"),
        ([ASK, {"role": "system", "content": "late"}], "role system"),
        ([ASK, {"role": "assistant", "content": "so"}], "nothing is asked"),
        ([], "nothing is asked"),
    ],
)
def test_the_local_server_refuses(
    messages: list[dict[str, Any]], problem: str, server: ProviderServer
) -> None:
    client = ollama.Client(host=server.url)
    with pytest.raises(ollama.ResponseError, match=problem):
        client.chat("m", messages, options={"num_ctx": 1})
    fine = client.chat("m", [ASK, CALL, RESULT], options={"num_ctx": 1})
    assert fine.message.content == "Hi there."
