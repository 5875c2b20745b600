"""A turn ends at the first limit that it reaches: each limit alone, and the closing reply there
(`policies/limits.py`). All limits together are judged by the oracle: `tests/core/test_oracle.py`.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import pytest

from tests.support.agents import clock, kit_said, results
from think_agent import Agent, ScriptedModel, Turn, tool
from think_agent.loop import CallModel, CallTool, Done, plan
from think_agent.messages import Assistant, ToolCall, ToolResult, Usage, User, Verdict
from think_agent.policies import Price
from think_agent.policies.limits import Limits
from think_agent.testing import call, think

PRICES = {"script": Price(input=3.0, output=15.0)}
HUNDRED = Usage(60, 40)  # 60 * 3 + 40 * 15 = 780 millionths


@tool
def look(n: int) -> str:
    """Look something up."""
    if n == 2:
        raise ValueError("two is too many")
    return f"saw {n}"


def busy(request):
    """A model that never stops by itself. It writes a text only if it cannot call tools."""
    if request.tool_choice == "none":
        return Assistant("What I could.", usage=HUNDRED)
    n = sum(isinstance(message, ToolResult) for message in request.messages) + 1
    return Assistant(tool_calls=(call("look", n=n),), usage=HUNDRED)


def agent(script=busy, **limits):
    return Agent(ScriptedModel(script), [look], force="never", **limits)


@dataclass(frozen=True)
class Case:
    """A limit, and how a run of a model that never stops by itself ends there."""

    name: str
    limits: dict[str, Any]
    exit: str
    model_calls: int  # with the closing reply
    actions: int


# The clock ticks once a message, and counts from the person's message on.
ALONE = [
    Case("1 model call", {"max_model_calls": 1}, "limit", model_calls=1, actions=0),
    Case("5 model calls", {"max_model_calls": 5}, "limit", model_calls=5, actions=4),
    Case("1 action", {"max_actions": 1}, "limit", model_calls=2, actions=1),
    Case("3 actions", {"max_actions": 3}, "limit", model_calls=4, actions=3),
    Case("5 seconds", {"max_seconds": 5, "now": clock()}, "limit", model_calls=3, actions=2),
    Case(
        "seconds that end before the first call",
        {"max_seconds": 0.5, "now": clock()},
        "limit",
        model_calls=2,
        actions=0,
    ),
    Case("1 token", {"max_tokens": 1}, "budget", model_calls=2, actions=1),
    Case("300 tokens, all used", {"max_tokens": 300}, "budget", model_calls=4, actions=3),
    Case("301 tokens, one is left", {"max_tokens": 301}, "budget", model_calls=5, actions=4),
    Case(
        "money for fewer than 200 tokens is left",  # for 196
        {"max_cost": 0.0045, "prices": PRICES},
        "budget",
        model_calls=3,
        actions=2,
    ),
]


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.name)
def test_each_limit_ends_a_run_with_a_closing_reply_that_can_call_no_tool(case):
    outcome = agent(**case.limits).run("go")
    *before, closing = outcome.turn.replies

    assert outcome.exit == case.exit
    assert outcome.model_calls == case.model_calls
    assert len(outcome.actions) == case.actions
    assert outcome.answer == "What I could."
    assert closing.tool_choice == "none"
    assert {reply.tool_choice for reply in before} <= {"auto"}


@pytest.mark.parametrize(("limits", "is_bounded"), [({}, False), ({"max_seconds": 900}, True)])
def test_a_closing_reply_may_take_its_time_where_nothing_limits_seconds(limits, is_bounded):
    """A model on a CPU may read its prompt for minutes."""
    deadlines = []

    def script(request):
        deadlines.append(request.deadline)
        return busy(request)

    agent(script, max_model_calls=2, **limits).run("go")
    assert [deadline < inf for deadline in deadlines] == [is_bounded] * 2


def test_the_closing_question_says_what_was_done():
    outcome = agent(max_actions=3).run("go")
    report = ["✓ look(n=1)", "✗ look(n=2) (error: ValueError: two is too many)", "✓ look(n=3)"]
    assert outcome.report.splitlines() == report
    (said,) = kit_said(outcome)
    assert said.kind == "limit"
    assert "actions (3)" in said.text
    assert all(line in said.text.splitlines() for line in report)
    assert outcome.transcript[-3] == said


@pytest.mark.parametrize(
    "last", [Assistant(), Assistant(" \n"), Assistant(tool_calls=(call("look", n=9),))]
)
@pytest.mark.parametrize("limit", [{"max_model_calls": 3}, {"max_actions": 2}, {"max_tokens": 200}])
def test_a_model_that_does_not_answer_the_closing_question_ends_at_the_limit(limit, last):
    mute = agent(lambda asked: last if asked.tool_choice == "none" else busy(asked), **limit)
    outcome = mute.run("go")
    assert outcome.exit == ("budget" if "max_tokens" in limit else "limit")
    assert outcome.answer == outcome.report
    assert len(outcome.actions) == 2


def test_seconds_are_judged_before_each_call_of_a_reply():
    now = clock(0.1)
    slow = agent([[call("look", n=n) for n in range(30)], "Enough."], max_seconds=0.3, now=now)
    outcome = slow.run("go")
    assert outcome.exit == "limit"
    assert len(outcome.actions) == 2
    assert [result.refused for result in results(outcome)[2:]] == ["limit"] * 28


FREE_OUTPUT = {"script": Price(input=3.0, output=0.0)}


@pytest.mark.parametrize(
    ("most", "prices", "bounds"),
    [
        pytest.param(0.01, PRICES, [666, 614, 562], id="what is left, at 15 millionths a token"),
        pytest.param(0.0029, PRICES, [1000], id="for fewer than 200, so the turn closes at once"),
        pytest.param(0.001, FREE_OUTPUT, [None, None, None], id="output costs nothing"),
    ],
)
def test_money_bounds_the_tokens_of_the_next_reply(most, prices, bounds):
    asked = []

    def reply(request):
        asked.append(request.max_output_tokens)
        return busy(request)

    agent(reply, max_cost=most, prices=prices, max_repeats=99).run("go")
    assert asked[: len(bounds)] == bounds


def test_a_model_that_only_thinks_is_asked_for_its_closing_reply():
    thinks = [*[think("Hm.")] * 6, "I only thought."]
    outcome = agent(thinks, max_model_calls=None).run("go")
    assert outcome.exit == "limit"
    assert outcome.answer == "I only thought."
    [question] = kit_said(outcome)
    assert "6 replies in a row that only think" in question.text


def insists(choice):
    """A policy of the user that never lets the run end."""

    def policy(step, turn):
        if isinstance(step, (CallModel, Done)):
            return CallModel(choice, say=User("Go on!"))
        return step

    return policy


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
@pytest.mark.parametrize(
    "limit",
    [{"max_model_calls": 5}, {"max_tokens": 300}, {"max_seconds": 9}, {"max_actions": 1}],
)
def test_a_custom_policy_cannot_go_on_beyond_a_limit(choice, limit):
    def reply(request):
        if choice == "required":
            return busy(request)
        return Assistant("Done.", usage=HUNDRED)

    most = {"max_model_calls": 30, **limit}
    endless = agent(reply, policies=[insists(choice)], max_repeats=99, now=clock(), **most)
    outcome = endless.run("go")
    assert outcome.model_calls <= most["max_model_calls"]
    if "max_actions" not in limit or choice == "required":
        assert outcome.model_calls <= 6
    assert outcome.transcript[-1] == outcome.turn.ended


def test_without_a_model_call_left_the_answer_is_kept_even_if_a_policy_wants_another():
    def objects(step, turn):
        return CallModel("none", say=User("Go on!")) if isinstance(step, Done) else step

    script = [call("look", n=1), think("All done.", False), "I saw it."]
    outcome = agent(script, max_model_calls=3, policies=[objects]).run("go")
    assert outcome.exit == "limit"
    assert outcome.answer == "I saw it."


def test_calls_beyond_the_limit_are_refused_and_not_run():
    outcome = agent([[call("look", n=n) for n in range(5)], "Enough."], max_actions=3).run("go")
    assert [m.refused for m in results(outcome)] == ["", "", "", "limit", "limit"]
    assert outcome.exit == "limit"
    assert len(outcome.actions) == 3


def test_at_a_limit_no_person_is_asked_whether_to_go_on():
    settings = {"patience": 1, "max_model_calls": 2}
    fails = call("look", n=2)
    limited = agent([fails, "I stop."], approve=lambda asked: pytest.fail("asked"), **settings)
    outcome = limited.run("go")
    assert outcome.exit == "limit"
    assert outcome.answer == "I stop."


def test_thoughts_do_not_use_up_actions():
    replies = [(think("hm"), call("look", n=n)) for n in (1, 3, 4)]
    outcome = agent([*replies, "So far."], max_actions=3).run("go")
    assert outcome.exit == "limit"
    assert len(outcome.actions) == 3
    assert len(outcome.thoughts) == 3


def test_each_turn_has_its_own_limits():
    desk = agent(max_actions=2, max_tokens=5_000)
    first = desk.run("go")
    assert len(desk.run("and again", transcript=first.transcript).actions) == 2


@pytest.mark.parametrize(
    "limit", [{"max_actions": 1}, {"max_model_calls": 2}, {"max_tokens": 1}, {"max_seconds": 1}]
)
def test_a_model_that_signals_the_end_in_time_is_not_at_a_limit(limit):
    outcome = agent([think("x", False), "Bye."], **limit, now=clock(0.01)).run("go")
    assert outcome.exit == "signal"
    assert kit_said(outcome) == []


@pytest.mark.parametrize("limit", [{"max_actions": 1}, {"max_model_calls": 2}])
def test_an_unreadable_closing_reply_is_not_the_answer(limit):
    broken = Assistant('{"response": "I di', stop_reason="malformed", mistake="It is no JSON.")
    outcome = agent([call("look", n=1), broken], **limit).run("go")
    assert outcome.exit == "limit"
    assert outcome.answer == "✓ look(n=1)"


# Resumed, at a limit.


ASK = User("Refund ORD-001")
PAID = [Assistant(tool_calls=(ToolCall("1", "pay"),)), ToolResult("1", "pay", "ok")]
LEFT = [
    Assistant(tool_calls=(ToolCall("2", "think", {"thought": "x", "should_continue": "false"}),)),
    ToolResult("2", "think", "ok"),
]
NAMED = User("No more.", kind="limit")  # the kit has said that the limit is reached
CLOSING = Assistant(tool_choice="none")  # the closing reply, with no text


def next_step(*messages, model_calls=2):
    return plan([ASK, *messages], [Limits(model_calls=model_calls).close_at_limit])


def test_at_a_limit_the_model_is_told_and_asked_for_its_closing_reply():
    step = next_step(*PAID)
    assert step.say.kind == "limit"
    assert step.tool_choice == "none"


def test_a_limit_is_told_once_and_the_closing_reply_is_still_asked_for():
    assert next_step(*PAID, NAMED) == CallModel("none")


def test_the_text_of_the_closing_reply_is_the_answer():
    said = replace(CLOSING, text="So far.")
    assert next_step(*PAID, NAMED, said) == Done("limit", "So far.")


def test_after_the_closing_reply_nothing_is_asked_even_under_a_higher_limit():
    assert next_step(*PAID, NAMED, CLOSING, model_calls=9) == Done("limit", "✓ pay()")


def test_under_a_lower_limit_than_has_been_used_the_turn_ends_without_a_model_call():
    assert next_step(*PAID, model_calls=1).exit == "limit"


def test_a_model_that_signaled_the_end_gives_its_closing_reply_with_its_last_model_call():
    assert next_step(*LEFT) == CallModel("none")
    assert next_step(*LEFT, CLOSING) == Done("limit")  # no call is left for a nudge


# A reply that a limit has cut off: the exit names the limit.

HALF = Assistant("So f", stop_reason="max_tokens", usage=HUNDRED)


@dataclass(frozen=True)
class Cut:
    name: str
    messages: list[Any]
    step: Done


CUTS = [
    Cut("by the limit of tokens", [ASK, HALF], Done("budget", "So f")),
    Cut(
        "by the provider, with tokens left",
        [ASK, replace(HALF, usage=Usage(1, 1))],
        Done("truncated", "So f"),
    ),
    Cut(
        "by the limit of seconds",
        [ASK, Assistant("So f", stop_reason="incomplete", cause="deadline")],
        Done("limit", "So f"),
    ),
    Cut(
        "the closing reply",
        [ASK, NAMED, replace(CLOSING, text="So f", stop_reason="max_tokens")],
        Done("limit", "So f"),
    ),
    Cut(
        "the closing reply, before its first word",
        [ASK, *PAID, NAMED, replace(CLOSING, stop_reason="max_tokens")],
        Done("limit", "✓ pay()"),
    ),
]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_if_a_limit_has_cut_a_reply_off_the_exit_names_the_limit(cut):
    assert plan(cut.messages, [Limits(tokens=100).name_limit]) == cut.step


# Seconds.


def test_waiting_for_a_person_costs_no_seconds():
    said = (User("go"), Assistant(tool_calls=(ToolCall("1", "look", {"n": 1}),)))
    said += (Verdict("yes", "1", by="Ada"), ToolResult("1", "look", "saw 1"))
    times = "00:00:00Z", "00:00:02Z", "01:00:00Z", "01:00:02Z"
    turn = Turn.of(replace(m, at=f"2026-03-01T{t}") for m, t in zip(said, times, strict=True))
    assert turn.seconds == 4


def test_in_a_new_process_the_seconds_begin_at_0():
    """Neither those of the process before it count, nor the days in between."""
    before = clock(100)
    look_up = Assistant(tool_calls=(ToolCall("1", "look", {"n": 1}),), at=before())
    later = agent(["Done."], max_seconds=1, now=clock(0.01, day=4))
    outcome = later.resume([User("go", at=before()), look_up])
    assert outcome.exit == "silence"
    assert kit_said(outcome) == []


# Money.

ALL_PRICES = Price(input=10, output=20, cached_input=1, written_input=12.5)
TWO_PRICES = Price(input=10, output=20)
MILLION = 1_000_000
CACHED = Usage(MILLION, cached_tokens=400_000)


@dataclass(frozen=True)
class Bill:
    name: str
    price: Price
    usage: Usage
    cost: float


BILLS = [
    Bill("input", ALL_PRICES, Usage(MILLION), cost=10),
    Bill(
        "output, of which reasoning is a part",
        ALL_PRICES,
        Usage(MILLION, 100_000, reasoning_tokens=50_000),
        cost=12,
    ),
    Bill("input from a cache", ALL_PRICES, CACHED, cost=6.4),
    Bill(
        "input from a cache, and written to it",
        ALL_PRICES,
        Usage(MILLION, cached_tokens=400_000, written_tokens=600_000),
        cost=7.9,
    ),
    Bill("more from a cache than there is", ALL_PRICES, Usage(1_000, cached_tokens=2_000), 0.002),
    Bill("without a price of its own, a cache costs the same", TWO_PRICES, CACHED, cost=10),
]


@pytest.mark.parametrize("bill", BILLS, ids=lambda bill: bill.name)
def test_the_cost_of_a_usage(bill):
    assert bill.price.of(bill.usage) == pytest.approx(bill.cost)


def test_a_model_name_without_a_price_costs_what_the_requested_model_costs():
    served = Assistant("Done.", model="a-name-of-the-host", usage=Usage(1_000_000))
    priced = agent([served], max_cost=99, prices={"script": Price(input=3, output=15)})
    outcome = priced.run("go")
    assert outcome.exit == "silence"
    assert outcome.cost == 3
    assert agent([served]).run("go").cost is None


def test_a_cost_limit_without_a_price_is_an_error():
    with pytest.raises(ValueError, match="add it to prices"):
        agent(max_cost=1, prices={"another": PRICES["script"]}).run("go")


# Settings that are no limit.


def remark_on(thought: ToolCall, thoughts_in_a_row: int) -> str:
    """What the model reads about its last thought, with a limit of two in a row."""
    replies = [Assistant(tool_calls=(thought,))] * thoughts_in_a_row
    step = Limits(thoughts=2).bound_step(CallTool(thought), Turn.of([User("Hi"), *replies]))
    return step.remark


def test_after_many_thoughts_in_a_row_the_model_is_told_that_it_is_time_to_act():
    stay = think("Hm.")
    assert remark_on(stay, 1) == ""
    assert remark_on(stay, 2).startswith("That is 2 in a row: it is time to act")
    assert remark_on(stay, 3).startswith("That is 3 in a row")


@pytest.mark.parametrize("signal", [False, "cannot"])
def test_a_thought_that_signals_the_end_is_not_hurried(signal):
    assert remark_on(think("Done.", should_continue=signal), 3) == ""


LIMIT_NAMES = ["max_model_calls", "max_actions", "max_tokens", "max_thoughts_in_a_row"]
LIMIT_NAMES += ["max_result_chars", "patience", "max_repeats", "keep_turns"]
LIMIT_NAMES += ["max_seconds", "max_cost", "check_timeout"]


@pytest.mark.parametrize("name", LIMIT_NAMES)
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_that_is_not_above_0_is_refused_at_once(name, value):
    with pytest.raises(ValueError, match=f"{name}=.*: use a number above 0"):
        agent(prices=PRICES, **{name: value})
