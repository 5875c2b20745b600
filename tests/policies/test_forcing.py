"""When the model is forced to think (`policies/forcing.py`).

Each case is a transcript and the step that is planned after it.
"""

from dataclasses import dataclass, replace

import pytest

from think_agent import Agent, ScriptedModel, tool
from think_agent.loop import NUDGE, CallModel, CallTool, Done, Step, plan
from think_agent.messages import Assistant, Force, Message, ToolCall, ToolResult, User
from think_agent.policies.forcing import force, stop_asking
from think_agent.received import notices
from think_agent.testing import call
from think_agent.turn import Turn

ASK = User("Refund ORD-001")
PAY = ToolCall("1", "pay")
THINK = ToolCall("2", "think", {"thought": "x", "should_continue": "true"})
LEAVE = ToolCall("3", "think", {"thought": "x", "should_continue": "false"})
CLOSING = Assistant(tool_choice="none")
LIMIT = User("No more.", kind="limit")

# What the model is asked for.
A_THOUGHT = CallModel(Force("think"))
ANY_TOOL = CallModel("required")
ANYTHING = CallModel()
ONLY_TEXT = CallModel("none")


def reply(*calls: ToolCall) -> list[Message]:
    """A reply with these calls, and their results."""
    results = [ToolResult(made.id, made.name, "ok") for made in calls]
    return [Assistant(tool_calls=calls, stop_reason="tool_use"), *results]


@dataclass(frozen=True)
class Case:
    name: str
    messages: list[Message]
    first: Step  # what is planned with force="first"
    always: Step  # what is planned with force="always"


FORCING = [
    Case("a turn begins", [ASK], first=A_THOUGHT, always=A_THOUGHT),
    Case(
        "a later turn begins",
        [ASK, Assistant("Hi."), ASK],
        first=A_THOUGHT,
        always=A_THOUGHT,
    ),
    Case(
        "a later turn begins, and the earlier one had a thought",
        [ASK, *reply(THINK), Assistant("Hi."), ASK],
        first=A_THOUGHT,
        always=A_THOUGHT,
    ),
    Case("it acted", [ASK, *reply(PAY)], first=ANYTHING, always=A_THOUGHT),
    Case("it thought", [ASK, *reply(THINK)], first=ANYTHING, always=ANY_TOOL),
    Case(
        "it thought, then acted, in one reply",
        [ASK, *reply(THINK, PAY)],
        first=ANYTHING,
        always=A_THOUGHT,
    ),
    Case(
        "it acted, then thought, in one reply",
        [ASK, *reply(PAY, THINK)],
        first=ANYTHING,
        always=ANY_TOOL,
    ),
    Case(
        "it thought, then acted, in two replies",
        [ASK, *reply(THINK), *reply(PAY)],
        first=ANYTHING,
        always=A_THOUGHT,
    ),
    Case(
        "it acted, then thought, in two replies",
        [ASK, *reply(PAY), *reply(THINK)],
        first=ANYTHING,
        always=ANY_TOOL,
    ),
    Case(
        "its reply was empty",
        [ASK, Assistant()],
        first=CallModel(say=NUDGE),
        always=CallModel(Force("think"), say=NUDGE),
    ),
    Case("it was nudged", [ASK, Assistant(), NUDGE], first=ANYTHING, always=A_THOUGHT),
    Case(
        "it thought and was nudged",
        [ASK, *reply(THINK), Assistant(), NUDGE],
        first=ANYTHING,
        always=ANY_TOOL,
    ),
]

NEVER_FORCED = [  # a closing reply, and a step that asks the model nothing
    Case("it signaled the end", [ASK, *reply(LEAVE)], first=ONLY_TEXT, always=ONLY_TEXT),
    Case(
        "it signaled the end and was nudged",
        [ASK, *reply(LEAVE), CLOSING, NUDGE],
        first=ONLY_TEXT,
        always=ONLY_TEXT,
    ),
    Case("a limit is reached", [ASK, LIMIT], first=ONLY_TEXT, always=ONLY_TEXT),
    Case("a call is next", [ASK, reply(PAY)[0]], first=CallTool(PAY), always=CallTool(PAY)),
    Case(
        "it is done",
        [ASK, Assistant("Hi.")],
        first=Done("silence", "Hi."),
        always=Done("silence", "Hi."),
    ),
]

each_case = pytest.mark.parametrize(
    "case", FORCING + NEVER_FORCED, ids=lambda case: case.name.replace(" ", "_")
)


@each_case
def test_force_first_forces_a_thought_at_the_start_of_a_turn(case):
    assert plan(case.messages, [force("first")]) == case.first


@each_case
def test_force_always_forces_a_thought_at_the_start_and_after_each_action(case):
    assert plan(case.messages, [force("always")]) == case.always


def test_force_never_needs_no_policy():
    assert force("never") is None


@pytest.mark.parametrize("refused", ["gate", "invalid"])
def test_a_thought_that_was_refused_or_is_an_error_is_forced_again(refused):
    thought, result = reply(THINK)
    failed = replace(result, is_error=True)
    assert plan([ASK, thought, failed], [force("always")]) == A_THOUGHT
    denied = replace(failed, refused=refused)
    assert plan([ASK, thought, denied], [force("always")]) == A_THOUGHT


# A provider may ignore the choice.


@tool
def pay(n: int) -> str:
    return f"paid {n}"


def test_a_tool_choice_that_was_ignored_twice_is_not_sent_again():
    acts = Agent(ScriptedModel(lambda request: reply(call("pay", n=1))[0]), [pay], force="always")
    choices = [made.tool_choice for made in acts.run("go").turn.replies]
    assert choices[:4] == [Force("think"), Force("think"), "auto", "auto"]


IGNORED = Assistant("Hm.", tool_choice=Force("think"), enforced="ignored", host="a")
HONORED = replace(IGNORED, enforced="schema")
FREE = Assistant("Hm.", host="a")
OTHER_HOST = replace(IGNORED, host="b")


@dataclass(frozen=True)
class Host:
    """Replies, and whether the next one is forced in spite of them."""

    name: str
    replies: list[Assistant]
    is_forced: bool
    is_told: bool  # does the notice about the last reply say that it is not asked any more?


HOSTS = [
    Host("ignored once", [IGNORED], is_forced=True, is_told=False),
    Host("ignored twice", [IGNORED, IGNORED], is_forced=False, is_told=True),
    Host("ignored, free, ignored", [IGNORED, FREE, IGNORED], is_forced=False, is_told=True),
    Host("ignored twice and then free", [IGNORED, FREE, IGNORED, FREE], False, is_told=False),
    Host("honored in between", [IGNORED, HONORED, IGNORED], is_forced=True, is_told=False),
    Host("ignored by two hosts", [IGNORED, OTHER_HOST], is_forced=True, is_told=False),
    Host(
        "ignored twice, and then another host",
        [IGNORED, IGNORED, replace(FREE, host="b")],
        is_forced=True,
        is_told=False,
    ),
    Host(
        "the second choice was none",
        [IGNORED, replace(IGNORED, tool_choice="none")],
        is_forced=True,
        is_told=False,
    ),
]
each_host = pytest.mark.parametrize("case", HOSTS, ids=lambda case: case.name.replace(" ", "_"))


@each_host
def test_a_host_that_ignores_two_choices_in_a_row_is_not_asked_again(case):
    step = plan([ASK, *case.replies, User("Now?")], [force("first"), stop_asking])
    assert step == (A_THOUGHT if case.is_forced else ANYTHING)


@each_host
def test_the_user_is_told_once_that_it_is_not_asked_any_more(case):
    turn = Turn.of([ASK, *case.replies])
    told = " ".join(notices(case.replies[-1], turn))
    assert ("From now on it is not asked any more" in told) == case.is_told
