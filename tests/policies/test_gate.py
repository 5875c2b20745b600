"""The gate: no guarded call runs without a thought that covers it. The rule of
`think_agent/policies/gate.py` as a table. Arbitrary scripts attack it, and the definition in
`tests/support/naive.py` judges them.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import naive
from tests.support.agents import results
from think_agent.loop import CallModel, CallTool, Done, Refuse, plan
from think_agent.messages import Assistant, Force, Started, ToolCall, ToolResult, User
from think_agent.policies.gate import gate
from think_agent.policies.patience import patience

GUARDED = {"pay"}
POLICIES = [gate(GUARDED)]
FREE, FORCED = CallModel(), CallModel(Force("think"))


def call_named(word: str) -> ToolCall:
    """A call by its name. `think` and `blank` are thoughts, `pay!` carries one, `pay_` a blank."""
    match word:
        case "think" | "blank":
            notes = "the rules hold" if word == "think" else " \n"
            return ToolCall("", "think", {"thought": notes, "should_continue": "true"})
        case "pay!" | "pay_":
            return ToolCall("", "pay", {"thought": "it is due" if word == "pay!" else " "})
    return ToolCall("", word)


def reply_with(words: str) -> Assistant:
    """A reply with these calls. In brackets it is malformed; after an ellipsis it was cut off."""
    stop = {"(": "malformed", "…": "max_tokens"}.get(words[:1], "tool_use")
    calls = (call_named(word) for word in words.strip("(…)").split())
    return Assistant(tool_calls=tuple(calls), stop_reason=stop)


def played(*replies: str) -> list[User | Assistant | ToolResult]:
    """The transcript of these replies. Each call has the result that the gate gives it, and that
    is what the definition says.
    """
    transcript = [User("Refund ORD-001")]
    for number, words in enumerate(replies):
        reply = reply_with(words)
        calls = tuple(replace(c, id=f"{number}.{i}") for i, c in enumerate(reply.tool_calls))
        transcript.append(replace(reply, tool_calls=calls))
        for call in calls:
            step = plan(transcript, POLICIES)
            if isinstance(step, Done):  # the reply was cut, so this result means nothing
                transcript.append(ToolResult(call.id, call.name, "ok"))
                continue
            may_run = call.name not in GUARDED or naive.behind(transcript, call, GUARDED)
            assert isinstance(step, CallTool if may_run else Refuse)
            assert step.call == call
            code = "" if may_run else step.code
            transcript.append(ToolResult(call.id, call.name, "…", bool(code), code))
    return transcript


def ran(transcript) -> str:
    return " ".join(r.name for r in results(transcript) if not r.refused and r.name != "think")


TABLE = {  # replies: which of their calls ran
    "no thought": (["pay"], ""),
    "a thought in the reply": (["think pay"], "pay"),
    "a thought in the reply before": (["think", "pay"], "pay"),
    "a thought two replies before": (["think", "think", "pay"], "pay"),
    "after the call": (["pay think"], ""),
    "one for two": (["think pay pay"], "pay pay"),
    "one for two, in the reply after": (["think", "pay pay"], "pay pay"),
    "one for two in two replies": (["think", "pay", "pay"], "pay"),
    "a thought each": (["think pay", "think pay"], "pay pay"),
    "decided before the look was read": (["think", "look pay"], "look"),
    "in one reply": (["think look pay"], "look"),
    "the thought between does not help": (["look think pay"], "look"),
    "the look in a reply of its own": (["think", "look", "pay"], "look"),
    "the look before the thought": (["look", "think", "pay"], "look pay"),
    "the look after the payment": (["think pay look"], "pay look"),
    "and then a payment": (["think pay look pay"], "pay look"),
    "blank": (["blank pay"], ""),
    "blank after a thought": (["think blank pay"], "pay"),
    "blank in the reply before": (["think", "blank", "pay"], "pay"),
    "blank covers no second payment": (["think", "pay", "blank", "pay"], "pay"),
    "carried": (["pay!"], "pay"),
    "carried, blank": (["pay_"], ""),
    "carried covers that call only": (["pay! pay"], "pay"),
    "not the next reply either": (["pay!", "pay"], "pay"),
    "carried beside a look": (["look pay!"], "look pay"),
    "carried, and a thought before both": (["think", "pay! pay"], "pay pay"),
    "carried, a thought, a payment": (["pay! think pay"], "pay pay"),
    "carried by an unguarded call": (["look", "pay"], "look"),
    "a thought in a malformed reply": (["(think)", "pay"], ""),
    "a thought in a reply that was cut": (["…think", "pay"], ""),
    "a refused call did not run": (["pay", "think", "pay"], "pay"),
    "refused and thought in one reply": (["pay think pay"], "pay"),
    "refused beside a look, then thought": (["think", "look pay", "think", "pay"], "look pay"),
}


@pytest.mark.parametrize(("replies", "right"), TABLE.values(), ids=TABLE)
def test_only_calls_behind_a_thought_run(replies, right):
    assert ran(played(*replies)) == right


def test_a_thought_whose_result_is_an_error_covers_nothing():
    transcript = played("think", "pay")[:-1]
    assert isinstance(plan(transcript, POLICIES), CallTool)
    transcript[2] = replace(transcript[2], is_error=True)
    assert isinstance(plan(transcript, POLICIES), Refuse)


def test_an_unguarded_call_counts_even_if_it_was_refused():
    transcript = played("think", "look pay")[:-1]
    for code in ("", "limit", "person", "failed"):
        transcript[-1] = replace(transcript[-1], is_error=True, refused=code)
        assert plan(transcript, POLICIES).code == "gate"


def test_a_refused_call_uses_up_its_thought_only_if_it_was_started_before():
    """A crash stopped it, so it may have run."""
    transcript = played("think", "pay")
    transcript[-1] = replace(transcript[-1], is_error=True, refused="person")
    assert isinstance(plan([*transcript, reply_with("pay")], POLICIES), CallTool)
    transcript[-1:] = [Started("1.0", "pay"), replace(transcript[-1], in_doubt=True)]
    assert isinstance(plan([*transcript, reply_with("pay")], POLICIES), Refuse)


def test_a_new_turn_needs_a_new_thought():
    assert isinstance(plan([*played("think"), User("And?"), reply_with("pay")], POLICIES), Refuse)


NEXT = {  # replies: the next step
    "covered": (["think pay"], FREE),
    "refused": (["pay"], FORCED),
    "refused after a thought": (["think look pay"], FORCED),
    "refused, and then just thought": (["pay think"], FREE),
    "refused, and a blank thought": (["pay blank"], FORCED),
    "it looked instead": (["pay", "look"], FREE),
    "it thought": (["pay", "think"], FREE),
    "it thought nothing": (["pay", "blank"], FREE),
    "again": (["pay", "pay"], FORCED),
    "three times, with patience": (["pay", "pay think", "pay", "look", "pay"], FORCED),
}


@pytest.mark.parametrize(("replies", "right"), NEXT.values(), ids=NEXT)
def test_a_thought_is_forced_after_a_refusal(replies, right):
    assert plan(played(*replies), POLICIES) == right


def test_after_three_refused_replies_in_a_row_the_run_gives_up():
    step = plan(played("pay", "pay pay", "pay"), [*POLICIES, patience(3)])
    assert isinstance(step, Done)
    assert step.exit == "gave_up"
    assert "It acted without a thought" in step.answer
    looked = plan(played("pay", "look pay pay", "pay"), [*POLICIES, patience(3)])
    assert looked == FORCED  # one of them brought something


# The attack.

words = st.sampled_from(["look", "pay", "pay", "think", "blank", "pay!", "pay_"])
forms = st.sampled_from(["{}", "{}", "{}", "{}", "({})", "…{}"])
scripts = st.lists(
    st.builds(lambda form, calls: form.format(" ".join(calls)), forms, st.lists(words, max_size=5)),
    max_size=8,
)


@settings(max_examples=250)
@given(scripts)
def test_exactly_the_covered_calls_run(script):
    played(*script)  # it judges each call by the definition
