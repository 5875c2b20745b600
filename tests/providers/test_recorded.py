"""The recorded exchanges with the real providers, through the real SDKs and over local HTTP. The
oracle is the SDK: what its own types read in an answer, our reply has to say.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import anthropic
import httpx2
import ollama
import pytest
from google import genai
from google.genai import types
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from tests.servers import serve
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import GeminiProtocol
from tests.support.pieces import told
from tests.support.providers import HELLO, KEY, SPEAKS, failure, says, talking
from tests.support.recordings import cases, events_of, load, needs_wire, replayed
from tests.support.wires import to_wire
from think_agent import (
    Assistant,
    AuthError,
    BadRequest,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    User,
)
from think_agent.received import with_ids
from think_agent.wire.incoming import parse_arguments

HTTP = httpx2.Client(verify=False)  # to load certificates takes longer than a test
ERRORS: dict[str, dict[str, tuple[type[ModelError], str]]] = {
    "anthropic": {
        "err-400-budget-over-max-tokens": (BadRequest, "must be greater than"),
        "err-400-empty-content": (BadRequest, "non-empty content"),
        "err-400-strict-schema-anyof": (BadRequest, "input_schema.type: Field required"),
        "err-400-thinking-block-dropped": (BadRequest, "Expected `thinking`"),
        "err-400-thinking-with-forced-tool": (BadRequest, "tool_choice forces tool use"),
        "err-400-tool-use-without-result": (BadRequest, "without `tool_result` blocks"),
        "err-401-auth": (AuthError, "ANTHROPIC_API_KEY"),
        "err-404-model": (ModelNotFound, "claude-sonet-4-5"),
        "err-429-no-retry-after": (RateLimited, "concurrent connections"),
        "err-429-retry-after-7": (RateLimited, "per-minute rate limit"),
        "err-503-plain-text": (Overloaded, "upstream connect error"),
        "err-529-tool-history": (Overloaded, "Overloaded"),
        "stream-200-overloaded": (Overloaded, "Overloaded"),
        "stream-200-overloaded-2": (Overloaded, "Overloaded"),
    },
    "openai-chat": {
        "err-400-role-unsupported": (BadRequest, "does not support 'developer'"),
        "err-400-tool-schema-no-properties": (BadRequest, "(tools[0].function.parameters)"),
        "err-400-unsupported-parameter": (BadRequest, "'stop' is not supported"),
        "err-401-key": (AuthError, "OPENAI_API_KEY"),
        "err-404-model": (ModelNotFound, "this-model-does-not-exist-12345"),
        "err-404-not-a-chat-model": (ModelNotFound, "not a chat model"),
        "err-429-insufficient-quota": (RateLimited, "check plan and billing"),
        "err-429-request-too-large": (RateLimited, "send less"),
        "err-503-plain-text": (Overloaded, "upstream connect error"),
    },
    "openai-responses": {
        "err-400-model-not-found": (ModelNotFound, "gpt-5.2-proo"),
        "err-400-reasoning-effort": (BadRequest, "(reasoning.effort)"),
        "err-401-key": (AuthError, "OPENAI_API_KEY"),
        "err-401-key-stream": (AuthError, "OPENAI_API_KEY"),
        "err-429-insufficient-quota": (RateLimited, "check plan and billing"),
        "err-500-server-error": (Overloaded, "error occurred while processing"),
    },
    "gemini": {
        "err-400-invalid-role": (BadRequest, "valid role"),
        "err-400-stream-api-key": (AuthError, "API key"),
        "err-401-vertex": (AuthError, "GEMINI_API_KEY"),
        "err-403-no-key": (AuthError, "GEMINI_API_KEY"),
        "err-404-stream-model": (ModelNotFound, "not found"),
        "err-429-bare": (RateLimited, "exhausted"),
        "err-429-retry-info": (RateLimited, "quota"),
        "err-503-overloaded": (Overloaded, "overloaded"),
    },
    "ollama": {
        "err-400-context-length": (BadRequest, "raise num_ctx"),
        "err-400-no-thinking-support": (BadRequest, "leave out reasoning"),
        "err-404-model": (ModelNotFound, "ollama pull"),
    },
}
RECORDED = [(provider, case) for provider in SPEAKS for case in cases(provider)]
UNREAD = ("ollama", "stream-200-error-parsing-tool-call")
DECODED = [key for key in RECORDED if key[1] not in ERRORS[key[0]] and key != UNREAD]
STOPPED = {  # of those that ended otherwise than by a call or by themselves
    "max_tokens": {
        "length-reasoning-budget-empty", "length-truncated-tool-args", "stream-length-empty",
        "stream-length-truncated-tool-args", "incomplete-text", "max-tokens-no-parts",
        "stream-max-tokens", "stop-length", "stream-stop-length",
    },
    "pause_turn": {"stream-pause-turn"},
    "incomplete": {"docs-done-reason-load", "docs-done-reason-unload"},
    "end_turn": {"unexpected-tool-call-with-part"},  # for there was no tool to call
    "stop_sequence": {"stop-sequence", "stop-sequence-empty-content",
                      "stream-stop-sequence-empty"},
    "refusal": {"refusal", "stream-refusal", "prompt-blocked-no-candidates",
                "safety-empty-content"},
}  # fmt: skip


class Seen(NamedTuple):
    """What an SDK reads in an answer. `calls`: id, name and arguments; `usage`: None where the SDK
    tells the sum alone, which is `total`.
    """

    text: str
    thinking: str
    calls: list[tuple[str, str, Any]]
    usage: Usage | None
    total: int = 0


def read_chat(case: str) -> Seen:
    response = load("openai-chat", case)["response"]
    if "stream" in response:
        state = ChatCompletionStreamState()
        for event in events_of("openai-chat", case):
            state.handle_chunk(ChatCompletionChunk.model_validate(event))
        whole = state.current_completion_snapshot
    else:
        whole = ChatCompletion.model_validate(response["body"])
    message, used = whole.choices[0].message, whole.usage
    calls = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()]
    usage = Usage()
    if used:
        usage = Usage(
            used.prompt_tokens,
            used.completion_tokens,
            used.prompt_tokens_details.cached_tokens,
            used.completion_tokens_details.reasoning_tokens,
        )
    said = message.model_dump()
    thinking = said.get("reasoning_content") or said.get("reasoning") or ""
    return Seen(message.content or message.refusal or "", thinking, calls, usage)


def read_responses(case: str) -> Seen:
    response = load("openai-responses", case)["response"]
    streamed = "stream" in response
    body = events_of("openai-responses", case)[-1]["response"] if streamed else response["body"]
    whole = Response.construct(**body)  # real answers lack fields that the types require
    parts = [part for item in whole.output if item.type == "message" for part in item.content]
    calls = [(i.call_id, i.name, i.arguments) for i in whole.output if i.type == "function_call"]
    thoughts = [i.summary for i in whole.output if i.type == "reasoning"]
    used = whole.usage
    return Seen(
        "".join(part.text if part.type == "output_text" else part.refusal for part in parts),
        "\n\n".join(part.text for summary in thoughts for part in summary or ()),
        calls,
        Usage(
            used.input_tokens,
            used.output_tokens,
            used.input_tokens_details.cached_tokens,
            used.output_tokens_details.reasoning_tokens,
        ),
    )


def folded_by_anthropic(case: str) -> anthropic.types.Message:
    """The message as the SDK has it, from a stream, too."""
    with serve(AnthropicProtocol(), says("")) as server:
        server.canned = [replayed("anthropic", case)]
        client = anthropic.Anthropic(base_url=server.url, api_key=KEY, http_client=HTTP)
        asked: Any = {"model": "m", "max_tokens": 9}
        asked["messages"] = [{"role": "user", "content": "Hello"}]
        if not is_stream("anthropic", case):
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            return stream.get_final_message()


def read_anthropic(case: str) -> Seen:
    message = folded_by_anthropic(case)
    blocks, used = message.content, message.usage
    cached, details = used.cache_read_input_tokens, used.output_tokens_details
    return Seen(
        "".join(block.text for block in blocks if block.type == "text"),
        "".join(block.thinking for block in blocks if block.type == "thinking"),
        [(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"],
        Usage(
            used.input_tokens + cached + used.cache_creation_input_tokens,
            used.output_tokens,
            cached,
            details.thinking_tokens if details else 0,
            written_tokens=used.cache_creation_input_tokens,
        ),
    )


def read_gemini(case: str) -> Seen:
    with serve(GeminiProtocol(), says("")) as server:
        server.canned = [replayed("gemini", case)]
        options = types.HttpOptions(
            base_url=server.url, httpx_client=HTTP, async_client_args={"ssl": False}
        )
        models = genai.Client(api_key=KEY, http_options=options)
        asked = {"model": "m", "contents": "hi"}
        if is_stream("gemini", case):
            chunks = list(models.models.generate_content_stream(**asked))
        else:
            chunks = [models.models.generate_content(**asked)]
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.candidates or []
        for part in (candidate.content and candidate.content.parts) or []
    ]
    used = chunks[-1].usage_metadata
    return Seen(
        "".join(part.text or "" for part in parts if not part.thought),
        "".join(part.text or "" for part in parts if part.thought),
        [(c.id or "", c.name, c.args) for part in parts if (c := part.function_call)],
        None,
        (used and used.total_token_count) or 0,
    )


def read_ollama(case: str) -> Seen:
    response = load("ollama", case)["response"]
    bodies = events_of("ollama", case) if "stream" in response else [response["body"]]
    chunks = [ollama.ChatResponse.model_validate(body) for body in bodies]
    sent = [call for body in bodies for call in body["message"].get("tool_calls") or ()]
    calls = [call.function for chunk in chunks for call in chunk.message.tool_calls or ()]
    ids = [call.get("id", "") for call in sent]  # the SDK's types drop them
    last = chunks[-1]
    return Seen(
        "".join(chunk.message.content or "" for chunk in chunks),
        "".join(chunk.message.thinking or "" for chunk in chunks),
        [(id, call.name, call.arguments) for id, call in zip(ids, calls, strict=True)],
        Usage(last.prompt_eval_count or 0, last.eval_count or 0),
    )


ORACLES: dict[str, Callable[[str], Seen]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_anthropic,
    "gemini": read_gemini,
    "ollama": read_ollama,
}


def is_stream(provider: str, case: str) -> bool:
    return "stream" in load(provider, case)["response"]


def played(provider: str, case: str) -> tuple[list[Any], Assistant]:
    """The Deltas and the reply that come of a recorded answer, asked for as it was."""
    with talking(provider) as (server, model):
        server.canned = [replayed(provider, case)]
        if not is_stream(provider, case):
            return [], model.complete(HELLO)
        *deltas, reply = model.stream(HELLO)
        return deltas, reply


@needs_wire
def test_every_recording_is_used():
    for provider, errors in ERRORS.items():
        assert errors.keys() <= set(cases(provider))
    failed = {case for case in RECORDED if load(*case)["response"]["status"] >= 400}
    assert failed.isdisjoint(DECODED)
    assert set().union(*STOPPED.values()) <= {case for _, case in DECODED}


@needs_wire
def test_a_recorded_call_that_the_server_could_not_read_is_no_error():
    _, reply = played(*UNREAD)
    assert reply.text == ""
    assert "error parsing tool call" in reply.notice


@needs_wire
@pytest.mark.parametrize(("provider", "case"), DECODED)
def test_a_recorded_reply_is_read_as_the_sdk_reads_it(provider, case):
    deltas, reply = played(provider, case)
    seen = ORACLES[provider](case)
    text = reply.commentary or reply.text
    assert text == seen.text
    assert reply.thinking == seen.thinking
    calls = [ToolCall(id, name, parse_arguments(written)) for id, name, written in seen.calls]
    assert reply.tool_calls == tuple(calls)
    if seen.usage is None:
        assert reply.usage.input_tokens + reply.usage.output_tokens == seen.total
    elif reply.usage.estimated:
        assert seen.usage == Usage()
    else:
        assert reply.usage == seen.usage
    assert reply.provider == provider.partition("-")[0]
    expected = "tool_use" if calls else "end_turn"
    for stop_reason, names in STOPPED.items():
        if case in names:
            expected = stop_reason
    assert reply.stop_reason == expected
    if expected == "refusal":
        assert re.search(r"can't assist|^SAFETY(: MODEL_ARMOR: The prompt violated|$)", reply.cause)
    if is_stream(provider, case):
        kind = "commentary" if reply.commentary else "answer"
        assert told(deltas, kind) == text
        assert told(deltas, "thinking") == reply.thinking
        for number, call in enumerate(reply.tool_calls):
            pieces = [delta for delta in deltas if delta.index == number]
            assert parse_arguments(told(pieces, "call")) == call.arguments
            assert {piece.name for piece in pieces if piece.kind == "call"} == {call.name}


@needs_wire
@pytest.mark.parametrize(
    ("provider", "case"), [(provider, case) for provider in ERRORS for case in ERRORS[provider]]
)
def test_a_recorded_error_becomes_one_of_ours(provider, case):
    kind, words = ERRORS[provider][case]
    with talking(provider) as (server, model):
        model.retries = 0
        server.canned = [replayed(provider, case)] * 4  # one is asked again in another form
        error = failure(model, "streamed")
        assert type(error) is kind
        assert words.lower() in str(error).lower()
        if not is_stream(provider, case):
            assert error.status == load(provider, case)["response"]["status"]
            assert str(failure(model)) == str(error)
    waits = {"err-429-retry-after-7": 7, "err-429-retry-info": 3}
    assert error.retry_after == waits.get(case)


def to_come_back(provider: str, case: str) -> list[Any]:
    """What of a recorded answer has to go back, word for word: blocks, items, parts or a message.
    Of a stream, what is signed.
    """
    streamed = is_stream(provider, case)
    body = {} if streamed else load(provider, case)["response"]["body"]
    match provider:
        case "anthropic":
            blocks = folded_by_anthropic(case).to_dict()["content"]
            return [b for b in blocks if b["type"] != "text" or b["text"].strip()]
        case "openai-responses" if streamed:  # the items count as they were when they were done
            done = "response.output_item.done"
            return [e["item"] for e in events_of(provider, case) if e["type"] == done]
        case "openai-responses":
            return body["output"]
        case "gemini":
            events = events_of(provider, case) if streamed else [body]
            contents = [e.get("candidates", [{}])[0].get("content", {}) for e in events]
            parts = [part for content in contents for part in content.get("parts", ())]
            if not streamed:
                return parts
            # A placeholder in a recording is no base64: the SDK reads it as it can.
            return [p for p in parts if "REDACTED" not in p.get("thoughtSignature", "REDACTED")]
        case "openai-chat" if not streamed:
            message = body["choices"][0]["message"]
            return [{k: v for k, v in message.items() if k == "content" or v not in (None, [])}]
        case "ollama" if not streamed:
            return [{k: v for k, v in body["message"].items() if v or k == "content"}]
    return []


@needs_wire
@pytest.mark.parametrize(
    ("provider", "case"), [key for key in DECODED if key[1] not in STOPPED["max_tokens"]]
)
def test_a_recorded_reply_goes_back_as_it_came(provider, case):
    _, reply = played(provider, case)
    if not (reply.text or reply.commentary or reply.tool_calls):
        return  # an empty one is left out
    came = to_come_back(provider, case)
    if provider == "ollama":  # which gives no ids where it is older, and a result names one
        reply = replace(reply, tool_calls=with_ids(reply.tool_calls, Turn()))
        for message in came:
            for wire, call in zip(message.get("tool_calls", ()), reply.tool_calls, strict=True):
                wire["id"] = call.id
    results = [ToolResult(call.id, call.name, "42") for call in reply.tool_calls]
    body = to_wire(provider, Request([User("Hello"), reply, *results]), host=reply.host)
    sent = body.get("messages") or body.get("contents") or body["input"][1:]
    if provider in ("anthropic", "gemini"):
        sent = sent[1].get("content") or sent[1]["parts"]
    elif provider != "openai-responses":
        sent = sent[1:]
    assert [one for one in sent if one in came] == came
