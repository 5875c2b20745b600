"""Redaction: no value of a hidden field is in any output, whatever message it was in."""

import json
import re
from dataclasses import MISSING, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.audit.forms import to_text
from tests.audit.test_marks import marked
from tests.support.counting import grows_evenly
from tests.support.turns import transcripts
from think_agent.audit import explain, report, to_html, to_json_report
from think_agent.audit.reading import Unreadable
from think_agent.audit.redaction import REDACTED
from think_agent.messages import (
    MESSAGES,
    Assistant,
    Checked,
    Ended,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)

SECRET = 'Zq7-ORD é"x'


def outputs(entries, names, header=None):
    """All outputs of a run, as one text each."""
    steps = explain(None, [entry for entry in entries if not isinstance(entry, Unreadable)])
    made = report(entries, redact=names, header=header, explained=steps)
    data = to_json_report(made)
    return [to_text(made), to_html(made), str(data), json.dumps(data)]


def assert_gone(secret, shown):
    escaped = json.dumps(secret)[1:-1]
    for spelling in {secret, escaped, json.dumps(escaped)[1:-1], secret.replace('"', "&#34;")}:
        for text in shown:
            assert spelling.lower() not in re.sub(r"sha256-\S+", "", text).lower()


def every_field(secret):
    """A message of each type with the secret in each of its fields that can hold it."""
    call = ToolCall("c" + secret, "pay", {"pin": secret})
    found = [User("go"), Assistant(tool_calls=(call,))]
    values = {"tool_calls": (call,), "native": {"a": [secret]}, "arguments": {"x": secret}}
    for kind in MESSAGES:
        needed = {each.name: "c" for each in fields(kind) if each.default is MISSING}
        for each in fields(kind):
            if each.type not in (bool, Usage):
                value = values.get(each.name, secret)
                found.append(kind(**{**needed, each.name: value}))
    return [*found, Unreadable(3, f"pin={secret}", f"no {secret}")]


def everywhere(text):
    """Messages with the text in every field, also where another is expected, and in each state of
    a call.
    """
    return [*every_field(text), *marked(lambda what: text)]


def test_every_field_of_every_message_is_searched():
    entries = everywhere(SECRET)
    assert {type(entry) for entry in entries} >= set(MESSAGES)
    assert_gone(SECRET, outputs(entries, ["pin"], {"note": SECRET, "instructions": SECRET}))


def test_a_field_of_a_tool_is_not_the_field_of_the_message_with_that_name():
    call = ToolCall("c", "mail", {"text": "Zq7 secret"})
    made = report([User("Write that Zq7 secret."), Assistant("Now.", "", (call,))], redact=["text"])
    [turn] = made.turns
    assert turn.request.text == f"Write that {REDACTED}."
    assert turn.entries[0].reply.text == "Now."


@pytest.mark.parametrize(
    "text",
    [
        '{"order_id": "Zq7-1", "x": 1}',
        '{"a": 1}\n{"order_id": "Zq7-1"}\n{"b": 2}',
        'Here it is:\n```json\n{"order_id": "Zq7-1"}\n```',
        'mixed {"order": {"order_id": {"deep": ["Zq7-1"]}}} text',
        '{"order_id": "Zq7-1", torn',
        "order_id: Zq7-1",
        "Order ID = Zq7-1, and more",
        "orderId=Zq7-1&x=1",
        "order-id: 'Zq7-1'",
        "<order_id>Zq7-1</order_id>",
        '"{\\"order_id\\": \\"Zq7-1\\"}"',
    ],
)
def test_a_value_is_found_however_a_text_names_its_field(text):
    messages = [
        User("It is zq7-1."),
        Assistant(text),
        ToolResult("c", "look", text),
        Ended("silence"),
    ]
    assert_gone("Zq7-1", outputs(messages, ["order_id"]))
    raw = [User("Go"), Assistant("for Zq7-1x", tool_calls=(ToolCall("c", "look", text),))]
    assert_gone("Zq7-1", outputs(raw, ["orderId"]))


def test_the_copies_of_an_approval_are_hidden_too():
    call = ToolCall("c", "pay", {"card": "Zq7-4111"})
    messages = [User("Pay"), Assistant(tool_calls=(call,))]
    messages += [
        Verdict("yes", "c", "card Zq7-4111", "Ada", {"card": "Zq7-4112", "n": "Zq7-41110"})
    ]
    messages += [Started("c", "pay"), ToolResult("c", "pay", "ok", arguments={"card": "Zq7-4112"})]
    messages += [Checked("booked", "no Zq7-4112 in the books"), Ended("unmet", "Zq7-4111!")]
    assert_gone("Zq7-411", outputs(messages, ["card"]))
    assert "[redacted]" in to_text(report(messages, redact=["card"]))


@pytest.mark.parametrize("word", ["null", "true", "false"])
def test_a_value_may_begin_like_a_word_that_is_no_value(word):
    messages = [User(f"{word}-Zq7"), Assistant(f"pin: {word}-Zq7"), Assistant(f"pin={word}, 1")]
    assert_gone("Zq7", outputs(messages, ["pin"]))
    assert f"pin={word}, 1" in to_text(report(messages, redact=["pin"]))


def test_a_quote_inside_a_hidden_object_hides_no_field_behind_it():
    messages = [User("Zq7"), Assistant("""pin: {"a": "pin: 'x"} and pin: 'Zq7'""")]
    assert_gone("Zq7", outputs(messages, ["pin"]))


def test_what_redaction_could_not_do_is_a_warning():
    messages = [User("{"), Assistant("a: {", native={"k": 1}), Unreadable(2, "x", "torn")]
    problems = report(messages, redact=["a", "nothing"]).problems
    assert [text.partition(",")[0] for text in problems] == [
        "There is no field nothing to redact",
        "Left out whole",
        "Left out whole",
        "Left out whole",
    ]
    for what in ("broken JSON", "in its own form", "a line that cannot be read"):
        assert any(what in text for text in problems)


def test_a_text_is_hidden_from_broken_json_on():
    messages = [User("Go"), Assistant('ok {"order_id": {"deep": "Zq7-1", torn')]
    assert_gone("Zq7-1", outputs(messages, ["order_id"]))


wrappings = st.sampled_from(["\\n", "\\u00e9", "%20"]) | st.text(' ."\\{}\n_éß中', max_size=3)


@given(transcripts, st.text(max_size=6), wrappings, st.sampled_from(["pin", "Pin", "p_in"]))
@settings(deadline=None, max_examples=100)
def test_no_value_is_left_in_any_run(messages, end, around, name):
    secret = f"Zq7{end}Qz"
    text = f"x{around}{secret}{around}y"
    call = ToolCall("s", "pay", {"pin": secret, "list": [text], secret: 1})
    deep = {"deep": [{"PIN": secret}], "text": text, "again": json.dumps({"a": secret})}
    result = ToolResult("s", "pay", json.dumps(deep))
    messages = [*messages, User(text), Assistant(text, text, (call,)), result]
    assert_gone(secret, outputs(messages, [name]))


def test_many_values_cost_no_more_than_their_number():
    def redact(number: int) -> None:
        rows = "\n".join(json.dumps({"order_id": f"ORD-{n:06}"}) for n in range(number))
        messages = [User("All"), ToolResult("c", "look", rows)]
        report(messages, redact=["order_id"])

    assert grows_evenly(redact, 200, 1_600)


@pytest.mark.parametrize("spelled", ["Zq7%20%C3%A9", "Zq7 \\u00e9", "Zq7 \\\\u00e9", "zq7 É"])
def test_an_escaped_value_is_found(spelled):
    messages = [User("Go"), ToolResult("c", "look", '{"name": "Zq7 é&"}'), User(f"x {spelled}")]
    call = ToolCall("c", "look", {"name": "Zq7 é"})
    page = to_html(
        report([messages[0], Assistant(tool_calls=(call,)), *messages[1:]], redact=["name"])
    )
    assert spelled.lower() not in page.lower()
