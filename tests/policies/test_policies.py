"""Policies are values in, values out: a step and a turn give a step."""

from dataclasses import replace

import pytest

from think_agent import Agent, ScriptedModel, tool
from think_agent.loop import NUDGE, CallModel, CallTool, Done, plan
from think_agent.messages import Assistant, Force, ToolCall, ToolResult, User
from think_agent.policies.forcing import force, stop_asking
from think_agent.policies.limits import Limits
from think_agent.received import notices
from think_agent.testing import call
from think_agent.turn import Turn

ASK = User("Refund ORD-001")
PAY = ToolCall("1", "pay")
THOUGHT = ToolCall("2", "think", {"thought": "x", "should_continue": "true"})
LEAVE = ToolCall("3", "think", {"thought": "x", "should_continue": "false"})
FORCED = CallModel(Force("think"))
CLOSING = Assistant(tool_choice="none")


def turn(*calls):
    return [
        Assistant(tool_calls=calls, stop_reason="tool_use"),
        *(ToolResult(call.id, call.name, "ok") for call in calls),
    ]


ACTED = [ASK, *turn(PAY)]
THOUGHT_OF = [ASK, *turn(THOUGHT)]
LEFT = [ASK, *turn(LEAVE)]
LIMIT = User("No more.", kind="limit")

# transcript: what is planned with force="first", and with "always"
FORCING = {
    "opening": ([ASK], FORCED, FORCED),
    "opening of a later turn": ([ASK, Assistant("Hi."), ASK], FORCED, FORCED),
    "opening after a thought": ([*THOUGHT_OF, Assistant("Hi."), ASK], FORCED, FORCED),
    "acted": (ACTED, CallModel(), FORCED),
    "thought": (THOUGHT_OF, CallModel(), CallModel("required")),
    "thought, then acted": ([ASK, *turn(THOUGHT, PAY)], CallModel(), FORCED),
    "acted, then thought": ([ASK, *turn(PAY, THOUGHT)], CallModel(), CallModel("required")),
    "thought and acted, by and by": ([*THOUGHT_OF, *turn(PAY)], CallModel(), FORCED),
    "acted and thought, by and by": ([*ACTED, *turn(THOUGHT)], CallModel(), CallModel("required")),
    "empty": ([ASK, Assistant()], CallModel(say=NUDGE), CallModel(Force("think"), say=NUDGE)),
    "nudged": ([ASK, Assistant(), NUDGE], CallModel(), FORCED),
    "thought, then nudged": ([*THOUGHT_OF, Assistant(), NUDGE], CallModel(), CallModel("required")),
    # never the final call, and never what is not a call
    "signaled": (LEFT, CallModel("none"), CallModel("none")),
    "signaled, nudged": ([*LEFT, CLOSING, NUDGE], CallModel("none"), CallModel("none")),
    "limit": ([ASK, LIMIT], CallModel("none"), CallModel("none")),
    "calls": ([ASK, turn(PAY)[0]], CallTool(PAY), CallTool(PAY)),
    "done": ([ASK, Assistant("Hi.")], Done("silence", "Hi."), Done("silence", "Hi.")),
}


@pytest.mark.parametrize(("transcript", "first", "always"), FORCING.values(), ids=FORCING.keys())
def test_force_first_and_force_always_change_the_tool_choice(transcript, first, always):
    assert plan(transcript, [force("first")]) == first
    assert plan(transcript, [force("always")]) == always
    assert force("never") is None


@tool
def pay(n: int) -> str:
    return f"paid {n}"


def test_a_tool_choice_that_was_ignored_twice_is_not_sent_again():
    acts = Agent(ScriptedModel(lambda request: turn(call("pay", n=1))[0]), [pay], force="always")
    asked = [reply.tool_choice for reply in acts.run("go").turn.replies]
    assert asked[:4] == [Force("think"), Force("think"), "auto", "auto"]


IGNORED = Assistant("Hm.", tool_choice=Force("think"), enforced="ignored", host="a")
HONORED = replace(IGNORED, enforced="schema")
FREE = Assistant("Hm.", host="a")


@pytest.mark.parametrize(
    ("replies", "choice", "is_told"),
    [
        ([IGNORED], Force("think"), False),
        ([IGNORED, IGNORED], "auto", True),
        ([IGNORED, FREE, IGNORED], "auto", True),
        ([IGNORED, FREE, IGNORED, FREE], "auto", False),
        ([IGNORED, HONORED, IGNORED], Force("think"), False),
        ([IGNORED, replace(IGNORED, host="b")], Force("think"), False),
        ([IGNORED, IGNORED, replace(FREE, host="b")], Force("think"), False),
        ([IGNORED, replace(IGNORED, tool_choice="none")], Force("think"), False),
    ],
)
def test_forcing_is_given_up_and_told_after_two_in_a_row_from_one_host(replies, choice, is_told):
    step = plan([ASK, *replies, User("Now?")], [force("first"), stop_asking])
    assert step == CallModel(choice)
    told = " ".join(notices(replies[-1], Turn.of([ASK, *replies])))
    assert ("From now on it is not asked any more" in told) == is_told


def limited(limit, *transcript):
    return plan(transcript, [Limits(model_calls=limit).close_at_limit])


def test_at_a_limit_the_model_is_asked_for_its_last_reply_and_then_the_turn_is_over():
    closing = [*ACTED, limited(2, *ACTED).say]
    assert closing[-1].kind == "limit"
    assert limited(2, *closing) == CallModel("none")  # resumed after the words
    assert limited(2, *closing, replace(CLOSING, text="So far.")) == Done("limit", "So far.")
    assert limited(9, *closing, CLOSING) == Done("limit", "✓ pay()")  # nothing more is asked
    assert limited(1, *ACTED).exit == "limit"  # resumed under a lower limit
    assert limited(2, *LEFT) == CallModel("none")
    assert limited(2, *LEFT, CLOSING) == Done("limit")  # no call is left for a nudge
