"""What providers really say around a reply, asked of the real SDKs over local HTTP: whole and
streamed, sync and async.
"""

from collections.abc import Sequence

import pytest

from tests.servers import ProviderServer, Reply, sse
from tests.support.providers import ASK, every_way, failure, talking
from think_agent import THINK, Overloaded, Request, Tool, ToolCall, User
from think_agent.messages import Json

PAY = Tool(name="pay", description="Pay.", parameters={"type": "object", "properties": {}})
ASKED = Request([User("Pay it.")], [THINK, PAY], system="Be brief.")


def answers(server: ProviderServer, way: str, body: Json, events: Sequence[bytes]) -> None:
    """The next answer of the server: the `body`, or for a stream the `events`."""
    if "stream" in way:
        server.canned.append(Reply(chunks=events, content_type=server.stream_type))
    else:
        server.canned.append(Reply(body=body))


# A whole reply.

CALL = {"id": "c", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
USAGE = {"prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47}


def chat_answer(reason: str | None, **message: object) -> tuple[Json, list[bytes]]:
    """A reply in Chat Completions, as a body and as a stream that ends with its usage."""
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    said = {"role": "assistant", "content": None, **message}
    whole = {"index": 0, "message": said, "finish_reason": reason}
    piece = {"index": 0, "delta": said, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": reason}
    events = [
        sse({**head, "choices": [piece]}),
        sse({**head, "choices": [last]}),
        sse({**head, "choices": [], "usage": USAGE}),
        sse("[DONE]"),
    ]
    return {**head, "choices": [whole], "usage": USAGE}, events


@every_way
def test_a_call_runs_although_its_reason_has_another_spelling(way):
    """Azure's DeepSeek-R1-0528 and V3.1: 6 of 6 recorded replies."""
    with talking("openai-chat") as (server, model):
        answers(server, way, *chat_answer("tool_call", tool_calls=[{**CALL, "index": 0}]))
        reply = ASK[way](model, ASKED)
    assert (reply.stop_reason, reply.cause) == ("tool_use", "")
    assert reply.tool_calls == (ToolCall("c", "pay", {}),)


@every_way
@pytest.mark.parametrize("reason", [None, "a_reason_of_tomorrow"])
def test_a_reply_that_is_counted_is_whole_without_a_known_reason(way, reason):
    """OpenRouter to xAI: null in 14 of 14 recorded replies."""
    with talking("openai-chat") as (server, model):
        answers(server, way, *chat_answer(reason, content="It is paid."))
        reply = ASK[way](model, ASKED)
    assert (reply.text, reply.stop_reason, reply.cause) == ("It is paid.", "end_turn", "")


# Gemini's answers without a reply.

NO_REPLY = {
    "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
    "modelVersion": "gemini-3.8-flash",
    "responseId": "r1",
}


@every_way
@pytest.mark.parametrize("nothing", [{}, {"candidates": []}], ids=["none", "empty"])
def test_an_answer_of_gemini_without_candidates_is_tried_again(way, nothing, monkeypatch):
    monkeypatch.setattr("think_agent.providers.exchange.random.uniform", lambda *_: 0.0)
    body = NO_REPLY | nothing
    with talking("gemini") as (server, model):
        answers(server, way, body, [sse(body)])
        assert ASK[way](model, ASKED).text == "Hello."
        for _ in range(3):
            answers(server, way, body, [sse(body), sse(body)])
        error = failure(model, way)
        assert (type(error), error.retryable, len(server.requests)) == (Overloaded, True, 5)
    assert str(error) == "gemini: the answer holds no reply; try again later"


@every_way
@pytest.mark.parametrize("reason", ["TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"])
def test_a_slip_that_gemini_tells_of_goes_back_to_the_model(way, reason):
    candidate = {"finishReason": reason, "finishMessage": "Seven calls.", "index": 0}
    body = {**NO_REPLY, "candidates": [candidate]}
    with talking("gemini") as (server, model):
        answers(server, way, body, [sse(body)])
        reply = ASK[way](model, ASKED)
    assert reply.stop_reason == "malformed"
    assert reply.mistake.startswith("Your tool call could not be read (Seven calls)")
