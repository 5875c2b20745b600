"""Gemini's generateContent, JSON in and JSON out."""

from dataclasses import replace
from typing import Any

from tests.support.wires import folded, reply_of, to_gemini
from think_agent import Assistant, Force, Request, ToolCall, ToolResult, User
from think_agent.messages import Json, Message
from think_agent.tools import Tool

ADD = Tool(
    name="add",
    description="Add numbers.",
    parameters={"type": "object", "properties": {"a_b": {"type": "integer"}}, "required": ["a_b"]},
)


def test_results_are_one_content_after_their_calls():
    calls = (ToolCall("call_0", "add", {}), ToolCall("call_1", "add", {}))
    native = {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {}}}] * 2}
    messages: list[Message] = [
        User("hi"),
        Assistant(tool_calls=calls, native=native, provider="gemini"),
        ToolResult("call_0", "add", "2"),
        ToolResult("call_1", "add", "not allowed", is_error=True),
        User("Go on."),
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


def test_a_text_split_anywhere_folds_into_the_same_reply():
    def chunk(text: str, **more: Any) -> Json:
        return {"candidates": [{"content": {"role": "model", "parts": [{"text": text, **more}]}}]}

    text = "äb\n c"
    for cut in range(len(text) + 1):
        reply, _ = folded(
            "gemini",
            chunk(text[:cut], thought=True),
            chunk(text[cut:], thought=True),
            chunk(text[:cut], thought=False),
            chunk(text[cut:], thought=False),
            chunk("", thoughtSignature="AA=="),
            chunk("!"),
        )
        assert reply.text == text + "!"
        assert reply.thinking == text
        assert reply.native["parts"] == [
            {"text": text, "thought": True},
            {"text": text, "thought": False},
            {"text": "", "thoughtSignature": "AA=="},
            {"text": "!"},
        ]


CALL = {"functionCall": {"name": "add", "args": {}}}


def test_a_text_beside_an_unexpected_call_is_kept():
    """It is the answer if only text was asked for."""
    content = {"parts": [{"text": "It is 2."}, CALL]}
    candidate = {"content": content, "finishReason": "UNEXPECTED_TOOL_CALL"}
    reply = reply_of("gemini", {"candidates": [candidate]})
    assert reply.text == "It is 2."
    assert reply.stop_reason == "malformed"


def test_calls_and_text_keep_their_order_in_a_stream():
    parts = [{"text": "Hm.", "thought": True}, CALL, {"text": "Adding."}, CALL]
    reply, deltas = folded("gemini", {"candidates": [{"content": {"parts": parts}}]})
    kinds = [(delta.kind, delta.index) for delta in deltas]
    assert kinds == [("thinking", 0), ("call", 0), ("answer", 0), ("call", 1)]
    assert reply.native["parts"] == parts


def test_strict_is_the_mode_validated_where_the_model_may_choose():
    free = Request([User("hi")], [ADD])
    config = {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert to_gemini(free, strict=True)["toolConfig"] == config
    for choice in ("required", "none", Force("add")):
        forced = replace(free, tool_choice=choice)
        assert to_gemini(forced, strict=True) == to_gemini(forced)
