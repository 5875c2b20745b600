"""After some unproductive replies in a row a person is asked, or the run gives up
(`policies/patience.py`).

Each case is a script that the model plays and what the run makes of it. (The same action again and
again: `test_repeats.py`.)
"""

from dataclasses import dataclass, field

import pytest

from tests.support.agents import agent, kit_said, results
from think_agent import tool
from think_agent.loop import CallModel
from think_agent.messages import Assistant, Force, ToolResult, Verdict
from think_agent.testing import call, think
from think_agent.testing.scripted import Reply


@tool(repeats=True)
def work(n: int = 0) -> str:
    """Fail, but for n=0."""
    if n:
        raise ValueError(f"no {n}")
    return "worked"


HM = think("hm")
WORKS = call("work", n=0)
FAILS = [call("work", n=n) for n in (1, 2, 3, 4)]  # four calls that fail, each in its own way
GIVES_UP = think("no use", should_continue=False)
UNREADABLE = Assistant(stop_reason="malformed", mistake="Write one JSON object.", dialect="json")


def worker(*replies, tools=(work,), **settings):
    return agent(*replies, tools=tools, **settings)


@dataclass(frozen=True)
class Case:
    """A run with `patience=3` and no person."""

    name: str
    replies: list[Reply]  # the model's, in order
    exit: str
    actions: int
    model_calls: int
    told: list[str] = field(default_factory=list)  # the kinds of the kit's questions


FAILURES = [  # rule 2
    Case("two failures", [*FAILS[:2], "Done."], exit="silence", actions=2, model_calls=3),
    Case("three failures", [*FAILS, "Done."], exit="gave_up", actions=3, model_calls=3),
    Case(
        "a success in between",
        [*FAILS[:2], WORKS, *FAILS[2:], "Done."],
        exit="silence",
        actions=5,
        model_calls=6,
    ),
    Case(
        "a success beside each failure",
        [(WORKS, failing) for failing in FAILS] + ["Done."],
        exit="silence",
        actions=8,
        model_calls=5,
    ),
    Case(
        "a thought beside each failure",
        [(HM, failing) for failing in FAILS],
        exit="gave_up",
        actions=3,
        model_calls=3,
    ),
    Case(
        "a reply that only thinks in between",  # rule 4: it neither counts nor ends the row
        [*FAILS[:2], HM, FAILS[2]],
        exit="gave_up",
        actions=3,
        model_calls=4,
    ),
    Case(
        "the model sees itself that it is no use",
        [*FAILS[:2], (FAILS[2], GIVES_UP), "No."],
        exit="signal",
        actions=3,
        model_calls=4,
    ),
]

NOT_READABLE = [  # rule 2: a reply that could not be read counts, too, and the model reads that
    Case(
        "two unreadable replies",
        [UNREADABLE, UNREADABLE, "Done."],
        exit="silence",
        actions=0,
        model_calls=3,
        told=["format", "format"],
    ),
    Case(
        "unreadable to the end",
        [UNREADABLE] * 5,
        exit="gave_up",
        actions=0,
        model_calls=3,
        told=["format", "format"],
    ),
    Case(
        "a success between unreadable replies",
        [UNREADABLE, UNREADABLE, WORKS, UNREADABLE, UNREADABLE, "Done."],
        exit="silence",
        actions=1,
        model_calls=6,
        told=["format"] * 4,
    ),
    Case(
        "unreadable, and failures",
        [UNREADABLE, *FAILS[:2]],
        exit="gave_up",
        actions=2,
        model_calls=3,
        told=["format"],
    ),
]


@pytest.mark.parametrize("case", FAILURES + NOT_READABLE, ids=lambda case: case.name)
def test_after_three_unproductive_replies_in_a_row_the_run_gives_up(case):
    outcome = worker(*case.replies).run("go")
    assert outcome.exit == case.exit
    assert len(outcome.actions) == case.actions
    assert outcome.model_calls == case.model_calls
    assert [message.kind for message in kit_said(outcome)] == case.told


def test_giving_up_says_what_was_tried():
    outcome = worker(WORKS, *FAILS[:3], "Done.").run("go")
    _, worked, *failed = outcome.answer.splitlines()
    assert worked == "✓ work(n=0)"
    assert failed == [f"✗ work(n={n}) (error: ValueError: no {n})" for n in (1, 2, 3)]


def test_an_unreadable_reply_goes_back_to_the_model_with_the_mistake():
    outcome = worker(UNREADABLE, "Done.").run("go")
    [told] = kit_said(outcome)
    assert told.text == UNREADABLE.mistake


def test_after_an_unreadable_reply_the_tool_choice_is_the_same_even_if_resumed():
    forced = worker(UNREADABLE, WORKS, "Done.", force="first")
    outcome = forced.run("go")
    assert [reply.tool_choice for reply in outcome.turn.replies[:2]] == [Force("think")] * 2
    assert forced.next_step(outcome.transcript[:3]) == CallModel(Force("think"))


# Rule 3: what a person or a limit refused does not count.


def test_what_a_person_refused_does_not_count():
    def pay(n: int) -> str:
        """Pay."""
        return "paid"

    guarded = tool(pay, needs_approval=True)
    denied = [call("pay", n=n) for n in range(4)]
    outcome = worker(*denied, "No.", tools=[guarded], approve=lambda asked: False).run("go")
    assert outcome.exit == "silence"
    assert outcome.model_calls == 5


# Before the run gives up, a person is asked.


@dataclass(frozen=True)
class Person:
    """What a person says to "Go on?", and what the run makes of eight failures in a row."""

    name: str
    answers: list[bool | Verdict]
    exit: str
    actions: int


PERSONS = [
    Person("goes on, and a new row begins", [True, True], exit="silence", actions=8),
    Person("does not go on", [False], exit="declined", actions=3),
    Person("quits", [Verdict("quit")], exit="declined", actions=3),
]


@pytest.mark.parametrize("person", PERSONS, ids=lambda person: person.name)
def test_a_person_is_asked_before_the_run_gives_up(person):
    asked, answers = [], iter(person.answers)

    def approve(question):
        asked.append(question)
        return next(answers)

    failing = [call("work", n=n) for n in range(1, 9)]
    outcome = worker(*failing, "Done.", approve=approve).run("go")
    assert outcome.exit == person.exit
    assert len(outcome.actions) == person.actions
    assert len(asked) == len(person.answers)
    assert asked[0].call is None
    assert "✗ work(n=3) (error: ValueError: no 3)" in asked[0].question


# on_tool_error="fail_fast": the first failure ends the run.


def codes(results: list[ToolResult]) -> dict[str, list[str]]:
    """Why the calls of each tool did not run; empty for those that did."""
    found: dict[str, list[str]] = {}
    for result in results:
        found.setdefault(result.name, []).append(result.refused)
    return found


def test_fail_fast_neither_runs_nor_asks_about_the_calls_after_the_failed_one():
    pay = tool(lambda: pytest.fail("paid"), name="pay", needs_approval=True)
    fast = {"on_tool_error": "fail_fast", "approve": lambda question: pytest.fail("asked")}
    outcome = worker((WORKS, FAILS[0], HM, call("pay")), tools=[work, pay], **fast).run("go")
    assert outcome.exit == "gave_up"
    assert codes(results(outcome)) == {"work": ["", ""], "think": [""], "pay": ["failed"]}


@pytest.mark.parametrize(
    "calls",
    [(FAILS[0], GIVES_UP), (GIVES_UP, FAILS[0]), (GIVES_UP, FAILS[0], WORKS)],
    ids=["before the signal", "after the signal", "with a call after it"],
)
def test_fail_fast_gives_up_even_if_the_model_signals_the_end(calls):
    outcome = worker(calls, "Bye.", on_tool_error="fail_fast").run("go")
    assert outcome.exit == "gave_up"
    assert outcome.model_calls == 1


def test_an_unknown_way_to_fail_is_refused():
    with pytest.raises(ValueError, match="on_tool_error"):
        worker(on_tool_error="fail_slowly")
