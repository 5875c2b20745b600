"""The story of a run: every start, crash, repeat, verdict, check and refusal, in each form."""

import json
import re
from dataclasses import replace

import pytest

from tests.audit.forms import in_each_form, steps, text_in
from tests.support.agents import agent, look
from think_agent import NothingDone, Verdict, tool
from think_agent.audit import report, to_html, words
from think_agent.audit.report import Note
from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Started,
    ToolCall,
    ToolResult,
    User,
)
from think_agent.testing import call, think

PAY = ToolCall("a", "pay", {"cents": 1})
ASKS = Assistant(tool_calls=(PAY,))
CRASHED = "the run stopped during this call: it may have happened"
AGAIN = "RUN AGAIN, though it was started before and did not return"


def events(made, name):
    """What happened to the calls of one tool."""
    calls = [call for step in steps(made) for call in step.calls if call.call.name == name]
    return [[event.text for event in call.events] for call in calls]


def in_order(text, *parts):
    told = text.partition("What happened")[2] or text  # on the page, warnings come before
    places = [told.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


def test_a_double_payment_after_a_crash_is_the_first_warning(tmp_path):
    paid = []

    @tool(needs_approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        if len(paid) == 1:
            raise KeyboardInterrupt
        return "paid"

    def desk(by):
        verdict = Verdict("yes", by=by, reason=f"says {by}")
        replies = (think("due"), call("pay", cents=58000)), "Paid."
        return agent(*replies, tools=[pay], approve=lambda asked: verdict)

    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        desk("Ada").run("Pay the rent", transcript=path)
    outcome = desk("Bob").resume(path)
    assert paid == [58000, 58000]
    made, forms = in_each_form(outcome.transcript)
    story = ["approved by Ada: says Ada", "started", CRASHED, "approved by Bob: says Bob", AGAIN]
    assert events(made, "pay") == [[*story, "done"]]
    for text in forms.values():
        in_order(text, *story)
    lines = forms["text"].splitlines()
    shown = ["! started", f"! {CRASHED}", f"! {AGAIN}"]
    assert [sum(part in line for line in lines) for part in shown] == [1, 1, 1]  # each once
    page = to_html(made)
    assert f'<p class="alarm again"><a href="#step-1"><strong>pay</strong>: {AGAIN}</a></p>' in page
    assert page.index("alarm again") < page.index('<li class="chapter">')
    assert (1, AGAIN) in list(made.warnings)


def test_a_repeat_under_the_same_key_is_shown_too():
    twice = [Started("a", "pay", "K7")] * 2
    _, forms = in_each_form([User("Pay"), ASKS, *twice, ToolResult("a", "pay", "paid")])
    again = "RUN AGAIN under the idempotency key K7, though it was started before"
    for text in forms.values():
        in_order(text, "started under the idempotency key K7", CRASHED, again)


def test_a_retry_of_a_call_that_did_not_return_is_a_repeat():
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        raise TimeoutError("no answer")

    @tool
    def book(cents: int) -> str:
        """Book."""
        raise NothingDone("closed")

    pays = [call("pay", cents=1)] * 2
    books = [call("book", cents=1)] * 2
    careful = agent(
        *pays, *books, "No.", tools=[pay, book], patience=9, approve=lambda asked: False
    )
    made = report(careful.run("Pay").transcript)
    first, second = events(made, "pay")
    assert first == ["started", "it did not return: it may have happened"]
    assert second[-1] == "refused: a person said no"
    assert events(made, "book") == [["started", "failed"]] * 2  # nothing was done, so nothing twice
    asks = agent(*pays, "No.", tools=[pay], approve=lambda asked: True)
    made, forms = in_each_form(asks.run("Pay").transcript)
    assert events(made, "pay")[1][1] == AGAIN
    assert made.figures["failed"] == 2
    assert all(AGAIN in text for text in forms.values())


def test_a_denial_an_edit_and_a_refusal_are_shown_with_who_and_why():
    messages = [
        User("Pay"),
        Assistant(tool_calls=tuple(replace(PAY, id=id) for id in "abcd")),
        Verdict("no", "a", "not today", "Ada"),
        ToolResult("a", "pay", "error: no", True, "person"),
        Verdict("yes", "b", "", "Bob", {"cents": 2}, edited=True),
        Started("b", "pay"),
        ToolResult("b", "pay", "ok", arguments={"cents": 2}),
        ToolResult("c", "pay", "error: think", True, "gate"),
        Started("d", "pay"),
        ToolResult("d", "pay", "error: no", True, "person", in_doubt=True),
        Verdict("quit"),
    ]
    made, forms = in_each_form(messages)
    assert events(made, "pay") == [
        ["denied by Ada: not today", "refused: a person said no"],
        [
            "approved with other arguments by Bob",
            "with other arguments: pay(cents=2)",
            "started",
            "done",
        ],
        ["refused: no thought justified it"],
        ["started", CRASHED, "refused: a person said no"],
    ]
    assert made.turns[0].entries[-1] == Note("stopped", Verdict("quit"), "verdict")
    edited = "approved with other arguments by Bob"
    for text in forms.values():
        in_order(text, "denied by Ada: not today", edited, "pay(cents=2)", CRASHED)
    page = text_in(to_html(made))
    assert "pay 2 cents → ok" in page  # what ran, not what was asked for


def test_a_crash_is_told_of_a_call_that_was_started_with_other_arguments():
    started = Started("a", "pay", arguments={"cents": 2})
    made, forms = in_each_form([User("Pay"), ASKS, started])
    assert events(made, "pay") == [["started", "with other arguments: pay(cents=2)", CRASHED]]
    for text in forms.values():
        in_order(text, "with other arguments: pay(cents=2)", CRASHED)


def test_a_call_that_waits_for_a_person_is_not_called_not_run():
    @tool(needs_approval=True)
    def pay(dollars: int) -> str:
        """Pay."""

    desk = agent((call("pay", dollars=5), call("pay", dollars=6)), tools=[pay])
    made = report(desk.run("Pay both").transcript)
    statuses = [one.status for step in steps(made) for one in step.calls]
    assert statuses == ["waits", "not run"]
    assert "… waits" in text_in(to_html(made))


def test_each_check_is_shown_and_an_unmet_one_is_a_warning():
    messages = [
        User("Book"),
        Assistant("Booked."),
        Checked("in_books"),
        Checked("mailed", "no mail"),
    ]
    made, forms = in_each_form([*messages, Ended("unmet")])
    assert made.turns[0].exit == "unmet"
    in_order(forms.pop("json"), "in books", "mailed: no mail")
    for form in forms.values():
        in_order(form, "✗ NOT MET · missing: no mail")
        in_order(form.partition("NOT MET")[2] + form, "✓ in books", "✗ mailed: no mail")
    assert list(made.warnings) == [(None, "mailed: no mail")]


def test_a_run_that_stopped_at_an_unmet_check_is_not_called_done():
    """The model has to be told what is missing, and the run ended before it was."""
    said = [User("Pay"), Assistant("Paid."), Checked("paid", "bill 2 is open")]
    for messages in (said, [*said, Ended("unmet", "Paid."), ToolResult("x", "pay", "stray")]):
        made, forms = in_each_form(messages)
        assert made.turns[0].exit is None
        for form in forms.values():
            assert "✓" not in form
            assert "bill 2 is open" in form
    assert report([*said, Ended("unmet", "Paid.")]).turns[0].exit == "unmet"


def test_an_ending_stays_in_the_story_if_the_run_goes_on():
    messages = [User("Hi"), Assistant("Half", stop_reason="max_tokens"), Ended("truncated")]
    made, forms = in_each_form(
        [*messages, User("go on", "nudge"), Assistant("Whole."), Ended("silence")]
    )
    assert [turn.exit for turn in made.turns] == ["silence"]
    del forms["json"]
    for text in forms.values():
        again = "The run ended here, and was taken up again: ✗ cut off"
        in_order(text, "Half", again, "the kit said (nudge): go on", "Whole.")


TOOLS = [{"name": "look", "read_only": True}, {"name": "pay"}]


@pytest.mark.parametrize(
    ("header", "guarded", "started", "decisions"),
    [
        ({"tools": TOOLS}, ["*"], False, ["pay"]),
        ({}, ["l*"], False, ["look"]),
        ({}, ["*"], True, ["pay"]),
        ({}, ["*"], False, ["look", "pay"]),
    ],
)
def test_a_decision_changes_something(header, guarded, started, decisions):
    calls = (ToolCall("a", "look", {}), ToolCall("b", "pay", {}))
    begun = [Started("b", "pay")] if started else []
    results = [ToolResult("a", "look", "ok"), *begun, ToolResult("b", "pay", "ok")]
    messages = [User("Pay"), Assistant(tool_calls=calls), *results]
    made = report(messages, header=header, guarded=guarded)
    found = [call.call.name for call in made.turns[0].entries[0].calls if call.decision]
    assert found == decisions


def test_how_thoughts_came_about_is_counted_and_shown():
    replies = [think("a plan"), call("look", item="tea"), "89 $"]
    for force, said, how in [("first", replies, "forced"), ("never", replies[1:], "none")]:
        outcome = agent(*said, tools=[look], force=force).run("Tea?")
        assert report(outcome.transcript).figures["came_about"] == {how: 1}
    text = words.behind({"forced": 2, "none": 1, "gated": 3})
    assert text == "2 forced by tool choice, 1 without a thought, 3 gated"


def test_a_typed_answer_and_nested_arguments_are_tables():
    nested = {"order": {"lines": [{"sku": "A", "price": {"cents": 5}}]}}
    messages = [
        User("Pay"),
        Assistant(tool_calls=(ToolCall("a", "pay", nested),)),
        ToolResult("a", "pay", "ok"),
        Assistant(json.dumps({"orders": [{"id": "ORD-001", "refunded": True}]})),
        Ended("silence"),
    ]
    page = to_html(report(messages))
    for key in ("sku", "price", "id", "refunded"):
        assert f'<th scope="col">{key}</th>' in page
    assert "<dt>cents</dt>" in page
    told = re.sub(r'<details class="raw">.*?</details>', "", page, flags=re.DOTALL)
    assert "{" not in text_in(told)  # raw JSON is one click away
