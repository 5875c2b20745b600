"""OpenAI's two APIs: recorded exchanges and bodies, JSON in and JSON out."""

import json

import pytest

from tests.servers.openai_chat import Chat
from tests.servers.openai_responses import Responses
from tests.support.recordings import cases, load, needs_wire
from think_agent import (
    Assistant,
    AuthError,
    BadRequest,
    Force,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    ToolCall,
    ToolResult,
    User,
    tool,
)
from think_agent.think import THINK
from think_agent.wire import openai_chat, openai_responses

SERVERS = {"chat": Chat, "responses": Responses}


DIALECTS = {"chat": openai_chat, "responses": openai_responses}


both = pytest.mark.parametrize("api", SERVERS)


@tool
def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order}: lost"


HELLO = Request([User("hello")])


ERRORS = {
    ("chat", "err-400-role-unsupported"): (BadRequest, "does not support 'developer'"),
    ("chat", "err-400-tool-schema-no-properties"): (BadRequest, "(tools[0].function.parameters)"),
    ("chat", "err-400-unsupported-parameter"): (BadRequest, "'stop' is not supported"),
    ("chat", "err-401-key"): (AuthError, "OPENAI_API_KEY"),
    ("chat", "err-404-model"): (ModelNotFound, "this-model-does-not-exist-12345"),
    ("chat", "err-404-not-a-chat-model"): (ModelNotFound, "not a chat model"),
    ("chat", "err-429-insufficient-quota"): (RateLimited, "check plan and billing"),
    ("chat", "err-429-request-too-large"): (RateLimited, "send less"),
    ("chat", "err-503-plain-text"): (Overloaded, "upstream connect error"),
    ("responses", "err-400-model-not-found"): (ModelNotFound, "gpt-5.2-proo"),
    ("responses", "err-400-reasoning-effort"): (BadRequest, "(reasoning.effort)"),
    ("responses", "err-401-key"): (AuthError, "OPENAI_API_KEY"),
    ("responses", "err-401-key-stream"): (AuthError, "OPENAI_API_KEY"),
    ("responses", "err-429-insufficient-quota"): (RateLimited, "check plan and billing"),
    ("responses", "err-500-server-error"): (Overloaded, "error occurred while processing"),
}


SKIPPED: dict[tuple[str, str], str] = {}


RECORDED = [(api, case) for api in SERVERS for case in cases(f"openai-{api}")]


DECODED = [key for key in RECORDED if key not in ERRORS and key not in SKIPPED]


@needs_wire
def test_every_recording_is_used():
    assert set(RECORDED) == {*ERRORS, *DECODED, *SKIPPED}
    for api, case in RECORDED:
        status = load(f"openai-{api}", case)["response"]["status"]
        assert (status >= 400) == ((api, case) in ERRORS)


def canonical(text):
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def history(api, case):
    """The messages of a recorded request as the local server understands them."""
    body = load(f"openai-{api}", case)["request"]["body"]
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            message["content"] = "".join(part["text"] for part in message["content"])
    return body["messages"]


@needs_wire
@pytest.mark.parametrize(
    "case",
    [
        "choice-required-history",
        "tool-followup-text",
        "tool-followup-text-tools",
        "tool-parallel-followup",
    ],
)
def test_recorded_chat_histories_are_written_the_same(case):
    recorded = history("chat", case)
    system, messages = Chat().messages(recorded)
    body = openai_chat.to_wire(Request(messages, system=system), "m")

    def plain(message):
        kept = {k: v for k, v in message.items() if v is not None and k != "annotations"}
        for call in kept.get("tool_calls", ()):
            call["function"]["arguments"] = canonical(call["function"]["arguments"])
        return kept

    assert [plain(message) for message in body["messages"]] == [plain(m) for m in recorded]


CALLS = (ToolCall("c1", "look_up", {"order": "1"}), ToolCall("c2", "look_up", {"order": "2"}))


DIALOG = [
    User("both?"),
    Assistant("A moment.", tool_calls=CALLS),
    ToolResult("c1", "look_up", "lost"),
    ToolResult("c2", "look_up", "error: none", is_error=True),
]


@both
@pytest.mark.parametrize(
    ("choice", "in_chat", "in_responses"),
    [
        ("auto", None, None),
        ("required", "required", "required"),
        ("none", "none", "none"),
        (
            Force("think"),
            {"type": "function", "function": {"name": "think"}},
            {"type": "function", "name": "think"},
        ),
    ],
)
def test_tool_choices(api, choice, in_chat, in_responses):
    body = DIALECTS[api].to_wire(Request([User("hi")], [THINK], tool_choice=choice), "m")
    assert body.get("tool_choice") == (in_chat if api == "chat" else in_responses)


@both
def test_without_tools_there_is_no_word_of_them(api):
    body = DIALECTS[api].to_wire(Request([User("hi")], tool_choice="none"), "m")
    assert not {"tools", "tool_choice", "temperature", "response_format", "text"} & body.keys()


@both
def test_the_final_call_keeps_its_tools(api):
    """The tools are part of the cached prefix; only the choice changes."""
    to_wire = DIALECTS[api].to_wire
    first = to_wire(Request([User("hi")], [THINK, look_up]), "m")
    final = to_wire(Request([User("hi")], [THINK, look_up], tool_choice="none"), "m")
    assert final == {**first, "tool_choice": "none"}


def test_a_conversation_in_chat():
    body = openai_chat.to_wire(Request(DIALOG, [look_up], system="Be brief."), "m")
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
                    "function": {"name": "look_up", "arguments": '{"order": "1"}'},
                },
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": '{"order": "2"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "lost"},
        {"role": "tool", "tool_call_id": "c2", "content": "error: none"},
    ]
    (sent,) = body["tools"]
    assert sent["function"]["parameters"] == look_up.parameters


def test_a_conversation_in_responses():
    body = openai_responses.to_wire(Request(DIALOG, [look_up], system="Be brief."), "gpt-6")
    assert body["instructions"] == "Be brief."
    assert body["input"] == [
        {"role": "user", "content": "both?"},
        {"role": "assistant", "content": "A moment."},
        {
            "type": "function_call",
            "name": "look_up",
            "call_id": "c1",
            "arguments": '{"order": "1"}',
        },
        {
            "type": "function_call",
            "name": "look_up",
            "call_id": "c2",
            "arguments": '{"order": "2"}',
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
    body = openai_responses.to_wire(HELLO, model)
    assert ("include" in body) == reasons


NATIVES = {
    "chat": {"role": "assistant", "content": "Hm.", "reasoning_content": "deep"},
    "responses": [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"id": "m1", "type": "message", "role": "assistant", "content": [{"type": "output_text"}]},
    ],
}


def sent_for(api, reply):
    body = DIALECTS[api].to_wire(Request([User("hi"), reply, User("and?")]), "m")
    return body["messages" if api == "chat" else "input"][1:-1]


@both
def test_natives_go_back_verbatim_to_their_own_api_alone(api):
    native = NATIVES[api]
    reply = Assistant("Hm.", provider="openai", native=native)
    assert sent_for(api, reply) == (native if isinstance(native, list) else [native])
    plain = [{"role": "assistant", "content": "Hm."}]
    assert sent_for(api, Assistant("Hm.", provider="anthropic", native=native)) == plain
    other = next(other for other in SERVERS if other != api)
    assert sent_for(other, reply) == plain


def test_reasoning_that_led_to_nothing_stays_behind():
    reasoning, message = NATIVES["responses"]
    reply = Assistant(
        "Hm.", stop_reason="max_tokens", provider="openai", native=[message, reasoning]
    )
    assert sent_for("responses", reply) == [message]
