"""What providers really say around a reply, asked of the real SDKs over local HTTP: whole and
streamed, sync and async.

Where an exchange was recorded, `test_recorded.py` plays it. No recording here has what follows, so
these bodies are written: after the SDK's types (`refusal_stop_details.py` of Anthropic), and after
client code (Gemini without candidates).
"""

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace

import pytest

from demos.refund.shop import INSTRUCTIONS
from tests.servers import ProviderServer, Reply, sse
from tests.servers.anthropic import AnthropicProtocol, event
from tests.support.providers import ASK, every_way, failure, model_of, says, talking
from tests.support.sizes import ROOT
from tests.support.wires import reply_of, to_wire
from think_agent import (
    THINK,
    Assistant,
    Overloaded,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    User,
)
from think_agent.messages import Json, from_json, to_json
from think_agent.think import THINK_MINIMAL, THOUGHT

PAY = Tool(name="pay", description="Pay.", parameters={"type": "object", "properties": {}})
ASKED = Request([User("Pay it.")], [THINK, PAY], system="Be brief.")


def answers(server: ProviderServer, way: str, body: Json, events: Sequence[bytes]) -> None:
    """The next answer of the server: the `body`, or for a stream the `events`."""
    if "stream" in way:
        server.canned.append(Reply(chunks=events, content_type=server.stream_type))
    else:
        server.canned.append(Reply(body=body))


# Gemini's answers without a reply.

NO_REPLY = {
    "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
    "modelVersion": "gemini-3.8-flash",
    "responseId": "r1",
}


@every_way
@pytest.mark.parametrize("nothing", [{}, {"candidates": []}], ids=["none", "empty"])
def test_an_answer_of_gemini_without_candidates_is_tried_again(way, nothing, monkeypatch):
    monkeypatch.setattr("think_agent.providers.provider.random.uniform", lambda *_: 0.0)
    body = NO_REPLY | nothing
    with talking("gemini") as (server, model):
        answers(server, way, body, [sse(body)])
        assert ASK[way](model, ASKED).text == "Hello."
        for _ in range(3):
            answers(server, way, body, [sse(body), sse(body)])
        error = failure(model, way)
        assert type(error) is Overloaded
        assert error.retryable is True
        assert len(server.requests) == 5
    assert str(error) == "gemini: the answer holds no reply; try again later"


# What one provider signed.

ADAPTIVE = {"type": "adaptive"}
THOUGHTFUL = Assistant("It is due.", "Hm. It is due by rule 3.", stop_reason="end_turn")
LOOP = Assistant("", "Hm.", (ToolCall("toolu_1", "pay", {}),), "tool_use")


def saved(message: Assistant) -> Assistant:
    """A reply as a transcript file gives it back."""
    read = from_json(to_json(message))
    assert isinstance(read, Assistant)
    return read


def thoughts_in(body: Json) -> int:
    return str(body["messages"]).count("'signature'")


@every_way
def test_signed_thinking_goes_back_under_the_same_instructions_and_tools_alone(way):
    """The server checks signatures as Claude 5.5 does. A talk that was saved goes on all the same,
    and what was signed under the first instructions goes back with them.
    """
    renamed = replace(PAY, description="Pay now.")
    changed = [
        replace(ASKED, system="Be brief. Today is Tuesday."),
        replace(ASKED, tools=[THINK, renamed]),
        replace(ASKED, tools=[THINK]),
        replace(ASKED, system=""),
    ]
    with (
        talking("anthropic", says(THOUGHTFUL), thinking=ADAPTIVE) as (server, model),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        first = saved(ASK[way](model, ASKED))
        assert first.signed is True
        assert first.signed_under
        talk = [*ASKED.messages, first, User("And now?")]
        for request in changed:
            then = saved(ASK[way](model, replace(request, messages=talk)))
            assert then.signed_under not in ("", first.signed_under)
            assert thoughts_in(server.requests[-1]) == 0
            more = [*talk, then, User("And then?")]
            ASK[way](model, replace(request, messages=more))
            assert thoughts_in(server.requests[-1]) == 1  # the new one
            ASK[way](model, replace(ASKED, messages=more))
            assert thoughts_in(server.requests[-1]) == 1  # the old one
        assert len(server.requests) == 1 + 3 * len(changed)  # none was refused


@every_way
def test_signed_thinking_goes_back_in_another_process_but_not_to_another_model(way):
    with talking("anthropic", says(THOUGHTFUL), thinking=ADAPTIVE) as (server, model):
        talk = [*ASKED.messages, saved(ASK[way](model, ASKED)), User("And now?")]
        for name, thoughts in (("claude-haiku-5-5", 1), ("claude-opus-5-5", 0)):
            other = model_of("anthropic", server, name, thinking=ADAPTIVE)
            assert other.complete(replace(ASKED, messages=talk)).text == "It is due."
            assert thoughts_in(server.requests[-1]) == thoughts


@every_way
def test_strict_schemas_that_are_left_out_change_what_a_signature_covers(way):
    closed = replace(PAY, parameters={**PAY.parameters, "additionalProperties": False})
    asked = replace(ASKED, tools=[THINK, closed])
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "strict: no"}}
    with talking("anthropic", says(LOOP), thinking=ADAPTIVE) as (server, model):
        reply = ASK[way](model, asked)
        talk = [*asked.messages, reply, ToolResult("toolu_1", "pay", "paid")]
        server.canned = [Reply(400, refusal)]
        ASK[way](model, replace(asked, messages=talk))
        assert [thoughts_in(body) for body in server.requests] == [0, 1, 0]


BUDGET = {"type": "enabled", "budget_tokens": 1024}


@every_way
@pytest.mark.parametrize("binding", [True, False])
def test_in_a_tool_loop_thinking_of_other_instructions_goes_back_to_be_dropped(way, binding):
    """With a budget the API wants the thinking of the loop back. Where a server does not know how
    to drop it, there is one line of advice, and the next conversation is asked for as ever.
    """
    protocol = AnthropicProtocol(binding=binding)
    new = replace(ASKED, system="Be brief. Today is Tuesday.")
    with talking("anthropic", says(LOOP), protocol=protocol, thinking=BUDGET) as (server, model):
        talk = [*ASKED.messages, saved(ASK[way](model, ASKED)), ToolResult("toolu_1", "pay", "ok")]
        asked = replace(new, messages=talk)
        if not binding:
            assert "finish this turn with" in str(failure(model, way, asked))
            ASK[way](model, new)
        else:
            then = saved(ASK[way](model, asked))
            more = [*talk, then, ToolResult("toolu_1", "pay", "ok")]
            ASK[way](model, replace(new, messages=more))
        sent = [thoughts_in(body) for body in server.requests]
        betas = ["anthropic-beta" in headers for headers in server.headers]
        bound = ["block_binding" in body["thinking"] for body in server.requests]
    assert sent == [0, 0, 1, 2 if binding else 0]
    assert betas == bound == [False, False, True, binding]


@pytest.mark.parametrize("wire", ["openai-responses", "gemini"])
def test_reasoning_of_others_goes_back_although_the_instructions_hold_a_date(wire):
    """Their signatures do not cover the instructions."""
    native: Json | list[Json] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        {"type": "message", "role": "assistant", "content": []},
    ]
    if wire == "gemini":
        native = {"role": "model", "parts": [{"text": "Yes.", "thoughtSignature": "abc"}]}
    provider = wire.partition("-")[0]
    reply = Assistant("Yes.", provider=provider, native=native, signed=True)
    talk = Request([User("Hi"), reply, User("So?")], system="Today is Tuesday.")
    assert "abc" in str(to_wire(wire, talk))


def test_a_blank_text_before_a_signed_block_stays():
    """It is covered by the signature. Behind the last one, the API refuses it."""
    blank = {"type": "text", "text": "\n\n"}
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}}
    reply = reply_of("anthropic", {"content": [blank, thinking, blank, use]})
    assert reply.native["content"] == [blank, thinking, use]


# Why it was refused.

EXPLAINED = (
    "This request was blocked as it seems to violate Anthropic's Terms of Service restrictions on "
    "reverse engineering or duplicating model outputs."
)


def claude_refuses(category: str | None, explanation: str | None) -> tuple[Json, list[bytes]]:
    details = {"type": "refusal", "category": category, "explanation": explanation}
    stop = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
    head = {"role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 3}}
    events = [
        event("message_start", message={**head, "stop_reason": None}),
        event("message_delta", delta=stop, usage={"output_tokens": 0}),
        event("message_stop"),
    ]
    return {**head, **stop}, events


PROHIBITED = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
RECITATION = {"candidates": [{"finishReason": "RECITATION", "index": 0}]}
FILTERED = {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
SORRY = "I can't help with that."
CHAT_SORRY = {"choices": [{"message": {"refusal": SORRY}, "finish_reason": "stop"}]}
SAID_SORRY = {"type": "message", "content": [{"type": "refusal", "refusal": SORRY}]}
ARMOR = {"promptFeedback": {"blockReason": "MODEL_ARMOR", "blockReasonMessage": "It fits."}}


@pytest.mark.parametrize(
    ("wire", "body", "cause"),
    [
        ("anthropic", claude_refuses("cyber", "It is harm.")[0], "cyber: It is harm."),
        ("anthropic", claude_refuses("bio", None)[0], "bio"),
        ("anthropic", claude_refuses(None, None)[0], "refusal"),
        ("openai-chat", FILTERED, "content_filter"),
        ("openai-chat", CHAT_SORRY, SORRY),
        ("openai-responses", {"output": [SAID_SORRY], "status": "completed"}, SORRY),
        ("gemini", ARMOR, "SAFETY: MODEL_ARMOR: It fits."),
        ("gemini", PROHIBITED, "SAFETY: PROHIBITED_CONTENT"),
        ("gemini", RECITATION, "RECITATION"),
    ],
)
def test_a_refusal_says_why(wire, body, cause):
    reply = reply_of(wire, body)
    assert reply.stop_reason == "refusal"
    assert reply.cause == cause


@every_way
def test_a_refusal_to_write_out_its_reasoning_says_what_helps(way):
    with talking("anthropic") as (server, model):
        answers(server, way, *claude_refuses("reasoning_extraction", EXPLAINED))
        cause = ASK[way](model, ASKED).cause
    assert cause.startswith("the instructions ask for the model's reasoning; ask for working notes")
    assert f"(reasoning_extraction: {EXPLAINED[:100]}" in cause
    assert len(cause) <= 300


def test_the_kit_asks_no_model_to_write_out_its_reasoning():
    """Two sentences caused such refusals, 13 of 13 and 3 of 3: "present the entire deliberation
    process from the start" (claude-code #90922) and "narrate your reasoning … live working notes"
    (#95561). Nothing that the kit sends says the like; to say "do not" is fine.
    """
    asks = re.compile(
        r"(narrate|present|show|write out|reproduce|explain|share|output)\W+(\w+\W+){0,4}"
        r"(reasoning|deliberation|chain of thought|thought process)|step by step|think aloud|"
        r"live working notes",
        re.IGNORECASE,
    )
    assert asks.search("narrate your reasoning and take actions freely")
    assert asks.search("present the entire deliberation process from the start")
    texts = [THINK.description, THINK_MINIMAL.description, THOUGHT["description"]]
    prompts = [*(ROOT / "think_agent" / "dialects").glob("*.md"), *INSTRUCTIONS.parent.glob("*.md")]
    texts += [path.read_text(encoding="utf-8") for path in prompts if path.stem != "README"]
    for path in (ROOT / "think_agent" / "policies").glob("*.py"):  # what the kit says on the way
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    assert len(prompts) >= 4
    assert [text for text in texts if asks.search(text)] == []
