"""The Ollama adapter through the real SDK over local HTTP: what is its own. What holds of all
providers stands in `test_four_providers.py` and `test_errors.py`.
"""

import json
from dataclasses import replace
from typing import Any

import ollama
import pytest

from tests.servers import Reply, serve
from tests.servers.ollama import OllamaServer
from tests.support.providers import (
    ASK,
    HELLO,
    every_way,
    says,
    streamed_ways,
)
from think_agent import (
    THINK,
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
    ToolsUnsupported,
    User,
    connect,
    tool,
)
from think_agent.cli.options import named_model, speak
from think_agent.providers.ollama import Ollama
from think_agent.wire.common import Settings


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


def test_options_are_sent_only_when_given(server):
    model_at(server).complete(HELLO)
    model_at(server, settings=Settings("off"), num_ctx=512).complete(HELLO)
    plain, given = server.requests
    assert plain["options"] == {"num_ctx": 16384, "num_predict": 8192}
    assert not {"think", "format"} & plain.keys()
    assert given["think"] is False
    assert given["options"] == {"num_ctx": 512, "num_predict": 8192}


@pytest.mark.parametrize("choice", ["auto", "required", Force("think")])
def test_a_tool_choice_is_a_matter_of_the_prompt(choice: Any, server):
    reply = model_at(server).complete(replace(WITH_TOOLS, tool_choice=choice))
    assert reply.enforced == (None if choice == "auto" else "prompt")
    [body] = server.requests  # asked once: nothing has to be refused first
    assert "tool_choice" not in body
    assert [item["function"]["name"] for item in body["tools"]] == ["think", "order"]


def test_the_final_call_leaves_the_tools_out(server):
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


def test_an_output_schema_is_sent_only_without_tools(server):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    model = model_at(server)
    model.complete(replace(HELLO, output_schema=schema))
    model.complete(replace(WITH_TOOLS, output_schema=schema))
    model.complete(replace(WITH_TOOLS, output_schema=schema, tool_choice="none"))
    assert [body.get("format") for body in server.requests] == [schema, None, schema]


def test_results_of_one_turn_stay_in_order_and_name_their_calls(server):
    calls = (ToolCall("b", "order", {"order_id": "2"}), ToolCall("a", "think", "{not json"))
    results = [ToolResult("b", "order", ""), ToolResult("a", "think", "error: no object")]
    model_at(server).complete(Request([User("go"), Assistant(tool_calls=calls), *results]))
    assert server.requests[0]["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
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
def test_native_messages_go_back_to_their_own_provider_only(provider: str, sent: str, server):
    native = {"role": "assistant", "content": "native", "thinking": "hm"}
    said = Assistant("neutral", "hm", provider=provider, native=native)
    model_at(server).complete(Request([User("a"), said, User("b")]))
    message = server.requests[0]["messages"][1]
    assert message["content"] == sent
    assert ("thinking" in message) == (sent == "native")


def test_a_tool_schema_reaches_the_server_as_it_is(server):
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


@pytest.mark.parametrize("capabilities", [None, ()])
def test_a_server_that_tells_no_capabilities_is_believed(
    capabilities: tuple[str, ...] | None,
):
    with serve(OllamaServer(capabilities=capabilities), says("ok")) as server:
        model_at(server).check()


def test_a_description_that_cannot_be_read_tells_nothing(server):
    server.protocol.other = lambda method, path, body: (
        Reply(body={"capabilities": 5}) if path == "/api/show" else None
    )
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


def test_the_address_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    assert Ollama("m").complete(HELLO).text == "Hi there."


STATUS: list[tuple[int, Any, type[ModelError], bool, str]] = [
    (401, {"error": "unauthorized"}, AuthError, False, "OLLAMA_API_KEY"),
    (403, {"error": "upgrade to use this model"}, AuthError, False, "ollama signin"),
    (404, {"error": 'model "x" not found, try pulling it first'}, ModelNotFound, False, "pull"),
    (404, "404 page not found", BadRequest, False, "base_url"),
    (400, {"error": '"x" does not support thinking'}, BadRequest, False, "leave out reasoning"),
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
    server,
):
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


def line(content: str, **more: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"model": "m", "message": message, "done": False, **more}).encode() + b"\n"


BROKEN: list[tuple[list[bytes], dict[str, str], type[ModelError], str]] = [
    ([], {}, BadResponse, "broke off"),
    ([line("one"), b'{"error": "llama runner crashed"}\n'], {}, Overloaded, "runner crashed"),
    ([b'{"error": {"message": "odd"}}\n'], {}, BadResponse, "base_url"),
    ([line("one"), b'{"error": "Server overloaded, retry"}\n'], {}, Overloaded, "overloaded"),
]


@streamed_ways
@pytest.mark.parametrize(("chunks", "headers", "kind", "says"), BROKEN)
def test_a_broken_stream(
    chunks: list[bytes],
    headers: dict[str, str],
    kind: type[ModelError],
    says: str,
    way: str,
    server,
):
    server.canned = [Reply(chunks=chunks, headers=headers)]
    with pytest.raises(kind, match=says) as caught:
        ASK[way](once(model_at(server)), HELLO)
    assert type(caught.value) is kind
    assert caught.value.status is None


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
    with pytest.raises(BadResponse):  # without tools there is no call to read
        ASK[way](once(model_at(server)), HELLO)


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


def test_a_model_that_cannot_think():
    with (
        serve(OllamaServer(capabilities=("completion",)), says("ok")) as server,
        pytest.raises(BadRequest, match="does not support thinking; leave out reasoning"),
    ):
        model_at(server, settings=Settings("low")).complete(HELLO)


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


# The local server is strict, or the tests above prove little.

QUESTION = {"role": "user", "content": "go"}
CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "order", "arguments": {}}}]}
RESULT = {"role": "tool", "tool_name": "order", "content": "x"}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([QUESTION, CALL], "calls without a result at the end"),
        ([QUESTION, CALL, QUESTION], "calls without a result before message 2"),
        ([QUESTION, CALL, RESULT, RESULT], "answers no call"),
        ([QUESTION, CALL, {**RESULT, "tool_name": "think"}], "is not for order"),
        ([{"role": "user", "content": ""}], "is empty"),
        ([{"role": "developer", "content": "go"}], "role developer"),
        ([QUESTION, {"role": "system", "content": "late"}], "role system"),
        ([QUESTION, {"role": "assistant", "content": "so"}], "nothing is asked"),
        ([], "nothing is asked"),
    ],
)
def test_the_local_server_refuses(messages: list[dict[str, Any]], problem: str, server):
    client = ollama.Client(host=server.url)
    with pytest.raises(ollama.ResponseError, match=problem):
        client.chat("m", messages, options={"num_ctx": 1})
    fine = client.chat("m", [QUESTION, CALL, RESULT], options={"num_ctx": 1})
    assert fine.message.content == "Hi there."
