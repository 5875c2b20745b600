"""What only the OpenAI provider does, with both of its APIs, through the real SDK over local HTTP.
`test_errors.py` and `test_four_providers.py` test all providers.
"""

import json
from dataclasses import replace

import pytest

from tests.servers import Reply, sse
from tests.servers.openai import error
from tests.servers.openai_chat import Chat
from tests.support.pieces import told
from tests.support.providers import ASK, HELLO, KEY, every_way, failure, talking
from tests.support.wires import to_chat
from think_agent import (
    Assistant,
    BadRequest,
    Force,
    Overloaded,
    RateLimited,
    Request,
    Tool,
    ToolResult,
    User,
    tool,
)
from think_agent.providers.openai import OpenAI
from think_agent.think import THINK
from think_agent.wire.outgoing import ONE_TOOL


@tool
def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order}: lost"


NO_PARAMETERS = Tool(name="ping", description="Ping.", parameters={"type": "object"})
ASKED = Request([User("where is ORD-1?")], [THINK, look_up], system="Be brief.")


# What is sent.


@every_way
@pytest.mark.parametrize("system", ["Be brief.", ""])
def test_a_server_that_knows_no_named_choice_is_sent_required_and_that_tool_alone(way, system):
    """In that request alone, the model reads that it is shown one tool."""
    complaint = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
    forced = replace(ASKED, system=system, tool_choice=Force("think"))
    with talking("openai-chat") as (server, model):
        server.canned = [error(400, complaint)]
        assert ASK[way](model, forced).enforced == "tool_choice"
        body = server.requests[-1]
        ASK[way](model, replace(forced, tool_choice="auto"))
        model.refused["required"] = ""
        ASK[way](model, forced)
        first, told, free, asked = [str(body["messages"]) for body in server.requests]
    assert body["tool_choice"] == "required"
    assert [t["function"]["name"] for t in body["tools"]] == ["think"]
    assert "For this reply you are shown one tool. Your other tools are there again" in told
    assert first == free == asked
    assert ONE_TOOL not in first


def test_openai_is_told_which_requests_begin_alike():
    model = OpenAI("gpt-6-luna", api_key=KEY)
    key = model.to_wire(ASKED)["prompt_cache_key"]
    later = replace(ASKED, messages=[User("And ORD-2?")], tool_choice="none")
    assert model.to_wire(later)["prompt_cache_key"] == key
    for other in (replace(ASKED, system="Be long."), replace(ASKED, tools=[THINK])):
        assert model.to_wire(other)["prompt_cache_key"] != key


@pytest.mark.parametrize("way", ["plain", "streamed"])
def test_a_mistake_of_the_model_does_not_count_as_a_refusal_of_the_choice(way):
    """Groq's words. The model reads them, and is forced the next time, too."""
    slip = error(400, "Tool choice is required, but model did not call a tool", code="x")
    request = Request([User("hi")], [THINK], tool_choice=Force("think"))
    with talking("openai-chat") as (server, model):
        server.canned = [slip, slip]
        assert ASK[way](model, request).stop_reason == "malformed"
        reply = ASK[way](model, request)
        assert [body.get("tool_choice") is not None for body in server.requests] == [True, True]
    assert "did not call a tool" in reply.mistake
    assert "The tools are: think." in reply.mistake


def test_newer_models_are_sent_the_bound_under_its_other_name():
    refusal = "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    refusal += "'max_completion_tokens' instead."
    with talking("openai-chat") as (server, model):
        server.canned = [error(400, refusal)]
        assert [model.complete(HELLO).text for _ in range(2)] == ["Hello."] * 2
        bodies = server.requests
    assert ["max_tokens" in body for body in bodies] == [True, False, False]
    assert ["max_completion_tokens" in body for body in bodies] == [False, True, True]


@every_way
def test_a_request_that_is_refused_helps_the_one_beside_it(way):
    """Two threads were refused at once. The second asks again in the form that the first found."""
    with talking("openai-chat", strict=True) as (server, model):

        def refuse():
            model.options["strict"] = False  # what the first thread does
            yield json.dumps({"error": {"message": "Unknown parameter: 'strict'."}}).encode()

        server.canned = [Reply(400, chunks=refuse())]
        assert ASK[way](model, ASKED).text == "Hello."
    assert [json.dumps(body).count('"strict": true') for body in server.requests] == [2, 0]


# Forms.


class LlamaCpp(Chat):
    """It takes any schema beside the tools. OpenAI's own host takes none but closed objects."""

    def decode(self, path, body):
        schema = self.schema(body)
        rest = {**body}
        rest.pop("response_format", None)
        return replace(super().decode(path, rest), output_schema=schema)


def in_form(request: Request) -> Assistant:
    """A model that is held by a schema and by nothing else."""
    match request.output_schema:
        case {"type": "string"}:
            return Assistant('"It is lost."')
        case {"type": "object"}:
            return Assistant('{"thought": "Look."}')
    return Assistant("It is lost.")


@every_way
@pytest.mark.parametrize(
    ("protocol", "host", "forms"),
    [
        (LlamaCpp, "127.0.0.1", [True, True, True]),
        (LlamaCpp, "example.com", [False, False, False]),  # another one's reply says nothing
        (Chat, "127.0.0.1", [True, True, False, False]),  # refused: sent again without it
    ],
)
def test_where_a_server_of_ones_own_ignored_a_choice_a_form_does_it(way, protocol, host, forms):
    ignored = Assistant("Hm.", enforced="ignored", host=host)
    talk = [*ASKED.messages, ignored, User("Go on.", kind="nudge")]
    thought = replace(ASKED, messages=talk, tool_choice=Force("think"))
    with talking("openai-chat", in_form, protocol=protocol()) as (server, model):
        first = ASK[way](model, thought)
        closing = ASK[way](model, replace(thought, tool_choice="none"))
        ASK[way](model, thought)
        assert ["response_format" in body for body in server.requests] == forms
        assert [len(body["tools"]) for body in server.requests] == [2] * len(forms)
    assert [call.arguments for call in first.tool_calls] == [{"thought": "Look."}] * forms[0]
    assert closing.text == "It is lost."
    assert closing.tool_calls == ()
    assert (closing.enforced == "schema") == all(forms)


# Hosts.


def body_of(**options):
    return OpenAI("m", **options).to_wire(HELLO)


def test_a_reply_that_names_no_model_is_from_the_one_that_was_asked():
    choice = {"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
    with talking("openai-chat") as (server, model):
        server.canned = [Reply(body={"choices": [choice]})]
        assert model.complete(HELLO).model == "local"


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


# Errors.


USE_THE_OTHER_API = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-luna in "
    "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort "
    "to 'none'."
)
ROUTED = {"error": {"message": "Provider returned error", "metadata": {"raw": "busy till noon"}}}


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (error(400, USE_THE_OTHER_API), BadRequest, 'set api to "responses"'),
        (Reply(429, ROUTED, headers={"retry-after": "100"}), RateLimited, "busy till noon"),
        (Reply(200, {"error": {"message": "Provider's error", "code": 400}}), BadRequest, "Pro"),
    ],
    ids=["the other API", "OpenRouter's host", "an error in a 200"],
)
def test_error_answers(reply, kind, words):
    with talking("openai-chat") as (server, model):
        server.canned = [reply]
        with pytest.raises(kind, match=words):
            model.complete(ASKED)


def failed(code: str) -> dict:
    error = {"code": code, "message": "Boom"}
    return {"type": "response.failed", "response": {"output": [], "error": error}}


def error_event(code: str | None) -> dict:
    return {"type": "error", "code": code, "message": "Slow down", "param": None}


NO_CREDIT = {"type": "error", "error": {"code": "insufficient_quota", "message": "No credit"}}
TOO_LONG = {"error": {"message": "Too long", "type": "BadRequestError", "code": 400}}


@pytest.mark.parametrize(
    ("api", "event", "kind", "passes"),
    [
        ("openai-chat", TOO_LONG, BadRequest, False),
        ("openai-responses", error_event("rate_limit_exceeded"), RateLimited, True),
        ("openai-responses", error_event(None), Overloaded, True),
        ("openai-responses", NO_CREDIT, RateLimited, False),
        ("openai-responses", failed("server_error"), Overloaded, True),
        ("openai-responses", failed("invalid_prompt"), BadRequest, False),
    ],
)
def test_errors_inside_a_stream(api, event, kind, passes, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with talking(api) as (server, model):
        server.canned = [Reply(chunks=[sse(event)], content_type=server.stream_type)] * 3
        wrong = failure(model, "streamed")
        assert type(wrong) is kind
        assert wrong.retryable == passes
        assert wrong.status != 200
        assert len(server.requests) == (3 if passes else 1)


# What compatible servers do; more of it in tests/wire/test_chat_servers.py.


def chunk(finish=None, **delta):
    return sse({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def test_what_came_in_a_stream_goes_back_whole():
    """Reasoning under two names is shown once. The signature of a call is kept: Gemini's endpoint
    refuses it without.
    """
    signed = {"google": {"thought_signature": "abc"}}
    call = {"id": "a", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    call["extra_content"] = signed
    chunks = [
        chunk(role="assistant", reasoning="Hm", reasoning_content="Hm"),
        chunk(reasoning="m.", reasoning_content="m."),
        chunk(content="Yes."),
        chunk(tool_calls=[{"index": 0, **call}]),
        chunk("stop"),
        sse("[DONE]"),
    ]
    with talking("openai-chat") as (server, model):
        server.canned = [Reply(chunks=chunks, content_type=server.stream_type)]
        *deltas, reply = model.stream(ASKED)
    assert told(deltas, "thinking") == reply.thinking == "Hmm."
    talk = Request([User("hi"), reply, ToolResult("a", "ping", "pong")])
    back = to_chat(talk, host=reply.host)["messages"][1]
    assert back == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning": "Hmm.",
        "reasoning_content": "Hmm.",
        "tool_calls": [call],
    }
