"""Only calls of a whole reply may run, and their arguments are sent back as JSON objects."""

import json
import math
from dataclasses import replace

import pytest

from tests.support.wires import WIRES, reply_of, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, Usage, User
from think_agent.messages import Json

USE = {"type": "tool_use", "id": "c", "name": "pay", "input": {}}
ITEM = {"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"}


def with_call(wire: str, reason: object, arguments: object = None) -> Json:
    """A response that ends with `reason`, and a call in it."""
    function = {"name": "pay", "arguments": arguments}
    call = {"id": "c", "type": "function", "function": function}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    match wire:
        case "openai-chat":
            return {"choices": [{"message": said, "finish_reason": reason}]}
        case "openai-responses":
            return {"output": [{**ITEM, "arguments": arguments}], "status": reason, "error": None}
        case "anthropic":
            return {"content": [{**USE, "input": arguments}], "stop_reason": reason}
        case "gemini":
            parts = [{"functionCall": {"name": "pay", "args": arguments}}]
            content = {"role": "model", "parts": parts}
            return {"candidates": [{"content": content, "finishReason": reason}]}
        case _:
            return {"message": said, "done": True, "done_reason": reason}


WHOLE = {
    "openai-chat": ["stop", "tool_calls"],
    "openai-responses": ["completed"],
    "anthropic": ["end_turn", "tool_use", "stop_sequence"],
    "gemini": ["STOP"],
    "ollama": ["stop", None],
}
HALF: dict[str, list[object]] = {
    "openai-chat": ["error", "abort", "insufficient_system_resource"],
    "openai-responses": ["failed", "incomplete"],
    "anthropic": ["compaction"],
    "gemini": ["OTHER"],
    "ollama": ["load", "unload"],
}
# Snowflake says nothing, and Azure's DeepSeek "tool_call".
UNKNOWN: list[object] = [None, "", "tool_call", "eos", 5, ["stop"], "a_reason_of_tomorrow"]
COUNTS: dict[str, Json] = {
    "openai-chat": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    "openai-responses": {"usage": {"input_tokens": 3, "output_tokens": 2}},
    "anthropic": {"usage": {"input_tokens": 3, "output_tokens": 2}},
    "gemini": {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}},
}


@pytest.mark.parametrize("wire", WIRES)
def test_a_known_reason_says_whether_a_reply_is_whole(wire):
    from_wire = WIRES[wire][0].from_wire
    for reason in WHOLE[wire]:
        reply = from_wire(with_call(wire, reason))
        assert (reply.stop_reason, reply.cause) == ("tool_use", "")
    for reason in HALF[wire]:
        reply = from_wire(with_call(wire, reason, {}) | COUNTS.get(wire, {}))
        assert (reply.stop_reason, str(reason) in reply.cause) == ("incomplete", True)


@pytest.mark.parametrize("wire", COUNTS)
@pytest.mark.parametrize("reason", UNKNOWN, ids=str)
def test_an_unknown_reason_is_a_whole_reply_where_all_of_it_can_be_read_and_is_counted(
    wire, reason
):
    from_wire = WIRES[wire][0].from_wire
    assert from_wire(with_call(wire, reason, {}) | COUNTS[wire]).stop_reason == "tool_use"
    for half in (with_call(wire, reason, {}), with_call(wire, reason, '{"a') | COUNTS[wire]):
        assert from_wire(half).stop_reason == "incomplete"
        assert str(reason) in from_wire(half).cause


OTHERS = {
    "openai-chat": {"length": "max_tokens", "model_length": "max_tokens"},
    "anthropic": {
        "pause_turn": "pause_turn",
        "max_tokens": "max_tokens",
        "model_context_window_exceeded": "max_tokens",
        "refusal": "refusal",
    },
    "gemini": {
        "UNEXPECTED_TOOL_CALL": "malformed",
        "TOO_MANY_TOOL_CALLS": "malformed",
        "MALFORMED_RESPONSE": "malformed",
        "MAX_TOKENS": "max_tokens",
        "CONTINUATION": "max_tokens",
        "PROHIBITED_CONTENT": "refusal",
        "SPII": "refusal",
        "MODEL_ARMOR": "refusal",
    },
    "ollama": {"length": "max_tokens"},
}


@pytest.mark.parametrize("wire", OTHERS)
def test_other_reasons_mean_the_same_with_a_call(wire):
    for reason, meaning in OTHERS[wire].items():
        reply = WIRES[wire][0].from_wire(with_call(wire, reason))
        assert (reply.stop_reason, len(reply.tool_calls)) == (meaning, 1)
        assert (reply.model, reply.usage) == ("", Usage())


CALL = {"index": 0, "id": "c", "function": {"name": "pay", "arguments": "{}"}}
COUNTED = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


def chunk(reason=None, **delta) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def folded(wire: str, *events: Json) -> Assistant:
    fold = WIRES[wire][0].Fold()
    for event in events:
        fold.feed(event)
        if fold.ended:
            break
    return WIRES[wire][0].from_wire(fold.result())


def test_a_count_of_tokens_ends_a_stream_only_behind_its_reason():
    calls, half = chunk(tool_calls=[CALL]), chunk(tool_calls=[{**CALL, "index": 1, "id": "d"}])
    whole = [calls, chunk("tool_calls")]
    for events in ([COUNTED, *whole], [calls, COUNTED, whole[1]], [*whole, COUNTED]):
        assert folded("openai-chat", *events).stop_reason == "tool_use"
    cut = folded("openai-chat", calls, COUNTED, half, chunk("length"))
    assert (cut.stop_reason, len(cut.tool_calls)) == ("max_tokens", 2)
    assert folded("openai-chat", calls, COUNTED).stop_reason == "tool_use"  # as Snowflake ends
    assert folded("openai-chat", calls, COUNTED, half).stop_reason == "incomplete"


@pytest.mark.parametrize("arguments", [None, "", '{"amount": 1', '{"amount": 1}}'])
def test_a_call_that_was_cut_off_is_not_usable_without_a_reason_to_stop(arguments):
    """A stream may end with its usage alone. With a reason, it is the model that wrote no JSON."""
    call = {"index": 0, "id": "c", "function": {"name": "pay", "arguments": arguments}}
    half = folded("openai-chat", chunk(tool_calls=[CALL, {**call, "id": "d"}]), COUNTED)
    assert (half.stop_reason, half.is_usable, bool(half.cause)) == ("incomplete", False, True)
    assert folded("openai-chat", chunk("tool_calls", tool_calls=[call]), COUNTED).is_usable


CUT: dict[str, list[Json]] = {  # all but the event with the reason
    "openai-chat": [chunk(tool_calls=[CALL])],
    "openai-responses": [
        {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    ],
    "anthropic": [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": USE},
        {"type": "content_block_delta", "index": 0, "delta": {"partial_json": "{}"}},
    ],
    "gemini": [with_call("gemini", None, {})],
    "ollama": [{**with_call("ollama", None, {}), "done": False}],
}


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_broke_off_is_not_usable(wire):
    for end in range(1, len(CUT[wire]) + 1):
        reply = folded(wire, *CUT[wire][:end])
        assert not reply.is_usable


@pytest.mark.parametrize("reason", ["other", "max_output_tokens"])
def test_a_response_with_incomplete_details_is_not_whole(reason):
    details = {"reason": reason}
    half = {"status": "incomplete", "output": [ITEM], "incomplete_details": details}
    half |= COUNTS["openai-responses"]
    assert not WIRES["openai-responses"][0].from_wire(half).is_usable
    done = {"type": "response.completed", "response": half}
    assert not folded("openai-responses", done).is_usable


@pytest.mark.parametrize("indices", [(0, 1), (1, 2)])
@pytest.mark.parametrize("ids", [("f1", "f2"), ("f", "f"), (None, None)], ids=str)
def test_a_call_is_one_call_whatever_its_item_says(indices, ids):
    """At any index, of any id, and told of again at the end."""
    items = [{**ITEM, "id": id, "call_id": f"c{n}"} for n, id in enumerate(ids, 1)]
    done = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in zip(indices, items, strict=True)
    ]
    last = {"type": "response.completed", "response": {"output": items}}
    reply = folded("openai-responses", *reversed(done), last)
    assert [call.id for call in reply.tool_calls] == ["c1", "c2"]
    assert reply.native == items
    assert folded("openai-responses", last).native == items
    silent = {"type": "response.completed", "response": {"output": []}}
    assert folded("openai-responses", *done, silent).native == items


def said(reason: str | None, *parts: Json) -> Json:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": reason}]}


def test_a_reason_in_the_middle_of_a_stream_of_gemini_does_not_end_it():
    pays = {"functionCall": {"name": "pay", "args": {}}}
    words = [said("STOP", {"text": "It is "}), said("STOP", {"text": "not due."})]
    assert folded("gemini", *words).text == "It is not due."
    assert folded("gemini", said("STOP", pays), said("STOP", pays)).stop_reason == "tool_use"
    for half in ("MAX_TOKENS", "SAFETY", "OTHER"):
        assert not folded("gemini", said("STOP", pays), said(half)).is_usable


NOTHING = [None, "", "null", "{}", {}]
NO_OBJECT = [{"v": math.nan}, {"v": math.inf}, "[1]", '{"v": NaN}', '{"v": 1e999}', "{"]


WRITTEN = [
    (wire, written)
    for wire in WIRES
    for written in [*NOTHING, *NO_OBJECT]
    if wire != "gemini" or isinstance(written, dict)  # Gemini always sends an object
]


@pytest.mark.parametrize(("wire", "written"), WRITTEN, ids=str)
def test_arguments_are_sent_back_as_an_object_however_they_came(wire, written):
    """The API refuses any other history, at every resume."""
    reply = reply_of(wire, with_call(wire, WHOLE[wire][0], written))
    [call] = reply.tool_calls
    reply = replace(reply, tool_calls=(replace(call, id="c"),))
    history = [User("Pay."), reply, ToolResult("c", "pay", "paid")]
    body = json.dumps(to_wire(wire, Request(history)), allow_nan=False)
    [sent] = arguments_in(json.loads(body))
    if written in NOTHING:
        assert call.arguments == sent == {}
    else:
        assert isinstance(call.arguments, str)


def arguments_in(body: object) -> list[Json]:
    """The arguments of all calls in a body, each of which has to be an object."""
    found = []
    if isinstance(body, list):
        for item in body:
            found += arguments_in(item)
    if isinstance(body, dict):
        for key, value in body.items():
            if key not in ("arguments", "args", "input") or isinstance(value, list):
                found += arguments_in(value)
                continue
            if isinstance(value, str):
                value = json.loads(value)
            assert isinstance(value, dict)
            found.append(value)
    return found


@pytest.mark.parametrize("wire", WIRES)
def test_arguments_nested_too_deeply_are_kept_as_text_alone(wire):
    deep: Json = {}
    for _ in range(500):
        deep = {"a": deep}
    said = json.dumps(deep) if wire.startswith("openai") else deep
    reply = reply_of(wire, with_call(wire, WHOLE[wire][0], said))
    assert isinstance(reply.tool_calls[0].arguments, str)
    assert '{"a"' not in json.dumps(reply.native)  # but as text


def test_of_several_choices_the_first_by_number_is_the_reply():
    chat = [{"index": n, "message": {"content": str(n)}, "finish_reason": "stop"} for n in (1, 0)]
    candidates = [
        {"index": n, "content": {"parts": [{"text": str(n)}]}, "finishReason": "STOP"}
        for n in (1, 0)
    ]
    events = [{"candidates": [candidate]} for candidate in candidates]
    assert WIRES["openai-chat"][0].from_wire({"choices": chat}).text == "0"
    assert WIRES["gemini"][0].from_wire({"candidates": candidates}).text == "0"
    assert folded("gemini", *events).text == "0"


@pytest.mark.parametrize(("wire", "reason"), [("openai-chat", "tool_calls"),
                         ("anthropic", "tool_use")])  # fmt: skip
def test_a_call_that_is_announced_but_missing_is_malformed(wire, reason):
    said = with_call(wire, reason)
    if wire == "anthropic":
        said["content"] = [{"type": "text", "text": "I will pay now."}]
    else:
        said["choices"][0]["message"] = {"role": "assistant", "content": "I will pay now."}
    assert WIRES[wire][0].from_wire(said).stop_reason == "malformed"


def test_another_name_at_the_same_index_is_another_call():
    """As servers stream that number every call 0 and give no ids."""
    first = {"index": 0, "function": {"name": "cancel", "arguments": ""}}
    second = {"index": 0, "function": {"name": "look", "arguments": '{"id": 7}'}}
    chunks = [chunk(tool_calls=[first]), chunk(tool_calls=[second]), chunk("tool_calls")]
    calls = folded("openai-chat", *chunks).tool_calls
    assert calls == (ToolCall("", "cancel", {}), ToolCall("", "look", {"id": 7}))
