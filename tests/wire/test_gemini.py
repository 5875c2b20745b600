"""Gemini's generateContent: recorded exchanges and bodies, JSON in and JSON out."""

from typing import Any

from tests.support.wires import to_gemini
from think_agent import Assistant, Request, ToolCall, ToolResult, Usage, User
from think_agent.messages import Json, Message
from think_agent.tools import Tool
from think_agent.wire.gemini import Fold, from_wire

ADD = Tool(
    name="add",
    description="Add numbers.",
    parameters={"type": "object", "properties": {"a_b": {"type": "integer"}}, "required": ["a_b"]},
)


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
    contents = to_gemini(Request(messages))["contents"]
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
