"""A list, an object or a text may be null anywhere: servers in other languages write one for what
they do not have. Through the real SDKs, whole and streamed.
"""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answers import STREAMED, WHOLE, reply_to
from tests.support.wires import WIRES, reply_of
from think_agent.messages import Json

USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "input_tokens": 12, "output_tokens": 7}
COUNTS = {"promptTokenCount": 12, "candidatesTokenCount": 7}
ITEM = {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
HEAD = {"role": "assistant", "usage": USAGE}
TEXT = {"type": "text", "text": "Yes."}


class Case(NamedTuple):
    field: str  # that is null
    wire: str
    whole: Json
    events: list[Json] | None
    calls: list[tuple[str, Any]]
    text: str = "Yes."


def chat(message: Json, **more: Any) -> Json:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"choices": [choice], "usage": USAGE, **more}


def chunks(delta: Json | None, **more: Any) -> list[Json]:
    return [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}], **more},
        {"choices": [], "usage": USAGE},
    ]


def response(*items: Json, **more: Any) -> Json:
    return {"status": "completed", "output": [*items], "usage": USAGE, **more}


def done(*items: Json) -> list[Json]:
    events: list[Json] = [{"type": "response.output_item.done", "item": item} for item in items]
    return [*events, {"type": "response.completed", "response": response()}]


def gemini(content: Json | None, **more: Any) -> Json:
    return {
        "candidates": [{"content": content, "finishReason": "STOP"}],
        "usageMetadata": COUNTS,
        **more,
    }


def message(*blocks: Json, **more: Any) -> Json:
    return {**HEAD, "content": [*blocks], "stop_reason": "end_turn", **more}


def blocks(*starts: Json, **more: Any) -> list[Json]:
    events: list[Json] = [{"type": "message_start", "message": {**HEAD, "content": None}}]
    for index, start in enumerate(starts):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, **more}
    return [*events, end, {"type": "message_stop"}]


def ollama(message: Json | None, **more: Any) -> Json:
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 12, "eval_count": 1}
    return {"model": "m", "message": message, **end, **more}


PING = [("ping", {})]
CASES = [
    Case("content", "openai-chat", chat({"content": None}), chunks({"content": None}), [], ""),
    Case("message", "openai-chat", chat(None), chunks(None), [], ""),
    Case("choices", "openai-chat", {"choices": None, "usage": USAGE}, None, [], ""),
    Case(
        "tool_calls",
        "openai-chat",
        chat({"content": "Yes.", "tool_calls": None}),
        chunks({"content": "Yes.", "tool_calls": None}),
        [],
    ),
    Case(
        "a call",
        "openai-chat",
        chat({"content": "Yes.", "tool_calls": [None]}),
        chunks({"content": "Yes.", "tool_calls": [None]}),
        [],
    ),
    Case(
        "arguments",
        "openai-chat",
        chat({"tool_calls": [{"id": None, "function": {"name": "ping", "arguments": None}}]}),
        chunks({"tool_calls": [{"id": None, "function": {"name": "ping", "arguments": None}}]}),
        PING,
        "",
    ),
    Case(
        "reasoning_details",
        "openai-chat",
        chat({"content": "Yes.", "reasoning_details": None, "reasoning": None}),
        chunks({"content": "Yes.", "reasoning_details": None, "reasoning": None}),
        [],
    ),
    Case(
        "model",
        "openai-chat",
        chat({"content": "Yes."}, model=None),
        chunks({"content": "Yes."}, model=None),
        [],
    ),
    Case(
        "summary (litellm #40523)",
        "openai-responses",
        response({"type": "reasoning", "summary": None, "content": None}, ITEM),
        done({"type": "reasoning", "id": "rs", "summary": None, "content": None}, ITEM),
        [],
    ),
    Case(
        "content (litellm #40477)",
        "openai-responses",
        response({**ITEM, "content": None}),
        done({**ITEM, "content": None}),
        [],
        "",
    ),
    Case(
        "text",
        "openai-responses",
        response({**ITEM, "content": [{"type": "output_text", "text": None}]}),
        done({**ITEM, "content": [{"type": "output_text", "text": None}]}),
        [],
        "",
    ),
    Case(
        "output",
        "openai-responses",
        {"status": "completed", "output": None, "usage": USAGE},
        [
            {"type": "response.output_item.done", "item": ITEM},
            {"type": "response.completed", "response": {**response(), "output": None}},
        ],
        [],
        "Yes.",
    ),
    Case("an item", "openai-responses", response(None, ITEM), done(None, ITEM), []),
    Case(
        "arguments",
        "openai-responses",
        response({"type": "function_call", "call_id": "c", "name": "ping", "arguments": None}),
        done({"type": "function_call", "call_id": "c", "name": "ping", "arguments": None}),
        PING,
        "",
    ),
    Case(
        "incomplete_details",
        "openai-responses",
        response(ITEM, incomplete_details=None, error=None, model=None),
        done(ITEM),
        [],
    ),
    Case("content (ai-gateway #2107)", "gemini", gemini(None), [gemini(None)], [], ""),
    Case("parts", "gemini", gemini({"parts": None}), [gemini({"parts": None})], [], ""),
    Case(
        "a part", "gemini", gemini({"parts": [None, TEXT]}), [gemini({"parts": [None, TEXT]})], []
    ),
    Case(
        "promptFeedback (new-api)",
        "gemini",
        gemini({"parts": [{"text": "Yes."}]}, promptFeedback=None),
        [gemini({"parts": [{"text": "Yes."}]}, promptFeedback=None)],
        [],
    ),
    Case(
        "blockReason",
        "gemini",
        gemini({"parts": [{"text": "Yes."}]}, promptFeedback={"blockReason": None}),
        [gemini({"parts": [{"text": "Yes."}]}, promptFeedback={"blockReason": None})],
        [],
    ),
    Case(
        "the other kinds of a part",
        "gemini",
        gemini({"parts": [{"text": "Yes.", "functionCall": None, "thought": None}]}),
        [gemini({"parts": [{"text": "Yes.", "functionCall": None, "thought": None}]})],
        [],
    ),
    Case(
        "args (9router #388)",
        "gemini",
        gemini(
            {"parts": [{"text": None, "functionCall": {"id": None, "name": "ping", "args": None}}]}
        ),
        [gemini({"parts": [{"functionCall": {"id": None, "name": "ping", "args": None}}]})],
        PING,
        "",
    ),
    Case("content", "anthropic", {**message(), "content": None}, blocks(), [], ""),
    Case("a block", "anthropic", message(None, TEXT), blocks(TEXT), []),
    Case(
        "text", "anthropic", message({**TEXT, "text": None}), blocks({**TEXT, "text": None}), [], ""
    ),
    Case(
        "input (llama.cpp #22960)",
        "anthropic",
        message({"type": "tool_use", "id": "t", "name": "ping", "input": None}),
        blocks({"type": "tool_use", "id": "t", "name": "ping", "input": None}),
        PING,
        "",
    ),
    Case(
        "no input at all (llama.cpp #22960)",
        "anthropic",
        message({"type": "tool_use", "id": "t", "name": "ping"}),
        blocks({"type": "tool_use", "id": "t", "name": "ping"}),
        PING,
        "",
    ),
    Case("stop_details", "anthropic", message(TEXT, stop_details=None), blocks(TEXT), []),
    Case("the last usage (gptel #1331)", "anthropic", message(TEXT), blocks(TEXT, usage=None), []),
    Case(
        "content",
        "ollama",
        ollama({"content": None, "thinking": None, "tool_calls": None}),
        [ollama({"content": None, "thinking": None, "tool_calls": None})],
        [],
        "",
    ),
    Case(
        "the last message (fastllm)",
        "ollama",
        ollama(None),
        [ollama({"content": "Yes."}, done=False), ollama(None)],
        [],
        "Yes.",
    ),
    Case(
        "arguments",
        "ollama",
        ollama({"content": "", "tool_calls": [{"function": {"name": "ping", "arguments": None}}]}),
        [ollama({"tool_calls": [{"function": {"name": "ping", "arguments": None}}]})],
        PING,
        "",
    ),
]
EMPTY_WHOLE = {"output", "the last message (fastllm)"}  # there is a text only in the stream


ASKED_FOR = [
    pytest.param(case, way, id=f"{case.wire}: {case.field} ({way})")
    for case in CASES
    for way in (*WHOLE, *STREAMED)
    if way in WHOLE or case.events is not None  # some fields are never streamed
]


@pytest.mark.parametrize(("case", "way"), ASKED_FOR)
def test_what_is_null_is_empty_and_all_else_is_read(case, way):
    reply = reply_to(case.wire, way, case.whole if way in WHOLE else case.events)
    text = "" if way in WHOLE and case.field in EMPTY_WHOLE else case.text
    assert reply.text == text
    assert reply.is_usable
    assert [(call.name, call.arguments) for call in reply.tool_calls] == case.calls


# Any part of a response.

RESPONSES = {
    "openai-chat": chat(
        {
            "content": [{"type": "text", "text": "Yes."}],
            "reasoning_details": [{"type": "text", "text": "Hm.", "signature": "s"}],
            "tool_calls": [{"id": "a", "function": {"name": "ping", "arguments": "{}"}}],
        },
        error=None,
        base_resp={"status_code": 0, "status_msg": ""},
    ),
    "openai-responses": response(
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
        },
        ITEM,
        {"type": "function_call", "call_id": "c", "name": "ping", "arguments": "{}"},
        incomplete_details={"reason": ""},
    ),
    "anthropic": message(
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        TEXT,
        {"type": "tool_use", "id": "t", "name": "ping", "input": {}},
        stop_details={"category": "x", "explanation": "y"},
    ),
    "gemini": gemini(
        {
            "parts": [
                {"text": "Hm.", "thought": True},
                {"functionCall": {"name": "ping", "args": {}}},
            ]
        },
        promptFeedback={"blockReason": "", "blockReasonMessage": ""},
    ),
    "ollama": ollama(
        {
            "content": "Yes.",
            "tool_calls": [{"id": "a", "function": {"name": "ping", "arguments": {}}}],
        }
    ),
}


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a value."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, part in inner:
        yield (*path, key)
        yield from places_in(part, (*path, key))


@pytest.mark.parametrize("wire", WIRES)
def test_every_part_of_a_response_may_be_null(wire):
    for place in places_in(RESPONSES[wire]):
        assert reply_of(wire, with_nulls(RESPONSES[wire], [place])) is not None


@pytest.mark.parametrize("wire", WIRES)
@given(st.data())
def test_any_parts_of_a_response_may_be_null(wire, data):
    places = list(places_in(RESPONSES[wire]))
    chosen = data.draw(st.lists(st.sampled_from(places), max_size=5))
    assert reply_of(wire, with_nulls(RESPONSES[wire], chosen)) is not None


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("other", [5, "x", ["x"], {"x": 1}], ids=str)
def test_a_part_of_another_type_is_a_value_error_or_does_not_matter(wire, other):
    """And no AttributeError, whose text would be about Python."""
    for place in places_in(RESPONSES[wire]):
        response = copy.deepcopy(RESPONSES[wire])
        put(response, place, other)
        with contextlib.suppress(ValueError):
            reply_of(wire, response)


def with_nulls(response: Json, places: list[tuple[Any, ...]]) -> Json:
    response = copy.deepcopy(response)
    for place in places:
        put(response, place, None)
    return response


def put(value: Any, place: tuple[Any, ...], part: Any) -> None:
    """Put a part into a value, if the place is still there."""
    *path, last = place
    for key in path:
        value = value[key]
        if value is None:
            return
    value[last] = part
