"""The Ollama adapter through the real SDK over local HTTP: what is its own. What holds of all
providers stands in `test_four_providers.py` and `test_errors.py`.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from demos.refund.session import speak
from tests.servers import Reply, serve
from tests.servers.ollama import OllamaServer
from tests.support.providers import ASK, HELLO, every_way, failure, says, streamed_ways
from think_agent import (
    THINK,
    Agent,
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    Tool,
    User,
    connect,
    tool,
)
from think_agent.cli.options import named_model
from think_agent.errors import ToolsUnsupported
from think_agent.providers.ollama import Ollama


@tool
def order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: shipped"


WITH_TOOLS = Request([User("Where is ORD-1?")], [THINK, order], system="Be brief.")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


@pytest.fixture
def server():
    with serve(OllamaServer(), says("Hi there.")) as running:
        yield running


def model_at(server, **options):
    return Ollama("qwen3:4b", base_url=server.url, **options)


def once(model):
    model.retries = 0
    return model


# What is sent.


def test_the_window_and_the_bound_are_always_sent(server):
    model_at(server).complete(HELLO)
    model_at(server, num_ctx=512).complete(HELLO)
    windows = [body["options"] for body in server.requests]
    assert windows == [{"num_ctx": n, "num_predict": 8192} for n in (16384, 512)]


def test_a_tool_schema_reaches_the_server_as_it_is(server):
    """The SDK's own types would drop `anyOf`, `default`, `const` and all that is nested."""
    item = {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 8}}}
    maybe = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}
    properties = {"nested": item, "maybe": maybe, "constant": {"const": "é"}}
    parameters = {"type": "object", "properties": properties, "required": ["nested"]}
    shown = Tool(name="shop", description="A shop.", parameters=parameters)
    model_at(server).complete(Request([User("buy")], [shown]))
    assert server.requests[0]["tools"][0]["function"]["parameters"] == parameters


def test_an_output_schema_is_sent_only_without_tools(server):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    model = model_at(server)
    model.complete(replace(HELLO, output_schema=schema))
    model.complete(replace(WITH_TOOLS, output_schema=schema))
    model.complete(replace(WITH_TOOLS, output_schema=schema, tool_choice="none"))
    assert [body.get("format") for body in server.requests] == [schema, None, schema]


# What comes back.


def test_calls_are_counted_in_a_stream(server):
    calls = [{"function": {"name": "order", "arguments": {"order_id": n}}} for n in ("1", "2", "3")]
    lines = [
        line("", message={"role": "assistant", "tool_calls": calls[:2]}),
        line("", message={"role": "assistant", "tool_calls": calls[2:]}),
        line("", done=True),
    ]
    server.canned = [Reply(chunks=lines)]
    *deltas, _ = model_at(server).stream(HELLO)
    assert [(d.index, json.loads(d.text)["order_id"]) for d in deltas] == [
        (0, "1"),
        (1, "2"),
        (2, "3"),
    ]


# What the model can do.


def test_a_server_that_tells_no_capabilities_is_believed(server):
    for told in ({}, {"capabilities": None}, {"capabilities": []}, {"capabilities": 5}):
        show = Reply(body=told)
        server.protocol.other = lambda method, path, body, show=show: show
        model_at(server).check()


def test_check_says_what_is_wrong(server):
    model_at(server).check()
    with (
        serve(OllamaServer(models=("other",)), says("ok")) as empty,
        pytest.raises(ModelNotFound, match="run: ollama pull qwen3:4b"),
    ):
        model_at(empty).check()
    with (
        serve(OllamaServer(capabilities=("completion",)), says("ok")) as plain,
        pytest.raises(ToolsUnsupported),
    ):
        model_at(plain).check()
    with pytest.raises(ConnectionFailed, match="start it with: ollama serve"):
        Ollama("m", base_url="http://127.0.0.1:9").check()


STATUS: list[tuple[int, Any, type[ModelError], bool, str]] = [  # what Ollama says in its own way
    (401, {"error": "unauthorized"}, AuthError, False, "OLLAMA_API_KEY"),
    (403, {"error": "upgrade to use this model"}, AuthError, False, "ollama signin"),
    (404, {"error": 'model "x" not found, try pulling it first'}, ModelNotFound, False, "pull"),
    (400, {"error": '"x" does not support thinking'}, BadRequest, False, "leave out reasoning"),
    (400, {"error": {"message": "not as Ollama does"}}, BadRequest, False, "not as Ollama does"),
    (429, {"error": "you've reached your hourly usage limit"}, RateLimited, False, "wait"),
    (502, "upstream connect error\nor disconnect", Overloaded, True, "upstream connect error or"),
    (500, "", Overloaded, True, "HTTP 500"),
    (500, '"just a string"', BadResponse, False, "base_url"),
]


@pytest.mark.parametrize("way", ["plain", "streamed"])
@pytest.mark.parametrize(("status", "body", "kind", "retryable", "says"), STATUS)
def test_error_answers(status, body, kind, retryable, says, way, server):
    server.canned = [Reply(status, body)]
    error = failure(once(model_at(server)), way)
    assert (type(error), error.retryable) == (kind, retryable)
    assert error.status == (None if kind is BadResponse else status)
    assert says in str(error)


@streamed_ways
def test_a_stream_that_says_nothing_or_what_is_no_error_is_no_reply(way, server):
    for chunks, words in (([], "broke off"), ([b'{"error": {"message": "odd"}}\n'], "base_url")):
        server.canned = [Reply(chunks=chunks)]
        error = failure(once(model_at(server)), way)
        assert (type(error), error.status) == (BadResponse, None)
        assert words in str(error)


def line(content: str, **more: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"model": "m", "message": message, "done": False, **more}).encode() + b"\n"


@every_way
@pytest.mark.parametrize("call", [False, True])
def test_half_a_reply_is_an_unfinished_one(way: str, call: bool, server):
    """As the server ends one when the model repeats itself: HTTP 200, `"done": false`."""
    calls = [{"id": "c", "function": {"name": "order", "arguments": {"order_id": "1"}}}]
    message = {"role": "assistant", "content": "two two", **({"tool_calls": calls} if call else {})}
    last = line("", message=message)
    server.canned = [Reply(chunks=[last]) if "stream" in way else Reply(body=json.loads(last))]
    reply = ASK[way](model_at(server), WITH_TOOLS)
    assert (reply.text, reply.stop_reason) == ("two two", "incomplete")
    assert "repeated itself" in reply.cause


def test_a_call_in_half_a_reply_is_not_run(server):
    ran = []

    def pay(amount: int):
        """Pay."""
        ran.append(amount)

    function = {"name": "pay", "arguments": {"amount": 5}}
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
    server.canned = [Reply(chunks=[line("", message=message)])]
    model = connect("ollama:qwen3:4b", base_url=server.url)
    outcome = list(Agent(model, [tool(pay)], force="never").stream("Pay 5"))[-1]
    assert (outcome.exit, ran) == ("truncated", [])


@every_way
@pytest.mark.parametrize(
    "said",
    [
        "error parsing tool call: raw='ls', err=invalid",
        "XML syntax error on line 3",
        "failed to parse JSON: unexpected end of JSON input",
        "invalid character ']' after object key:value pair",
        "parse Glimmer call to pay: malformed ATEM parameter",
        "incomplete GLM tool call: missing end tag",
    ],
)
def test_a_call_that_the_server_cannot_read_is_said_to_the_model(way: str, said: str, server):
    in_a_stream = Reply(chunks=[line("Hm."), json.dumps({"error": said}).encode() + b"\n"])
    for canned in (Reply(500, {"error": said}), in_a_stream if "stream" in way else None):
        server.canned = [canned] if canned else [Reply(500, {"error": said})]
        reply = ASK[way](model_at(server), WITH_TOOLS)
        assert (reply.stop_reason, reply.tool_calls) == ("malformed", ())
        assert said in reply.mistake
        assert "think, order" in reply.mistake
    server.canned = [Reply(500, {"error": said})]
    reply = ASK[way](model_at(server), HELLO)  # without tools there is no call to read
    assert (reply.text, reply.stop_reason, said in reply.notice) == ("", "end_turn", True)
    assert server.canned == []


@every_way
@pytest.mark.parametrize(
    "value", ["9" * 5_000, "[" * 200_000 + "]" * 200_000], ids=["long", "deep"]
)
def test_a_call_that_python_cannot_read_is_said_to_the_model(way, value, server):
    body = line("", message={"role": "assistant", "content": "VALUE"}, done=True)
    server.canned = [Reply(chunks=[body.replace(b'"VALUE"', value.encode())])]
    reply = ASK[way](model_at(server), WITH_TOOLS)
    assert (reply.stop_reason, reply.tool_calls) == ("malformed", ())
    assert "nested too deeply, or with a number too long" in reply.mistake


@every_way
def test_a_swallowed_call_is_said_to_the_model(way: str, server):
    empty = line("", done=True, done_reason="stop", eval_count=30)
    for request in (WITH_TOOLS, HELLO):
        server.canned = [Reply(chunks=[empty])]
        reply = ASK[way](model_at(server), request)
        assert reply.stop_reason == ("malformed" if request is WITH_TOOLS else "end_turn")
        assert ("think, order" in reply.mistake) == (request is WITH_TOOLS)


def test_a_short_key_is_no_secret(server):
    server.canned = [Reply(400, {"error": "ollama says no"})]
    with pytest.raises(BadRequest, match="ollama says no"):
        model_at(server, api_key="ollama").complete(HELLO)


def test_mistakes_of_our_own_stay_what_they_are(server):
    with pytest.raises(AttributeError):
        model_at(server).complete(Request([User("go")], ["no tool"]))


# Which model `auto` takes, through the SDK.

CAN = {
    "qwen2.5:7b": ("completion", "tools"),
    "llama3.2:3b": ("completion", "tools"),
    "gemma3:4b": ("completion", "vision"),
    "nomic-embed-text:latest": ("embedding",),
    "gpt-oss:120b-cloud": ("completion", "tools"),
}


@pytest.mark.parametrize(
    ("installed", "named", "taken", "said"),
    [
        (["gemma3:4b", "llama3.2:3b", "qwen2.5:7b"], None, "ollama:qwen2.5:7b", []),
        (["gemma3:4b", "llama3.2:3b"], None, "ollama:llama3.2:3b",
         ["qwen2.5:7b is not installed: taking llama3.2:3b, which is."]),
        (["gemma3:4b", "nomic-embed-text:latest", "gpt-oss:120b-cloud"], None, "offline:stand-in",
         ["(installed: gemma3:4b, nomic-embed-text:latest, gpt-oss:120b-cloud)", "stand-in"]),
        ([], None, "offline:stand-in", ["(installed: no model)", "stand-in"]),
        (["gemma3:4b", "qwen2.5:7b"], "gemma3:4b", "ollama:gemma3:4b",
         ["gemma3:4b has no tool calling: speaking json."]),
        (["qwen2.5:7b"], "llama3.2:3b", "offline:stand-in",
         ["run: ollama pull llama3.2:3b (installed: qwen2.5:7b)", "stand-in"]),
    ],
)  # fmt: skip
def test_auto_takes_what_is_installed_and_says_so(
    installed, named, taken, said, monkeypatch, capsys
):
    protocol = OllamaServer(models=installed, capabilities=CAN)
    with serve(protocol, says('{"done": true}')) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        model = speak(named_model(f"auto:{named}" if named else "auto"), "auto")
    assert f"{model.name}:{model.model}" == taken
    notices = capsys.readouterr().err.splitlines()
    assert len(notices) == len(said)
    for notice, words in zip(notices, said, strict=True):
        assert words in notice
