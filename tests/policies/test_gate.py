"""The gate: no guarded call runs without a thought that covers it (`policies/gate.py`, `cover.py`).

In the tables `pay` is guarded and `look` is not. Each text is one reply, and its words are the
calls in it: "think pay" thinks and pays in one reply. At the end, random scripts attack the gate,
and the definition in `tests/support/oracle/facts.py` judges them.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.agents import results
from tests.support.oracle.facts import thought_behind
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
            may_run = call.name not in GUARDED or thought_behind(transcript, call, GUARDED)
            assert isinstance(step, CallTool if may_run else Refuse)
            assert step.call == call
            code = "" if may_run else step.code
            transcript.append(ToolResult(call.id, call.name, "…", bool(code), code))
    return transcript


def ran(transcript) -> str:
    return " ".join(r.name for r in results(transcript) if not r.refused and r.name != "think")


class Case(NamedTuple):
    """The replies of the model (see `call_named`), and the calls that run."""

    says: list[str]
    runs: str


TABLE = {
    # rule 1: a thought covers the calls after it, until the model has read the result of one
    "no thought": Case(says=["pay"], runs=""),
    "a thought in the reply": Case(says=["think pay"], runs="pay"),
    "a thought in the reply before": Case(says=["think", "pay"], runs="pay"),
    "a thought two replies before": Case(says=["think", "think", "pay"], runs="pay"),
    "after the call": Case(says=["pay think"], runs=""),
    "one for two": Case(says=["think pay pay"], runs="pay pay"),
    "one for two, in the reply after": Case(says=["think", "pay pay"], runs="pay pay"),
    "one for two in two replies": Case(says=["think", "pay", "pay"], runs="pay"),
    "a thought each": Case(says=["think pay", "think pay"], runs="pay pay"),
    # rule 3: an unguarded call before it in the same reply
    "decided before the look was read": Case(says=["think", "look pay"], runs="look"),
    "in one reply": Case(says=["think look pay"], runs="look"),
    "the thought between does not help": Case(says=["look think pay"], runs="look"),
    "the look in a reply of its own": Case(says=["think", "look", "pay"], runs="look"),
    "the look before the thought": Case(says=["look", "think", "pay"], runs="look pay"),
    "a thought beside the look counts in the next reply": Case(
        says=["look think", "pay"], runs="look pay"
    ),
    "a thought beside a payment counts in the next reply": Case(
        says=["think", "pay think", "pay"], runs="pay pay"
    ),
    "the look after the payment": Case(says=["think pay look"], runs="pay look"),
    "and then a payment": Case(says=["think pay look pay"], runs="pay look"),
    # a blank thought is no thought
    "blank": Case(says=["blank pay"], runs=""),
    "blank after a thought": Case(says=["think blank pay"], runs="pay"),
    "blank in the reply before": Case(says=["think", "blank", "pay"], runs="pay"),
    "blank covers no second payment": Case(says=["think", "pay", "blank", "pay"], runs="pay"),
    # a thought that a call carries covers that call and no other
    "carried": Case(says=["pay!"], runs="pay"),
    "carried, blank": Case(says=["pay_"], runs=""),
    "carried covers that call only": Case(says=["pay! pay"], runs="pay"),
    "not the next reply either": Case(says=["pay!", "pay"], runs="pay"),
    "carried beside a look": Case(says=["look pay!"], runs="look pay"),
    "carried, and a thought before both": Case(says=["think", "pay! pay"], runs="pay pay"),
    "carried, a thought, a payment": Case(says=["pay! think pay"], runs="pay pay"),
    "a look and no thought": Case(says=["look", "pay"], runs="look"),
    # a thought in a reply that could not be read, or was cut
    "a thought in a malformed reply": Case(says=["(think)", "pay"], runs=""),
    "a thought in a reply that was cut": Case(says=["…think", "pay"], runs=""),
    # a refused call did not run, so its thought still counts
    "a refused call did not run": Case(says=["pay", "think", "pay"], runs="pay"),
    "refused and thought in one reply": Case(says=["pay think pay"], runs="pay"),
    "refused beside a look, then thought": Case(
        says=["think", "look pay", "think", "pay"], runs="look pay"
    ),
}


@pytest.mark.parametrize("case", TABLE.values(), ids=TABLE)
def test_a_guarded_call_runs_only_behind_a_thought(case):
    assert ran(played(*case.says)) == case.runs


def test_a_thought_whose_result_is_an_error_covers_nothing():
    transcript = played("think", "pay")[:-1]
    assert isinstance(plan(transcript, POLICIES), CallTool)
    transcript[2] = replace(transcript[2], is_error=True)
    assert isinstance(plan(transcript, POLICIES), Refuse)


def test_an_unguarded_call_before_it_in_the_reply_counts_even_if_it_was_refused():
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


class Next(NamedTuple):
    """The replies of the model, and whether the next one is forced to think."""

    says: list[str]
    is_forced: bool


NEXT = {
    "covered": Next(says=["think pay"], is_forced=False),
    "refused": Next(says=["pay"], is_forced=True),
    "refused after a thought": Next(says=["think look pay"], is_forced=True),
    "refused, and then just thought": Next(says=["pay think"], is_forced=False),
    "refused, and a blank thought": Next(says=["pay blank"], is_forced=True),
    "it looked instead": Next(says=["pay", "look"], is_forced=False),
    "it thought": Next(says=["pay", "think"], is_forced=False),
    "it thought nothing": Next(says=["pay", "blank"], is_forced=False),
    "again": Next(says=["pay", "pay"], is_forced=True),
    "three times, with patience": Next(
        says=["pay", "pay think", "pay", "look", "pay"], is_forced=True
    ),
}


@pytest.mark.parametrize("case", NEXT.values(), ids=NEXT)
def test_after_a_refusal_the_next_model_call_forces_a_thought(case):
    expected = FORCED if case.is_forced else FREE
    assert plan(played(*case.says), POLICIES) == expected


def test_without_a_think_tool_no_thought_is_forced_and_the_refusal_names_the_parameter():
    policy = gate(GUARDED, can_think=False)
    refused = plan([User("Refund ORD-001"), reply_with("pay")], [policy])
    assert isinstance(refused, Refuse)
    assert "'thought'" in refused.reason
    assert plan(played("pay"), [policy]) == FREE


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
def test_in_any_script_exactly_the_covered_calls_run(script):
    played(*script)  # it judges each call by the definition
