"""Forms: what a real Ollama made of them, and the reader wherever a reply is cut."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ollama import recorded
from tests.support.wires import folded, reply_of
from think_agent import THINK, Assistant, Force, Request, ToolCall, User, tool
from think_agent.streaming import Delta
from think_agent.wire.forms import LOST, TEXT, FormReader, form_of, has_ignored, read_form


@tool
def order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: shipped"


THOUGHT = Request([User("Where is ORD-1?")], [THINK, order], tool_choice=Force("think"))
CLOSING = replace(THOUGHT, tool_choice="none")


def read(request: Request, reply: Assistant) -> Assistant:
    return read_form(reply, request, form_of(request))


def told(request: Request, deltas: list[Delta]) -> dict[str, str]:
    """What a watcher sees, by kind."""
    reader = FormReader(request, form_of(request))
    seen: dict[str, str] = {}
    for delta in deltas:
        for shown in reader.feed(delta):
            seen[shown.kind] = seen.get(shown.kind, "") + shown.text
    return seen


def whole(kind: str, case: str) -> Assistant:
    return reply_of("ollama", recorded("format")[kind][case]["body"])


def streamed(request: Request, kind: str, case: str) -> tuple[Assistant, dict[str, str]]:
    """The reply of a recorded stream as it was read, and what a watcher saw."""
    reply, deltas = folded("ollama", *recorded("format")[kind][f"{case}_streamed"]["lines"])
    return read(request, reply), told(request, deltas)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("whole", "tool_use"),
        ("call", "tool_use"),  # T1: the parser takes it for a call of the tool that it names
        ("cut", "max_tokens"),
        ("lost", "malformed"),  # T4: a tag of a call in a string; the server loses the rest
    ],
)
def test_a_recorded_thought_is_a_call_of_think(case, reason):
    reply = read(THOUGHT, whole("thought", case))
    assert [call.name for call in reply.tool_calls] == ["think"]
    assert set(reply.tool_calls[0].arguments) <= {"thought"}  # it may be cut before it begins
    assert reply.text == ""
    assert reply.stop_reason == reason
    assert reply.enforced == "schema"
    assert reply.mistake == (LOST if case == "lost" else "")
    assert reply.native == {"role": "assistant", "content": ""}

    shown, seen = streamed(THOUGHT, "thought", case)
    assert shown.stop_reason == reason
    assert seen.get("thought") == shown.tool_calls[0].arguments.get("thought")
    assert "answer" not in seen


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("whole", "end_turn"),
        ("twice", "end_turn"),  # T2: a brace in the first piece is written once more at the end
        ("cut", "max_tokens"),
        ("lost", "incomplete"),
    ],
)
def test_a_recorded_answer_is_the_text_in_its_string(case, reason):
    raw = whole("closing", case)
    reply = read(CLOSING, raw)
    assert raw.text.startswith('"')
    assert not reply.text.startswith('"')
    assert reply.text in raw.text
    assert reply.stop_reason == reason
    assert reply.enforced == "schema"
    assert reply.native == {"role": "assistant", "content": reply.text}

    shown, seen = streamed(CLOSING, "closing", case)
    assert shown.stop_reason == reason
    assert seen == {"answer": shown.text}


@pytest.mark.parametrize(
    ("case", "reason", "enforced"),
    [
        ("thought_on", "malformed", None),  # it ended inside its thinking
        ("thought_left_out", "malformed", None),  # which means on
        ("thought_off", "tool_use", "schema"),
        ("closing_on", "end_turn", "schema"),
        ("closing_left_out", "end_turn", "schema"),
        ("closing_off", "max_tokens", "schema"),
    ],
)
def test_a_recorded_reply_of_a_model_that_reasons(case, reason, enforced):
    raw = whole("thinking", case)
    reply = read(CLOSING if case.startswith("closing") else THOUGHT, raw)
    assert reply.stop_reason == reason
    assert reply.enforced == enforced
    assert len(reply.tool_calls) == (case == "thought_off")
    assert reply.thinking == raw.thinking
    assert not reply.text.startswith('"')


@pytest.mark.parametrize(
    "text",
    [
        "I look it up.",
        '"Yes" is what I would say.',
        '{"thought": "a"} is how I would think.',
        '{"order_id": "7"}',
        "[1, 2]",
        "7",
        "",
    ],
)
def test_a_reply_that_has_not_the_form_stays_as_it_is(text):
    """T3: some servers ignore it."""
    for request in (THOUGHT, CLOSING):
        plain = Assistant(text, native={"content": text})
        assert read(request, plain) == replace(plain, enforced="ignored")
        cut = replace(plain, stop_reason="max_tokens")
        assert read(request, cut) == cut  # nobody can tell


def test_a_call_of_an_action_is_no_thought():
    call = ToolCall("a", "order", {"order_id": "7"})
    reply = Assistant(tool_calls=(call,), stop_reason="tool_use", native={})
    assert read(THOUGHT, reply) == replace(reply, enforced="ignored")
    one = replace(call, arguments={"thought": "Look."})
    two = replace(reply, tool_calls=(one, one))
    assert read(THOUGHT, two) == replace(two, enforced="ignored")


def test_the_text_of_a_typed_answer_is_its_json():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    typed = replace(CLOSING, output_schema=schema)
    for said in ('{"city": "Oslo"}', '{"city": "Oslo"}{'):
        reply = read(typed, Assistant(said, native={}))
        assert reply.text == '{"city": "Oslo"}'
        assert reply.enforced == "schema"
    taken = Assistant(tool_calls=(ToolCall("", "order", {"city": "Oslo"}),), native={})
    reply = read(typed, taken)
    assert json.loads(reply.text) == {"city": "Oslo"}
    assert reply.tool_calls == ()


TEXTS = st.text(max_size=60)
SIZES = st.integers(1, 9)


def pieces(text: str, size: int) -> list[Delta]:
    return [Delta("answer", text[at : at + size]) for at in range(0, len(text), size)]


@given(text=TEXTS.filter(str.strip), size=SIZES, ascii=st.booleans())
def test_a_form_reads_the_same_wherever_it_is_cut(text, size, ascii):
    raw = json.dumps(text, ensure_ascii=ascii)
    assert read(CLOSING, Assistant(raw, native={})).text == text
    assert told(CLOSING, pieces(f" {raw}", size)).get("answer", "") == text
    raw = json.dumps({"thought": text}, ensure_ascii=ascii)
    [call] = read(THOUGHT, Assistant(raw, native={})).tool_calls
    assert call.arguments == {"thought": text}
    assert told(THOUGHT, pieces(raw, size)) == {"thought": text}


@given(text=TEXTS, end=st.integers(1, 60))
def test_a_string_is_read_as_far_as_it_goes(text, end):
    raw = json.dumps(text)[:-1][:end]
    reply = read(CLOSING, Assistant(raw, stop_reason="max_tokens", native={}))
    assert reply.enforced == "schema"
    assert text.startswith(reply.text)
    assert len(json.dumps(reply.text)) > len(raw) - 12  # a pair of escapes may be missing


@given(text=TEXTS.filter(lambda text: text.strip()[:1] not in ("", '"')), size=SIZES)
def test_a_text_that_is_no_form_streams_as_it_is(text, size):
    assert told(CLOSING, pieces(text, size))["answer"].strip() == text.strip()


def test_a_form_is_only_tried_where_this_host_has_ignored_a_choice():
    ignored = Assistant("Hm.", enforced="ignored", host="here")
    assert has_ignored([User("Hi"), ignored], "here")
    assert not has_ignored([User("Hi"), ignored], "there")
    assert not has_ignored([replace(ignored, enforced="prompt")], "here")


def test_other_choices_have_no_form():
    for choice in ("auto", "required", Force("order")):
        assert form_of(replace(THOUGHT, tool_choice=choice)) is None
    assert form_of(replace(CLOSING, tools=[])) is None
    assert form_of(CLOSING) == TEXT
