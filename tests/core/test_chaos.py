"""Extreme cases: replies that no healthy model gives, servers that send anything, and settings that
cannot work.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.servers import Reply, serve, sse
from tests.support import providers
from tests.support.agents import results
from tests.support.desk import said
from tests.support.providers import ASK, HELLO, SPEAKS, every_provider, every_way, failure, talking
from think_agent import Agent, Request, ScriptedModel, Tool, connect, tool
from think_agent.errors import AuthError, BadRequest, ConnectionFailed
from think_agent.messages import Assistant, ToolCall, User


def agent_on(*calls: ToolCall, **settings: Any) -> Agent:
    """An agent whose model makes these calls in one reply and then stops."""
    needs_approval = "approve" in settings

    def work(n: int = 0) -> str:
        return f"worked {n}"

    raw = {"type": "object", "properties": {}}
    tools = [
        tool(work, needs_approval=needs_approval),
        Tool(name="raw", description="", parameters=raw, function=lambda **given: str(given)[:9]),
    ]
    return Agent(ScriptedModel([calls, "Done."]), tools, force="never", **settings)


@pytest.mark.parametrize("name", ["c{}", "same", ""], ids=["distinct", "equal", "missing"])
def test_a_thousand_calls_in_one_reply(name):
    calls = [ToolCall(name.format(n), "work", {"n": n}) for n in range(1_000)]
    outcome = agent_on(*calls, approve=lambda asked: True).run("go")
    assert outcome.exit == "silence"
    assert [a.result.content for a in outcome.actions] == [f"worked {n}" for n in range(1_000)]


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("tool_name", ["work", "raw", "think", "unknown"])
@pytest.mark.parametrize("depth", [50, 200, 400])
def test_arguments_nested_deeply_work(tmp_path, tool_name, depth):
    deep: Any = {}
    for _ in range(depth):
        deep = {"a": deep}
    path, call = tmp_path / "run.jsonl", ToolCall("1", tool_name, {"n": deep})
    outcome = agent_on(call).run("go", transcript=path)
    assert said(path) == list(outcome.transcript)
    assert agent_on(call).run("go").exit == "silence"


@pytest.mark.parametrize("name", ["na\nme", "\x1b[2J", "\ud800", "x" * 100_000, "\0"])
def test_a_call_with_any_name_gets_a_result(tmp_path, name):
    outcome = agent_on(ToolCall("1", name)).run("go", transcript=tmp_path / "run.jsonl")
    [result] = results(outcome)
    assert result.refused == "invalid"
    assert "there is no tool" in result.content
    assert "\x1b" not in result.content


NO_ANSWERS = ["[" * 100_000, "5", "NaN", "null", "[]", '"hi"', '{"error": "exploded"}']
IN_A_STREAM = [
    '{"choices": [{"delta": {"content": 5}}]}',
    '{"choices": [{"delta": {"tool_calls": [{"function": {"name": 5, "arguments": 7}}]}}]}',
    '{"type": "response.output_text.delta", "delta": 5}',
    '{"candidates": [{"content": {"parts": [{"text": 5}]}}]}',
    '{"message": {"content": 5}, "done": true}',
]


def no_answer(text: str, way: str, provider: str) -> Reply:
    if "stream" not in way:
        return Reply(body=text)
    return Reply(chunks=[f"{text}\n".encode() if provider == "ollama" else sse(text)])


@pytest.mark.usefixtures("no_collection")
@every_provider
@every_way
def test_a_response_that_cannot_be_read_is_a_model_error(provider, way):
    with talking(provider) as (server, model):
        model.retries = 0
        for text in NO_ANSWERS + (IN_A_STREAM if "stream" in way else []):
            server.canned = [no_answer(text, way, provider)]
            failure(model, way)


NO_CALL = {"id": None, "name": None, "input": None, "args": None, "arguments": None}
HOLDING_A_CALL = {
    "openai-chat": {"choices": [{"message": {"tool_calls": [{"function": NO_CALL}]}}]},
    "openai-responses": {"output": [{"type": "function_call", **NO_CALL}]},
    "anthropic": {"content": [{"type": "tool_use", **NO_CALL}]},
    "gemini": {"candidates": [{"content": {"parts": [{"functionCall": NO_CALL}]}}]},
    "ollama": {
        "message": {"role": "assistant", "tool_calls": [{"function": NO_CALL}]},
        "done": True,
    },
}


@every_provider
def test_a_call_without_a_name_is_never_run(provider):
    with talking(provider) as (server, model):
        server.canned = [Reply(body=HOLDING_A_CALL[provider])]
        reply = model.complete(HELLO)
    was_dropped = bool(reply.notice) and not reply.tool_calls
    assert was_dropped or not reply.is_usable


@every_way
@every_provider
@pytest.mark.parametrize("odd", [{1}, float("inf"), Path("odd")], ids=str)
def test_a_request_that_is_not_json_is_raised(provider, way, odd):
    """It is a mistake of the program, not of the server."""
    if provider == "gemini" and odd == float("inf"):
        pytest.skip("Google's SDK sends it as it is")
    shown = Tool(name="odd", description="", parameters={"type": "object", "enum": odd})
    with talking(provider) as (server, model):
        with pytest.raises((TypeError, ValueError), match="JSON"):
            ASK[way](model, Request([User("hi")], [shown]))
        assert server.requests == []


@every_provider
def test_lone_surrogates_of_a_model_do_not_end_the_conversation(provider):
    def brain(request: Request) -> Assistant:
        if isinstance(request.messages[-1], User):
            return Assistant("a\ud800b", tool_calls=(ToolCall("c1", "echo", {"x": "\udfff"}),))
        return Assistant("z\udfff")

    def echo(x: str) -> str:
        """Say it again."""
        return x

    with serve(SPEAKS[provider][0](), brain) as server:
        agent = Agent(providers.model_of(provider, server), [tool(echo)], think=None)
        for way in providers.WAYS:
            outcome = way(agent, "again", way(agent, "go").transcript)
            texts = [m.text for m in outcome.transcript if isinstance(m, Assistant)]
            assert texts == ["a\ufffdb", "z\ufffd"] * 2
        mine = agent.run("\ud800").transcript[0]  # a person's text, too
        assert mine.text == "\ufffd"


@every_provider
@every_way
def test_control_characters_of_a_server_are_escaped_in_its_error(provider, way):
    words = "No\n\x1b[31m \x9b2J \u202eback \ud800 Grüße"
    with talking(provider) as (server, model):
        error = words if provider == "ollama" else {"message": words, "code": 400}
        server.canned = [Reply(400, {"error": error})]
        caught = failure(model, way)
    assert isinstance(caught, BadRequest)
    shown = str(caught).replace("\ufffd", r"\ud800")  # half a character is replaced or written out
    assert r"No \x1b[31m \x9b2J \u202eback \ud800 Grüße" in shown
    assert str(caught).isprintable()


@every_provider
@pytest.mark.parametrize("url", ["http://[::1", "http://me:secret@[::1", "http://[zz]/v1"])
def test_a_malformed_base_url_is_an_error_without_its_secret(provider, url):
    _, spec, options = SPEAKS[provider]
    with pytest.raises(
        ConnectionFailed, match=r"isn't a URL.*base_url|base_url isn't a URL"
    ) as caught:
        connect(spec, base_url=url, **options).complete(HELLO)
    assert "secret" not in str(caught.value)


@every_provider
@pytest.mark.parametrize("key", ["kéy123456789", "key12\n3456789"])
def test_a_key_that_fits_no_header_is_an_error_that_does_not_show_it(provider, key, monkeypatch):
    *others, name = providers.VARIABLES[provider]
    for other in others:
        monkeypatch.delenv(other, raising=False)
    _, spec, options = SPEAKS[provider]
    connect(spec, **options)  # Ollama's SDK reads the key when it is imported
    monkeypatch.setenv(name, key)
    options = {name: value for name, value in options.items() if name != "api_key"}
    with pytest.raises(AuthError, match=f"no header can carry.*{name}") as caught:
        connect(spec, **options)
    assert "123456" not in str(caught.value)


@pytest.mark.parametrize("timeout", [-1, 0, True, float("nan"), float("inf"), "5", None])
def test_an_impossible_timeout_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout: "):
        connect("offline", timeout=timeout)
