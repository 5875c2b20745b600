"""What servers that speak Chat Completions send and OpenAI's own does not."""

from typing import Any

import pytest

from think_agent import ToolCall
from think_agent.messages import Json
from think_agent.streaming import Delta
from think_agent.wire.openai_chat import Fold, from_wire


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> Json:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def folded(*chunks: Json) -> tuple[Any, list[Delta]]:
    fold = Fold()
    deltas: list[Delta] = []
    for chunk in chunks:
        deltas += fold.feed(chunk)
    return from_wire(fold.result()), deltas


def test_of_several_choices_the_first_is_the_reply():
    function = {"name": "pay", "arguments": "{}"}
    call = {"index": 0, "id": "c", "function": function}
    reply, deltas = folded(
        chunk(0, content="One."),
        chunk(1, content="Two.", tool_calls=[call]),
        chunk(1, "tool_calls"),
        chunk(0, "stop"),
    )
    assert (reply.text, reply.tool_calls, reply.stop_reason) == ("One.", (), "end_turn")
    assert deltas == [Delta("answer", "One.")]


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
TEXT = {"type": "text", "text": "Yes."}


def test_a_content_may_be_a_list_of_parts():
    """Mistral's reasoning models."""
    whole = from_wire({"choices": [{"message": {"content": [THOUGHT, TEXT]}}]})
    streamed, deltas = folded(chunk(content=[THOUGHT]), chunk(content="Yes."), chunk(finish="stop"))
    for reply in (whole, streamed):
        assert (reply.text, reply.thinking) == ("Yes.", "Hm.")
        assert reply.native["content"] == [THOUGHT, TEXT]
    assert deltas == [Delta("thinking", "Hm."), Delta("answer", "Yes.")]


@pytest.mark.parametrize("nothing", [None, "", "null", "{}"])
def test_a_call_may_have_no_arguments_however_that_is_written(nothing):
    call = {"id": "c", "type": "function", "function": {"name": "ping", "arguments": nothing}}
    reply = from_wire({"choices": [{"message": {"tool_calls": [call]}}]})
    assert reply.tool_calls == (ToolCall("c", "ping", {}),)
    streamed, _ = folded(chunk(tool_calls=[{"index": 0, **call}]), chunk(finish="tool_calls"))
    assert streamed.tool_calls == reply.tool_calls


def test_a_usage_beside_a_text_does_not_end_the_stream():
    """xAI and vLLM."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    reply, _ = folded({**chunk(content="Yes."), "usage": usage})
    assert (reply.text, reply.stop_reason) == ("Yes.", "incomplete")


def test_a_choice_that_a_filter_left_without_a_message_is_a_refusal():
    """Azure."""
    reply = from_wire({"choices": [{"index": 0, "finish_reason": "content_filter"}]})
    assert (reply.text, reply.stop_reason) == ("", "refusal")


def test_a_stream_may_end_with_its_usage_alone():
    """Snowflake."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    reply, _ = folded(chunk(content="Yes."), {"choices": [], "usage": usage})
    assert (reply.text, reply.usage.input_tokens) == ("Yes.", 3)
    assert reply.stop_reason == "end_turn"


def test_reasoning_in_fragments_is_one_entry_of_each_type_and_index():
    """OpenRouter, Vercel: in fragments its signature is refused."""

    def detail(kind, index=0, **more):
        return {"type": f"reasoning.{kind}", "format": "f", "index": index, **more}

    reply, _ = folded(
        chunk(reasoning_details=[detail("text", text="H", signature=None)]),
        chunk(reasoning_details=[detail("text", text="m.")]),
        chunk(reasoning_details=[detail("text", signature="abc"), detail("summary", summary="S")]),
        chunk(reasoning_details=[detail("text", 1, text="So.")]),
        chunk(reasoning_details=[detail("encrypted", 1, data="xyz", id="rs_1")]),
        chunk(content="Yes.", finish="stop"),
    )
    assert reply.native["reasoning_details"] == [
        detail("text", text="Hm.", signature="abc"),
        detail("summary", summary="S"),
        detail("text", 1, text="So."),
        detail("encrypted", 1, data="xyz", id="rs_1"),
    ]
    assert reply.signed


def test_an_answer_that_the_server_has_parsed_is_text_again():
    """Cloudflare."""
    reply = from_wire({"choices": [{"message": {"content": {"due": True}}}]})
    assert reply.text == reply.native["content"] == '{"due": true}'
