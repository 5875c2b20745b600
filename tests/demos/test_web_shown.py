"""What the page of the web desk shows: messages as rows, and a question as a card."""

import pytest

from demos.web.shown import card, event_as_json, rows
from think_agent import (
    AskHuman,
    Assistant,
    Checked,
    Delta,
    Ended,
    Notice,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from think_agent.audit.reading import Unreadable
from think_agent.cli.console import LOOK

PAY = ToolCall("c", "pay", {"cents": 5})
THINKS = ToolCall("t", "think", {"thought": "It is due.", "should_continue": "true"})
CARRIES = ToolCall("c", "pay", {"thought": "It is due.", "cents": 5})
ROWS = [
    (User("Pay"), [("request", "Pay")]),
    (User("Done?", kind="silence"), [("question", "Done?")]),
    (
        Assistant("Paid.", "hm", (THINKS, PAY), commentary="Now."),
        [
            ("thinking", "hm"),
            ("commentary", "Now."),
            ("commentary", "Paid."),  # text beside a call is no answer
            ("thought", "It is due."),
            ("call", "pay(cents=5)"),
        ],
    ),
    (Assistant("Paid."), [("answer", "Paid.")]),
    (
        Assistant(tool_calls=(CARRIES,)),
        [("thought", "It is due."), ("call", "pay(cents=5)")],
    ),
    (ToolResult("c", "pay", '{"paid": true, "late": false}'), [("result", "paid: yes · late: no")]),
    (ToolResult("c", "pay", "error: no", is_error=True), [("error", "error: no")]),
    (ToolResult("t", "think", "Thought recorded."), []),
    (Started("c", "pay"), []),
    (Verdict("no", "c", reason="late", by="Ada"), [("verdict", "denied by Ada: late")]),
    (Checked("all_paid"), [("met", "all paid")]),
    (Checked("all_paid", "B is open"), [("unmet", "all paid: B is open")]),
    (Paused("Run pay?", "c"), [("paused", "waits for a person: Run pay?")]),
    (Ended("limit", "So far."), [("answer", "So far."), ("end", "✗ stopped at a limit")]),
    (
        Unreadable(3, '{"type', "no JSON"),
        [("damaged", "Line 3 of the file cannot be read: no JSON")],
    ),
]


@pytest.mark.parametrize(("entry", "shown"), ROWS, ids=[type(row[0]).__name__ for row in ROWS])
def test_a_message_is_shown_as_rows(entry, shown):
    assert [(row["kind"], row["text"]) for row in rows(entry)] == shown


def test_the_kinds_of_rows_are_those_of_the_terminal():
    kinds = {kind for _, shown in ROWS for kind, _ in shown}
    assert kinds - LOOK.keys() == {"request", "end", "damaged"}  # which it has no icons for


def test_what_a_row_leaves_out_is_one_click_away():
    result = ToolResult("c", "look", '{"order_id": "A", "note": "' + "x" * 500 + '"}')
    [row] = rows(result)
    assert len(row["text"]) < 200
    assert row["whole"] == result.content
    [damaged] = rows(Unreadable(3, '{"type', "no JSON"))
    assert damaged["whole"].endswith('\n{"type')


def test_invisible_and_direction_changing_characters_are_written_out_in_every_event():
    hostile = "a\u202eb\x1b[2J"
    for event in (User(hostile), Notice(hostile), Delta("answer", hostile)):
        shown = str(event_as_json(event))
        assert "\u202e" not in shown
        assert "\x1b" not in shown
        assert "u202e" in shown


# The card.


def asked(arguments, **more):
    call = ToolCall("c", "pay", arguments)
    return AskHuman("Run pay?", call, **{"received": arguments, **more})


def test_a_card_shows_each_value_as_the_terminal_does():
    text = "two\nlines \u202e and \u3164 nothing"
    shown = card(asked({"to": text, "cents": 5, "now": True, "tags": ["a"]}))
    assert shown["arguments"] == [
        ("to", r'"two\nlines \u202e and \u3164 nothing"'),
        ("cents", "5"),
        ("now", "true"),
        ("tags", '["a"]'),
    ]


def test_a_card_shows_what_the_function_will_get():
    call = ToolCall("c", "pay", {"cents": "5"})
    shown = card(AskHuman("Run pay?", call, received={"cents": 5, "to": "Ann"}))
    assert shown["arguments"] == [("cents", "5"), ("to", '"Ann"')]
    assert shown["editable"] == '{"cents": "5"}'


def test_a_card_shows_the_thought_and_why_a_person_is_asked():
    shown = card(asked({}, thought="It is due.", remark="The model wrote this call as text."))
    assert shown["thought"] == "It is due."
    assert shown["asks"] == "Run pay?"
    assert shown["remark"] == "The model wrote this call as text."


@pytest.mark.parametrize(
    ("question", "keys", "editable"),
    [
        (asked({"cents": 5}), ["yes", "no"], True),
        (asked({"cents": 5}, as_new=PAY), ["yes", "new", "no"], False),
        (AskHuman("Go on?"), ["yes", "no"], False),
    ],
    ids=["a call", "a call that may have happened", "whether to go on"],
)
def test_a_card_has_a_key_for_each_answer(question, keys, editable):
    shown = card(question)
    assert [key["value"] for key in shown["keys"]] == keys
    assert (shown["editable"] is not None) == editable


def test_of_a_call_that_may_have_happened_both_forms_are_shown():
    new = ToolCall("c", "pay", {"cents": 7})
    shown = card(asked({"cents": 5}, as_new=new))
    assert shown["arguments"] == [("cents", "5")]
    assert shown["as_new"] == [("cents", "7")]


def test_a_question_without_a_call_is_asked_in_its_own_words():
    shown = card(AskHuman("3 replies in a row failed.\nGo on?"))
    assert shown["asks"] == "3 replies in a row failed.\nGo on?"
    assert shown["arguments"] == []
    assert shown["call"] is None


def test_the_id_of_a_card_names_what_is_shown():
    assert card(asked({"cents": 5}, pause="p"))["id"] == asked({"cents": 5}, pause="p").id
    assert card(asked({"cents": 5}))["id"] != card(asked({"cents": 6}))["id"]
