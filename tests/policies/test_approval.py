"""A person decides: before a call that needs it, and about a call that a crash left in doubt."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import Annotated

import pydantic
import pytest

from tests.support.agents import agent, results
from think_agent import Agent, ScriptedModel, Tool, tool
from think_agent.loop import AskHuman, CallTool
from think_agent.messages import Assistant, Started, ToolCall, ToolResult, User, Verdict
from think_agent.testing import call, think

NOW = "2026-03-01T12:00:00.000+00:00"
MUCH = think("580 is much")
START = Started("p", "pay")


def pay_call(cents, id="p"):
    return ToolCall(id, "pay", {"cents": cents})


class Desk:
    """A desk that makes these calls in one reply, and a log of what was asked and done."""

    def __init__(self, *calls, **options):
        self.paid, self.asked = [], []
        self.calls = calls or (MUCH, pay_call(58_000))
        self._options = {"needs_approval": True, **options}

    def agent(self, *verdicts, **settings):
        """Verdicts are given in turn. Without any, there is no person."""
        given = iter(verdicts)

        def pay(cents: int) -> str:
            self.paid.append(cents)
            return f"paid {cents}"

        def approve(question):
            self.asked.append(question)
            return next(given)

        tools = [tool(pay, **self._options), tool(lambda: "seen", name="look")]
        settings = {"approve": approve if verdicts else None, **settings}
        return agent(self.calls, "Settled.", tools=tools, **settings)

    def resume(self, *verdicts, notes=(START,), **settings):
        """Goes on with what a kill in the middle of a payment leaves behind: the reply, notes."""
        left = User("Pay"), Assistant(tool_calls=self.calls), *notes
        return self.agent(*verdicts, **settings).resume(left)


# Yes, no, edit, quit.


def test_yes_runs_it_and_the_question_holds_the_call_and_the_thought_behind_it():
    desk = Desk()
    outcome = desk.agent(True).run("Pay")
    assert (desk.paid, outcome.exit, outcome.answer) == ([58_000], "silence", "Settled.")
    question = AskHuman("Run pay(cents=58000)?", pay_call(58_000), "580 is much", {"cents": 58_000})
    assert desk.asked == [question]


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (Verdict("no", reason="ask the manager", by="Ada"), "Ada said no (ask the manager)"),
        (False, "a person said no (no reason given)"),
    ],
)
def test_no_is_an_answer_for_the_model_with_the_reason(verdict, says):
    desk = Desk()
    outcome = desk.agent(verdict).run("Pay")
    (result,) = results(outcome, "pay")
    assert (desk.paid, outcome.exit, outcome.actions) == ([], "silence", ())
    assert (result.is_error, result.refused) == (True, "person")
    assert says in result.content


def test_edited_arguments_are_what_runs_and_what_the_record_and_the_model_see():
    desk = Desk()
    outcome = desk.agent(Verdict("yes", arguments={"cents": 100}, by="Ada")).run("Pay")
    assert desk.paid == [100]
    assert outcome.transcript[1].tool_calls[1] == pay_call(58_000)  # as the model said it
    assert [action.call for action in outcome.actions] == [pay_call(100)]
    assert outcome.report == "✓ pay(cents=100)"
    assert "A person changed this call to pay(cents=100)" in outcome.actions[0].result.content


def test_edited_arguments_are_validated_like_any():
    desk = Desk()
    outcome = desk.agent(Verdict("yes", arguments={"cents": "much"})).run("Pay")
    assert desk.paid == []
    assert "bad arguments for pay: cents" in results(outcome, "pay")[0].content


def test_one_dict_for_all_answers_changes_no_record():
    edit, desk = {}, Desk(pay_call(1), pay_call(2))

    def approve(asked):
        edit["cents"] = asked.call.arguments["cents"] + 1
        return Verdict("yes", arguments=edit)

    outcome = desk.agent(approve=approve).run("Pay")
    changed = [{"cents": 2}, {"cents": 3}]
    assert desk.paid == [2, 3]
    assert [m.arguments for m in outcome.transcript if isinstance(m, Verdict)] == changed
    assert [action.call.arguments for action in outcome.actions] == changed


def test_what_a_policy_changed_is_on_the_record():
    def ten_at_most(step, turn):
        if isinstance(step, CallTool) and step.call.arguments["cents"] > 10:
            return CallTool(replace(step.call, arguments={"cents": 10}))
        return step

    desk = Desk(pay_call(5), pay_call(58_000), needs_approval=False)
    five, ten = desk.agent(policies=[ten_at_most]).run("Pay").actions
    assert desk.paid == [5, 10]
    assert (five.call.arguments, five.result.arguments) == ({"cents": 5}, None)
    assert (ten.call.arguments, ten.result.arguments) == ({"cents": 10}, {"cents": 10})
    assert "A policy changed this call to pay(cents=10)" in ten.result.content


TOO_DEEP = reduce(lambda inner, _: [inner], range(3000), 1)
UNUSABLE = {
    "none": None,
    "of another call": Verdict("yes", "another"),
    "too long": Verdict("yes", arguments={"cents": 10**5000}),
    "no number": Verdict("yes", arguments={"cents": float("nan")}),
    "too deep": Verdict("yes", arguments={"cents": TOO_DEEP}),
}


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_an_answer_that_cannot_be_used_is_an_error_before_anything_is_run(answer):
    desk = Desk()
    with pytest.raises(TypeError, match="approve= gave"):
        desk.agent(answer).run("Pay")
    assert desk.paid == []


def test_a_surrogate_of_a_person_poisons_no_transcript(tmp_path):
    desk = Desk()
    path = tmp_path / "run.jsonl"
    desk.agent(Verdict("no", reason="l\ud800ater")).run("Pay \ud800", transcript=path)
    text = path.read_text()
    assert "ud800" not in text
    assert text.count("\\ufffd") == 3  # the request, the verdict, and the refusal


def test_a_no_stays_a_no_whatever_the_predicate_says_by_then():
    answers = iter([True] + [False] * 9)
    desk = Desk(needs_approval=lambda arguments: next(answers))
    assert desk.agent(False).run("Pay").actions == ()
    assert desk.paid == []


def test_a_ready_schema_is_judged_with_its_defaults_and_those_of_its_function():
    seen, paid, asked = [], [], []

    def pay(order: str, cents: int = 58_000, **more: str) -> None:
        paid.append((cents, more))

    schema = {"type": "object", "properties": {"order": {}, "by": {"default": "post"}}}
    above_100 = lambda arguments: seen.append(arguments) or arguments["cents"] > 100  # noqa: E731
    guarded = Tool(
        name="pay", description="", parameters=schema, function=pay, needs_approval=above_100
    )
    script = call("pay", order="A"), "Paid."
    agent(*script, tools=[guarded], approve=lambda a: asked.append(a.question) or True).run("Pay")
    assert seen[0] == {"order": "A", "cents": 58_000, "by": "post"}
    assert asked == ['Run pay(cents=58000, by="post", order="A")?']
    assert paid == [(58_000, {"by": "post"})]


def test_what_is_edited_is_what_the_model_wrote_so_that_it_is_read_once():
    def in_cents(dollars):
        return dollars * 100

    paid, asked = [], []

    @tool(needs_approval=True)
    def pay(dollars: Annotated[int, pydantic.AfterValidator(in_cents)], note: str = "") -> None:
        paid.append(dollars)

    def edit(question):
        asked.append(question.question)
        return Verdict("yes", arguments={**question.call.arguments, "note": "checked"})

    outcome = agent(call("pay", dollars=5), "Paid.", tools=[pay], approve=edit).run("Pay")
    assert asked == ['Run pay(dollars=500, note="")?']
    assert paid == [500]
    assert outcome.actions[0].call.arguments == {"dollars": 5, "note": "checked"}


def test_quit_ends_the_run_and_a_verdict_is_recorded_with_time_and_by_whom():
    desk = Desk()
    quit = Verdict("quit", by="Ada", reason="lunch")
    outcome = desk.agent(quit, now=lambda: NOW).run("Pay")
    assert (desk.paid, outcome.exit, outcome.model_calls) == ([], "declined", 1)
    assert "Ada" in outcome.answer
    assert "lunch" in outcome.answer
    (verdict,) = (m for m in outcome.transcript if isinstance(m, Verdict))
    assert (verdict.decision, verdict.call_id, verdict.by, verdict.at) == ("quit", "p", "Ada", NOW)


# When is a person asked?


@pytest.mark.parametrize(
    ("cents", "asked"), [(50_000, 0), (50_001, 1), ("50001", 1), ("50000", 0), ("much", 0)]
)
def test_a_predicate_decides_by_what_the_function_will_get(cents, asked):
    desk = Desk(pay_call(cents), needs_approval=lambda arguments: arguments["cents"] > 50_000)
    desk.agent(False).run("Pay")
    assert len(desk.asked) == asked


def test_a_predicate_that_raises_asks_the_person():
    desk = Desk(pay_call(1), needs_approval=lambda arguments: arguments["amount"] > 1)
    desk.agent(False).run("Pay")
    assert (len(desk.asked), desk.paid) == (1, [])


@pytest.mark.parametrize("arguments", ["{", {}, {"cents": None}, {"cents": 1, "more": 2}])
def test_a_call_that_cannot_run_is_not_asked_about(arguments):
    desk = Desk(ToolCall("p", "pay", arguments))
    outcome = desk.agent(True).run("Pay")
    assert (desk.asked, desk.paid) == ([], [])
    assert results(outcome)[0].is_error


def test_what_stands_before_the_question_is_done_before_it():
    desk = Desk(call("look"), pay_call(1), call("look"), pay_call(2, "q"))
    outcome = desk.agent(True, False).run("Pay")
    assert [type(m).__name__ for m in outcome.transcript] == [
        *("User", "Assistant"),
        *("Started", "ToolResult", "Verdict", "Started", "ToolResult"),
        *("Started", "ToolResult", "Verdict", "ToolResult"),
        "Assistant",
    ]
    assert desk.paid == [1]


@pytest.mark.parametrize(
    ("verdicts", "paid"),
    [
        ((True, True), [1, 2]),
        ((True, False), [1]),
        ((Verdict("yes", arguments={"cents": 3}), True), [3, 2]),
    ],
)
def test_a_verdict_covers_one_call_also_where_ids_repeat(verdicts, paid):
    desk = Desk(pay_call(1), pay_call(2))
    desk.agent(*verdicts).run("Pay")
    assert (len(desk.asked), desk.paid) == (2, paid)


def test_what_a_limit_refuses_anyway_is_not_asked_about():
    desk = Desk(pay_call(1), pay_call(2, "q"))
    outcome = desk.agent(True, True, max_actions=1).run("Pay")
    assert (len(desk.asked), desk.paid, outcome.exit) == (1, [1], "limit")


# Async.


@pytest.mark.parametrize(
    ("answer", "paid"),
    [(True, [58_000]), (False, []), (Verdict("yes", arguments={"cents": 7}), [7])],
)
def test_arun_awaits_an_async_callback_and_takes_a_plain_one(answer, paid):
    async def approve(question):
        await asyncio.sleep(0)
        return answer

    for settings in ({"approve": approve}, {"approve": lambda question: answer}):
        desk = Desk()
        asyncio.run(desk.agent(**settings).arun("Pay"))
        assert desk.paid == paid


def test_an_async_callback_under_run_is_an_error_that_says_what_to_do():
    class Later:
        def __await__(self):
            yield

    with pytest.raises(TypeError, match="arun"):
        Desk().agent(approve=lambda question: Later()).run("Pay")


# No person there: pause, and go on days later.


@pytest.mark.parametrize("verdict", [Verdict("yes", by="Ada"), Verdict("no"), Verdict("quit")])
def test_a_paused_run_goes_on_with_the_verdict_as_if_it_had_never_paused(tmp_path, verdict):
    never_paused, from_file, in_memory = Desk(), Desk(), Desk()
    expected = never_paused.agent(verdict).run("Pay", transcript=tmp_path / "never.jsonl")

    path = tmp_path / "run.jsonl"
    assert from_file.agent().run("Pay", transcript=path).exit == "needs_human"
    assert from_file.agent().resume(path).exit == "needs_human"  # still no person
    assert from_file.agent(verdict).resume(path) == expected

    paused = in_memory.agent().run("Pay")
    assert (paused.exit, paused.answer) == ("needs_human", "Run pay(cents=58000)?")
    assert (in_memory.paid, paused.model_calls) == ([], 1)
    assert in_memory.agent(verdict).resume(paused.transcript) == expected
    assert never_paused.paid == from_file.paid == in_memory.paid


def test_a_verdict_can_be_written_into_the_file_by_any_program(tmp_path):
    """A web page, say, that lets a manager decide: one line, and the run goes on."""
    path, desk = tmp_path / "run.jsonl", Desk()
    desk.agent().run("Pay", transcript=path)
    with path.open("a") as file:
        line = {"type": "verdict", "decision": "yes", "call_id": "p", "by": "Ada", "at": NOW}
        file.write(json.dumps(line) + "\n")
    assert desk.agent().resume(path).exit == "silence"
    assert desk.paid == [58_000]


# After a crash: a call was started and has no result.


def in_doubt(*calls, **options):
    return Desk(*(calls or [pay_call(58_000)]), **{"needs_approval": False, **options})


def test_a_started_call_is_not_repeated_without_a_person():
    desk = in_doubt()
    outcome = desk.resume()
    assert (outcome.exit, desk.paid) == ("needs_human", [])
    assert "pay(cents=58000)" in outcome.answer
    assert "may have happened" in outcome.answer
    assert desk.resume(True).exit == "silence"
    assert desk.paid == [58_000]


def test_no_leaves_it_and_the_model_does_not_read_that_it_did_not_happen():
    desk = in_doubt()
    [result] = results(desk.resume(Verdict("no", reason="it is on the account")), "pay")
    assert desk.paid == []
    assert "may have happened" in result.content
    assert "it is on the account" in result.content


def test_an_idempotent_tool_is_repeated():
    desk = in_doubt(idempotent=True)
    assert (desk.resume().exit, desk.paid) == ("silence", [58_000])


@pytest.mark.parametrize("settings", [{}, {"max_actions": 1}, {"on_tool_error": "fail_fast"}])
def test_what_may_have_happened_is_not_said_not_to_have_run(settings):
    """Begun by an agent without a gate and limits, taken up by one with them."""
    desk = in_doubt(think_first=True)
    assert "it may have happened" in desk.resume(**settings).answer
    desk.resume(True, **settings)
    assert desk.paid == [58_000]


@pytest.mark.parametrize(
    ("approval", "notes"),
    [(False, (START, Verdict("yes", "p"), START)), (True, (Verdict("yes", "p", by="Ada"), START))],
)
def test_a_yes_covers_one_try(approval, notes):
    """After the second crash there is a second doubt, and a yes from before the first is none."""
    desk = in_doubt(needs_approval=approval)
    assert (desk.resume(notes=notes).exit, desk.paid) == ("needs_human", [])
    desk.resume(True)
    assert (len(desk.asked), desk.paid) == (1, [58_000])


def test_a_yes_after_the_crash_keeps_the_edit_from_before_it():
    desk = in_doubt(needs_approval=True)
    desk.resume(True, notes=(Verdict("yes", "p", arguments={"cents": 100}, by="Ada"), START))
    (asked,) = desk.asked
    assert "pay(cents=100)" in asked.question
    assert asked.call == pay_call(100)
    assert desk.paid == [100]


def test_one_call_that_is_done_puts_no_other_in_doubt_where_ids_repeat():
    desk = in_doubt(pay_call(1), pay_call(2))
    assert desk.resume(notes=(START, ToolResult("p", "pay", "paid 1"))).exit == "silence"
    assert desk.paid == [2]


def test_the_model_never_sees_the_key():
    keys = []

    @tool
    def pay(cents: int, idempotency_key: str) -> None:
        keys.append(idempotency_key)

    assert list(pay.parameters["properties"]) == ["cents"]
    injected = call("pay", cents=1, idempotency_key="mine")
    assert agent(injected, "Done.", tools=[pay]).run("Pay").actions[0].result.is_error
    assert keys == []


# A yes is to what was shown.


def refund_tool(limit, paid, predicate):
    def pay(to: str, cents: int = limit) -> str:
        """Pay."""
        paid.append((to, cents))
        return "paid"

    return tool(pay, needs_approval=predicate)


def test_a_yes_to_a_default_is_no_yes_to_another_one():
    paid = []
    paused = Agent(ScriptedModel([call("pay", to="bob"), "Done."]), [refund_tool(100, paid, True)])
    transcript = paused.run("Pay bob.").transcript
    asked = Agent(paused.model, [refund_tool(100, paid, True)], approve=lambda question: True)
    [verdict] = [m for m in asked.resume(transcript).transcript if isinstance(m, Verdict)]
    assert (paid, verdict.shown) == ([("bob", 100)], {"to": "bob", "cents": 100})
    paused.model.left += 1
    later = Agent(paused.model, [refund_tool(5_000, paid, True)])
    assert "cents=5000" in later.resume([*transcript, verdict]).answer
    assert paid == [("bob", 100)]


@pytest.mark.parametrize("predicate", [True, lambda arguments: arguments["cents"] > 1_000])
def test_what_a_policy_makes_of_a_call_is_what_a_person_is_asked_about(predicate):
    def more(step, turn):
        match step:
            case CallTool(asked):
                return CallTool(replace(asked, arguments={**asked.arguments, "cents": 5_000}))
        return step

    paid, questions = [], []
    model = ScriptedModel([call("pay", to="bob", cents=100), "Done."])
    approve = lambda question: bool(questions.append(question)) or True  # noqa: E731
    tools = [refund_tool(1, paid, predicate)]
    Agent(model, tools, policies=[more], approve=approve, force="never").run("Pay bob 1 $.")
    assert (paid, len(questions)) == ([("bob", 5_000)], 1)
    assert questions[0].received == {"to": "bob", "cents": 5_000}


def test_a_policy_whose_arguments_are_no_json_is_refused_before_anything_is_done():
    def exact(step, turn):
        match step:
            case CallTool(asked):
                return CallTool(replace(asked, arguments={"to": "bob", "cents": Decimal(5)}))
        return step

    paid = []
    model = ScriptedModel([call("pay", to="bob", cents=100), "Done."])
    agent = Agent(model, [refund_tool(1, paid, False)], policies=[exact], force="never")
    with pytest.raises(TypeError, match="Decimal"):
        agent.run("Pay bob.")
    assert paid == []


def test_an_answer_that_is_made_of_the_question_does_not_rewrite_the_call():
    def halve(question):
        changed = question.call.arguments
        changed["order"]["cents"] = 1
        return Verdict("yes", arguments=changed)

    @tool(needs_approval=True)
    def pay(order: dict[str, int]) -> str:
        """Pay."""
        return f"paid {order}"

    model = ScriptedModel([call("pay", order={"cents": 5_000}), "Done."])
    outcome = Agent(model, [pay], approve=halve, force="never").run("Pay.")
    assert outcome.turn.replies[0].tool_calls[0].arguments == {"order": {"cents": 5_000}}
    assert "A person changed this call" in outcome.actions[0].result.content


def test_what_cannot_be_seen_through_is_asked_about():
    class Order:
        pass

    opaque = Annotated[str, pydantic.AfterValidator(lambda value: Order())]

    def pay(order, cents=1_000):
        """Pay."""

    pay.__annotations__ = {"order": opaque, "cents": int}
    guarded = tool(pay, needs_approval=lambda arguments: False)
    model = ScriptedModel([call("pay", order="5000"), "Done."])
    paused = Agent(model, [guarded], force="never").run("Pay.")
    assert (paused.exit, paused.answer) == ("needs_human", 'Run pay(order="5000", cents=1000)?')


class Shipment(pydantic.BaseModel):
    to: str
    number: str = pydantic.Field(default_factory=lambda: uuid.uuid4().hex)


@pytest.mark.parametrize(
    ("parameter", "written"),
    [
        (Shipment, {"to": "bob"}),  # another number each time it is read
        (Annotated[str, pydantic.AfterValidator(lambda value: object())], "bob"),
        (str, "b\ud800b"),  # as a model of one's own may write it
    ],
    ids=["new each time", "opaque", "surrogate"],
)
def test_a_yes_holds_whatever_the_arguments_are(parameter, written, tmp_path):
    def ship(order):
        """Ship."""

    ship.__annotations__ = {"order": parameter}
    guarded = tool(ship, needs_approval=True)
    path, questions = tmp_path / "run.jsonl", []
    model = ScriptedModel([call("ship", order=written), "Done."])
    assert Agent(model, [guarded], force="never").run("Go.", transcript=path).exit == "needs_human"

    def approve(question):
        questions.append(dict(question.received))
        question.received.clear()  # as one may who only looks at it
        return len(questions) < 3

    outcome = Agent(model, [guarded], force="never", approve=approve).resume(path)
    assert (len(questions), len(outcome.actions)) == (1, 1)
    number = {"number": "(another one each time)"} if parameter is Shipment else {}
    assert questions[0] == {"order": {**written, **number} if number else written}


def test_what_is_new_each_time_hides_nothing_beside_it():
    class Order(pydantic.BaseModel):
        to: str
        number: str = pydantic.Field(default_factory=lambda: uuid.uuid4().hex)
        cents: int = 9_000

    def pay(orders):
        """Pay."""

    pay.__annotations__ = {"orders": list[Order]}
    guarded = tool(pay, needs_approval=True)
    model = ScriptedModel([call("pay", orders=[{"to": "bob"}])])
    asked = Agent(model, [guarded], force="never").run("Pay.").answer
    assert '"cents": 9000' in asked
    assert '"number": "(another one each time)"' in asked


def test_a_secret_that_nobody_wrote_is_shown_to_nobody():
    secret = pydantic.SecretStr("sk-live-0123456789")

    def pay(cents, token=secret):
        """Pay."""

    pay.__annotations__ = {"cents": int, "token": pydantic.SecretStr}
    model = ScriptedModel([call("pay", cents=5)])
    asked = Agent(model, [tool(pay, needs_approval=True)], force="never").run("Pay.").answer
    assert asked == 'Run pay(cents=5, token="**********")?'


def test_a_set_is_shown_alike_in_every_process():
    """Python orders the strings in one anew each time it starts."""
    script = """if True:
        from think_agent import ToolCall, tool
        from think_agent.tools import as_received

        @tool
        def mark(tags: frozenset[str]) -> None:
            "Mark."

        print(as_received({"mark": mark}, ToolCall("1", "mark", {"tags": list("hamster")})))
        """
    seeds = [os.environ | {"PYTHONHASHSEED": str(seed)} for seed in (1, 2)]
    one, other = (subprocess.check_output([sys.executable, "-c", script], env=env) for env in seeds)
    assert one == other


def test_a_yes_with_an_edit_is_to_what_the_edit_gives():
    paid = []
    model = ScriptedModel([call("pay", to="bob"), "Done."])
    paused = Agent(model, [refund_tool(100, paid, True)], force="never").run("Pay bob.")
    edit = Verdict("yes", arguments={"to": "eve"})
    asked = Agent(model, [refund_tool(100, paid, True)], approve=lambda question: edit)
    [verdict] = [m for m in asked.resume(paused.transcript).transcript if isinstance(m, Verdict)]
    assert (paid, verdict.shown) == ([("eve", 100)], {"to": "eve", "cents": 100})
    later = Agent(model, [refund_tool(5_000, paid, True)])
    assert "cents=5000" in later.resume([*paused.transcript, verdict]).answer
    assert paid == [("eve", 100)]


def test_a_yes_to_one_is_no_yes_to_true():
    paused = [User("Pay"), Assistant(tool_calls=(pay_call(1),))]
    yes = Verdict("yes", "p", shown={"cents": True})
    assert Desk().agent().resume([*paused, yes]).exit == "needs_human"
