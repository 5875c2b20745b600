"""What only the Gemini provider does, through the real SDK over local HTTP. `test_errors.py` and
`test_four_providers.py` test all providers.
"""

import pytest

from tests.servers import Reply, sse
from tests.servers.gemini import error
from tests.support.providers import ASK, HELLO, KEY, every_way, failure, talking
from tests.support.wires import to_gemini
from think_agent import (
    THINK,
    Assistant,
    AuthError,
    BadRequest,
    ModelError,
    RateLimited,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    User,
    tool,
)
from think_agent.dialects.json_plan import json_plan
from think_agent.dialects.react import react
from think_agent.messages import Json

ADD = Tool(
    name="add",
    description="Add numbers.",
    parameters={"type": "object", "properties": {"a_b": {"type": "integer"}}, "required": ["a_b"]},
)


def test_a_reply_of_another_provider():
    calls = (ToolCall("toolu_1", "add", '{"a_b": 1'), ToolCall("toolu_2", "add", {"a_b": 2}))
    messages = [
        User("hi"),
        Assistant("Let me add.", "secret", calls, native={"sealed": "x"}, provider="anthropic"),
        ToolResult("toolu_1", "add", "no JSON", is_error=True),
        ToolResult("toolu_2", "add", "2"),
    ]
    body = to_gemini(Request(messages, [ADD]))
    first = {"id": "toolu_1", "name": "add", "args": {"invalid": '{"a_b": 1'}}
    assert body["contents"][1]["parts"] == [
        {"text": "Let me add."},
        {"functionCall": first, "thoughtSignature": "skip_thought_signature_validator"},
        {"functionCall": {"id": "toolu_2", "name": "add", "args": {"a_b": 2}}},
    ]
    ids = [part["functionResponse"]["id"] for part in body["contents"][2]["parts"]]
    assert ids == ["toolu_1", "toolu_2"]


def answer(way: str, body: Json) -> Reply:
    """A response, as that way to ask gets it."""
    if "stream" in way:
        return Reply(chunks=[sse(body)])
    return Reply(body=body)


@every_way
def test_one_request_is_one_reply(way):
    half = {"content": {"role": "model", "parts": [{"text": "Half a"}]}}
    body = {"candidates": [{**half, "finishReason": "CONTINUATION", "continuationToken": "AAAA"}]}
    with talking("gemini") as (server, model):
        server.canned = [answer(way, body)]
        reply = ASK[way](model, HELLO)
        assert len(server.requests) == 1
    assert reply.text == "Half a"
    assert reply.stop_reason == "max_tokens"


@every_way
def test_a_stream_says_what_a_plain_answer_says(way):
    """About a call that it could not read, odd counts, arguments that are no JSON."""
    first = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print(add(1"}
    usage = {"promptTokenCount": "12", "candidatesTokenCount": [1], "thoughtsTokenCount": 2.5}
    parts = [{"functionCall": {"name": "add", "args": {"a_b": float("nan")}}}]
    second = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    asked = Request([User("1+1?")], [ADD])
    with talking("gemini") as (server, model):
        for candidate in (first, second):
            body = {"candidates": [candidate], "usageMetadata": usage}
            server.canned.append(answer(way, body))
        unread = ASK[way](model, asked)
        called = ASK[way](model, asked)
    assert "print(add(1" in unread.mistake
    assert called.usage.input_tokens == 12
    assert called.usage.output_tokens == 2
    assert called.tool_calls[0].arguments == '{"a_b": NaN}'


SUSPENDED = error(403, f"Consumer 'api_key:{KEY}' has been\n suspended.", "PERMISSION_DENIED")
QUOTA = [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}]
ANSWERS: list[tuple[Reply, type[ModelError], bool]] = [
    (SUSPENDED, AuthError, False),
    (error(429, "Too much.", "RESOURCE_EXHAUSTED", QUOTA), RateLimited, False),
    (Reply(400, {"error": "odd"}), BadRequest, False),
]


@pytest.mark.parametrize("way", ["plain", "async streamed"])
def test_error_answers(way):
    with talking("gemini") as (server, model):
        model.retries = 0
        for reply, kind, retryable in ANSWERS:
            server.canned = [reply]
            problem = failure(model, way)
            assert type(problem) is kind
            assert problem.retryable == retryable
            assert problem.status == reply.status


@pytest.mark.parametrize("speak", [json_plan, react], ids=["json", "react"])
@every_way
def test_no_call_is_read_from_a_reply_that_gemini_calls_malformed(speak, way):
    plan = '{"understanding": "", "reasoning": "Due.", "task_complete": false, "actions": '
    plan += '[{"tool": "pay", "arguments": {"n": 1}}], "response": ""}'
    text = plan if speak is json_plan else "Thought: Due.\nAction: pay\nAction Input: 1"
    content = {"role": "model", "parts": [{"text": text}]}
    body = {"candidates": [{"content": content, "finishReason": "MALFORMED_FUNCTION_CALL"}]}

    @tool
    def pay(n: int) -> str:
        """Pay."""

    with talking("gemini") as (server, model):
        server.canned = [answer(way, body)]
        reply = ASK[way](speak(model), Request([User("Pay 1.")], [THINK, pay]))
    assert reply.tool_calls == ()
