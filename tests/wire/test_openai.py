"""OpenAI's two APIs, JSON in and JSON out."""

from dataclasses import replace

import pytest

from tests.support.pieces import told
from tests.support.wires import to_chat, to_responses, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, Usage, User, tool
from think_agent.wire import openai_responses

APIS = ("openai-chat", "openai-responses")
both = pytest.mark.parametrize("api", APIS)


@tool
def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order}: lost"


HELLO = Request([User("hello")])


CALLS = (ToolCall("c1", "look_up", {"order": "1"}), ToolCall("c2", "look_up", {"order": "2"}))


DIALOG = [
    User("both?"),
    Assistant("A moment.", tool_calls=CALLS),
    ToolResult("c1", "look_up", "lost"),
    ToolResult("c2", "look_up", "error: none", is_error=True),
]


@both
def test_a_request_without_tools_mentions_none(api):
    body = to_wire(api, Request([User("hi")], tool_choice="none"))
    assert not {"tools", "tool_choice", "temperature", "response_format", "text"} & body.keys()


def test_an_output_schema_is_a_strict_one():
    request = Request([User("hi")], output_schema={"type": "object"})
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    in_chat = {"type": "json_schema", "json_schema": schema}
    assert to_chat(request)["response_format"] == in_chat
    assert to_responses(request)["text"] == {"format": {"type": "json_schema", **schema}}


def test_a_conversation_in_chat():
    body = to_chat(Request(DIALOG, [look_up], system="Be brief."))
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "both?"},
        {
            "role": "assistant",
            "content": "A moment.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": '{"order":"1"}'},
                },
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": '{"order":"2"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "lost"},
        {"role": "tool", "tool_call_id": "c2", "content": "error: none"},
    ]
    (sent,) = body["tools"]
    assert sent["function"]["parameters"] == look_up.parameters


def test_a_conversation_in_responses():
    body = to_responses(Request(DIALOG, [look_up], system="Be brief."))
    assert body["instructions"] == "Be brief."
    assert body["input"] == [
        {"role": "user", "content": "both?"},
        {"role": "assistant", "content": "A moment."},
        {
            "type": "function_call",
            "name": "look_up",
            "call_id": "c1",
            "arguments": '{"order":"1"}',
        },
        {
            "type": "function_call",
            "name": "look_up",
            "call_id": "c2",
            "arguments": '{"order":"2"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "lost"},
        {"type": "function_call_output", "call_id": "c2", "output": "error: none"},
    ]
    assert body["store"] is False
    assert body["tools"][0]["strict"] is False


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("gpt-6-astra", True),
        ("gpt-5-mini", True),
        ("o4-mini", True),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("ft:gpt-4o-mini:me", False),
    ],
)
def test_only_models_that_reason_are_asked_for_encrypted_reasoning(model, reasons):
    body = to_responses(HELLO, model=model)
    assert ("include" in body) == reasons


NATIVES = {
    "openai-chat": {"role": "assistant", "content": "Hm.", "reasoning_content": "deep"},
    "openai-responses": [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"id": "m1", "type": "message", "role": "assistant", "content": [{"type": "output_text"}]},
    ],
}


def sent_for(api, reply):
    body = to_wire(api, Request([User("hi"), reply, User("and?")]))
    return body["messages" if api == "openai-chat" else "input"][1:-1]


@both
def test_a_native_reply_goes_back_verbatim_and_only_to_its_own_api(api):
    native = NATIVES[api]
    reply = Assistant("Hm.", provider="openai", native=native)
    assert sent_for(api, reply) == (native if isinstance(native, list) else [native])
    plain = [{"role": "assistant", "content": "Hm."}]
    assert sent_for(api, Assistant("Hm.", provider="anthropic", native=native)) == plain
    other = next(other for other in APIS if other != api)
    assert sent_for(other, reply) == plain


def test_reasoning_that_led_to_nothing_is_not_sent():
    reasoning, message = NATIVES["openai-responses"]
    reply = Assistant(
        "Hm.", stop_reason="max_tokens", provider="openai", native=[message, reasoning]
    )
    assert sent_for("openai-responses", reply) == [message]


def event(kind, index, **fields):
    return {"type": f"response.output_{kind}", "output_index": index, **fields}


def message(phase, text):
    part = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "phase": phase, "content": [part]}


def test_commentary_is_kept_apart_from_the_answer():
    items = [
        message("commentary", "Looking."),
        message("commentary", "Found it."),
        message("final_answer", "It is lost."),
    ]
    response = {"output": items, "status": "completed"}
    fold = openai_responses.Fold()
    deltas = []
    for index, item in enumerate(items):
        deltas += fold.feed(event("item.added", index, item=item))
        for letter in item["content"][0]["text"]:
            deltas += fold.feed(event("text.delta", index, delta=letter))
        fold.feed(event("item.done", index, item=item))
    fold.feed({"type": "response.completed", "response": response})

    reply = openai_responses.from_wire(fold.result())
    assert reply == openai_responses.from_wire(response)
    assert reply.commentary == told(deltas, "commentary") == "Looking.\n\nFound it."
    assert reply.text == told(deltas, "answer") == "It is lost."
    assert sent_for("openai-responses", replace(reply, provider="openai")) == items


def test_the_pieces_of_two_messages_may_come_by_turns():
    comment = message("commentary", "Looking.")
    fold = openai_responses.Fold()
    fold.feed(event("item.added", 0, item=comment))
    fold.feed(event("item.added", 1, item=message("final_answer", "")))
    deltas = []
    for index, text in ((1, "It is "), (0, "Looking."), (1, "lost.")):
        deltas += fold.feed(event("text.delta", index, delta=text))
    assert [delta.kind for delta in deltas] == ["answer", "commentary", "answer"]

    fold.feed(event("item.done", 0, item=comment))
    reply = openai_responses.from_wire(fold.result())
    assert (reply.commentary, reply.text) == ("Looking.", "It is lost.")
    assert reply.stop_reason == "incomplete"


MESSAGE = NATIVES["openai-responses"][1]
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}


def test_a_reply_may_be_whole_although_a_tool_of_the_server_is_not_done():
    reply = openai_responses.from_wire({"output": [SEARCH, MESSAGE], "status": "completed"})
    assert (reply.stop_reason, reply.tool_calls) == ("end_turn", ())


@pytest.mark.parametrize("end_turn", [True, False, None])
def test_a_response_that_says_it_is_not_done(end_turn):
    response = {"output": [MESSAGE], "end_turn": end_turn}
    fold = openai_responses.Fold()
    fold.feed({"type": "response.completed", "response": response})
    for whole in (response, fold.result()):
        assert openai_responses.from_wire(whole).not_done == (end_turn is False)


def test_tokens_written_to_the_cache_are_counted():
    details = {"cached_tokens": 3, "cache_write_tokens": 4}
    usage = {"input_tokens": 10, "output_tokens": 1, "input_tokens_details": details}
    reply = openai_responses.from_wire({"output": [MESSAGE], "usage": usage})
    assert reply.usage == Usage(10, 1, cached_tokens=3, written_tokens=4)
