"""A person decides before a call that needs it (`policies/approval.py`, `policies/asking.py`).

Calls in doubt: `test_doubt.py`. Questions that wait for days: `test_asking.py`.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated

import pydantic
import pytest

from tests.support.agents import agent, of_kind, results
from think_agent import Paused, tool
from think_agent.loop import AskHuman, CallTool
from think_agent.messages import ToolCall, Verdict
from think_agent.testing import call, think

NOW = "2026-03-01T12:00:00.000+00:00"
MUCH = think("580 is much")


def pay_call(cents, id="p"):
    return ToolCall(id, "pay", {"cents": cents})


class Desk:
    """A desk that makes these calls in one reply, and a log of what was asked and done. `kind`: the
    type of what is paid.
    """

    def __init__(self, *calls, kind=int, **options):
        self.paid, self.asked = [], []
        self.calls = calls or (MUCH, pay_call(58_000))
        self._kind = kind
        self._options = {"needs_approval": True, **options}

    def agent(self, *verdicts, **settings):
        """Verdicts are given in turn. Without any, there is no person."""
        given = iter(verdicts)

        def pay(cents: self._kind) -> str:
            self.paid.append(cents)
            return f"paid {cents}"

        def approve(question):
            self.asked.append(question)
            return next(given)

        tools = [tool(pay, **self._options), tool(lambda: "seen", name="look", repeats=True)]
        settings = {"approve": approve if verdicts else None, **settings}
        return agent(self.calls, "Settled.", tools=tools, **settings)


# Yes, no, edit, quit.


def test_yes_runs_the_call_and_the_question_shows_the_call_and_its_thought():
    desk = Desk()
    outcome = desk.agent(True).run("Pay")
    assert desk.paid == [58_000]
    assert outcome.exit == "silence"
    assert outcome.answer == "Settled."
    question = AskHuman("Run pay(cents=58000)?", pay_call(58_000), "580 is much", {"cents": 58_000})
    assert desk.asked == [question]


@dataclass(frozen=True)
class No:
    """How a person says no, and what the model reads."""

    name: str
    verdict: Verdict | bool
    reads: str


NOES = [
    No(
        "with a reason",
        Verdict("no", reason="ask the manager", by="Ada"),
        reads="Ada said no (ask the manager)",
    ),
    No("as a bool", False, reads="a person said no (no reason given)"),
]


@pytest.mark.parametrize("no", NOES, ids=lambda no: no.name)
def test_after_a_no_the_call_does_not_run_and_the_model_reads_the_reason(no):
    desk = Desk()
    outcome = desk.agent(no.verdict).run("Pay")
    [result] = results(outcome, "pay")
    assert desk.paid == []
    assert outcome.exit == "silence"
    assert outcome.actions == ()
    assert result.is_error
    assert result.refused == "person"
    assert no.reads in result.content


def test_edited_arguments_are_run_recorded_and_shown_to_the_model():
    desk = Desk()
    outcome = desk.agent(Verdict("yes", arguments={"cents": 100}, by="Ada")).run("Pay")
    assert desk.paid == [100]
    assert outcome.transcript[1].tool_calls[1] == pay_call(58_000)  # as the model wrote it
    assert [action.call for action in outcome.actions] == [pay_call(100)]
    assert outcome.report == "✓ pay(cents=100)"
    assert "A person changed this call to pay(cents=100)" in outcome.actions[0].result.content


def test_an_edit_that_leaves_every_argument_out_is_recorded_like_any_other():
    def pay(cents: int = 7) -> str:
        return f"paid {cents}"

    pays = tool(pay, needs_approval=True)
    emptied = Verdict("yes", arguments={})
    paying = agent(pay_call(58_000), "Settled.", tools=[pays], approve=lambda asked: emptied)
    [action] = paying.run("Pay").actions
    assert action.call.arguments == action.result.arguments == {}
    assert "paid 7" in action.result.content


WRONG_EDIT = Verdict("yes", arguments={"cents": "much"})


@pytest.mark.parametrize(
    ("verdict", "paid"), [(Verdict("yes", arguments={"cents": 100}), [100]), (True, [58_000])]
)
def test_after_an_edit_that_does_not_fit_the_person_is_asked_again_with_the_error(verdict, paid):
    desk = Desk()
    desk.agent(WRONG_EDIT, verdict).run("Pay")
    assert desk.paid == paid
    first, again = desk.asked
    assert "That edit does not fit: bad arguments for pay: cents" in again.question
    assert again.call == first.call == pay_call(58_000)  # as it was written


def test_edits_that_never_fit_end_in_a_refusal():
    desk = Desk()
    outcome = desk.agent(*[WRONG_EDIT] * 9).run("Pay")
    assert len(desk.asked) == 3
    assert desk.paid == []
    assert outcome.exit == "silence"
    [result] = results(outcome, "pay")
    assert result.refused == "person"
    assert "bad arguments for pay" in result.content


def pays(cents):
    """A policy of the user: this is paid instead of more than 10."""

    def policy(step, turn):
        if isinstance(step, CallTool) and step.call.arguments["cents"] > 10:
            return CallTool(replace(step.call, arguments={"cents": cents}))
        return step

    return policy


@pytest.mark.parametrize("predicate", [True, lambda arguments: arguments["cents"] > 1_000])
def test_a_person_is_asked_about_the_call_as_a_policy_changed_it(predicate):
    desk = Desk(pay_call(100), needs_approval=predicate)
    [action] = desk.agent(True, policies=[pays(5_000)]).run("Pay").actions
    assert desk.paid == [5_000]
    assert len(desk.asked) == 1
    assert desk.asked[0].received == {"cents": 5_000}
    assert "A policy changed this call" in action.result.content  # the person only agreed


def test_a_policy_whose_arguments_are_no_json_is_an_error_before_anything_is_done():
    desk = Desk(pay_call(58_000), needs_approval=False)
    with pytest.raises(TypeError, match="Decimal"):
        desk.agent(policies=[pays(Decimal(5))]).run("Pay")
    assert desk.paid == []


UNUSABLE = {"none": None, "of another call": Verdict("yes", "another")}


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_an_answer_that_cannot_be_used_is_an_error_before_anything_is_run(answer):
    desk = Desk()
    with pytest.raises(TypeError, match=r"approve= .*approve \(.*test_approval.py, line .* gave"):
        desk.agent(answer).run("Pay")
    assert desk.paid == []


def test_a_lone_surrogate_in_a_verdict_is_replaced(tmp_path):
    desk = Desk()
    path = tmp_path / "run.jsonl"
    desk.agent(Verdict("no", reason="l\ud800ater")).run("Pay \ud800", transcript=path)
    text = path.read_text()
    assert "ud800" not in text
    assert text.count("\\ufffd") == 3  # the request, the verdict, and the refusal


def test_a_no_stays_a_no_if_the_predicate_changes_its_mind():
    answers = iter([True] + [False] * 9)
    desk = Desk(needs_approval=lambda arguments: next(answers))
    assert desk.agent(False).run("Pay").actions == ()
    assert desk.paid == []


def test_a_person_edits_the_arguments_as_the_model_wrote_them():
    dollars = Annotated[int, pydantic.AfterValidator(lambda dollars: dollars * 100)]
    desk = Desk(pay_call(5), kind=dollars)
    [action] = desk.agent(Verdict("yes", arguments={"cents": 6})).run("Pay").actions
    [asked] = desk.asked
    assert asked.question == "Run pay(cents=5)?"  # as the model wrote it
    assert asked.received == {"cents": 500}  # as it will run
    assert desk.paid == [600]
    assert action.call.arguments == {"cents": 6}


def test_quit_ends_the_run_and_a_verdict_is_recorded_with_time_and_by_whom():
    desk = Desk()
    quit = Verdict("quit", by="Ada", reason="lunch")
    outcome = desk.agent(quit, now=lambda: NOW).run("Pay")
    assert desk.paid == []
    assert outcome.exit == "declined"
    assert outcome.model_calls == 1
    assert outcome.answer == "Stopped by Ada. lunch"
    [verdict] = of_kind(outcome.transcript, Verdict)
    assert verdict == replace(quit, call_id="p")
    assert verdict.at == NOW


# When is a person asked?


@dataclass(frozen=True)
class Amount:
    """What the model wrote for `cents`, and whether a person is asked if it is over 50,000."""

    cents: object
    is_asked: bool


AMOUNTS = [
    Amount(50_000, is_asked=False),
    Amount(50_001, is_asked=True),
    Amount("50000", is_asked=False),
    Amount("50001", is_asked=True),
    Amount("much", is_asked=False),  # it does not fit, so it is refused before that
]


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: repr(amount.cents))
def test_a_predicate_decides_by_what_the_function_will_get(amount):
    desk = Desk(pay_call(amount.cents), needs_approval=lambda received: received["cents"] > 50_000)
    desk.agent(False).run("Pay")
    assert len(desk.asked) == amount.is_asked


def test_a_predicate_that_raises_asks_the_person_and_says_so():
    desk = Desk(pay_call(1), needs_approval=lambda arguments: arguments["amount"] > 1)
    desk.agent(False).run("Pay")
    assert len(desk.asked) == 1
    assert desk.paid == []
    question = desk.asked[0].question
    assert question.endswith("The predicate <lambda> raised KeyError: 'amount'.")


@pytest.mark.parametrize("answer", [None, "", "no", 0, 1, [], ValueError()])
def test_a_predicate_that_returns_neither_true_nor_false_asks_and_says_so(answer):
    desk = Desk(pay_call(1), needs_approval=lambda arguments: answer)
    desk.agent(False).run("Pay")
    assert desk.paid == []
    question = desk.asked[0].question
    assert question.endswith(f"<lambda> returned {answer!r}, which isn't True or False.")


@pytest.mark.parametrize("arguments", ["{", {}, {"cents": None}, {"cents": 1, "more": 2}])
def test_a_call_with_invalid_arguments_is_refused_and_not_asked_about(arguments):
    desk = Desk(ToolCall("p", "pay", arguments))
    outcome = desk.agent(True).run("Pay")
    assert desk.asked == []
    assert desk.paid == []
    assert results(outcome)[0].is_error


def test_calls_before_the_question_are_run_before_it():
    desk = Desk(call("look"), pay_call(1), call("look"), pay_call(2, "q"))
    outcome = desk.agent(True, False).run("Pay")
    assert [type(m).__name__ for m in outcome.transcript] == [
        *("User", "Assistant"),
        *("Started", "ToolResult", "Verdict", "Started", "ToolResult"),
        *("Started", "ToolResult", "Verdict", "ToolResult"),
        *("Assistant", "Ended"),
    ]
    assert desk.paid == [1]


TWO_VERDICTS = {  # for two calls with the same id: what is paid
    "yes, yes": ([True, True], [1, 2]),
    "yes, no": ([True, False], [1]),
    "an edit, yes": ([Verdict("yes", arguments={"cents": 3}), True], [3, 2]),
}


@pytest.mark.parametrize(("verdicts", "paid"), TWO_VERDICTS.values(), ids=TWO_VERDICTS)
def test_a_verdict_covers_one_call_even_if_ids_repeat(verdicts, paid):
    desk = Desk(pay_call(1), pay_call(2))
    desk.agent(*verdicts).run("Pay")
    assert len(desk.asked) == 2
    assert desk.paid == paid


def test_a_call_beyond_a_limit_is_not_asked_about():
    desk = Desk(pay_call(1), pay_call(2, "q"))
    outcome = desk.agent(True, True, max_actions=1).run("Pay")
    assert len(desk.asked) == 1
    assert desk.paid == [1]
    assert outcome.exit == "limit"
    assert [result.refused for result in results(outcome)] == ["", "limit"]


# Async.


SEVEN = Verdict("yes", arguments={"cents": 7})


async def seven_later(question):
    await asyncio.sleep(0)
    return SEVEN


@pytest.mark.parametrize("approve", [seven_later, lambda question: SEVEN], ids=["async", "plain"])
def test_arun_takes_an_async_and_a_plain_approve(approve):
    desk = Desk()
    asyncio.run(desk.agent(approve=approve).arun("Pay"))
    assert desk.paid == [7]


def test_an_async_approve_under_run_is_an_error_that_says_what_to_do():
    class Later:
        def __await__(self):
            yield

    with pytest.raises(TypeError, match="arun"):
        Desk().agent(approve=lambda question: Later()).run("Pay")


# Nobody to ask: the run pauses, and goes on days later.


def unpaused(outcome):
    said = [message for message in outcome.transcript if not isinstance(message, Paused)]
    return replace(outcome, transcript=tuple(said))


@pytest.mark.parametrize("verdict", [Verdict("yes", by="Ada"), Verdict("no"), Verdict("quit")])
def test_a_paused_run_goes_on_with_the_verdict_as_if_it_had_never_paused(tmp_path, verdict):
    never_paused, from_file, in_memory = Desk(), Desk(), Desk()
    expected = never_paused.agent(verdict).run("Pay", transcript=tmp_path / "never.jsonl")

    path = tmp_path / "run.jsonl"
    assert from_file.agent().run("Pay", transcript=path).exit == "needs_human"
    assert from_file.agent().resume(path).exit == "needs_human"  # still no person
    assert unpaused(from_file.agent(verdict).resume(path)) == expected

    paused = in_memory.agent().run("Pay")
    assert paused.exit == "needs_human"
    assert paused.answer == "Run pay(cents=58000)?"
    assert in_memory.paid == []
    assert paused.model_calls == 1
    assert unpaused(in_memory.agent(verdict).resume(paused.transcript)) == expected
    assert never_paused.paid == from_file.paid == in_memory.paid


def test_any_program_can_write_a_verdict_into_the_file(tmp_path):
    """A web page, say, that lets a manager decide: one line, and the run goes on."""
    path, desk = tmp_path / "run.jsonl", Desk()
    desk.agent().run("Pay", transcript=path)
    with path.open("a") as file:
        line = {"type": "verdict", "decision": "yes", "call_id": "p", "by": "Ada", "at": NOW}
        file.write(json.dumps(line) + "\n")
    assert desk.agent().resume(path).exit == "silence"
    assert desk.paid == [58_000]


def test_the_model_neither_sees_nor_sets_the_idempotency_key():
    keys = []

    @tool
    def pay(cents: int, idempotency_key: str) -> None:
        keys.append(idempotency_key)

    assert list(pay.parameters["properties"]) == ["cents"]
    injected = call("pay", cents=1, idempotency_key="mine")
    [result] = results(agent(injected, "Done.", tools=[pay]).run("Pay"))
    assert result.refused == "invalid"
    assert keys == []


# A yes is for the call as it was written.


@pytest.mark.parametrize("needs_approval", [False, True])
@pytest.mark.parametrize("fails_at", [None, *range(1, 10)])
def test_a_validator_that_fails_sometimes_runs_nothing_without_a_yes(needs_approval, fails_at):
    validated = []

    def fail_sometimes(cents):
        validated.append(cents)
        if len(validated) == fails_at:
            raise ValueError("not now")
        return cents

    kind = Annotated[int, pydantic.AfterValidator(fail_sometimes)]
    desk = Desk(pay_call(5), kind=kind, needs_approval=needs_approval)
    [result] = results(desk.agent(True).run("Pay"))
    assert desk.paid == ([] if result.refused else [5])
    assert result.refused in ("", "invalid")
    assert not result.in_doubt
    assert len(desk.asked) <= 1
    if desk.paid:
        assert len(desk.asked) == needs_approval
    if fails_at is None:
        assert desk.paid


class Shipment(pydantic.BaseModel):
    number: str = pydantic.Field(default_factory=lambda: uuid.uuid4().hex)
    at: float = pydantic.Field(default_factory=time.perf_counter, exclude=True)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_yes_is_asked_for_once_although_a_default_is_made_anew(resumed):
    desk = Desk(pay_call({}), kind=Shipment)
    if resumed:
        paused = desk.agent().run("Pay")
        outcome = desk.agent(True).resume(paused.transcript)
    else:
        outcome = desk.agent(True).run("Pay")
    assert len(desk.asked) == 1
    assert len(desk.paid) == 1
    assert outcome.exit == "silence"
    assert desk.asked[0].received["cents"].keys() == {"number", "at"}


def test_a_paused_run_that_is_resumed_twice_asks_twice_and_pays_twice():
    desk = Desk()
    paused = desk.agent().run("Pay")
    for times in (1, 2):
        desk.agent(True).resume(paused.transcript)
        assert len(desk.asked) == times
        assert len(desk.paid) == times


def test_secrets_and_excluded_fields_are_asked_about_as_they_are():
    class Card(pydantic.BaseModel):
        code: pydantic.SecretStr
        limit: int = pydantic.Field(100, exclude=True)

    paused = Desk(pay_call({"code": "4711"}), kind=Card).agent().run("Pay")
    assert paused.answer == 'Run pay(cents={"code": "4711"})?'  # as the model wrote it
    assert paused.question.received == {"cents": {"code": "4711", "limit": 100}}


def test_a_set_is_shown_in_the_same_order_in_every_process():
    """Python orders the texts in a set differently each time it starts."""
    script = """if True:
        from think_agent import ToolCall, tool
        from think_agent.schema import dump
        from think_agent.tools import fit

        @tool
        def mark(tags: frozenset[str]) -> None:
            "Mark."

        print(dump(fit({"mark": mark}, ToolCall("1", "mark", {"tags": list("hamster")}))))
        """
    seeds = [os.environ | {"PYTHONHASHSEED": str(seed)} for seed in (1, 2)]
    one, other = (subprocess.check_output([sys.executable, "-c", script], env=env) for env in seeds)
    assert one == other
