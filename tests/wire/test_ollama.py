"""Ollama's /api/chat: recorded exchanges and bodies, JSON in and JSON out."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.recordings import cases, load, needs_wire
from think_agent import (
    THINK,
    Assistant,
    BadRequest,
    BadResponse,
    ModelError,
    ModelNotFound,
    Overloaded,
    Request,
    ToolCall,
    User,
    tool,
)
from think_agent.wire.ollama import STOPPED, Fold, from_wire, to_wire


@tool
def order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: shipped"


WITH_TOOLS = Request([User("Where is ORD-1?")], [THINK, order], system="Be brief.")


ERRORS: dict[str, tuple[type[ModelError], str]] = {
    "err-400-context-length": (BadRequest, "raise num_ctx"),
    "err-400-no-thinking-support": (BadRequest, "leave out think"),
    "err-404-model": (ModelNotFound, "ollama pull qwen3:4b"),
    "stream-200-error-parsing-tool-call": (Overloaded, "error parsing tool call"),
}


SKIPPED: dict[str, str] = {}


REPLIES = [case for case in cases("ollama") if case not in ERRORS and case not in SKIPPED]


STREAMS = [case for case in REPLIES if case.startswith(("stream-", "docs-stream-"))]


WHOLE = [case for case in REPLIES if case not in STREAMS]


@needs_wire
def test_every_recording_is_used() -> None:
    assert {*WHOLE, *STREAMS, *ERRORS, *SKIPPED} == set(cases("ollama"))
    assert not {*ERRORS, *SKIPPED} & {*WHOLE, *STREAMS}
    for case in cases("ollama"):
        is_stream = "stream" in load("ollama", case)["response"]
        assert is_stream == (case in STREAMS or case == "stream-200-error-parsing-tool-call")


@needs_wire
@pytest.mark.parametrize("case", STREAMS)
def test_a_recorded_stream_cut_off_anywhere_is_an_unfinished_reply(case: str) -> None:
    """The server ends one so by itself, when the model repeats itself."""
    lines = [json.loads(line) for line in load("ollama", case)["response"]["stream"].splitlines()]
    for end in {0, len(lines) // 2, len(lines) - 1}:
        fold = Fold()
        for line in lines[:end]:
            fold.feed(line)
        if end == 0:
            with pytest.raises(BadResponse, match="broke off"):
                fold.result()
        else:
            reply = from_wire(fold.result())
            assert (reply.stop_reason, reply.cause) == ("incomplete", STOPPED)


def test_the_body_of_a_request() -> None:
    assert to_wire(replace(WITH_TOOLS, tools=[order]), "m", num_ctx=4096) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where is ORD-1?"},
        ],
        "options": {"num_ctx": 4096},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "order",
                    "description": "Look an order up.",
                    "parameters": {
                        "type": "object",
                        "properties": {"order_id": {"type": "string"}},
                        "required": ["order_id"],
                        "additionalProperties": False,
                    },
                },
            }
        ],
    }


def test_a_reply_as_json() -> None:
    call = {"function": {"name": "order", "arguments": {"order_id": "1"}}}
    message = {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]}
    response = {"message": message, "done": True, "done_reason": "stop"}
    assert from_wire(response, "asked") == Assistant(
        thinking="hm",
        tool_calls=(ToolCall("", "order", {"order_id": "1"}),),
        stop_reason="tool_use",
        model="asked",
        provider="ollama",
        native={"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]},
    )
    cut = from_wire({**response, "done_reason": "length"})
    assert (cut.stop_reason, len(cut.tool_calls)) == ("max_tokens", 1)


def line(content: str, **more: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"model": "m", "message": message, "done": False, **more}).encode() + b"\n"


@pytest.mark.parametrize(
    ("message", "count", "stop_reason"),
    [
        ({"content": ""}, 40, "malformed"),  # tokens were spent and nothing came
        ({"content": ""}, 1, "end_turn"),
        ({"content": ""}, 0, "end_turn"),
        ({"content": "", "thinking": "Hm."}, 40, "end_turn"),
        ({"content": "Hm."}, 40, "end_turn"),
    ],
)
def test_a_call_that_the_server_swallowed(message, count, stop_reason) -> None:
    reply = from_wire({"message": message, "done": True, "eval_count": count})
    assert reply.stop_reason == stop_reason
