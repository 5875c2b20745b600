"""What servers that speak Chat Completions send and OpenAI's own does not."""

from typing import Any, NamedTuple

import pytest

from tests.support.wires import folded, reply_of
from think_agent import Assistant, ToolCall
from think_agent.messages import Json
from think_agent.streaming import Delta

CHAT = "openai-chat"


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> Json:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


CALL = {"index": 0, "id": "c", "function": {"name": "pay", "arguments": "{}"}}
COUNTED = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


def streamed(*chunks: Json) -> Assistant:
    reply, _ = folded(CHAT, *chunks)
    return reply


def test_of_several_choices_the_first_is_the_reply():
    reply, deltas = folded(
        CHAT,
        chunk(0, content="One."),
        chunk(1, "tool_calls", content="Two.", tool_calls=[CALL]),
        chunk(0, "stop"),
    )
    assert reply.text == "One."
    assert reply.tool_calls == ()
    assert reply.stop_reason == "end_turn"
    assert deltas == [Delta("answer", "One.")]


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
TEXT = {"type": "text", "text": "Yes."}


def test_a_content_may_be_a_list_of_parts():
    """Mistral's reasoning models."""
    whole = reply_of(CHAT, {"choices": [{"message": {"content": [THOUGHT, TEXT]}}]})
    chunks = chunk(content=[THOUGHT]), chunk(content="Yes."), chunk(finish="stop")
    joined, deltas = folded(CHAT, *chunks)
    for reply in (whole, joined):
        assert reply.text == "Yes."
        assert reply.thinking == "Hm."
        assert reply.native["content"] == [THOUGHT, TEXT]
    assert deltas == [Delta("thinking", "Hm."), Delta("answer", "Yes.")]


@pytest.mark.parametrize("nothing", [None, "", "null", "{}"])
def test_a_call_may_have_no_arguments_however_that_is_written(nothing):
    call = {"id": "c", "function": {"name": "ping", "arguments": nothing}}
    reply = streamed(chunk(tool_calls=[call]), chunk(finish="tool_calls"))
    assert reply.tool_calls == (ToolCall("c", "ping", {}),)


def test_a_choice_that_a_filter_left_without_a_message_is_a_refusal():
    """Azure."""
    reply = reply_of(CHAT, {"choices": [{"index": 0, "finish_reason": "content_filter"}]})
    assert reply.text == ""
    assert reply.stop_reason == "refusal"


def test_reasoning_in_fragments_is_one_entry_of_each_type_and_index():
    """OpenRouter, Vercel: in fragments its signature is refused."""

    def detail(kind, index, **more):
        return {"type": f"reasoning.{kind}", "format": "f", "index": index, **more}

    reply = streamed(
        chunk(reasoning_details=[detail("text", 0, text="H", signature=None)]),
        chunk(reasoning_details=[detail("text", 0, text="m.")]),
        chunk(reasoning_details=[detail("text", 0, signature="abc"), detail("text", 1, text="S")]),
        chunk(reasoning_details=[detail("encrypted", 1, data="xyz", id="rs_1")]),
        chunk(content="Yes.", finish="stop"),
    )
    assert reply.native["reasoning_details"] == [
        detail("text", 0, text="Hm.", signature="abc"),
        detail("text", 1, text="S"),
        detail("encrypted", 1, data="xyz", id="rs_1"),
    ]
    assert reply.signed


def test_an_answer_that_the_server_has_parsed_is_text_again():
    """Cloudflare."""
    reply = reply_of(CHAT, {"choices": [{"message": {"content": {"due": True}}}]})
    assert reply.text == reply.native["content"] == '{"due": true}'


class Ending(NamedTuple):
    """The last chunks of a stream after a call, or a text. `stop_reason`: of the reply."""

    how: str
    chunks: list[Json]
    stop_reason: str


USAGE = {"usage": COUNTED["usage"]}
PAYS = chunk(tool_calls=[CALL])
PAYS_AGAIN = chunk(tool_calls=[{**CALL, "index": 1, "id": "d"}])
SAYS = chunk(content="Paid.")
STOPS = chunk(finish="tool_calls")
ENDINGS = [
    Ending("a reason", [PAYS, STOPS], "tool_use"),
    Ending("a reason, then the count", [PAYS, STOPS, COUNTED], "tool_use"),
    Ending("the count in the middle", [PAYS, COUNTED, STOPS], "tool_use"),
    Ending("the count first", [COUNTED, PAYS, STOPS], "tool_use"),
    Ending("the count before another call", [PAYS, COUNTED, PAYS_AGAIN, STOPS], "tool_use"),
    Ending("the count alone: Snowflake", [PAYS, COUNTED], "tool_use"),
    Ending(
        "the count in a chunk without text: OpenCode Go (opencode-copilot-chat #93)",
        [PAYS, {**chunk(), **USAGE}],
        "tool_use",
    ),
    Ending("the count in the last chunk of text", [SAYS, {**SAYS, **USAGE}], "end_turn"),
    Ending(
        "the count in the choice: Kimi",
        [SAYS, {"choices": [{"index": 0, "delta": {}, **USAGE}]}],
        "end_turn",
    ),
    Ending("a cut, and a stop after it", [SAYS, chunk(finish="length"), STOPS], "max_tokens"),
    Ending("no count", [PAYS], "incomplete"),
    Ending("no count of a text", [SAYS, SAYS], "incomplete"),
    Ending("text after the count", [SAYS, {**chunk(), **USAGE}, SAYS], "incomplete"),
    Ending("a call after the count", [PAYS, COUNTED, PAYS_AGAIN], "incomplete"),
    Ending("a count in its only chunk", [{**PAYS, **USAGE}], "incomplete"),
    Ending(
        "a count in every chunk: xAI and vLLM", [{**PAYS, **USAGE}, {**SAYS, **USAGE}], "incomplete"
    ),
    Ending("a count in every chunk, and alone", [{**PAYS, **USAGE}, COUNTED], "tool_use"),
]


@pytest.mark.parametrize("case", ENDINGS, ids=lambda case: case.how)
def test_a_stream_without_a_reason_is_whole_if_it_ends_with_the_count_of_its_tokens(case):
    assert streamed(*case.chunks).stop_reason == case.stop_reason


@pytest.mark.parametrize("arguments", [None, "", '{"amount": 1', '{"amount": 1}}'])
def test_a_call_that_was_cut_off_is_not_usable_without_a_reason_to_stop(arguments):
    """A stream may end with its usage alone. With a reason, it is the model that wrote no JSON."""
    call = {"id": "d", "function": {"name": "pay", "arguments": arguments}}
    half = streamed(chunk(tool_calls=[CALL, call]), COUNTED)
    assert half.stop_reason == "incomplete"
    assert not half.is_usable
    assert half.cause
    assert streamed(chunk(finish="tool_calls", tool_calls=[call]), COUNTED).is_usable


class Same(NamedTuple):
    """Pieces at one index: name, arguments and id. `makes`: name and arguments of the calls."""

    how: str
    pieces: list[tuple[str | None, str, str | None]]
    makes: list[tuple[str, Any]]


LOOK_7 = ("look", {"id": 7})
SAME_INDEX = [
    Same(
        "without ids",
        [("cancel", "", None), ("look", '{"id": 7}', None)],
        [("cancel", {}), LOOK_7],
    ),
    Same(
        "with ids of their own",
        [("cancel", "", "a"), ("look", '{"id": 7}', "b")],
        [("cancel", {}), LOOK_7],
    ),
    Same(
        "with one id for both",
        [("cancel", "{}", "a"), ("look", '{"id": 7}', "a")],
        [("cancel", {}), LOOK_7],
    ),
    Same(
        "in pieces",
        [("pay", '{"n":', "a"), (None, " 5}", None), ("look", '{"id":', "b"), (None, " 7}", None)],
        [("pay", {"n": 5}), LOOK_7],
    ),
    Same(
        "of which the first broke off",
        [("pay", '{"n":', "a"), ("look", '{"id": 7}', "b")],
        [("pay", '{"n":'), LOOK_7],
    ),
    Same(
        "a tool that was called before",
        [("look", '{"id": 7}', None), ("pay", "{}", None), ("look", '{"id": 7}', None)],
        [LOOK_7, ("pay", {}), LOOK_7],
    ),
    Same(
        "a thought, and what it is about",
        [("think", '{"thought": "Hm."}', "a"), ("pay", "{}", "b")],
        [("think", {"thought": "Hm."}), ("pay", {})],
    ),
]


@pytest.mark.parametrize("case", SAME_INDEX, ids=lambda case: case.how)
def test_another_name_at_the_same_index_is_another_call(case):
    """As servers stream that number every call 0."""
    chunks = []
    for name, arguments, id in case.pieces:
        function = {"name": name, "arguments": arguments}
        chunks.append(chunk(tool_calls=[{"index": 0, "id": id, "function": function}]))
    reply = streamed(*chunks, chunk(finish="tool_calls"))
    assert [(call.name, call.arguments) for call in reply.tool_calls] == case.makes
