"""Anthropic's Messages API, JSON in and JSON out."""

from dataclasses import replace
from typing import Any

from tests.support.wires import reply_of, to_anthropic
from think_agent import Assistant, Request, Tool, ToolCall, ToolResult, Usage, User
from think_agent.streaming import Delta
from think_agent.wire.anthropic import Fold, from_wire

MODEL = "claude-haiku-5-5"


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


WEATHER = Tool(name="weather", description="The weather of a city.", parameters=SCHEMA)


THINK = Tool(name="think", description="Take notes.", parameters={"type": "object"})


ASK = Request([User("Weather in Oslo?")], [THINK, WEATHER], system="Be brief.")


HELLO = Request([User("Hello")])


MARKED = {"cache_control": {"type": "ephemeral"}}


def test_only_fields_with_a_value_are_sent() -> None:
    assert to_anthropic(HELLO) == {
        "model": MODEL,
        "max_tokens": 100,
        "cache_control": {"type": "ephemeral"},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }
    assert "cache_control" not in to_anthropic(HELLO, cache=False)
    full = to_anthropic(replace(ASK, output_schema=SCHEMA), thinking={"type": "adaptive"})
    assert full["system"] == [{"type": "text", "text": "Be brief.", **MARKED}]
    assert to_anthropic(ASK, cache=False)["system"] == [{"type": "text", "text": "Be brief."}]
    assert full["thinking"] == {"type": "adaptive"}
    assert full["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}


def test_a_mark_stands_where_the_last_request_with_the_same_tool_choice_ended() -> None:
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


def test_results_and_the_text_after_them_are_one_user_message() -> None:
    calls = (ToolCall("a", "weather", {"city": "Oslo"}), ToolCall("b", "weather", {}))
    results = [ToolResult("a", "weather", "rain"), ToolResult("b", "weather", "", is_error=True)]
    messages = [User("Go"), Assistant(tool_calls=calls), *results, User("So?", kind="limit")]
    wire = to_anthropic(Request(messages))["messages"]
    assert [message["role"] for message in wire] == ["user", "assistant", "user"]
    assert [block["type"] for block in wire[1]["content"]] == ["tool_use", "tool_use"]
    first, second, text = wire[2]["content"]
    assert first == {"type": "tool_result", "tool_use_id": "a", "content": "rain"}
    assert (second["tool_use_id"], second["is_error"]) == ("b", True)
    assert second["content"].strip()  # the API refuses an error without content
    assert text == {"type": "text", "text": "So?"}


def test_native_blocks_go_back_only_to_anthropic() -> None:
    blocks = [
        {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "text", "text": "\n\n"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
    ]
    result = ToolResult("toolu_1", "weather", "rain")
    reply = reply_of("anthropic", {"content": blocks, "stop_reason": "tool_use"})

    def sent(reply: Assistant) -> Any:
        return to_anthropic(Request([User("Go"), reply, result]))["messages"][1]["content"]

    # Blank text is left out: the API writes it and refuses to read it.
    assert sent(reply) == [blocks[0], blocks[2]]
    assert sent(replace(reply, provider="openai")) == [blocks[2]]


def test_a_fold_does_not_change_the_events() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": None, "output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    for _ in range(2):
        fold = Fold()
        for item in events:
            fold.feed(item)
        reply = from_wire(fold.result())
        assert (reply.text, reply.usage) == ("Hi", Usage(input_tokens=5, output_tokens=2))
        assert reply.native["content"] == [{"type": "text", "text": "Hi"}]


def test_of_several_message_deltas_the_last_one_counts() -> None:
    """The API may send more than one."""
    fold = Fold()
    fold.feed({"type": "message_start", "message": {"stop_reason": None, "usage": {}}})
    for tokens in (7, 9):
        end = {"delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": tokens}}
        fold.feed({"type": "message_delta", **end})
    fold.feed({"type": "message_stop"})
    reply = from_wire(fold.result())
    assert (reply.stop_reason, reply.usage.output_tokens) == ("max_tokens", 9)


def folded(*blocks: tuple[dict[str, Any], list[dict[str, Any]]]) -> tuple[Assistant, list[Delta]]:
    """The reply, and its Deltas, of a stream of blocks: how each starts, and its deltas."""
    fold = Fold()
    deltas = []
    for index, (start, pieces) in enumerate(blocks):
        where = {"index": index}
        deltas += fold.feed({"type": "content_block_start", "content_block": start, **where})
        for piece in pieces:
            deltas += fold.feed({"type": "content_block_delta", "delta": piece, **where})
    fold.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    fold.feed({"type": "message_stop"})
    return from_wire(fold.result()), deltas


def test_a_streamed_block_has_only_its_own_keys() -> None:
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
    reply, _ = folded(
        ({"type": "thinking", "thinking": ""}, thinking),
        ({"type": "text", "text": "", "citations": None}, text),
    )
    assert reply.native["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
        {"type": "text", "text": "It rains.", "citations": None},
    ]


def test_a_tool_of_the_server_is_no_call_and_does_not_count() -> None:
    asked = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"city":', ' "O"}')]
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    reply, deltas = folded((search, asked), (use, asked))
    assert [call.id for call in reply.tool_calls] == ["toolu_1"]
    assert {(delta.name, delta.index) for delta in deltas} == {("weather", 0)}
    assert [block["input"] for block in reply.native["content"]] == [{"city": "O"}] * 2


def test_read_and_written_tokens_are_input_tokens() -> None:
    counts = {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300}
    usage = from_wire({"content": [], "usage": counts}).usage
    assert usage == Usage(input_tokens=321, cached_tokens=20, written_tokens=300)
