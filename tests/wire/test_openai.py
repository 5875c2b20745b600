"""OpenAI's two APIs: recorded exchanges and bodies, JSON in and JSON out."""

import pytest

from tests.support.wires import to_chat, to_responses, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, User, tool

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
def test_without_tools_there_is_no_word_of_them(api):
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
def test_encrypted_reasoning_is_asked_of_models_that_reason(model, reasons):
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
def test_natives_go_back_verbatim_to_their_own_api_alone(api):
    native = NATIVES[api]
    reply = Assistant("Hm.", provider="openai", native=native)
    assert sent_for(api, reply) == (native if isinstance(native, list) else [native])
    plain = [{"role": "assistant", "content": "Hm."}]
    assert sent_for(api, Assistant("Hm.", provider="anthropic", native=native)) == plain
    other = next(other for other in APIS if other != api)
    assert sent_for(other, reply) == plain


def test_reasoning_that_led_to_nothing_stays_behind():
    reasoning, message = NATIVES["openai-responses"]
    reply = Assistant(
        "Hm.", stop_reason="max_tokens", provider="openai", native=[message, reasoning]
    )
    assert sent_for("openai-responses", reply) == [message]
