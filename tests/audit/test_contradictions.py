"""The audit warns where records contradict each other, or repeat a success."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings

from tests.audit.forms import in_each_form, text_in
from tests.support.turns import transcripts
from think_agent import Agent, Paused, ScriptedModel, tool
from think_agent.audit import report, to_html
from think_agent.audit.report import Step
from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from think_agent.testing import call, think

ASK = User("Refund ORD-001")
DONE = Ended("signal", "One refund was paid.")


def paying(id: str, cents: int = 5) -> Assistant:
    return Assistant(tool_calls=(ToolCall(id, "pay", {"cents": cents}),))


def paid(id: str, *, same: str = "", **fields) -> list:
    return [Started(id, "pay", same=same), ToolResult(id, "pay", "paid", **fields)]


class Case(NamedTuple):
    says: list  # the messages after the request
    warned: list[str]
    statuses: list[str]
    tools: tuple[dict, ...] = ()


AGAIN = "run again, though the same call succeeded before (reply 1, in turn 1)"
DID_NOT_RETURN = "it did not return: it may have happened"
CASES = {
    "paid once": Case([paying("a"), *paid("a"), DONE], [], ["done"]),
    "paid three times": Case(
        [paying("a"), *paid("a"), paying("b"), *paid("b"), paying("c"), *paid("c"), DONE],
        [AGAIN, AGAIN],
        ["done", "done again", "done again"],
    ),
    "paid twice in one reply": Case(
        [
            Assistant(tool_calls=(*paying("a").tool_calls, *paying("b").tool_calls)),
            *paid("a"),
            *paid("b"),
        ],
        [AGAIN],
        ["done", "done again"],
    ),
    "the same digest, other words": Case(
        [paying("a", 5), *paid("a", same="5e"), paying("b", 6), *paid("b", same="5e")],
        [AGAIN],
        ["done", "done again"],
    ),
    "the same words, another digest": Case(
        [paying("a"), *paid("a", same="5e"), paying("b"), *paid("b", same="6f")],
        [],
        ["done", "done"],
    ),
    "other arguments, no digest": Case(
        [paying("a", 5), *paid("a"), paying("b", 6), *paid("b")], [], ["done", "done"]
    ),
    "again in a later turn": Case(
        [paying("a"), *paid("a"), DONE, User("Next month's."), paying("a"), *paid("a")],
        [AGAIN],
        ["done", "done again"],
    ),
    "again, and it failed": Case(
        [paying("a"), *paid("a"), paying("b"), *paid("b", is_error=True)],
        [AGAIN],
        ["done", "failed"],
    ),
    "again after it failed": Case(
        [paying("a"), *paid("a", is_error=True), paying("b"), *paid("b")], [], ["failed", "done"]
    ),
    "a person says that it is a new one": Case(
        [paying("a"), *paid("a"), paying("b"), Verdict("yes", "b", new=True), *paid("b")],
        [],
        ["done", "done"],
    ),
    "an idempotent tool": Case(
        [paying("a"), *paid("a"), paying("b"), *paid("b")],
        [],
        ["done", "done"],
        ({"name": "pay", "idempotent": True},),
    ),
    "reads have no start": Case(
        [paying("a"), paid("a")[1], paying("b"), paid("b")[1]], [], ["done", "done"]
    ),
    "a no, and it ran": Case(
        [paying("a"), Verdict("no", "a", "too much", "Ada"), *paid("a")],
        ["it ran, though it was denied by Ada: too much"],
        ["done after a no"],
    ),
    "a no, and there is only a result": Case(
        [paying("a"), Verdict("no", "a", by="Ada"), ToolResult("a", "pay", "paid 4")],
        ["it ran, though it was denied by Ada"],
        ["done after a no"],
    ),
    "a stop, and it ran": Case(
        [paying("a"), Verdict("quit", "a"), *paid("a")],
        ["it ran, though it was stopped"],
        ["done after a no"],
    ),
    "a no, and it was refused": Case(
        [paying("a"), Verdict("no", "a"), ToolResult("a", "pay", "no", True, "person")],
        [],
        ["refused"],
    ),
    "a no, then a yes": Case(
        [paying("a"), Verdict("no", "a"), Verdict("yes", "a"), *paid("a")], [], ["done"]
    ),
    "it had started before the no": Case(
        [
            paying("a"),
            Started("a", "pay"),
            Verdict("no", "a"),
            ToolResult("a", "pay", "it may have happened", True, in_doubt=True),
        ],
        ["the run stopped during this call: it may have happened", DID_NOT_RETURN],
        ["in doubt"],
    ),
    "no to another call": Case(
        [paying("a"), *paid("a"), paying("b", 6), Verdict("no", "a"), *paid("b")],
        ['This belongs to no call: {"type": "verdict", "decision": "no", "call_id": "a"}'],
        ["done", "done"],
    ),
    "a question without an answer": Case(
        [paying("a"), Paused("Pay 5?", "a"), *paid("a")],
        ["it ran, though its question had no answer"],
        ["done after a no"],
    ),
    "a question with its answer": Case(
        [paying("a"), Paused("Pay 5?", "a"), Verdict("yes", "a"), *paid("a")], [], ["done"]
    ),
    "an answer to another question": Case(
        [
            Assistant(tool_calls=(*paying("a").tool_calls, *paying("b", 6).tool_calls)),
            Paused("Pay 5?", "a"),
            Verdict("yes", "b"),
            ToolResult("a", "pay", "no", True, "stopped"),
            *paid("b"),
        ],
        ["this answers another question than the one that was open"],
        ["refused", "done"],
    ),
    "an answer that names its question": Case(
        [
            paying("a"),
            Paused("Pay 5?", "a", id="q1"),
            Verdict("yes", "a", question="q1"),
            *paid("a"),
        ],
        [],
        ["done"],
    ),
    "a person who was asked at once": Case(  # `approve=` records no question
        [paying("a"), Verdict("yes", "a", question="q1"), *paid("a")], [], ["done"]
    ),
    "a second answer to one question": Case(
        [
            paying("a"),
            Paused("Pay 5?", "a", id="q1"),
            Verdict("no", "a", question="q1"),
            ToolResult("a", "pay", "no", True, "person"),
            paying("a", 6),
            Verdict("yes", "a", question="q1"),
            *paid("a"),
        ],
        ["this answers a question that had its answer before"],
        ["refused", "done"],
    ),
    "an answer to the question before": Case(
        [
            paying("a"),
            Paused("Pay 5?", "a", id="q1"),
            Verdict("no", "a", question="q1"),
            ToolResult("a", "pay", "no", True, "person"),
            paying("a", 6),
            Paused("Pay 6?", "a", id="q2"),
            Verdict("yes", "a", question="q1"),
            *paid("a"),
        ],
        ["this answers another question than the one that was open"],
        ["refused", "done"],
    ),
    "whether to go on, but a call was open": Case(
        [paying("a"), Paused("Pay 5?", "a"), Verdict("yes"), *paid("a")],
        ["this answers another question than the one that was open"],
        ["done"],
    ),
    "a yes to something else": Case(
        [paying("a", 50_000), Verdict("yes", "a", arguments={"cents": 5}), *paid("a")],
        ["it ran with other arguments than those that were approved"],
        ["done"],
    ),
    "a yes to what ran": Case(
        [
            paying("a", 50_000),
            Verdict("yes", "a", arguments={"cents": 5}, edited=True),
            *paid("a", arguments={"cents": 5}),
        ],
        [],
        ["done"],
    ),
    "done, with a check unmet": Case(
        [paying("a"), *paid("a"), Checked("books", "ORD-001 has no row"), DONE],
        [
            "it ended as done, though a check was not met: books: ORD-001 has no row",
            "books: ORD-001 has no row",
        ],
        ["done"],
    ),
    "unmet, and it says so": Case(
        [paying("a"), *paid("a"), Checked("books", "no row"), Ended("unmet")],
        ["books: no row"],
        ["done"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_contradicts_is_a_warning_in_every_form(case):
    made, forms = in_each_form([ASK, *case.says], header={"tools": case.tools})
    assert sorted(text for _, text in made.warnings) == sorted(case.warned)
    calls = [
        one
        for turn in made.turns
        for step in turn.entries
        if isinstance(step, Step)
        for one in step.calls
    ]
    assert [one.status for one in calls] == case.statuses
    for text in case.warned:
        assert all(text.partition("{")[0] in form for form in forms.values())


def test_a_success_that_is_repeated_has_no_green_tick():
    page = text_in(to_html(report([ASK, *CASES["paid three times"].says])))
    assert page.count("! done again") >= 2
    denied = text_in(to_html(report([ASK, *CASES["a no, and it ran"].says])))
    assert "! done without a yes" in denied


def test_in_a_later_turn_it_is_no_alarm():
    """It may be meant, as next month's rent is."""
    kinds = set()
    for name in ("paid three times", "again in a later turn"):
        for turn in report([ASK, *CASES[name].says]).turns:
            for entry in turn.entries:
                kinds |= {(name, note.kind) for note in entry.events if note.text == AGAIN}
    assert kinds == {("paid three times", "alarm"), ("again in a later turn", "warning")}


def test_a_run_of_the_kit_that_pays_twice_is_warned_of():
    """The arguments that count are the same, the words are not."""

    @tool(same=("order_id",), think_first=True)
    def pay(order_id: str, reason: str) -> str:
        """Pay a refund."""
        return "paid $89.00"

    script = []
    for reason in ("broken", "it is broken"):
        script.append((think("pay"), call("pay", order_id="ORD-001", reason=reason)))
    script += [think("done", should_continue=False), "One refund was paid."]
    outcome = Agent(ScriptedModel(script), [pay]).run("Refund ORD-001")
    assert [text for _, text in report(outcome.transcript).warnings] == [AGAIN]


@given(transcripts)
@settings(deadline=None, max_examples=50)
def test_any_transcript_can_be_searched(messages):
    made = report(messages)
    assert all(isinstance(text, str) and text for _, text in made.warnings)
