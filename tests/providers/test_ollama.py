"""The Ollama adapter, through the real SDK: against recorded answers, and against a strict local
server.
"""

import asyncio
import json
import socket
import threading
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
    TimedOut,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    User,
    connect,
    tool,
)
from think_agent.providers.ollama import Fold, Ollama, from_wire, to_wire

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
    "err-400-context-length": (BadRequest, "num_ctx="),
    "err-400-no-thinking-support": (BadRequest, "leave out think="),
    "err-404-model": (ModelNotFound, "ollama pull qwen3:4b"),
    "stream-200-error-parsing-tool-call": (BadResponse, "error parsing tool call"),
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
def test_every_recording_is_used() -> None:
    assert {*WHOLE, *STREAMS, *ERRORS, *SKIPPED} == set(cases("ollama"))
    assert not {*ERRORS, *SKIPPED} & {*WHOLE, *STREAMS}
    for case in cases("ollama"):
        is_stream = "stream" in load("ollama", case)["response"]
        assert is_stream == (case in STREAMS or case == "stream-200-error-parsing-tool-call")


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
    assert [c.id for c in reply.tool_calls] == [f"call_{i}" for i in range(len(calls))]
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
        message["tool_calls"] = [{"function": dict(call)} for call in calls]
    server.canned = [Reply(body={**json.loads(lines[-1]), "message": message})]
    assert model_at(server).complete(HELLO) == reply


@needs_wire
@pytest.mark.parametrize("case", STREAMS)
def test_a_recorded_stream_cut_off_anywhere_is_no_reply(case: str) -> None:
    lines = [json.loads(line) for line in load("ollama", case)["response"]["stream"].splitlines()]
    for end in {0, len(lines) // 2, len(lines) - 1}:
        fold = Fold()
        for line in lines[:end]:
            fold.feed(line)
        with pytest.raises(BadResponse, match="broke off"):
            fold.result()


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
        expected.append({key: value for key, value in item.items() if value})
        for call in item.get("tool_calls", ()):
            call.pop("type", None)  # the SDK does not send it
        if item["role"] == "user":
            messages.append(User(item["content"]))
        elif item["role"] == "tool":
            results = sum(isinstance(m, ToolResult) for m in messages)
            messages.append(ToolResult(f"call_{results}", item["tool_name"], item["content"]))
        elif item["role"] == "assistant":
            calls = [call["function"] for call in item.get("tool_calls", ())]
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
    for call in recorded["tool_calls"]:
        del call["type"]
    sent = server.requests[-1]["messages"][1]
    assert sent == {key: value for key, value in recorded.items() if value}


# What is sent.


def test_the_body_of_a_request() -> None:
    assert to_wire(replace(WITH_TOOLS, tools=[order]), "m", num_ctx=4096) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where is ORD-1?"},
        ],
        "options": {"num_ctx": 4096},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "order",
                    "description": "Look an order up.",
                    "parameters": {
                        "type": "object",
                        "properties": {"order_id": {"type": "string"}},
                        "required": ["order_id"],
                        "additionalProperties": False,
                    },
                },
            }
        ],
    }


def test_options_are_sent_only_when_given(server: ProviderServer) -> None:
    model_at(server).complete(HELLO)
    model_at(server, think=False, keep_alive="5m", num_ctx=512).complete(HELLO)
    plain, given = server.requests
    assert plain["options"] == {"num_ctx": 16384}
    assert not {"think", "keep_alive", "format"} & plain.keys()
    assert (given["think"], given["keep_alive"], given["options"]) == (
        False,
        "5m",
        {"num_ctx": 512},
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


def test_results_of_one_turn_stay_in_order_and_are_never_empty(server: ProviderServer) -> None:
    calls = (ToolCall("b", "order", {"order_id": "2"}), ToolCall("a", "think", "{not json"))
    results = [ToolResult("b", "order", ""), ToolResult("a", "think", "error: no object")]
    model_at(server).complete(Request([User("go"), Assistant(tool_calls=calls), *results]))
    assert server.requests[0]["messages"][1:] == [
        {
            "role": "assistant",
            "tool_calls": [
                {"function": {"name": "order", "arguments": {"order_id": "2"}}},
                {"function": {"name": "think", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_name": "order", "content": "(empty)"},
        {"role": "tool", "tool_name": "think", "content": "error: no object"},
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


def test_a_tool_schema_reaches_the_server_in_full(server: ProviderServer) -> None:
    item = {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 8}}}
    limits = {"type": "integer", "minimum": 1, "maximum": 9}
    either = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    properties = {
        "plain": {"type": "string", "title": "Plain", "description": "As it is."},
        "many": {"type": "array", "items": item},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "choice": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
        "few": {"anyOf": [limits, {"type": "null"}], "description": "How many."},
        "nested": item,
        "either": either,
        "default": {"type": "integer", "default": 3},
        "constant": {"const": "é"},
    }
    parameters = {"type": "object", "properties": properties, "required": ["plain"]}
    shown = Tool(name="shop", description="A shop.", parameters=parameters)
    model_at(server).complete(Request([User("buy")], [shown]))
    sent = server.requests[0]["tools"][0]["function"]["parameters"]
    told = {
        name: json.loads(schema["description"].partition("JSON schema: ")[2])
        for name, schema in sent["properties"].items()
        if "JSON schema: " in schema.get("description", "")
    }
    assert sent["required"] == ["plain"]
    assert sent["properties"]["plain"] == {"type": "string", "description": "As it is."}
    assert sent["properties"]["many"] == properties["many"]
    assert sent["properties"]["maybe"] == {"type": ["integer", "null"]}
    assert sent["properties"]["choice"] == {"type": ["string", "null"], "enum": ["a", "b", None]}
    assert sent["properties"]["few"]["description"].startswith("How many.\n")
    assert told == {
        "few": {**limits, "type": ["integer", "null"]},
        "nested": item,
        "either": either,
        "default": {"type": "integer", "default": 3},
        "constant": {"const": "é"},
    }
    assert "é" in sent["properties"]["constant"]["description"]


def test_the_think_tool_survives_whole(server: ProviderServer) -> None:
    model_at(server).complete(Request([User("go")], [THINK]))
    sent = server.requests[0]["tools"][0]["function"]["parameters"]
    assert sent["properties"] == THINK.parameters["properties"]
    assert sent["required"] == THINK.parameters["required"]


def test_a_schema_the_sdk_cannot_send_is_a_bad_request(server: ProviderServer) -> None:
    parameters = {"type": "object", "properties": {"x": {"type": 5}}}
    broken = Tool(name="broken", description="", parameters=parameters)
    with pytest.raises(BadRequest, match="mend the tools"):
        model_at(server).complete(Request([User("go")], [broken]))
    assert not server.requests


# What comes back.


def test_a_reply_as_json() -> None:
    call = {"function": {"name": "order", "arguments": {"order_id": "1"}}}
    message = {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]}
    response = {"message": message, "done": True, "done_reason": "stop"}
    assert from_wire(response, "asked") == Assistant(
        thinking="hm",
        tool_calls=(ToolCall("", "order", {"order_id": "1"}),),
        stop_reason="tool_use",
        model="asked",
        provider="ollama",
        native={"role": "assistant", "thinking": "hm", "tool_calls": [call]},
    )
    cut = from_wire({**response, "done_reason": "length"})
    assert (cut.stop_reason, len(cut.tool_calls)) == ("max_tokens", 1)


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
        "call_0",
        "call_1",
        "call_2",
    ]
    assert last.text == "order call_1; order call_2"
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


def test_tools_are_checked_once_and_only_when_needed() -> None:
    protocol = OllamaServer()
    with serve(protocol, lambda request: Assistant("ok")) as server:
        model = model_at(server)
        model.complete(HELLO)
        assert protocol.shown == []
        for way in WAYS.values():
            way(model, WITH_TOOLS)
        assert protocol.shown == ["qwen3:4b"]


@pytest.mark.parametrize("way", WAYS)
def test_a_model_without_tools_is_refused_before_it_is_asked(way: str) -> None:
    with serve(OllamaServer(("completion",)), lambda request: Assistant("ok")) as server:
        with pytest.raises(BadRequest, match="does not support tools; pick one that does"):
            WAYS[way](model_at(server), WITH_TOOLS)
        assert server.requests == []
        assert WAYS[way](model_at(server), HELLO).text == "ok"


@pytest.mark.parametrize("capabilities", [None, ()])
def test_a_server_that_tells_no_capabilities_is_believed(
    capabilities: tuple[str, ...] | None,
) -> None:
    with serve(OllamaServer(capabilities), lambda request: Assistant("ok")) as server:
        assert model_at(server).complete(WITH_TOOLS).text == "ok"


def test_a_description_the_sdk_cannot_read_tells_nothing(server: ProviderServer) -> None:
    server.protocol.other = lambda method, path, body: (  # type: ignore[method-assign]
        Reply(body={"capabilities": ["completion"]}) if path == "/api/show" else None
    )
    assert model_at(server).complete(WITH_TOOLS).text == "Hi there."


def test_check_says_what_is_wrong(server: ProviderServer) -> None:
    model_at(server).check()
    with (
        serve(OllamaServer(models=("other",)), scripted) as empty,
        pytest.raises(ModelNotFound, match="run: ollama pull qwen3:4b"),
    ):
        model_at(empty).check()
    with (
        serve(OllamaServer(("completion",)), scripted) as plain,
        pytest.raises(BadRequest, match="does not support tools"),
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


@pytest.mark.parametrize("way", WAYS)
def test_timeout(way: str, server: ProviderServer) -> None:
    over = threading.Event()

    def silence() -> Iterator[bytes]:
        over.wait(5)
        yield b""

    server.canned = [Reply(chunks=silence())]
    try:
        with pytest.raises(TimedOut, match="timeout="):
            WAYS[way](model_at(server, timeout=0.1), HELLO)
    finally:
        over.set()
    assert len(server.requests) == 1


STATUS: list[tuple[int, Any, type[ModelError], bool, str]] = [
    (401, {"error": "unauthorized"}, AuthError, False, "OLLAMA_API_KEY"),
    (403, {"error": "upgrade to use this model"}, AuthError, False, "ollama signin"),
    (404, {"error": 'model "x" not found, try pulling it first'}, ModelNotFound, False, "pull"),
    (404, "404 page not found", BadRequest, False, "base_url"),
    (400, {"error": '"x" does not support thinking'}, BadRequest, False, "leave out think="),
    (400, {"error": '"x" does not support tools'}, BadRequest, False, "pick one that does"),
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
def test_an_overloaded_server_is_asked_again(
    way: str, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.01)
    server.canned = [Reply(503, {"error": "server busy"})] * 2
    assert WAYS[way](model_at(server), HELLO).text == "Hi there."
    assert len(server.requests) == 3


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
    ([line("one"), line("two")], {}, BadResponse, "broke off"),
    ([line("one"), line("two")[:20]], {}, BadResponse, "base_url"),
    ([line("one")], {"content-length": "999"}, ConnectionFailed, "broke"),
    ([line("one"), b'{"error": "llama runner crashed"}\n'], {}, BadResponse, "runner crashed"),
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


def test_what_was_shown_is_never_asked_again(server: ProviderServer) -> None:
    server.canned = [Reply(chunks=[line("one")])]
    stream = model_at(server).stream(HELLO)
    assert next(stream) == Delta("answer", "one")
    with pytest.raises(BadResponse):
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
        pytest.raises(BadRequest, match="does not support thinking; leave out think="),
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
        ([ASK, CALL, {**RESULT, "content": ""}], "is empty"),
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
