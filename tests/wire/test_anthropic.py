"""Anthropic's Messages API, JSON in and JSON out."""

from dataclasses import replace
from typing import Any

from tests.support.wires import folded, reply_of, to_anthropic
from think_agent import Assistant, Request, Tool, ToolCall, ToolResult, Usage, User
from think_agent.messages import Json
from think_agent.streaming import Delta

MODEL = "claude-haiku-5-5"


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


WEATHER = Tool(name="weather", description="The weather of a city.", parameters=SCHEMA)


ASK = Request([User("Weather in Oslo?")], [WEATHER], system="Be brief.")


HELLO = Request([User("Hello")])


MARKED = {"cache_control": {"type": "ephemeral"}}


def test_only_fields_with_a_value_are_sent():
    assert to_anthropic(HELLO) == {
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        **MARKED,
    }
    assert "cache_control" not in to_anthropic(HELLO, cache=False)
    full = to_anthropic(replace(ASK, output_schema=SCHEMA), thinking={"type": "adaptive"})
    assert full["system"] == [{"type": "text", "text": "Be brief.", **MARKED}]
    assert to_anthropic(ASK, cache=False)["system"] == [{"type": "text", "text": "Be brief."}]
    assert full["thinking"] == {"type": "adaptive"}
    assert full["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}


def test_a_mark_stands_where_the_last_request_with_the_same_tool_choice_ended():
    """The API finds there what that request wrote into the cache, however long ago it was."""
    talk = [
        User("Go"),
        Assistant(tool_calls=(ToolCall("a", "weather", {}),), tool_choice="required"),
        ToolResult("a", "weather", "rain"),
        Assistant("It rains.", tool_choice="none"),
        User("And now?"),
    ]

    def marked(choice: Any) -> list[Any]:
        wire = to_anthropic(Request(talk, [WEATHER], tool_choice=choice))["messages"]
        found = []
        for message in wire:
            for block in message["content"]:
                if "cache_control" in block:
                    found.append(block.get("text", block.get("content")))
        return found

    assert [marked(choice) for choice in ("required", "none", "auto")] == [["Go"], ["rain"], []]


def test_results_and_the_text_after_them_are_one_user_message():
    calls = (ToolCall("a", "weather", {}), ToolCall("b", "weather", {}))
    results = [ToolResult("a", "weather", "rain"), ToolResult("b", "weather", "", is_error=True)]
    messages = [User("Go"), Assistant(tool_calls=calls), *results, User("So?")]
    wire = to_anthropic(Request(messages))["messages"]
    assert [message["role"] for message in wire] == ["user", "assistant", "user"]
    first, second, text = wire[2]["content"]
    assert first == {"type": "tool_result", "tool_use_id": "a", "content": "rain"}
    assert second["tool_use_id"] == "b"
    assert second["is_error"] is True
    assert second["content"].strip()  # the API refuses an error without content
    assert text == {"type": "text", "text": "So?"}


def test_a_blank_text_is_left_out_behind_the_last_signature():
    """The API writes it and refuses to read it."""
    blocks = [
        {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "text", "text": "\n\n"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
    ]
    reply = reply_of("anthropic", {"content": blocks, "stop_reason": "tool_use"})
    assert reply.native["content"] == [blocks[0], blocks[2]]


def test_a_fold_does_not_change_the_events():
    """Of several ends, as the API may send them, the last one counts. A null has not changed."""
    events: list[Json] = [
        {"type": "message_start", "message": {"stop_reason": None, "usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 7}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "max_tokens"},
            "usage": {"input_tokens": None, "output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    for _ in range(2):
        reply, _ = folded("anthropic", *events)
        assert reply.text == "Hi"
        assert reply.stop_reason == "max_tokens"
        assert reply.usage == Usage(input_tokens=5, output_tokens=9)
        assert reply.native["content"] == [{"type": "text", "text": "Hi"}]


def of_blocks(*blocks: tuple[Json, list[Json]]) -> tuple[Assistant, list[Delta]]:
    """The reply, and its Deltas, of a stream of blocks: how each starts, and its deltas."""
    events: list[Json] = []
    for index, (start, pieces) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        for piece in pieces:
            events.append({"type": "content_block_delta", "index": index, "delta": piece})
    return folded("anthropic", *events)


def test_a_streamed_block_has_only_its_own_keys():
    cited = {"type": "char_location", "cited_text": "rain"}
    thinking = [
        {"type": "thinking_delta", "thinking": "H", "estimated_tokens": 1},
        {"type": "thinking_delta", "thinking": "m.", "estimated_tokens": 2},
        {"type": "signature_delta", "signature": "abc"},
    ]
    text = [
        {"type": "text_delta", "text": "It rains."},
        {"type": "citations_delta", "citation": cited},
        {"type": "a_delta_of_tomorrow", "words": "?"},
    ]
    reply, _ = of_blocks(
        ({"type": "thinking", "thinking": ""}, thinking),
        ({"type": "text", "text": "", "citations": None}, text),
    )
    assert reply.native["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
        {"type": "text", "text": "It rains.", "citations": None},
    ]


def test_a_tool_of_the_server_is_no_call_and_does_not_count():
    asked = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"city":', ' "O"}')]
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    reply, deltas = of_blocks((search, asked), (use, asked))
    assert [call.id for call in reply.tool_calls] == ["toolu_1"]
    assert {(delta.name, delta.index) for delta in deltas} == {("weather", 0)}
    assert [block["input"] for block in reply.native["content"]] == [{"city": "O"}] * 2


def test_read_and_written_tokens_are_input_tokens():
    counts = {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300}
    usage = reply_of("anthropic", {"content": [], "usage": counts}).usage
    assert usage == Usage(input_tokens=321, cached_tokens=20, written_tokens=300)
