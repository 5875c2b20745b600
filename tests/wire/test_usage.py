"""Tokens that are paid are counted, whatever a host calls them, so that limits hold. Through the
real SDKs, whole and streamed.
"""

from typing import Any, NamedTuple

import pytest

from tests.support.answers import STREAMED, WHOLE, canned, look, pay, reply_to
from tests.support.providers import ASK, WAYS, run_astreamed, run_streamed, talking
from think_agent import Agent, Usage
from think_agent.messages import Json
from think_agent.policies import Price

YES = {"role": "assistant", "content": "Yes."}


class Case(NamedTuple):
    host: str
    usage: Json
    counted: Usage


def details(prompt: int = 0, completion: int = 0, **more: int) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


CACHED_8 = {"prompt_tokens_details": {"cached_tokens": 8}}
REASONED_97 = {"completion_tokens_details": {"reasoning_tokens": 97}}

CHAT = [
    Case("OpenAI", details(12, 7, total_tokens=19), Usage(12, 7)),
    Case("no total", details(12, 7), Usage(12, 7)),
    Case("a total that is too small", details(12, 7, total_tokens=10), Usage(12, 7)),
    Case(
        "nulls",
        details(12, 7) | {"total_tokens": None, "prompt_tokens_details": None},
        Usage(12, 7),
    ),
    Case(
        "OpenAI, reasoning inside its count",
        details(12, 98, total_tokens=110) | REASONED_97,
        Usage(12, 98, reasoning_tokens=97),
    ),
    Case(
        "xAI, reasoning outside its count (vercel/ai #12425, inspect_ai #5528)",
        details(12, 1, total_tokens=110) | REASONED_97,
        Usage(12, 98, reasoning_tokens=97),
    ),
    Case(
        "a gateway that names no reasoning",
        details(12, 1, total_tokens=110),
        Usage(12, 98),
    ),
    Case(
        "cached tokens inside the prompt",
        details(12, 7, total_tokens=19) | CACHED_8,
        Usage(12, 7, cached_tokens=8),
    ),
    Case(
        "cached tokens outside the prompt (Portkey #1754)",
        details(4, 7, total_tokens=19) | CACHED_8,
        Usage(12, 7, cached_tokens=8),
    ),
    Case(
        "written tokens outside the prompt",
        details(4, 7, total_tokens=19, cache_creation_input_tokens=8),
        Usage(12, 7, written_tokens=8),
    ),
    Case(
        "read and written tokens outside the prompt",
        details(4, 7, total_tokens=22, cache_read_input_tokens=8, cache_creation_input_tokens=3),
        Usage(15, 7, cached_tokens=8, written_tokens=3),
    ),
    Case(
        "cached tokens and reasoning outside",
        details(4, 1, total_tokens=110) | CACHED_8 | REASONED_97,
        Usage(12, 98, cached_tokens=8, reasoning_tokens=97),
    ),
    Case(
        "Kimi (pi #8075)",
        details(19, 13, total_tokens=32, cached_tokens=12),
        Usage(19, 13, cached_tokens=12),
    ),
    Case(
        "more reasoning than output: Friendli (Effect #8170)",
        details(12, 293, total_tokens=305)
        | {"completion_tokens_details": {"reasoning_tokens": 321}},
        Usage(12, 614, reasoning_tokens=321),
    ),
    Case(
        "more cached tokens than the prompt",
        details(12, 7, total_tokens=19) | {"prompt_tokens_details": {"cached_tokens": 100}},
        Usage(112, 7, cached_tokens=100),
    ),
    Case(
        "the names of the Responses API",
        {"input_tokens": 12, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 8}},
        Usage(12, 7, cached_tokens=8),
    ),
    Case(
        "Mistral (vercel/ai #14382)",
        details(12, 7, total_tokens=19, num_cached_tokens=8),
        Usage(12, 7, cached_tokens=8),
    ),
    Case(
        "Mistral, in its other place",
        details(12, 7, total_tokens=19) | {"prompt_token_details": {"cached_tokens": 8}},
        Usage(12, 7, cached_tokens=8),
    ),
    Case(
        "Bifrost",
        details(12, 7, total_tokens=19) | {"prompt_tokens_details": {"cached_read_tokens": 8}},
        Usage(12, 7, cached_tokens=8),
    ),
    Case("texts", {"prompt_tokens": "12", "completion_tokens": "7"}, Usage(12, 7)),
    Case("less than nothing", details(12, 7, cached_tokens=-3), Usage(12, 7)),
    Case(
        "DeepSeek (litellm #5017)",
        details(11, 40, total_tokens=51, prompt_cache_hit_tokens=4, prompt_cache_miss_tokens=7),
        Usage(11, 40, cached_tokens=4),
    ),
]


def streamed(usage: Json, *, in_choice: bool = False) -> list[Json]:
    last: Json = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": YES}]}]
    if in_choice:
        return [*chunks, {"choices": [{**last, "usage": usage}]}]
    return [*chunks, {"choices": [last]}, {"choices": [], "usage": usage}]


def whole(usage: Json) -> Json:
    return {"choices": [{"message": YES, "finish_reason": "stop"}], "usage": usage}


@pytest.mark.parametrize("way", ASK)
@pytest.mark.parametrize("case", CHAT, ids=lambda case: case.host)
def test_every_token_of_a_reply_is_counted(case, way):
    answer: Any = whole(case.usage) if way in WHOLE else streamed(case.usage)
    assert reply_to("openai-chat", way, answer).usage == case.counted


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("case", CHAT, ids=lambda case: case.host)
def test_a_host_may_stream_the_usage_in_the_choice(case, way):
    """Moonshot does (pi #2017)."""
    answer = streamed(case.usage, in_choice=True)
    assert reply_to("openai-chat", way, answer).usage == case.counted


IN_PARTS = {
    "the prompt first": [details(12), {"completion_tokens": 7}],
    "nothing at the end": [details(12, 7), details()],
    "a total that grows": [details(12, 1), details(12, 7)],
}


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("parts", IN_PARTS)
def test_a_stream_may_give_its_counts_in_parts(parts, way):
    first, last = IN_PARTS[parts]
    chunks = [
        {"choices": [{"index": 0, "delta": YES}], "usage": first},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": last},
    ]
    assert reply_to("openai-chat", way, chunks).usage == Usage(12, 7)


GROQ = {"x_groq": {"id": "req", "usage": details(12, 7)}}


@pytest.mark.parametrize("way", STREAMED)
def test_groq_streams_its_counts_apart(way):
    chunk = {"choices": [{"index": 0, "delta": YES, "finish_reason": "stop"}]}
    assert reply_to("openai-chat", way, [chunk | GROQ]).usage == Usage(12, 7)


class Counts(NamedTuple):
    """The counts of a reply in another protocol, in one or more events of its stream."""

    what: str
    events: list[Json]
    counted: Usage


MESSAGES = [
    Counts(
        "as usual", [{"input_tokens": 12, "output_tokens": 1}, {"output_tokens": 7}], Usage(12, 7)
    ),
    Counts("the input comes last", [{}, {"input_tokens": 12, "output_tokens": 7}], Usage(12, 7)),
    Counts(
        "nothing comes last",
        [{"input_tokens": 12}, {"input_tokens": 0, "output_tokens": 7}],
        Usage(12, 7),
    ),
    Counts("chat's names", [{}, {"prompt_tokens": 12, "completion_tokens": 7}], Usage(12, 7)),
]


@pytest.mark.parametrize("place", ["message_delta", "message_stop"])
@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case.what)
def test_the_counts_of_a_message(case, place):
    first, last = case.events
    block = {"type": "text", "text": "Yes."}
    ends: Json = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    events: list[Json | str] = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": first}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        ends | ({"usage": last} if place == "message_delta" else {}),
        {"type": "message_stop", "usage": last},
    ]
    assert reply_to("anthropic", "streamed", events).usage == case.counted


GEMINI = [
    Counts(
        "the prompt first",
        [{"promptTokenCount": 12}, {"candidatesTokenCount": 7}],
        Usage(12, 7),
    ),
    Counts(
        "thoughts in the total alone",
        [{"promptTokenCount": 12, "candidatesTokenCount": 7, "totalTokenCount": 100}],
        Usage(12, 88),
    ),
    Counts(
        "thoughts that a gateway counts as output",
        [
            {
                "promptTokenCount": 12,
                "candidatesTokenCount": 50,
                "thoughtsTokenCount": 43,
                "totalTokenCount": 62,
            }
        ],
        Usage(12, 50, reasoning_tokens=43),
    ),
]


@pytest.mark.parametrize("case", GEMINI, ids=lambda case: case.what)
def test_the_counts_of_gemini(case):
    content = {"role": "model", "parts": [{"text": "Yes."}]}
    events: list[Json | str] = [
        {"candidates": [{"content": content}], "usageMetadata": counts} for counts in case.events
    ]
    events.append({"candidates": [{"finishReason": "STOP"}]})
    assert reply_to("gemini", "streamed", events).usage == case.counted


def test_the_responses_api_counts_reasoning_that_is_in_the_total_alone():
    usage: Json = {"input_tokens": 12, "output_tokens": 7, "total_tokens": 112}
    usage["output_tokens_details"] = {"reasoning_tokens": 93}
    body = {"status": "completed", "output": [], "usage": usage}
    assert reply_to("openai-responses", "plain", body).usage == Usage(12, 100, reasoning_tokens=93)


def test_prompt_tokens_of_geminis_own_tools_are_input():
    counts = {"promptTokenCount": 12, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 7}
    candidate = {"content": {"parts": [{"text": "Yes."}]}, "finishReason": "STOP"}
    body = {"candidates": [candidate], "usageMetadata": {**counts, "totalTokenCount": 24}}
    assert reply_to("gemini", "plain", body).usage == Usage(17, 7)


# A try that failed.

SPENT = {"input_tokens": 2000, "output_tokens": 300}
OVERLOADED = {"code": "server_error", "message": "Try again."}
FAILED = {"status": "failed", "output": [], "error": OVERLOADED, "usage": SPENT}
SAYS_YES = {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
COMPLETED = {
    "status": "completed",
    "output": [SAYS_YES],
    "usage": {"input_tokens": 12, "output_tokens": 7},
}


def failed_then_fine(way: str) -> list[Any]:
    if way in WHOLE:
        return [FAILED, COMPLETED]
    return [
        [{"type": "response.failed", "response": FAILED}],
        [{"type": "response.completed", "response": COMPLETED}],
    ]


@pytest.fixture
def _no_wait(monkeypatch):
    monkeypatch.setattr("think_agent.providers.provider.random.uniform", lambda *_: 0.0)


@pytest.mark.usefixtures("_no_wait")
@pytest.mark.parametrize("way", ASK)
def test_the_tokens_of_a_failed_try_are_in_the_reply_that_follows(way):
    reply = reply_to("openai-responses", way, *failed_then_fine(way))
    assert reply.text == "Yes."
    assert reply.usage == Usage(2012, 307)


@pytest.mark.usefixtures("_no_wait")
@pytest.mark.parametrize("way", STREAMED)
def test_so_are_those_of_a_stream_that_reported_some_and_broke_off(way):
    head = {"role": "assistant", "content": [], "usage": {"input_tokens": 2000, "output_tokens": 1}}
    start = {"type": "message_start", "message": head}
    fine = [
        {"type": "message_start", "message": {**head, "usage": {"input_tokens": 12}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"text": "Yes."}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    reply = reply_to("anthropic", way, [start], fine)
    assert reply.text == "Yes."
    assert reply.usage == Usage(2012, 8)


@pytest.mark.usefixtures("_no_wait")
@pytest.mark.parametrize("way", ASK)
def test_a_try_that_failed_without_a_count_adds_nothing(way):
    failed = {**FAILED, "usage": None}
    answers: list[Any] = [failed, COMPLETED]
    if way in STREAMED:
        answers = [
            [{"type": "response.failed", "response": failed}],
            [{"type": "response.completed", "response": COMPLETED}],
        ]
    assert reply_to("openai-responses", way, *answers).usage == Usage(12, 7)


# Limits.

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
LOOKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
# 2,700 tokens of reasoning, which xAI's own count of the completion doesn't have.
HIDDEN = {"prompt_tokens": 50, "completion_tokens": 50, "total_tokens": 2800}
PRICES = {"local": Price(input=1.0, output=10.0)}
LIMITS = [
    {"max_tokens": 500},
    {"max_cost": 0.01, "prices": PRICES},  # the first reply costs 0.027
]


def answers_of(run: Any) -> list[Any]:
    """A call with hidden tokens, and the closing reply."""
    if run in (run_streamed, run_astreamed):
        call = {"choices": [{"delta": {**LOOKS, "tool_calls": [{**CALL, "index": 0}]}}]}
        end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
        return [[call, end, {"choices": [], "usage": HIDDEN}], streamed(details(60, 5))]
    first = {"choices": [{"message": LOOKS, "finish_reason": "tool_calls"}], "usage": HIDDEN}
    return [first, whole(details(60, 5))]


@pytest.mark.parametrize("run", WAYS)
@pytest.mark.parametrize("limit", LIMITS, ids=["tokens", "money"])
def test_a_limit_holds_on_a_host_that_counts_reasoning_apart(limit, run):
    with talking("openai-chat") as (server, model):
        server.canned = [canned("openai-chat", answer) for answer in answers_of(run)]
        outcome = run(Agent(model, [look, pay], force="never", **limit), "go")
    assert outcome.exit == "budget"
    assert outcome.model_calls == 2
    assert outcome.usage == Usage(110, 2755)


@pytest.mark.usefixtures("_no_wait")
@pytest.mark.parametrize("run", WAYS)
def test_a_limit_holds_on_a_host_whose_tries_fail(run):
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    looks = {**COMPLETED, "output": [call]}
    answers: list[Any] = [FAILED, looks, COMPLETED]
    if run in (run_streamed, run_astreamed):
        ends = ["failed", "completed", "completed"]
        answers = [
            [{"type": f"response.{end}", "response": answer}]
            for end, answer in zip(ends, answers, strict=True)
        ]
    with talking("openai-responses") as (server, model):
        server.canned = [canned("openai-responses", answer) for answer in answers]
        outcome = run(Agent(model, [look, pay], force="never", max_tokens=500), "go")
    assert outcome.exit == "budget"
    assert outcome.model_calls == 2
