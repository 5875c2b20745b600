"""Whose fault an error inside an HTTP 200 is: its class, and the number of requests.

Each case is sent through every door by which such an error comes: the body of a plain answer, and
the events of a stream, in the shape of each protocol.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.servers import Reply, sse
from tests.servers.anthropic import event
from tests.support.answers import STREAMED, WHOLE, canned, reply_to
from tests.support.combined import combined
from tests.support.protocols import PROTOCOLS
from tests.support.providers import ASK, HELLO, every_provider, every_way, failure, talking
from think_agent import (
    AuthError,
    BadRequest,
    BadResponse,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
)
from think_agent.errors import ToolsUnsupported
from think_agent.messages import Json
from think_agent.providers.complaints import Complaint, read_complaint
from think_agent.providers.errors import find_status

TRIES = 3  # of an error that may pass


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr("think_agent.providers.provider.random.uniform", lambda *_: 0.0)


class Door(NamedTuple):
    """A way for an error to come: the provider, how it is asked, and the answer with the error."""

    provider: str
    way: str
    answer: Callable[[Json], Reply]


def body(error: Json) -> Reply:
    return Reply(body={"error": error})


def events(*chunks: bytes) -> Reply:
    return Reply(chunks=chunks, content_type="text/event-stream")


def failed(error: Json) -> Json:
    return {"id": "r", "status": "failed", "output": [], "error": error, "usage": None}


DOORS = {
    "chat": Door("openai-chat", "plain", body),
    "chat, async": Door("openai-chat", "async", body),
    "chat, a stream": Door("openai-chat", "streamed", lambda error: events(sse({"error": error}))),
    "responses": Door("openai-responses", "plain", lambda error: Reply(body=failed(error))),
    "responses, error": Door(
        "openai-responses",
        "streamed",
        lambda error: events(sse({"type": "error", "error": error})),
    ),
    "responses, flat error": Door(
        "openai-responses",
        "async streamed",
        lambda error: events(sse({"code": None, **error, "type": "error"})),
    ),
    "responses, failed": Door(
        "openai-responses",
        "streamed",
        lambda error: events(sse({"type": "response.failed", "response": failed(error)})),
    ),
    "messages": Door(
        "anthropic", "plain", lambda error: Reply(body={"type": "error", "error": error})
    ),
    "messages, a stream": Door(
        "anthropic", "async streamed", lambda error: events(event("error", error=error))
    ),
    "gemini": Door("gemini", "plain", body),
    "gemini, a stream": Door("gemini", "streamed", lambda error: events(sse({"error": error}))),
}


class Case(NamedTuple):
    """An error object, the class of ours, and who has to do something about it."""

    says: Json
    kind: type[ModelError]
    because: str

    @property
    def requests(self) -> int:
        return TRIES if self.because == "it may pass" else 1


def code(code: str, message: str = "No.", **more: Any) -> Json:
    return {"message": message, "code": code, **more}


CASES = {
    # The request's, by the code. (A type cannot come through the flat door.)
    "a key": Case(code("invalid_api_key"), AuthError, "the key is wrong"),
    "a model": Case(
        code("model_not_found", "The model `m` does not exist"), ModelNotFound, "no such model"
    ),
    "a right": Case(code("permission_error"), AuthError, "the key may not"),
    "a policy": Case(code("content_policy_violation"), BadRequest, "the filter refuses it"),
    "DashScope's filter": Case(code("DataInspectionFailed"), BadRequest, "the filter refuses it"),
    "a tool": Case(code("invalid_function_parameters"), BadRequest, "a schema is wrong"),
    "OpenAI's newer policies": Case(
        code("misalignment_policy_violation"), BadRequest, "the filter refuses it"
    ),
    "biology": Case(code("bio_policy"), BadRequest, "the filter refuses it"),
    "a region": Case(code("data_residency_mismatch"), BadRequest, "the account's region"),
    "a prompt": Case(code("invalid_prompt"), BadRequest, "the prompt is refused"),
    "a window": Case(code("context_length_exceeded"), BadRequest, "the prompt is too long"),
    "a status": Case(code("404", "The model is not there"), ModelNotFound, "no such model"),
    # Money.
    "a quota": Case(code("insufficient_quota"), RateLimited, "the money is spent"),
    "a bill": Case(code("billing_error", "Pay first."), AuthError, "the money is spent"),
    "a debt": Case(code("Arrearage"), AuthError, "the money is spent"),
    # The server's.
    "an overload": Case(code("server_is_overloaded"), Overloaded, "it may pass"),
    "an overload, as a type": Case(
        {"message": "Later.", "code": "overloaded_error"}, Overloaded, "it may pass"
    ),
    "too many requests": Case(code("rate_limit_exceeded"), RateLimited, "it may pass"),
    "too fast": Case(code("slow_down"), RateLimited, "it may pass"),
    "a server's error": Case(code("server_error"), Overloaded, "it may pass"),
    "a time-out": Case(code("vector_store_timeout"), Overloaded, "it may pass"),
    "a gateway": Case(code("502", "Bad gateway"), Overloaded, "it may pass"),
    "an unknown code": Case(code("xyzzy_42"), Overloaded, "it may pass"),
    "nothing but words": Case({"message": "Something went wrong."}, Overloaded, "it may pass"),
    # By the wording, where neither type nor code is known.
    "a key, in words": Case(
        {"message": "Incorrect API key provided: sk-…"}, AuthError, "the key is wrong"
    ),
    "a model, in words": Case(
        {"message": "The model `gpt-9` does not exist"}, ModelNotFound, "no such model"
    ),
    "a right, in words": Case({"message": "Unauthorized"}, AuthError, "the key is wrong"),
    "a window, in words": Case(
        {"message": "Context size has been exceeded."}, BadRequest, "the prompt is too long"
    ),
    "a parameter, in words": Case(
        {"message": "Unsupported parameter: 'stop'"}, BadRequest, "the request is wrong"
    ),
    "no tools, in words": Case(
        {"message": "m does not support tools"}, ToolsUnsupported, "it calls no tools"
    ),
    "a wording beside a code that says nothing": Case(
        code("500", "The model `m` does not exist"), ModelNotFound, "no such model"
    ),
}


@combined(door=DOORS, case=CASES)
def test_the_class_of_an_error(door, case):
    provider, way, answer = DOORS[door]
    with talking(provider) as (server, model):
        server.canned = [answer(CASES[case].says)] * TRIES
        assert type(failure(model, way)) is CASES[case].kind


@combined(door=DOORS, case=CASES)
def test_the_number_of_requests(door, case):
    provider, way, answer = DOORS[door]
    with talking(provider) as (server, model):
        server.canned = [answer(CASES[case].says)] * TRIES
        failure(model, way)
        assert len(server.requests) == CASES[case].requests


# Errors without an object `error`.
FLAT = {
    "SGLang": Case(
        {"object": "error", "message": "The context length is exceeded", "code": 400},
        BadRequest,
        "the prompt is too long",
    ),
    "FastAPI": Case({"detail": "The model m does not exist"}, ModelNotFound, "no such model"),
    "a code": Case(code("invalid_api_key"), AuthError, "the key is wrong"),
    "DashScope": Case(
        {"request_id": "r", **code("DataInspectionFailed")}, BadRequest, "the filter refuses it"
    ),
    "a number": Case({"code": 429, "message": "Too many requests"}, RateLimited, "it may pass"),
    "no success": Case(
        {"success": False, **code("insufficient_quota")}, RateLimited, "the money is spent"
    ),
    "Cloudflare": Case(
        {"success": False, "errors": [{"message": "Invalid API key", "code": 10000}]},
        AuthError,
        "the key is wrong",
    ),
    "a text": Case({"error": "model 'm' not found"}, ModelNotFound, "no such model"),
    "a list": Case(
        {"error": [{"message": "Resource exhausted", "code": 429}]}, RateLimited, "it may pass"
    ),
}


@combined(provider=PROTOCOLS, way=ASK, case=FLAT)
def test_an_error_without_an_error_object(provider, way, case):
    says, kind, _ = FLAT[case]
    with talking(provider) as (server, model):
        answer = Reply(body=says)
        if way not in WHOLE or provider == "ollama":
            answer = canned(provider, [says])
        server.canned = [answer] * TRIES
        assert type(failure(model, way)) is kind
        assert len(server.requests) == FLAT[case].requests


NO_ERRORS: dict[str, Json] = {  # events of a stream that goes on
    "a title": {"object": "chat.title", "title": "A greeting"},
    "a reason": {"event": "info", "reason": "cached"},
    "a state": {"status": "processing", "message": "in the queue"},
    "success": {"code": 0, "message": "success"},
    "success, as a status": {"code": 200, "msg": "ok"},
    "an error that is null": {"error": None},
    "an error without a word": {"error": {"message": "", "type": None, "code": None}},
}


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("provider", ["openai-chat", "gemini"])
@pytest.mark.parametrize("what", NO_ERRORS)
def test_an_event_of_another_kind_is_no_error(what, provider, way):
    replies: dict[str, Json] = {
        "openai-chat": {
            "choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]
        },
        "gemini": {"candidates": [{"content": {"parts": [{"text": "Yes."}]}}]},
    }
    assert reply_to(provider, way, [NO_ERRORS[what], replies[provider]]).text == "Yes."


@every_provider
def test_a_reply_may_have_an_error_without_a_word(provider):
    with talking(provider) as (server, model):
        answer = server.answer

        def changed(*args):
            reply = answer(*args)
            if isinstance(reply.body, dict):
                return Reply(body={**reply.body, "error": {"message": "", "code": None}})
            return reply

        server.answer = changed
        assert ASK["plain"](model, HELLO).text == "Hello."


NAMED = {  # events with the name "error", and what their data are
    "an error object": ('{"error": {"message": "No.", "code": "invalid_api_key"}}', AuthError),
    "a flat error": ('{"message": "No.", "code": "invalid_api_key"}', AuthError),
    "a text": ("the model m does not exist", ModelNotFound),
}


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("data", NAMED)
def test_an_event_that_is_named_error(data, way, provider):
    text, kind = NAMED[data]
    with talking(provider) as (server, model):
        server.canned = [events(f"event: error\ndata: {text}\n\n".encode())]
        assert type(failure(model, way)) is kind


@pytest.mark.parametrize("way", STREAMED)
def test_what_was_shown_before_a_flat_error_is_an_unfinished_reply(way):
    half = {"choices": [{"index": 0, "delta": {"content": "Half an"}}]}
    reply = reply_to("openai-chat", way, [half, {"code": "429", "message": "a quota is reached"}])
    assert reply.text == "Half an"
    assert "a quota is reached" in reply.cause


@pytest.mark.parametrize("door", DOORS)
def test_an_error_that_passes_is_followed_by_the_reply(door):
    provider, way, answer = DOORS[door]
    with talking(provider) as (server, model):
        server.canned = [answer(code("server_is_overloaded"))]
        assert ASK[way](model, HELLO).text == "Hello."


# The type counts first, then the code.


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("authentication_error", "", 401),
        ("permission_error", "", 403),
        ("not_found_error", "", 404),
        ("rate_limit_error", "contract_spend_limit_reached", 429),
        ("overloaded_error", "", 529),
        ("timeout_error", "", 504),
        ("billing_error", "", 402),
        ("service_unavailable_error", "server_is_overloaded", 529),
        ("service_unavailable_error", "", 529),
        ("insufficient_quota", "insufficient_quota", 429),
        ("RESOURCE_EXHAUSTED", "429", 429),
        ("INVALID_ARGUMENT", "400", 400),
        ("BadRequestError", "400", 400),
        ("overloaded_error", "invalid_api_key", 529),
        # A type that fits any mistake says less than a code.
        ("invalid_request_error", "", 400),
        ("invalid_request_error", "rate_limit_exceeded", 429),
        ("invalid_request_error", "invalid_api_key", 401),
        ("server_error", "model_not_found", 404),
        ("api_error", "", 0),
        ("server_error", "500", 0),
        ("None", "401", 401),
        ("", "", 0),
        ("", "1008", 0),
    ],
)
def test_the_status_that_fits_a_type_and_a_code(kind, code, status):
    assert find_status(Complaint("No.", kind, code)) == status


# Money that is spent does not come back in seconds.


class Spent(NamedTuple):
    status: int
    says: Json
    kind: type[ModelError]


SPENT = {
    "Anthropic, a limit of the contract": Spent(
        429,
        {
            "type": "rate_limit_error",
            "message": "This organization has reached its contract spend limit.",
            "details": {"error_code": "contract_spend_limit_reached"},
        },
        RateLimited,
    ),
    "Anthropic, credit": Spent(
        402, {"type": "billing_error", "message": "Your credit balance is too low."}, AuthError
    ),
    "OpenAI": Spent(429, code("insufficient_quota", type="insufficient_quota"), RateLimited),
    "OpenAI, in words": Spent(
        429,
        {"message": "You exceeded your current quota, please check your plan and billing details."},
        RateLimited,
    ),
    "DeepSeek": Spent(402, {"message": "Insufficient Balance"}, AuthError),
    "OpenRouter": Spent(402, {"message": "This request requires more credits"}, AuthError),
    "Zhipu": Spent(
        429,
        code("1113", "Insufficient balance or no resource package. Please recharge."),
        RateLimited,
    ),
    "Moonshot": Spent(
        429, {"type": "exceeded_current_quota_error", "message": "Suspended."}, RateLimited
    ),
    "Ollama's cloud": Spent(
        429, {"message": "you have reached your weekly usage limit, upgrade"}, RateLimited
    ),
}


@combined(provider=["openai-chat", "anthropic"], case=SPENT)
def test_spent_money_is_not_asked_for_again(provider, case):
    status, says, kind = SPENT[case]
    with talking(provider) as (server, model):
        server.canned = [Reply(status, {"error": says}, headers={"retry-after": "0.001"})] * TRIES
        assert type(failure(model)) is kind
        assert len(server.requests) == 1


def test_a_quota_of_a_minute_passes():
    says = "You exceeded your current quota, please check your plan and billing details."
    with talking("gemini") as (server, model):
        server.canned = [
            Reply(429, {"error": {"message": says, "code": 429}}, headers={"retry-after": "0.001"})
        ]
        assert model.complete(HELLO).text == "Hello."


# Bodies that are no replies.

PAGE = "<!DOCTYPE html><html><body>Sign in</body></html>"
DAMAGED = ["null", "[1]", '"text"', "7", '{"a": 1}', '{"choices": "x", "content": 5}', "{not json"]
DAMAGED += [
    '{"candidates": [5]}',
    '{"output": [5]}',
    '{"message": 5}',
    '{"choices": [{"message": 5}]}',
]


@every_provider
@every_way
@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/event-stream"])
def test_a_page_in_a_200_is_said_to_be_one(provider, way, kind):
    with talking(provider) as (server, model):
        server.canned = [Reply(body=PAGE, content_type=kind)] * TRIES
        error = failure(model, way)
        assert "an HTML page instead of JSON" in str(error)
        assert len(server.requests) == 1


@every_provider
@every_way
@pytest.mark.parametrize("raw", DAMAGED)
def test_a_damaged_body_is_described_in_words(provider, way, raw):
    with talking(provider) as (server, model):
        model.retries = 0
        server.canned = [Reply(body=raw)]
        error = failure(model, way)
    assert isinstance(error, BadResponse | Overloaded)  # Gemini: without candidates it may pass
    assert "Error" not in str(error).replace("ModelError", "")
    assert "NoneType" not in str(error)


# The shapes of error answers.


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"detail": "Not Found"}, "Not Found"),
        (
            {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
            "body.stream_options: Extra inputs are not permitted",
        ),
        ({"message": {"detail": [{"loc": ["body", "n"], "msg": "Bad"}]}}, "body.n: Bad"),
        ({"errors": [{"code": 7003, "message": "No route"}], "messages": []}, "No route"),
        ({"errors": ["one", {"message": "two"}]}, "one; two"),
        ([{"error": {"message": "A list."}}], "A list."),
        ({"error": "a text"}, "a text"),
        ({"error": '{"error": {"message": "inside"}}'}, "inside"),
        ({"error": {"message": "No.", "param": "tools"}}, "No. (tools)"),
        ({"error": {"message": "tools: no", "param": "tools"}}, "tools: no"),
        ({"error": {"message": "Behind.", "metadata": {"raw": "busy"}}}, "Behind. (busy)"),
        ({"base_resp": {"status_code": 1008, "status_msg": "no balance"}}, "no balance"),
        ({"error": "invalid_grant", "error_description": "Expired."}, "Expired."),
        ({"error_code": 17, "error_msg": "Daily limit"}, "Daily limit"),
        ({"timestamp": 1, "status": 404, "error": "Not Found", "path": "/"}, "Not Found"),
        ({"error": {"code": 400}}, '{"code": 400}'),
        ({}, ""),
        (None, ""),
        ("plain", "plain"),
    ],
)
def test_the_message_of_an_error_answer(answer, message):
    assert read_complaint(answer).message == message


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        ({"error": {"type": "a", "code": "b"}}, "a", "b"),
        ({"error": {"status": "UNAVAILABLE", "code": 503}}, "UNAVAILABLE", "503"),
        ({"error": "No.", "status": 400}, "", "400"),
        ({"error": {"type": "None", "code": "401"}}, "", "401"),
        ({"error": {"type": "x", "details": {"error_code": "spent"}}}, "x", "spent"),
        ({"error": "model_not_found", "message": "No."}, "", "model_not_found"),
        ({"error": {"message": "No.", "metadata": {"error_type": "busy"}}}, "busy", ""),
    ],
)
def test_the_type_and_the_code_of_an_error_answer(answer, kind, code):
    complaint = read_complaint(answer)
    assert complaint.kind == kind
    assert complaint.code == code


@pytest.mark.parametrize("body", [{"detail": "Not Found"}, {"errors": ["No."]}, {"msg": "No."}])
def test_an_error_without_an_error_object_is_quoted(body):
    with talking("openai-chat") as (server, model):
        model.retries = 0
        server.canned = [Reply(body=body)]
        assert "{" not in str(failure(model))
