"""Gemini's generateContent: recorded exchanges and bodies, JSON in and JSON out."""

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
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from think_agent.messages import Json, Message
from think_agent.think import THINK
from think_agent.tools import Tool
from think_agent.wire.gemini import Fold, from_wire, to_wire

ADD = Tool(
    name="add",
    description="Add numbers.",
    parameters={"type": "object", "properties": {"a_b": {"type": "integer"}}, "required": ["a_b"]},
)


HI = Request([User("hi")])


EXPECTED: dict[str, str | type[ModelError]] = {
    "cached-content-explicit": "end_turn",
    "cached-content-tokens-tools": "end_turn",
    "choice-any": "tool_use",
    "choice-validated": "tool_use",
    "err-400-invalid-role": BadRequest,
    "err-400-stream-api-key": AuthError,
    "err-401-vertex": AuthError,
    "err-403-no-key": AuthError,
    "err-404-stream-model": ModelNotFound,
    "err-429-bare": RateLimited,
    "err-429-retry-info": RateLimited,
    "err-503-overloaded": Overloaded,
    "google-search-grounding": "end_turn",
    "max-tokens-no-parts": "max_tokens",
    "prompt-blocked-no-candidates": "refusal",
    "safety-empty-content": "refusal",
    "stream-any-zero-args": "tool_use",
    "stream-choice-none": "end_turn",
    "stream-final-chunk-no-parts": "end_turn",
    "stream-gemini3-thought-tool": "tool_use",
    "stream-gemini3-tool-parallel": "tool_use",
    "stream-gemini3-tool-single": "tool_use",
    "stream-max-tokens": "max_tokens",
    "stream-signature-on-empty-text": "end_turn",
    "stream-thought-text": "end_turn",
    "stream-thought-tool": "tool_use",
    "stream-tool-followup": "end_turn",
    "stream-tool-parallel-mirascope": "tool_use",
    "thought-tool": "tool_use",
    "tool-any-names-history": "tool_use",
    "tool-parallel-2-followup": "end_turn",
    "tool-parallel-2-sig-on-first": "tool_use",
    "tool-parallel-3-zero-args": "tool_use",
    "tool-single-with-id": "tool_use",
    "tool-zero-args": "tool_use",
    "unexpected-tool-call-empty": "end_turn",
    "unexpected-tool-call-with-part": "tool_use",
}


SKIPPED: dict[str, str] = {}


ALL = cases("gemini")


STREAMS = [case for case in ALL if "stream" in load("gemini", case)["response"]]


ERRORS = [case for case in ALL if load("gemini", case)["response"]["status"] != 200]


BODIES = [case for case in ALL if case not in STREAMS + ERRORS]


@needs_wire
def test_every_recording_is_covered() -> None:
    assert sorted([*EXPECTED, *SKIPPED]) == ALL
    assert sorted([*STREAMS, *ERRORS, *BODIES]) == ALL


def history(contents: list[Json]) -> list[Message]:
    """Recorded contents as messages of a transcript; replies as they were recorded."""
    messages: list[Message] = []
    calls: list[ToolCall] = []
    for content in contents:
        parts = content["parts"]
        if content["role"] == "model":
            reply = from_wire({"candidates": [{"content": content}]})
            calls = [
                ToolCall(c.id or f"call_{n}", c.name, c.arguments)
                for n, c in enumerate(reply.tool_calls)
            ]
            messages.append(
                Assistant(reply.text, "", tuple(calls), native=content, provider="gemini")
            )
        elif "functionResponse" in parts[0]:
            for call, part in zip(calls, parts, strict=True):
                answer = part["functionResponse"]
                messages.append(ToolResult(call.id, answer["name"], str(answer["response"])))
        else:
            messages.append(User("".join(part["text"] for part in parts)))
    return messages


@needs_wire
@pytest.mark.parametrize("case", BODIES + STREAMS)
def test_recorded_requests(case: str) -> None:
    body = load("gemini", case)["request"]["body"]
    instruction = body.get("systemInstruction")
    system = instruction["parts"][0]["text"] if instruction else ""
    declarations = (body.get("tools") or [{}])[0].get("functionDeclarations", [])
    tools = [
        Tool(name=d["name"], description="", parameters={"type": "object"}) for d in declarations
    ]
    sent = to_wire(Request(history(body["contents"]), tools, system=system))
    assert len(sent["contents"]) == len(body["contents"])
    for ours, theirs in zip(sent["contents"], body["contents"], strict=True):
        if theirs["role"] == "model":
            assert ours == theirs
            continue
        assert ours["role"] == "user"
        for part, other in zip(ours["parts"], theirs["parts"], strict=True):
            if answer := other.get("functionResponse"):
                assert part["functionResponse"].get("id") == answer.get("id")
                assert part["functionResponse"]["name"] == answer["name"]
                assert part["functionResponse"]["response"] == {"output": str(answer["response"])}
            else:
                assert part == {"text": other["text"]}
    assert ("systemInstruction" in sent) == bool(instruction)
    assert ("tools" in sent) == bool(declarations)


def test_tool_choices() -> None:
    def config(choice: Any) -> Json:
        body = to_wire(Request([User("hi")], [THINK, ADD], tool_choice=choice))
        assert [d["name"] for d in body["tools"][0]["functionDeclarations"]] == ["think", "add"]
        found = body.get("toolConfig", {"functionCallingConfig": {}})["functionCallingConfig"]
        assert isinstance(found, dict)
        return found

    assert config("auto") == {}  # the default, and so left out
    assert config("required") == {"mode": "ANY"}
    assert config(Force("think")) == {"mode": "ANY", "allowedFunctionNames": ["think"]}
    assert config("none") == {"mode": "NONE"}  # the final call keeps its declarations


def test_nothing_unasked_is_sent() -> None:
    assert to_wire(HI) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_results_stand_in_the_order_of_the_calls() -> None:
    calls = (ToolCall("call_0", "add", {}), ToolCall("call_1", "add", {}))
    native = {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {}}}] * 2}
    messages: list[Message] = [
        User("hi"),
        Assistant(tool_calls=calls, native=native, provider="gemini"),
        ToolResult("call_1", "add", "not allowed", is_error=True),
        ToolResult("call_9", "add", "of a call that is gone"),
        ToolResult("call_0", "add", "2"),
        User("Go on.", kind="nudge"),
    ]
    contents = to_wire(Request(messages))["contents"]
    assert contents[1] is native
    assert contents[2:] == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "add", "response": {"output": "2"}}},
                {"functionResponse": {"name": "add", "response": {"error": "not allowed"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "Go on."}]},
    ]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", "tool_use"),
        ("UNEXPECTED_TOOL_CALL", "tool_use"),
        ("MAX_TOKENS", "max_tokens"),
        ("CONTINUATION", "max_tokens"),
        ("PROHIBITED_CONTENT", "refusal"),
        ("SPII", "refusal"),
        ("A_REASON_TO_COME", "tool_use"),
    ],
)
def test_stop_reasons_of_a_reply_with_a_call(reason: str, stop: str) -> None:
    parts = [{"functionCall": {"name": "add"}}]
    reply = from_wire({"candidates": [{"content": {"parts": parts}, "finishReason": reason}]})
    assert reply.tool_calls == (ToolCall("", "add", {}),)
    assert reply.stop_reason == stop


def test_a_malformed_call_is_said_with_its_words() -> None:
    candidate = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "add(1, 2"}
    reply = from_wire({"candidates": [candidate]}, "asked")
    assert (reply.stop_reason, reply.mistake, reply.native) == ("malformed", "add(1, 2", None)


def test_usage_in_our_meaning() -> None:
    counts = {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
    }
    usage = from_wire({"candidates": [{}], "usageMetadata": counts}).usage
    assert usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=2)


def test_a_text_split_anywhere_folds_into_the_same_reply() -> None:
    def chunk(text: str, **more: Any) -> Json:
        return {"candidates": [{"content": {"role": "model", "parts": [{"text": text, **more}]}}]}

    text = "äb\n c"
    for cut in range(len(text) + 1):
        fold = Fold()
        for thought in (True, False):
            fold.feed(chunk(text[:cut], thought=thought))
            fold.feed(chunk(text[cut:], thought=thought))
        fold.feed(chunk("", thoughtSignature="AA=="))
        fold.feed(chunk("!"))
        fold.feed({"candidates": [{"finishReason": "STOP"}]})
        reply = from_wire(fold.result())
        assert (reply.text, reply.thinking) == (text + "!", text)
        assert reply.native["parts"] == [
            {"text": text, "thought": True},
            {"text": text, "thought": False},
            {"text": "", "thoughtSignature": "AA=="},
            {"text": "!"},
        ]
