"""If a model repeats the same action, it first reads that it does, and then the run gives up
(`policies/repeats.py`).

Each case is a script that the model plays and what the run makes of it.
"""

from dataclasses import dataclass, replace

import pytest

from tests.support.agents import agent, kit_said
from think_agent import tool
from think_agent.loop import CallModel
from think_agent.messages import Assistant, Force, ToolCall, ToolResult, User
from think_agent.testing import call, think
from think_agent.testing.scripted import Reply

# Tools: two that may change something, and one that only reads.


@tool(repeats=True)
def work(n: int = 0) -> str:
    """Fail, but for n=0."""
    if n:
        raise ValueError(f"no {n}")
    return "worked"


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(read_only=True)
def look(item: str) -> str:
    """Look it up."""
    return f"{item}: 89 $"


WORK, HM = call("work", n=0), think("hm")
FAIL_1, FAIL_2 = call("work", n=1), call("work", n=2)
ONE_WAY, OTHER_WAY = call("add", a=1, b=2), call("add", b=2, a=1)
TEA, MILK, RICE = (call("look", item=item) for item in ("tea", "milk", "rice"))


@dataclass(frozen=True)
class Case:
    """A run with `max_repeats=3`."""

    name: str
    replies: list[Reply]  # the model's, in order
    exit: str
    actions: int  # how many ran
    told: list[str]  # how many repeats the model reads of, each time


THE_SAME_ACTION = [  # rules 1 and 2
    Case("it never stops", [WORK] * 9, exit="gave_up", actions=4, told=["3 times"]),
    Case(
        "other thoughts, another order of arguments",
        [(HM, ONE_WAY), (HM, OTHER_WAY)] * 3,
        exit="gave_up",
        actions=4,
        told=["3 times"],
    ),
    Case(
        "it changes its way",
        [WORK, WORK, WORK, FAIL_1, FAIL_2, "Done."],
        exit="silence",
        actions=5,
        told=["3 times"],
    ),
    Case("in one reply", [(WORK,) * 5, "I see."], exit="silence", actions=5, told=["5 times"]),
    Case(
        "two actions, one after the other",
        [WORK, WORK, WORK, ONE_WAY, ONE_WAY, ONE_WAY, "I see."],
        exit="silence",
        actions=6,
        told=["3 times", "3 times"],
    ),
    Case(
        "it only thinks after it has read that",
        [WORK, WORK, WORK, HM, HM, "I see."],
        exit="silence",
        actions=3,
        told=["3 times"],
    ),
]

THOUGHTS = [  # rule 1: they do not count
    Case("thoughts in one reply", [(HM, HM, HM), "I see."], exit="silence", actions=0, told=[]),
    Case("a thought in each reply", [HM, HM, "I see."], exit="silence", actions=0, told=[]),
]

READING = [  # rule 3: a call of a read_only tool is counted since the last action that is none
    Case("in a row", [TEA, TEA, TEA, "I see."], exit="silence", actions=3, told=["3 times"]),
    Case(
        "two things in turn",
        [TEA, MILK, TEA, MILK, TEA, "I see."],
        exit="silence",
        actions=5,
        told=["3 times"],
    ),
    Case(
        "two things in turn, on and on",
        [TEA, MILK] * 4,
        exit="gave_up",
        actions=7,
        told=["3 times", "3 times"],
    ),
    Case(
        "three things in turn, on and on",
        [TEA, MILK, RICE] * 4,
        exit="gave_up",
        actions=10,
        told=["3 times", "3 times", "3 times"],
    ),
    Case(
        "two things in turn, and a change in between",
        [TEA, MILK, TEA, WORK, MILK, TEA, "I see."],
        exit="silence",
        actions=6,
        told=[],
    ),
    Case(
        "after each change again",
        [TEA, WORK, TEA, WORK, TEA, "I see."],
        exit="silence",
        actions=5,
        told=[],
    ),
    Case(
        "between actions that are the same",
        [WORK, TEA, WORK, TEA, WORK, "I see."],
        exit="silence",
        actions=5,
        told=["3 times"],
    ),
]


@pytest.mark.parametrize("case", THE_SAME_ACTION + THOUGHTS + READING, ids=lambda case: case.name)
def test_a_model_that_repeats_itself_is_told_and_then_the_run_gives_up(case):
    outcome = agent(*case.replies, tools=[work, add, look]).run("go")
    told = kit_said(outcome)

    assert outcome.exit == case.exit
    assert len(outcome.actions) == case.actions
    assert {message.kind for message in told} <= {"repeat"}
    assert len(told) == len(case.told)
    for message, times in zip(told, case.told, strict=True):
        assert times in message.text


def test_a_question_of_the_kit_is_not_replaced_by_the_one_about_repeats():
    def is_done(turn):
        return "the other order is open"

    leave = think("Done.", should_continue=False)
    outcome = agent(WORK, (WORK, leave), "So.", tools=[work], max_repeats=2, done_when=[is_done])
    [told] = kit_said(outcome.run("go"))
    assert told.kind == "check"


def test_another_result_is_no_repeat():
    pages = iter(range(9))
    poll = tool(lambda: next(pages), name="poll")
    outcome = agent(*[call("poll")] * 6, "Done.", tools=[poll]).run("go")
    assert outcome.exit == "silence"
    assert len(outcome.actions) == 6


@pytest.mark.parametrize(("refused", "choice"), [("", "auto"), ("gate", Force("think"))])
def test_resumed_after_it_was_told_the_model_is_asked_with_the_same_choice(refused, choice):
    """Also if the gate refused a call in the same reply."""
    first, second = ToolCall("a", "work"), ToolCall("b", "work")
    reply = Assistant(tool_calls=(first, second))
    worked, answered = ToolResult("a", "work", "worked"), ToolResult("b", "work", "worked")
    answered = replace(answered, refused=refused)
    messages = [User("go"), *[reply, worked, answered] * 2]
    desk = agent(tools=[work], max_repeats=2)
    step = desk.next_step(messages)
    assert step.say.kind == "repeat"
    assert step.tool_choice == choice
    assert desk.next_step([*messages, step.say]) == CallModel(choice)
