"""Redaction: no value of a hidden field is in any output, whatever message it was in."""

import base64
import html
import json
import re
import unicodedata
from dataclasses import MISSING, fields
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.audit.forms import to_text
from tests.audit.test_marks import marked
from tests.readme import ROOT
from tests.support.counting import grows_evenly
from tests.support.turns import transcripts
from think_agent.audit import explain, redaction, report, spellings, to_html, to_json_report
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


VALUE = "Zoë Żuk & Söhne"
SPELLINGS = {
    "as it is": VALUE,
    "NFD": unicodedata.normalize("NFD", VALUE),
    "NFC": unicodedata.normalize("NFC", unicodedata.normalize("NFD", VALUE)),
    "full width": "Ｚｏë Żuk & Söhne",
    "upper case": "ZOË ŻUK & SÖHNE",
    "in a URL": quote(VALUE),
    "in a URL, every letter": "".join(f"%{byte:02x}" for byte in VALUE.encode()),
    "in a URL, Latin-1": "Zo%EB Żuk %26 S%F6hne",
    "in a query": quote_plus(VALUE),
    "NFD in a URL": quote(unicodedata.normalize("NFD", VALUE)),
    "twice in a URL": quote(quote(VALUE)),
    "in HTML": html.escape(VALUE),
    "in HTML, by name": "Zo&euml; &Zdot;uk &amp; S&ouml;hne".replace("&Zdot;", "&#379;"),
    "in HTML, by number": "".join(f"&#{ord(letter)};" for letter in VALUE),
    "in HTML, by hex number": "".join(f"&#x{ord(letter):X};" for letter in VALUE),
    "twice in HTML": html.escape(html.escape(VALUE)),
    "NFD in HTML": "".join(f"&#{ord(c)};" for c in unicodedata.normalize("NFD", VALUE)),
    "in JSON": json.dumps(VALUE)[1:-1],
    "twice in JSON": json.dumps(json.dumps(VALUE))[3:-3],
    "HTML in JSON in a URL": quote(json.dumps(html.escape(VALUE))[1:-1]),
    "a URL in HTML in JSON": json.dumps(html.escape(f"&{quote(VALUE)}"))[6:-1],
    "only in part": "Zo%C3%AB \\u017buk &amp; Söhne",
}


@pytest.mark.parametrize("value", [VALUE, unicodedata.normalize("NFD", VALUE)], ids=["NFC", "NFD"])
@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_of_a_value_is_found(spelled, value):
    """Also inside a word, and behind a sign that could begin an escape."""
    named = Assistant(tool_calls=(ToolCall("c", "look", {"customer": value}),))
    said = [User("Go"), named, User(f"x {spelled} y"), Assistant(f"100%{spelled}&\\ end")]
    made = report(said, redact=["customer"])
    assert made.turns[1].request.text == f"x {REDACTED} y"
    assert made.turns[1].entries[0].reply.text == f"100%{REDACTED}&\\ end"
    assert spelled not in to_html(made)


@pytest.mark.parametrize(
    "text",
    [
        "{&quot;customer&quot;: &quot;Zoë&quot;}",
        "a=1&amp;customer=Zo%C3%AB&amp;b=2",
        quote('{"customer": "Zoë"}'),
        json.dumps(json.dumps({"customer": "Zoë"})),
        "customer%3DZo%C3%AB",
    ],
)
def test_a_field_is_found_where_its_name_is_escaped_too(text):
    made = report([User("Zoë"), Assistant(text)], redact=["customer"])
    assert made.turns[0].request.text == REDACTED
    assert not made.problems


def test_json_in_a_hidden_field_is_read_once():
    """Without its escapes it is broken, and all behind it was hidden."""
    text = json.dumps({"customer": {"name": 'Zoë "Z"'}}) + " and more"
    made = report([User("Go"), Assistant(text)], redact=["customer"])
    assert made.turns[0].entries[0].reply.text == f'{{"customer": {REDACTED}}} and more'
    assert not made.problems


def test_base64_is_not_found_and_the_readme_says_so():
    secret = base64.b64encode(VALUE.encode()).decode()
    named = Assistant(tool_calls=(ToolCall("c", "look", {"customer": VALUE}),))
    made = report([User(secret), named], redact=["customer"])
    assert made.turns[0].request.text == secret
    for text in (redaction.__doc__, (ROOT / "think_agent/audit/README.md").read_text()):
        assert "base64" in text


@given(st.text(min_size=1), st.integers(0, 3))
@settings(deadline=None)
def test_a_reading_knows_where_its_characters_come_from(text, layers):
    """What is cut out of the original by a reading's places is what that reading has there."""
    escaped = text
    for _ in range(layers):
        escaped = quote(escaped)
    for reading in spellings.readings(escaped):
        for at in range(len(reading.text)):
            begin, end = reading.place(at, at + 1)
            assert 0 <= begin < end <= len(escaped)
        for at in range(len(reading.folded)):
            begin, end = reading.place_of_folded(at, at + 1)
            assert 0 <= begin < end <= len(escaped)
    assert spellings.readings(escaped)[layers if quote(text) != text else 0].text == text
