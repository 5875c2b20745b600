"""What a server refuses of a request, and how it is asked instead: which field is left out, how
many requests that takes, and what is remembered.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from tests.servers import ProviderServer, Reply
from tests.support.combined import combined
from tests.support.providers import ASK, HELLO, every_way, failure, says, talking
from think_agent import (
    THINK,
    Agent,
    Assistant,
    BadRequest,
    Force,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    User,
    tool,
)
from think_agent.dialects import json_plan
from think_agent.messages import Json
from think_agent.providers.provider import Provider
from think_agent.providers.refusals import find_echo, find_refused

CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CLOSED |= {"additionalProperties": False}
PAY = Tool(name="pay", description="Pay.", parameters=CLOSED)
PLAIN = Request([User("Pay.")], [THINK, PAY])
TYPED = replace(PLAIN, tool_choice="none", output_schema=CLOSED)
EXTRA = "Extra inputs are not permitted"


def echoing(provider: str, native: Any) -> Request:
    """A request with a reply that this host wrote, and its result."""
    call = ToolCall("call_1", "pay", {"n": 1})
    name = provider.partition("-")[0]
    reply = Assistant(
        tool_calls=(call,), provider=name, host="127.0.0.1", native=native, stop_reason="tool_use"
    )
    return replace(PLAIN, messages=[User("Pay."), reply, ToolResult("call_1", "pay", "ok")])


CHAT_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "pay", "arguments": '{"n": 1}'},
}
CHAT = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
ITEM = {"type": "function_call", "call_id": "call_1", "name": "pay", "arguments": '{"n": 1}'}
USE = {"type": "tool_use", "id": "call_1", "name": "pay", "input": {"n": 1}}
PART = {"functionCall": {"id": "call_1", "name": "pay", "args": {"n": 1}}}


class Case(NamedTuple):
    """A request, and the refusal of a field of it. `field` stands in the text of the first body and
    not in that of the second.
    """

    provider: str
    request: Request
    complaint: str
    field: str
    way: str = "plain"
    status: int = 400
    requests: int = 2  # if the server goes on refusing


CASES = {
    # The form of an answer.
    "DeepSeek": Case(
        "openai-chat", TYPED, "This response_format type is unavailable now", "response_format"
    ),
    "Groq": Case(
        "openai-chat",
        TYPED,
        "json mode cannot be combined with tool/function calling",
        "response_format",
    ),
    "an older model": Case(
        "openai-chat",
        TYPED,
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported",
        "response_format",
    ),
    "a schema that OpenAI refuses": Case(
        "openai-chat",
        TYPED,
        "Invalid schema for response_format 'answer': 'additionalProperties' is required",
        "response_format",
    ),
    "LM Studio": Case(
        "openai-chat", TYPED, "'response_format.type' must be 'text'", "response_format"
    ),
    "vLLM": Case(
        "openai-chat",
        TYPED,
        "The provided JSON schema contains features not supported by xgrammar.",
        "response_format",
    ),
    "Responses": Case(
        "openai-responses", TYPED, "Unsupported parameter: 'text.format'", '"format"'
    ),
    "Gemini": Case(
        "gemini",
        TYPED,
        "Function calling with a response mime type: 'application/json' is unsupported",
        "responseJsonSchema",
    ),
    "Gemini, older": Case(
        "gemini",
        TYPED,
        "Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field.",
        "responseMimeType",
    ),
    "Messages": Case("anthropic", TYPED, f"output_config.format: {EXTRA}", "json_schema"),
    "Ollama": Case(
        "ollama", TYPED, "Failed to initialize samplers: failed to parse grammar", '"format"'
    ),
    "Ollama's schema": Case("ollama", TYPED, "JSON schema conversion failed: x", '"format"'),
    # What a stream adds.
    "Azure": Case(
        "openai-chat", HELLO, f"body.stream_options: {EXTRA}", "stream_options", "streamed", 422
    ),
    "Azure, async": Case(
        "openai-chat",
        HELLO,
        "Unrecognized request argument supplied: stream_options",
        "stream_options",
        "async streamed",
    ),
    # Strict tools.
    "Cerebras": Case(
        "openai-chat",
        PLAIN,
        "Tools with mixed values for 'strict' are not allowed.",
        '"strict": true',
        status=422,
    ),
    "Claude": Case(
        "anthropic",
        PLAIN,
        "The compiled grammar is too large: reduce the number of strict tools.",
        '"strict": true',
    ),
    "Responses, strict": Case(
        "openai-responses",
        PLAIN,
        "Unknown parameter: 'tools[0].strict'.",
        '"strict": true',
        requests=3,  # with false, and without the key
    ),
    "Gemini, strict": Case("gemini", PLAIN, "mode VALIDATED is not supported", "VALIDATED"),
    # Caches.
    "a cache key": Case(
        "openai-responses", PLAIN, "Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key"
    ),
    "a cache mark": Case(
        "anthropic", PLAIN, f"system.0.cache_control.ephemeral.scope: {EXTRA}", "cache_control"
    ),
    # What the host itself wrote.
    "Cerebras's own reasoning": Case(
        "openai-chat",
        echoing("openai-chat", {**CHAT, "reasoning_content": "Hm."}),
        "messages.1.assistant.reasoning_content: property 'reasoning_content' is unsupported",
        "reasoning_content",
    ),
    "Mistral's own": Case(
        "openai-chat",
        echoing("openai-chat", {**CHAT, "reasoning": "Hm."}),
        f"body.messages.1.assistant.reasoning: {EXTRA}",
        '"reasoning"',
        status=422,
    ),
    "any field of a message": Case(
        "openai-chat",
        echoing("openai-chat", {**CHAT, "annotations": [1]}),
        "Additional properties are not allowed ('annotations' was unexpected)",
        "annotations",
    ),
    "any field of a call": Case(
        "openai-chat",
        echoing("openai-chat", {**CHAT, "tool_calls": [{**CHAT_CALL, "extra_content": {"a": 1}}]}),
        f"messages.1.tool_calls.0.extra_content: {EXTRA}",
        "extra_content",
    ),
    "a field of an item": Case(
        "openai-responses",
        echoing("openai-responses", [{**ITEM, "phase": "commentary"}]),
        "Unknown parameter: 'input[1].phase'.",
        "phase",
    ),
    "an item of reasoning": Case(
        "openai-responses",
        echoing("openai-responses", [{"type": "reasoning", "id": "rs", "summary": []}, ITEM]),
        "Invalid value: 'reasoning' is not supported. Supported values are: 'message'.",
        '"reasoning"',
    ),
    "a block of thinking": Case(
        "anthropic",
        echoing(
            "anthropic",
            {"content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, USE]},
        ),
        "messages.1.content.0: content type 'thinking' is not supported",
        "signature",
    ),
    "a signature of a part": Case(
        "gemini",
        echoing("gemini", {"role": "model", "parts": [{**PART, "thoughtSignature": "abc"}]}),
        "Unknown name \"thoughtSignature\" at 'contents[1].parts[0]': Cannot find field.",
        "thoughtSignature",
    ),
}
STRICT: Json = {"openai-chat": {"strict": True}, "openai-responses": {"strict": True}}


@contextmanager
def refusing(case: Case, *answers: Reply) -> Iterator[tuple[ProviderServer, Provider]]:
    """A server that says these `answers`, and then takes whatever it is sent."""
    options = STRICT.get(case.provider, {})
    with talking(case.provider, says('{"n": 1}'), **options) as (server, model):
        server.protocol.decode = lambda path, body: PLAIN
        server.canned = list(answers)
        yield server, model


def asked(case: Case, *answers: Reply, times: int = 1) -> tuple[list[str], list[Assistant]]:
    """The bodies that the server got, as texts, and the replies."""
    with refusing(case, *answers) as (server, model):
        replies = [ASK[case.way](model, case.request) for _ in range(times)]
        return [json.dumps(body) for body in server.requests], replies


def refusal(case: Case) -> Reply:
    return Reply(case.status, {"error": {"message": case.complaint}})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_field_that_is_refused_is_left_out(case):
    bodies, _ = asked(case, refusal(case))
    assert [case.field in body for body in bodies] == [True, False]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_left_out_from_then_on(case):
    bodies, _ = asked(case, refusal(case), times=2)
    assert [case.field in body for body in bodies] == [True, False, False]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_told_once(case):
    _, replies = asked(case, refusal(case), times=2)
    assert ["it is left out" in reply.notice for reply in replies] == [True, False]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_forgotten_if_the_next_try_fails_too(case):
    no = Reply(400, {"error": {"message": "No."}})
    with refusing(case, refusal(case), no) as (server, model):
        assert type(failure(model, case.way, case.request)) is BadRequest
        assert ASK[case.way](model, case.request).notice == ""
        bodies = [json.dumps(body) for body in server.requests]
    assert [case.field in body for body in bodies] == [True, False, True]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_server_that_goes_on_refusing_is_not_asked_on(case):
    with refusing(case, *[refusal(case)] * 4) as (server, model):
        assert type(failure(model, case.way, case.request)) is BadRequest
        assert len(server.requests) == case.requests


@every_way
def test_two_fields_are_left_out_one_after_the_other(way):
    refusals = [f"prompt_cache_key: {EXTRA}", "Unknown parameter: 'tools[0].strict'."]
    with talking("openai-responses", strict=True) as (server, model):
        server.canned = [Reply(400, {"error": {"message": text}}) for text in refusals]
        reply = ASK[way](model, PLAIN)
        assert len(server.requests) == 3
    assert reply.notice.count("it is left out") == 2


# What no field of the list is in.


class Kept(NamedTuple):
    """A request, a refusal that names no field of the list, and options of `connect`."""

    provider: str
    request: Request
    complaint: str
    options: Json = MappingProxyType({})


DEEPSEEK = "The `reasoning_content` in the thinking mode must be passed back to the API."
THINKS = echoing("openai-chat", {**CHAT, "reasoning_content": "Hm."})
KEPT = {
    "an image's format": Kept("openai-chat", TYPED, "unsupported image format: webp"),
    "a tool's schema": Kept("openai-chat", TYPED, "Invalid schema for function 'pay': anyOf"),
    "a tool's schema, by its place": Kept(
        "anthropic", TYPED, "tools.0.input_schema: JSON schema is invalid"
    ),
    "tools": Kept("openai-chat", PLAIN, "Unsupported parameter: 'tools'."),
    "messages": Kept("openai-chat", THINKS, "Unsupported value: 'messages[1].role'."),
    "store": Kept("openai-responses", PLAIN, "Unknown parameter: 'store'."),
    "truncate": Kept("ollama", PLAIN, "unknown field truncate"),
    "shift": Kept("ollama", PLAIN, "unknown field shift"),
    "a bound": Kept("openai-chat", PLAIN, "max_tokens is too large: 8192"),
    "a temperature": Kept(
        "openai-chat", PLAIN, "Unsupported parameter: 'temperature'", {"temperature": 0.5}
    ),
    "a seed": Kept("openai-chat", PLAIN, "Unsupported parameter: 'seed'", {"seed": 1}),
    "reasoning that the user asked for": Kept(
        "openai-chat", PLAIN, "Unsupported parameter: 'reasoning_effort'", {"reasoning": "low"}
    ),
    "the same beside an echo": Kept(
        "openai-chat",
        echoing("openai-chat", {**CHAT, "reasoning": "Hm."}),
        "Unsupported parameter: 'reasoning.effort' is not supported",
        {"reasoning": "low"},
    ),
    "reasoning that is missing": Kept("openai-chat", THINKS, DEEPSEEK),
    "reasoning that is missing, Kimi": Kept(
        "openai-chat", THINKS, "thinking is enabled but reasoning_content is missing"
    ),
    "a field that was not sent": Kept("openai-chat", PLAIN, f"prompt_cache_key: {EXTRA}"),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_all_else_is_an_error_after_one_request(case):
    with talking(case.provider, **case.options) as (server, model):
        server.canned = [Reply(400, {"error": {"message": case.complaint}})] * 3
        assert isinstance(failure(model, "plain", case.request), BadRequest)
        assert len(server.requests) == 1


@pytest.mark.parametrize("complaint", ["unsupported image format", "Invalid schema for function"])
@every_way
def test_a_form_is_not_forgotten_for_a_complaint_about_something_else(complaint, way):
    forced = replace(PLAIN, tool_choice=Force("think"))
    with talking("ollama") as (server, model):
        server.canned = [Reply(400, {"error": complaint})]
        failure(model, way, forced)
        ASK[way](model, forced)
        assert ["format" in body for body in server.requests] == [True, True]


def test_a_choice_of_none_is_never_sent_as_free():
    """Where the choice is not taken, the tools are left out."""
    closing = replace(PLAIN, tool_choice="none")
    with talking("openai-chat") as (server, model):
        server.canned = [Reply(400, {"error": {"message": "tool_choice is not supported"}})]
        model.complete(closing)
        assert ["tools" in body for body in server.requests] == [True, False]


def test_the_key_of_strict_goes_if_no_tool_is_strict():
    """OpenAI's API takes a missing one for true. Other servers may not know it."""
    refused = Reply(400, {"error": {"message": "Unknown parameter: 'strict'"}})
    with talking("openai-responses") as (server, model):
        server.protocol.decode = lambda path, body: PLAIN
        server.canned = [refused]
        model.complete(PLAIN)
        assert ['"strict"' in json.dumps(body) for body in server.requests] == [True, False]


# What a field was for is kept in another way.


def test_the_form_is_asked_for_in_words():
    bodies, _ = asked(CASES["DeepSeek"], refusal(CASES["DeepSeek"]))
    system = json.loads(bodies[1])["messages"][0]
    assert system["role"] == "system"
    assert json.dumps(CLOSED) in system["content"]


class Answer(BaseModel):
    """The answer of a run."""

    n: int


@tool
def buy(n: int) -> str:
    """Buy."""
    return f"bought {n}"


@combined(provider=["openai-chat", "gemini", "ollama"], way=["plain", "streamed"])
def test_a_typed_answer_survives_a_server_that_takes_no_form(provider, way):
    """Its action has run, so the answer must not be lost. A wrong one is corrected, as ever."""
    replies = iter(
        [
            Assistant(tool_calls=(ToolCall("", "buy", {"n": 1}),), stop_reason="tool_use"),
            Assistant("Bought."),
            Assistant("Bought 1."),
            Assistant('{"n": 1}'),
        ]
    )

    with talking(provider, lambda request: next(replies)) as (server, model):
        answer = server.answer

        def answered(method, path, headers, raw):
            body = json.loads(raw) if raw else {}
            has_form = body.get("response_format") or body.get("format")
            has_form = has_form or body.get("generationConfig", {}).get("responseJsonSchema")
            if has_form:
                server.requests.append(body)
                message = "response_format, response mime type and grammar are not supported"
                return Reply(400, {"error": {"message": message}})
            return answer(method, path, headers, raw)

        server.answer = answered
        agent = Agent(model, [buy], force="never", answer=Answer)
        outcome = agent.run("Buy 1.") if way == "plain" else list(agent.stream("Buy 1."))[-1]
    assert outcome.data == Answer(n=1)


@every_way
def test_the_json_dialect_reads_its_plan_from_text(way):
    plan = '{"understanding": "", "reasoning": "Look.", "task_complete": false, "actions": '
    plan += '[{"tool": "pay", "arguments": {"n": 1}}], "response": ""}'
    with talking("openai-chat", says(plan)) as (server, model):
        server.canned = [refusal(CASES["DeepSeek"])]
        reply = ASK[way](json_plan(model), PLAIN)
    assert [call.name for call in reply.tool_calls] == ["think", "pay"]


# By values.


def test_what_a_host_wrote_is_known_from_what_it_said():
    body = {
        "messages": [
            {"role": "user", "content": "Hi", "extra": 1},
            {**CHAT, "reasoning_content": "Hm.", "content": [{"type": "thinking", "a": 1}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "ok", "more": 1},
        ]
    }
    assert find_echo(body) == {"reasoning_content", "thinking", "a"}


def test_a_parameter_of_a_tool_is_no_field_of_the_request():
    named = {"type": "object", "properties": {"format": {"type": "string"}, "strict": {}}}
    body = {"tools": [{"type": "function", "function": {"name": "a", "parameters": named}}]}
    assert find_refused("`format` and 'strict' are not supported", body) == []
