"""When the model says that it is done, checks see whether that is true (`done_when.py`)."""

import asyncio
import json
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.support.agents import agent, kit_said, of_kind
from tests.support.providers import WAYS
from think_agent import Agent, Checked, Ended, ScriptedModel, Turn, User, tool
from think_agent.dialects.split import split
from think_agent.testing import call, think

LEAVE = think("All is done.", should_continue=False)
DO = call("do", what="B")


class Books:
    """What was done, and a check that looks for it."""

    def __init__(self, *wanted: str) -> None:
        self.wanted = wanted
        self.done: list[str] = []
        self.looks = 0

        @tool
        def do(what: str) -> str:
            """Do it."""
            self.done.append(what)
            return f"did {what}"

        self.tools = [do]

    def everything_done(self, turn: Turn) -> str | None:
        self.looks += 1
        open_items = [item for item in self.wanted if item not in self.done]
        return f"{', '.join(open_items)}: not done" if open_items else None

    def agent(self, *replies, **options) -> Agent:
        options = {"done_when": [self.everything_done], "silence": "confirm", **options}
        return agent(*replies, tools=self.tools, **options)


def questions(outcome) -> list[str]:
    return [message.text for message in kit_said(outcome) if message.kind == "check"]


# The model says that it is done, by a signal or by silence.


@dataclass(frozen=True)
class Ending:
    """How a model says that it is done, and the exit of a turn that ends like this."""

    exit: str
    says: list[Any]  # that it is done
    then: list[Any]  # what follows if nothing is missing


SIGNAL = Ending("signal", says=[LEAVE], then=["Done."])
SILENCE = Ending("silence", says=["Done."], then=[])
each_ending = pytest.mark.parametrize("ending", [SIGNAL, SILENCE], ids=lambda ending: ending.exit)


@each_ending
def test_if_nothing_is_missing_the_model_is_told_nothing(ending):
    checked, unchecked = Books(), Books()
    outcome = checked.agent(*ending.says, *ending.then).run("Go.")
    plain = unchecked.agent(*ending.says, *ending.then, done_when=()).run("Go.")
    assert outcome.exit == ending.exit
    assert outcome.answer == "Done."
    assert checked.looks == 1
    assert outcome.checks == (Checked("everything_done"),)
    without = [m for m in outcome.transcript if not isinstance(m, Checked)]
    assert without == list(plain.transcript)  # no message to the model, and no call
    assert plain.checks == ()


@each_ending
def test_the_model_is_told_what_is_missing_and_does_it(ending):
    books = Books("B")
    outcome = books.agent(*ending.says, DO, *ending.says, *ending.then).run("Go.")
    assert outcome.exit == ending.exit
    assert books.done == ["B"]
    [question] = questions(outcome)
    assert "- B: not done" in question
    assert [check.missing for check in outcome.checks] == ["B: not done", None]


@pytest.mark.parametrize("says_done", [(LEAVE, LEAVE), ("Done.",)])
def test_a_model_that_says_why_it_cannot_be_done_ends_unmet(says_done):
    books = Books("B")
    outcome = books.agent(*says_done, "B is out of stock.").run("Go.")
    assert outcome.exit == "unmet"
    assert outcome.answer == "B is out of stock."
    assert len(questions(outcome)) == 1  # nothing was done since the first
    assert books.looks == 1
    assert outcome.transcript[-1] == Ended("unmet")


def test_the_model_is_told_at_most_twice_a_turn():
    books = Books("C")
    replies = LEAVE, DO, LEAVE, DO, LEAVE, "Never C."
    outcome = books.agent(*replies).run("Go.")
    assert outcome.exit == "unmet"
    assert len(questions(outcome)) == 2
    assert books.looks == 3


def test_after_a_failed_check_the_tool_choice_is_the_usual_one():
    for force, choice in (("always", "required"), ("never", "auto")):
        books = Books("B")
        outcome = books.agent(LEAVE, DO, LEAVE, "Done.", force=force).run("Go.")
        after = outcome.turn.replies[1]
        assert after.tool_choice == choice
        assert outcome.exit == "signal"


def test_silence_is_confirmed_before_the_checks_and_not_after_them():
    books = Books("B")
    goes_on = think("B is next.")
    replies = goes_on, "I will do B.", LEAVE, think("Hm.", True), "It is out of stock."
    outcome = books.agent(*replies).run("Go.")
    assert [message.kind for message in kit_said(outcome)] == ["silence", "check"]
    assert outcome.exit == "unmet"
    assert outcome.answer == "It is out of stock."


# Checks that fail.


def raises(turn):
    raise KeyError("no such table")


def hangs(turn):
    time.sleep(5)


async def hangs_too(turn):
    await asyncio.sleep(5)


def gives_a_number(turn):
    return 3


@dataclass(frozen=True)
class Broken:
    """A check that gives no result, and the error that leaves the run."""

    check: Any
    error: type[Exception]
    says: str
    seconds: float = 60


BROKEN = [
    Broken(raises, KeyError, "no such table"),
    Broken(
        hangs, TimeoutError, r"the check hangs \(.* took longer than 0.05 seconds", seconds=0.05
    ),
    Broken(
        hangs_too,
        TimeoutError,
        r"the check hangs_too \(.* took longer than 0.05 seconds",
        seconds=0.05,
    ),
    Broken(gives_a_number, TypeError, r"the check gives_a_number \(.*line \d+\): it returned 3"),
]
each_broken_check = pytest.mark.parametrize(
    "broken", BROKEN, ids=lambda broken: broken.check.__name__
)


@each_broken_check
@pytest.mark.parametrize("way", WAYS[:2])
def test_a_check_that_raises_or_hangs_has_found_nothing_and_its_error_leaves_the_run(broken, way):
    """The model is not told: it cannot help it."""
    checking = Books().agent(LEAVE, "So.", done_when=[broken.check], check_timeout=broken.seconds)
    with pytest.raises(broken.error, match=broken.says) as raised:
        way(checking, "Go.", ())
    transcript = raised.value.transcript
    assert not of_kind(transcript, Checked)
    assert len(of_kind(transcript, User)) == 1
    mended = Books().agent(LEAVE, "So.").resume(transcript)
    assert mended.exit == "signal"
    assert mended.answer == "So."


@each_broken_check
def test_at_a_limit_a_check_that_fails_counts_as_missing_so_the_run_ends(broken):
    settings = {"check_timeout": broken.seconds, "max_model_calls": 2}
    checking = Books().agent(DO, "So.", done_when=[broken.check], **settings)
    outcome = checking.run("Go.")
    assert outcome.exit == "limit"
    [checked] = outcome.checks
    assert checked.missing.startswith(f"could not be checked: {broken.error.__name__}: ")


def test_an_async_check_runs_in_every_way():
    async def later(turn):
        await asyncio.sleep(0)
        return

    for way in WAYS:
        assert way(Books().agent("Done.", done_when=[later]), "Go.", ()).exit == "silence"


def test_every_check_needs_a_name_of_its_own():
    def again(turn):
        return None

    again.__name__ = "raises"
    with pytest.raises(ValueError, match="two checks are named 'raises'"):
        Books().agent(done_when=[raises, again])
    with pytest.raises(ValueError, match="two checks are named 'raises'"):
        Books().agent(done_when=[raises, partial(raises)])
    with pytest.raises(TypeError, match="done_when: 'raises': pass a function"):
        Books().agent(done_when=["raises"])
    with pytest.raises(TypeError, match=r"pass a list, such as \[check\]"):
        Books().agent(done_when=again)


# At limits, and where a run ends otherwise.


@pytest.mark.parametrize("limit", [{"max_model_calls": 2}, {"max_actions": 1}])
def test_at_a_limit_the_closing_question_names_what_is_missing(limit):
    books = Books("B")
    outcome = books.agent(call("do", what="A"), "B is open.", **limit).run("Go.")
    [closing] = kit_said(outcome)
    assert "What is missing:\n- B: not done" in closing.text
    assert closing.kind == "limit"
    assert outcome.exit == "limit"
    assert books.looks == 1


def test_a_run_that_gives_up_runs_no_check():
    books = Books("B")
    outcome = books.agent(*[call("do")] * 9).run("Go.")
    assert outcome.exit == "gave_up"
    assert outcome.checks == ()
    assert books.looks == 0


def test_a_typed_answer_is_asked_for_after_the_checks():
    books = Books("B")
    replies = "Done.", DO, "Done.", json.dumps({"answer": 5})
    outcome = books.agent(*replies, answer=int).run("Go.")
    assert outcome.exit == "silence"
    assert outcome.data == 5
    assert [message.kind for message in kit_said(outcome)] == ["check", "answer"]


def test_a_thinker_and_an_actor_are_checked_as_one_model():
    books = Books("B")
    both = split(thinker=ScriptedModel([LEAVE]), actor=ScriptedModel([DO, LEAVE, "Done."]))
    outcome = Agent(both, books.tools, done_when=[books.everything_done]).run("Go.")
    assert outcome.exit == "signal"
    assert books.done == ["B"]
    assert len(questions(outcome)) == 1


# Resumed anywhere.


def test_a_check_without_a_record_runs_when_the_run_is_resumed():
    looks = []

    def first(turn):
        looks.append("first")

    def second(turn):
        looks.append("second")
        if len(looks) == 2:
            raise KeyboardInterrupt

    checking = Books().agent(LEAVE, "Done.", done_when=[first, second])
    with pytest.raises(KeyboardInterrupt) as stopped:
        checking.run("Go.")
    outcome = checking.resume(stopped.value.transcript)
    assert outcome.exit == "signal"
    assert len(outcome.checks) == 2
    assert looks == ["first", "second", "second"]
