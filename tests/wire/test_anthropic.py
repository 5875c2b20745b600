"""Anthropic's Messages API: recorded exchanges and bodies, JSON in and JSON out."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.recordings import cases, load, needs_wire
from think_agent import (
    Assistant,
    AuthError,
    BadRequest,
    Force,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from think_agent.messages import Message
from think_agent.wire.anthropic import Fold, from_wire, to_wire
from think_agent.wire.common import Settings

MODEL = "claude-haiku-5-5"


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


WEATHER = Tool(name="weather", description="The weather of a city.", parameters=SCHEMA)


THINK = Tool(name="think", description="Take notes.", parameters={"type": "object"})


ASK = Request([User("Weather in Oslo?")], [THINK, WEATHER], system="Be brief.")


HELLO = Request([User("Hello")])


def body_of(request: Request, **options: Any) -> dict[str, Any]:
    return to_wire(request, MODEL, Settings(max_output_tokens=100), **options)


ERRORS: dict[str, tuple[type[ModelError], str]] = {
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
}


SKIPPED: dict[str, str] = {}  # every recording is decoded


NOT_REBUILT = {
    "cache-read": "a system message in mid-conversation, which the kit never sends",
    "err-400-empty-content": "an empty message, which the kit never sends",
    "err-400-strict-schema-anyof": "a schema that Tool refuses",
    "err-400-thinking-block-dropped": "no request was recorded",
    "err-400-thinking-with-forced-tool": "no request was recorded",
    "err-400-tool-use-without-result": "text after a call, which the kit never sends",
}


STREAMS = [case for case in cases("anthropic") if case.startswith("stream-") and case not in ERRORS]


BODIES = [case for case in cases("anthropic") if case not in {*ERRORS, *STREAMS}]


REQUESTS = [case for case in cases("anthropic") if case not in NOT_REBUILT]


@needs_wire
def test_every_recording_is_covered() -> None:
    assert {*ERRORS, *STREAMS, *BODIES, *SKIPPED} == set(cases("anthropic"))
    assert {*REQUESTS, *NOT_REBUILT} == set(cases("anthropic"))


def neutral(body: dict[str, Any], *, native: bool) -> Iterator[Message]:
    """The messages of a recorded request, as the kit would hold them."""
    names: dict[str, str] = {}
    for message in body["messages"]:
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message["role"] == "assistant":
            reply = from_wire({"content": blocks})
            names |= {call.id: call.name for call in reply.tool_calls}
            yield reply if native else replace(reply, native=None)
            continue
        for block in blocks:
            if block["type"] == "text":
                yield User(block["text"])
            else:
                id, error = block["tool_use_id"], block.get("is_error", False)
                yield ToolResult(id, names[id], result_text(block), is_error=error)


def result_text(block: dict[str, Any]) -> str:
    content = block["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def plain(messages: list[dict[str, Any]], *, join: bool) -> list[dict[str, Any]]:
    """Messages in one of the several spellings that the API takes for the same."""
    same = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        spelled: list[dict[str, Any]] = []
        for block in blocks:
            block = {key: value for key, value in block.items() if key != "cache_control"}
            if block["type"] == "tool_result":
                block |= {"content": result_text(block), "is_error": block.get("is_error", False)}
            if join and block["type"] == "text" and spelled and spelled[-1]["type"] == "text":
                spelled[-1]["text"] += block["text"]
            else:
                spelled.append(block)
        same.append({"role": message["role"], "content": spelled})
    return same


@needs_wire
@pytest.mark.parametrize("case", REQUESTS)
def test_a_recorded_request_is_built_again(case: str) -> None:
    recorded = load("anthropic", case)["request"]["body"]
    messages = list(neutral(recorded, native=True))
    native = body_of(Request(messages))["messages"]
    assert plain(native, join=False) == plain(recorded["messages"], join=False)
    if "thinking" in json.dumps(recorded["messages"]):
        return  # signed blocks cannot be built from neutral parts
    built = body_of(Request(list(neutral(recorded, native=False))))["messages"]
    assert plain(built, join=True) == plain(recorded["messages"], join=True)


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", None),  # the default, and so left out
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        (Force("think"), {"type": "tool", "name": "think"}),
    ],
)
def test_each_tool_choice_with_the_same_tools(choice: Any, wire: dict[str, str] | None) -> None:
    body = body_of(replace(ASK, tool_choice=choice))
    assert body.get("tool_choice") == wire
    weather = {"name": "weather", "description": "The weather of a city.", "input_schema": SCHEMA}
    assert body["tools"] == [body["tools"][0], weather]
    assert body["tools"] == body_of(ASK)["tools"]


def test_the_rest_of_the_body_is_sent_only_where_it_says_something() -> None:
    assert body_of(HELLO) == {
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }
    full = body_of(replace(ASK, output_schema=SCHEMA), thinking={"type": "adaptive"})
    assert full["system"] == "Be brief."
    assert full["thinking"] == {"type": "adaptive"}
    assert full["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}


def test_results_and_what_is_said_after_them_are_one_user_message() -> None:
    calls = (ToolCall("a", "weather", {"city": "Oslo"}), ToolCall("b", "weather", {}))
    results = [ToolResult("a", "weather", "rain"), ToolResult("b", "weather", "", is_error=True)]
    messages = [User("Go"), Assistant(tool_calls=calls), *results, User("So?", kind="limit")]
    wire = body_of(Request(messages))["messages"]
    assert [message["role"] for message in wire] == ["user", "assistant", "user"]
    assert [block["type"] for block in wire[1]["content"]] == ["tool_use", "tool_use"]
    first, second, text = wire[2]["content"]
    assert first == {"type": "tool_result", "tool_use_id": "a", "content": "rain"}
    assert (second["tool_use_id"], second["is_error"]) == ("b", True)
    assert second["content"].strip()  # the API refuses an error without content
    assert text == {"type": "text", "text": "So?"}


def test_own_blocks_are_replayed_and_those_of_others_are_not() -> None:
    blocks = [
        {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "text", "text": "\n\n"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
    ]
    native = {"role": "assistant", "content": blocks}
    call, result = ToolCall("toolu_1", "weather", {}), ToolResult("toolu_1", "weather", "rain")
    own = Assistant(tool_calls=(call,), provider="anthropic", native=native)
    other = replace(own, provider="openai")
    sent = [
        body_of(Request([User("Go"), reply, result]))["messages"][1]["content"]
        for reply in (own, other)
    ]
    # Blank text is left out: the API writes it and refuses to read it.
    assert sent == [[blocks[0], blocks[2]], [blocks[2]]]


@pytest.mark.parametrize(
    ("wire", "calls", "ours"),
    [
        ("end_turn", False, "end_turn"),
        ("end_turn", True, "tool_use"),
        ("pause_turn", False, "pause_turn"),
        ("max_tokens", True, "max_tokens"),
        ("model_context_window_exceeded", False, "max_tokens"),
        ("refusal", True, "refusal"),
        (None, False, "end_turn"),
    ],
)
def test_stop_reasons(wire: str | None, calls: bool, ours: str) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    reply = from_wire({"content": [use] if calls else [], "stop_reason": wire}, "asked")
    assert (reply.stop_reason, reply.model, reply.usage) == (ours, "asked", Usage())


def test_a_fold_keeps_citations_and_leaves_the_events_as_they_were() -> None:
    cited: list[dict[str, Any]] = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "citations_delta", "citation": {"cited_text": text}},
        }
        for text in ("one", "two")
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        *cited,
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": None, "output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    for _ in range(2):
        fold = Fold()
        for item in events:
            fold.feed(item)
        reply = from_wire(fold.result())
        assert (reply.text, reply.usage) == ("Hi", Usage(input_tokens=5, output_tokens=2))
        [block] = reply.native["content"]
        assert block["citations"] == [{"cited_text": "one"}, {"cited_text": "two"}]
