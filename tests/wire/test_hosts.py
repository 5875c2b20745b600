"""What single hosts of Chat Completions do, through the real SDK."""

from typing import Any, NamedTuple

import pytest

from tests.servers import Reply
from tests.support.answers import STREAMED, WHOLE, canned, reply_to
from tests.support.providers import ASK, failure, talking
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.errors import AuthError, BadRequest, ModelError, Overloaded, RateLimited
from think_agent.messages import Json

USAGE = {"prompt_tokens": 12, "completion_tokens": 7}
YES: Json = {
    "choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": USAGE,
}
YES_STREAMED: list[Json] = [
    {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]},
    {"choices": [], "usage": USAGE},
]


# MiniMax sends its errors inside an HTTP 200.


class Code(NamedTuple):
    number: int
    message: str
    kind: type[ModelError]
    may_pass: bool


CODES = [
    Code(1000, "unknown error", Overloaded, may_pass=True),
    Code(1001, "request timeout", Overloaded, may_pass=True),
    Code(1002, "rate limit", RateLimited, may_pass=True),
    Code(1008, "insufficient balance", RateLimited, may_pass=False),
    Code(1024, "internal error", Overloaded, may_pass=True),
    Code(1026, "input new_sensitive", BadRequest, may_pass=False),
    Code(1027, "output new_sensitive", BadRequest, may_pass=False),
    Code(1039, "token limit", RateLimited, may_pass=True),
    Code(2013, "invalid params", BadRequest, may_pass=False),
    Code(2049, "invalid api key", AuthError, may_pass=False),
    Code(2056, "usage limit exceeded", RateLimited, may_pass=False),
    Code(9999, "a number of tomorrow", Overloaded, may_pass=True),
]


@pytest.mark.parametrize("way", ASK)
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.message)
def test_an_error_of_minimax_is_an_error(code, way):
    status = {"status_code": code.number, "status_msg": code.message}
    body = {"id": "x", "choices": None, "usage": {"total_tokens": 0}, "base_resp": status}
    with talking("openai-chat") as (server, model):
        model.retries = 0
        server.canned = [canned("openai-chat", body if way in WHOLE else [body])]
        error = failure(model, way)
    assert type(error) is code.kind
    assert error.retryable == code.may_pass
    assert code.message in str(error)


@pytest.mark.parametrize("way", ASK)
def test_a_reply_of_minimax_says_that_there_is_no_error(way):
    fine = {"base_resp": {"status_code": 0, "status_msg": ""}}
    answer: Any = YES | fine if way in WHOLE else [chunk | fine for chunk in YES_STREAMED]
    assert reply_to("openai-chat", way, answer).text == "Yes."


@pytest.mark.parametrize("way", STREAMED)
def test_what_was_shown_before_an_error_is_an_unfinished_reply(way):
    status = {"base_resp": {"status_code": 1013, "status_msg": "internal error"}}
    chunks = [{"choices": [{"delta": {"content": "Half an"}}]}, {"choices": [], **status}]
    reply = reply_to("openai-chat", way, chunks)
    assert reply.text == "Half an"
    assert reply.stop_reason == "incomplete"
    assert "internal error" in reply.cause


# Mistral takes ids of nine letters and digits only.

WRONG_ID = "Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9."


def conversation(*ids: str) -> Request:
    """A talk that began elsewhere, with calls of these ids."""
    calls = tuple(ToolCall(id, "look", {"id": "1"}) for id in ids)
    reply = Assistant("", tool_calls=calls, provider="openai", host="api.openai.com")
    results = [ToolResult(id, "look", "a lamp") for id in ids]
    return Request([User("Look."), reply, *results, User("And?")])


@pytest.mark.parametrize("way", ASK)
def test_a_host_that_wants_short_ids_gets_them_from_then_on(way):
    with talking("openai-chat") as (server, model):
        refusal = {"object": "error", "message": WRONG_ID.format("call_0fypS1hVX"), "code": "3280"}
        answer: Any = YES if way in WHOLE else YES_STREAMED
        server.canned = [Reply(400, refusal), *[canned("openai-chat", answer)] * 2]
        for ids in (("call_0fypS1hVX", "call_1fypS1hVX"), ("toolu_1",)):
            assert ASK[way](model, conversation(*ids)).text == "Yes."
        bodies = server.requests
    assert len(bodies) == 3
    assert ids_in(bodies[0]) == ["call_0fypS1hVX", "call_1fypS1hVX"] * 2
    assert ids_in(bodies[1]) == ["call00000", "call00001"] * 2
    assert ids_in(bodies[2]) == ["call00000"] * 2


def ids_in(body: Json) -> list[str]:
    """The ids of the calls, and those of the results."""
    calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
    return calls + [m["tool_call_id"] for m in body["messages"] if "tool_call_id" in m]
