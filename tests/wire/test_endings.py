"""Only calls of a whole reply may run, and their arguments are sent back as JSON objects."""

import json
import math
from dataclasses import replace

import pytest

from tests.support.answers import WHOLE, reply_to
from tests.support.providers import ASK
from tests.support.wires import WIRES, folded, reply_of, to_wire
from think_agent import Request, ToolResult, Usage, User
from think_agent.messages import Json

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
            use = {"type": "tool_use", "id": "c", "name": "pay", "input": arguments}
            return {"content": [use], "stop_reason": reason}
        case "gemini":
            parts = [{"functionCall": {"name": "pay", "args": arguments}}]
            content = {"role": "model", "parts": parts}
            return {"candidates": [{"content": content, "finishReason": reason}]}
        case _:
            return {"message": said, "done": True, "done_reason": reason}


WHOLE_REASONS = {
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
    for reason in WHOLE_REASONS[wire]:
        reply = reply_of(wire, with_call(wire, reason))
        assert reply.stop_reason == "tool_use"
        assert reply.cause == ""
    for reason in HALF[wire]:
        reply = reply_of(wire, with_call(wire, reason, {}) | COUNTS.get(wire, {}))
        assert reply.stop_reason == "incomplete"
        assert str(reason) in reply.cause


@pytest.mark.parametrize("wire", COUNTS)
@pytest.mark.parametrize("reason", UNKNOWN, ids=str)
def test_an_unknown_reason_is_a_whole_reply_where_all_of_it_can_be_read_and_is_counted(
    wire, reason
):
    assert reply_of(wire, with_call(wire, reason, {}) | COUNTS[wire]).stop_reason == "tool_use"
    for half in (with_call(wire, reason, {}), with_call(wire, reason, '{"a') | COUNTS[wire]):
        reply = reply_of(wire, half)
        assert reply.stop_reason == "incomplete"
        assert str(reason) in reply.cause


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
        "MISSING_THOUGHT_SIGNATURE": "incomplete",
        "NO_IMAGE": "incomplete",
        "PUP_LIMITED_DISABLED": "refusal",
        "PROHIBITED_CONTENT": "refusal",
        "SPII": "refusal",
        "MODEL_ARMOR": "refusal",
    },
    "ollama": {"length": "max_tokens"},
}


@pytest.mark.parametrize("wire", OTHERS)
def test_other_reasons_mean_the_same_with_a_call(wire):
    for reason, meaning in OTHERS[wire].items():
        reply = reply_of(wire, with_call(wire, reason))
        assert reply.stop_reason == meaning
        assert len(reply.tool_calls) == 1
        assert reply.model == ""
        assert reply.usage == Usage()


# Stop reasons that a gateway has not translated, and those of no protocol.
FOREIGN = {
    "length": "max_tokens",
    "LENGTH": "max_tokens",
    "MAX_TOKENS": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "content_filter": "refusal",
    "SAFETY": "refusal",
    "sensitive": "refusal",
    "network_error": "incomplete",
    "timeout": "incomplete",
    "cancelled": "incomplete",
    "error": "incomplete",
}


@pytest.mark.parametrize("wire", COUNTS)
@pytest.mark.parametrize("reason", FOREIGN)
def test_a_reason_of_another_protocol_is_known(wire, reason):
    """Otherwise a reply that was cut would be taken for a whole one."""
    body = with_call(wire, reason, {}) | COUNTS[wire]
    if wire == "openai-responses":
        body |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    assert reply_of(wire, body).stop_reason == FOREIGN[reason]


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled"])
def test_a_response_that_was_not_completed_is_not_whole(status):
    body = with_call("openai-responses", status, {}) | COUNTS["openai-responses"]
    assert reply_of("openai-responses", body).stop_reason == "incomplete"


def test_a_response_that_completed_keeps_no_status_of_its_beginning():
    body = with_call("openai-responses", "in_progress", {}) | COUNTS["openai-responses"]
    reply, _ = folded("openai-responses", {"type": "response.completed", "response": body})
    assert reply.stop_reason == "tool_use"


@pytest.mark.parametrize("reason", ["other", "max_output_tokens"])
def test_a_response_with_incomplete_details_is_not_whole(reason):
    details = {"reason": reason}
    half = {"status": "incomplete", "output": [ITEM], "incomplete_details": details}
    half |= COUNTS["openai-responses"]
    assert not reply_of("openai-responses", half).is_usable
    streamed, _ = folded("openai-responses", {"type": "response.completed", "response": half})
    assert not streamed.is_usable


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("ids", [("f1", "f2"), ("f", "f"), (None, None)], ids=str)
def test_a_call_is_one_call_whatever_its_item_says(first, ids):
    """At any index, of any id, and told of again at the end."""
    items = [{**ITEM, "id": id, "call_id": f"c{number}"} for number, id in enumerate(ids, 1)]
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(items, first)
    ]
    last = {"type": "response.completed", "response": {"output": items}}
    silent = {"type": "response.completed", "response": {"output": []}}
    for events in ([*reversed(done), last], [*done, silent], [last]):
        reply, _ = folded("openai-responses", *events)
        assert [call.id for call in reply.tool_calls] == ["c1", "c2"]
        assert reply.native == items


def test_a_reason_in_the_middle_of_a_stream_of_gemini_does_not_end_it():
    pays = with_call("gemini", "STOP", {})
    reply, _ = folded("gemini", pays, pays)
    assert reply.stop_reason == "tool_use"
    assert len(reply.tool_calls) == 2
    for half in ("MAX_TOKENS", "SAFETY", "OTHER"):
        reply, _ = folded("gemini", pays, {"candidates": [{"finishReason": half}]})
        assert not reply.is_usable


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
    reply = reply_of(wire, with_call(wire, WHOLE_REASONS[wire][0], written))
    [call] = reply.tool_calls
    reply = replace(reply, tool_calls=(replace(call, id="c"),))
    history = [User("Pay."), reply, ToolResult("c", "pay", "paid")]
    [sent] = arguments_in(json.dumps(to_wire(wire, Request(history)), allow_nan=False))
    if written in NOTHING:
        assert call.arguments == sent == {}
    else:
        assert sent == {"invalid": call.arguments}


def arguments_in(body: str) -> list[Json]:
    """The arguments of all calls in a body, whatever protocol it is in."""
    found = []

    def note(item: Json) -> Json:
        for key in item.keys() & {"arguments", "args", "input"}:
            if not isinstance(item[key], list):  # else it is the history in the Responses API
                found.append(item[key])
        return item

    json.loads(body, object_hook=note)
    return [json.loads(value) if isinstance(value, str) else value for value in found]


@pytest.mark.parametrize("wire", WIRES)
def test_arguments_nested_too_deeply_are_kept_as_text_alone(wire):
    deep: Json = {}
    for _ in range(500):
        deep = {"a": deep}
    said = json.dumps(deep) if wire.startswith("openai") else deep
    reply = reply_of(wire, with_call(wire, WHOLE_REASONS[wire][0], said))
    assert isinstance(reply.tool_calls[0].arguments, str)
    assert '{"a"' not in json.dumps(reply.native)  # but as text


def test_of_several_choices_the_first_by_number_is_the_reply():
    chat = [{"index": number, "message": {"content": str(number)}} for number in (1, 0)]
    candidates = [
        {"index": number, "content": {"parts": [{"text": str(number)}]}} for number in (1, 0)
    ]
    streamed, _ = folded("gemini", *[{"candidates": [candidate]} for candidate in candidates])
    whole = reply_of("gemini", {"candidates": candidates})
    for reply in (reply_of("openai-chat", {"choices": chat}), whole, streamed):
        assert reply.text == "0"


def test_announced_calls_may_be_in_another_choice():
    """Copilot splits a reply of Claude in two."""
    call = {"id": "c", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    first = {"index": 0, "finish_reason": "tool_calls"}
    second = {"index": 1, "finish_reason": "tool_calls"}
    whole = reply_of(
        "openai-chat",
        {
            "choices": [
                {**first, "message": {"content": "I pay."}},
                {**second, "message": {"tool_calls": [call]}},
            ]
        },
    )
    streamed, _ = folded(
        "openai-chat",
        {"choices": [{**first, "delta": {"content": "I pay."}}]},
        {"choices": [{**second, "delta": {"tool_calls": [{**call, "index": 0}]}}]},
    )
    for reply in (whole, streamed):
        assert reply.text == "I pay."
        assert [call.id for call in reply.tool_calls] == ["c"]


ANNOUNCED = {
    "openai-chat": {"choices": [{"message": {"content": "Now."}, "finish_reason": "tool_calls"}]},
    "anthropic": {"content": [{"type": "text", "text": "Now."}], "stop_reason": "tool_use"},
}


@pytest.mark.parametrize("wire", ANNOUNCED)
def test_a_call_that_is_announced_but_missing_is_malformed(wire):
    assert reply_of(wire, ANNOUNCED[wire]).stop_reason == "malformed"


# Replies with nothing in them.

GEMINI = [  # the finish reason; how the reply ended
    ("STOP", "end_turn"),  # it's asked again
    ("MISSING_THOUGHT_SIGNATURE", "incomplete"),
    ("NO_IMAGE", "incomplete"),
    ("IMAGE_SAFETY", "incomplete"),
    ("PUP_LIMITED_DISABLED", "refusal"),
    ("OTHER", "incomplete"),
    ("A_REASON_OF_TOMORROW", "incomplete"),
    ("UNEXPECTED_TOOL_CALL", "malformed"),
]


@pytest.mark.parametrize("way", ASK)
@pytest.mark.parametrize(("reason", "stop_reason"), GEMINI)
def test_a_reason_for_an_empty_reply_of_gemini_is_told(reason, stop_reason, way):
    counts = {"promptTokenCount": 12, "totalTokenCount": 12}
    body = {"candidates": [{"finishReason": reason}], "usageMetadata": counts}
    reply = reply_to("gemini", way, body if way in WHOLE else [body])
    assert reply.stop_reason == stop_reason
    if stop_reason in ("incomplete", "refusal"):
        assert reason in reply.cause


EMPTY = {
    "openai-chat": lambda reason: {"choices": [{"message": {}, "finish_reason": reason}]},
    "openai-responses": lambda reason: {"output": [], "status": reason},
    "anthropic": lambda reason: {"content": [], "stop_reason": reason},
    "gemini": lambda reason: {"candidates": [{"finishReason": reason}]},
    "ollama": lambda reason: {"message": {}, "done": True, "done_reason": reason, "eval_count": 1},
}


@pytest.mark.parametrize("wire", WIRES)
def test_an_unknown_reason_for_an_empty_reply_is_never_a_clean_end(wire):
    body = EMPTY[wire]("a_reason_of_tomorrow") | COUNTS.get(wire, {})
    reply = reply_of(wire, body)
    assert reply.stop_reason == "incomplete"
    assert "a_reason_of_tomorrow" in reply.cause


@pytest.mark.parametrize("wire", COUNTS)
@pytest.mark.parametrize("reason", [None, ""])
def test_an_empty_reply_without_a_reason_is_empty(wire, reason):
    """So the model is asked again."""
    reply = reply_of(wire, EMPTY[wire](reason) | COUNTS[wire])
    assert reply.stop_reason == "end_turn"
    assert reply.words == ""


@pytest.mark.parametrize("name", [None, ""])
@pytest.mark.parametrize("wire", WIRES)
def test_a_call_without_a_name_makes_a_reply_malformed(wire, name):
    for reason in WHOLE_REASONS[wire]:
        body = with_call(wire, reason, {}) | COUNTS.get(wire, {})
        nameless = json.loads(json.dumps(body).replace('"pay"', json.dumps(name)))
        reply = reply_of(wire, nameless)
        assert reply.stop_reason == "malformed"
        assert not reply.is_usable
        assert "without its tool's name" in reply.mistake
