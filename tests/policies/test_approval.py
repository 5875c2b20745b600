"""A person decides: before a call that needs it, and about a call that a crash left in doubt."""

import asyncio
import itertools
import json

import pytest

from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
    tool,
)
from think_agent.audit import report
from think_agent.transcript import Transcript

NOW = "2026-03-01T12:00:00.000+00:00"
THINK = ToolCall("t", "think", {"thought": "580 is much", "should_continue": "true"})


def pay_call(cents, id="p"):
    return ToolCall(id, "pay", {"cents": cents})


class Desk:
    """An agent that plays replies by their place in the transcript, and a log of what was done."""

    def __init__(self, *replies, **options):
        self.paid = []
        self.asked = []
        self._replies = replies
        self._options = {"needs_approval": True, **options}

    def agent(self, *verdicts, **settings):
        """Verdicts are given in turn. Without any, nobody is there."""
        given = iter(verdicts)

        def pay(cents: int) -> str:
            self.paid.append(cents)
            return f"paid {cents}"

        def look() -> str:
            return "seen"

        def approve(question):
            self.asked.append(question)
            return next(given)

        def reply(request):
            return self._replies[sum(isinstance(m, Assistant) for m in request.messages)]

        tools = [tool(pay, **self._options), tool(look)]
        settings = {
            "force": "never",
            "silence": "accept",
            "approve": approve if verdicts else None,
            **settings,
        }
        return Agent(ScriptedModel(reply), tools, **settings)


def calling(*calls):
    return Assistant(tool_calls=calls, stop_reason="tool_use")


def one_payment(**options):
    return Desk(calling(THINK, pay_call(58_000)), Assistant("Settled."), **options)


def test_a_thought_after_a_no_of_a_person_is_not_the_gates():
    desk = Desk(calling(THINK, pay_call(1)), calling(THINK), Assistant("Not done."))
    outcome = desk.agent(Verdict("no", by="Ada")).run("Pay")
    laid_out = report(outcome.transcript, exit=outcome.exit)
    assert [thought.how for thought in laid_out.thoughts] == ["volunteered", "volunteered"]


def results(outcome, name="pay"):
    return [m for m in outcome.transcript if isinstance(m, ToolResult) and m.name == name]


def verdicts(outcome):
    return [m for m in outcome.transcript if isinstance(m, Verdict)]


# Yes, no, edit, quit.


def test_the_question_holds_the_call_and_the_thought_behind_it():
    desk = one_payment()
    desk.agent(True).run("Pay")
    (asked,) = desk.asked
    assert asked == AskHuman("Run pay(cents=58000)?", pay_call(58_000), "580 is much")


def test_yes_runs_it():
    desk = one_payment()
    outcome = desk.agent(True).run("Pay")
    assert (desk.paid, outcome.exit, outcome.answer) == ([58_000], "silence", "Settled.")


def test_no_is_an_answer_for_the_model_with_the_reason():
    desk = one_payment()
    outcome = desk.agent(Verdict("no", reason="ask the manager", by="Ada")).run("Pay")
    (result,) = results(outcome)
    assert (desk.paid, outcome.exit) == ([], "silence")
    assert (result.is_error, result.refused) == (True, "person")
    assert "Ada said no (ask the manager)" in result.content
    assert outcome.actions == ()


def test_a_bare_no_says_so():
    outcome = one_payment().agent(False).run("Pay")
    assert "a person said no (no reason given)" in results(outcome)[0].content


def test_edited_arguments_are_what_runs_and_what_the_record_and_the_model_see():
    desk = one_payment()
    outcome = desk.agent(Verdict("yes", arguments={"cents": 100}, by="Ada")).run("Pay")
    assert desk.paid == [100]
    assert outcome.transcript[1].tool_calls[1] == pay_call(58_000)  # as the model said it
    assert [action.call for action in outcome.actions] == [pay_call(100)]
    assert outcome.report == "✓ pay(cents=100)"
    assert "A person changed this call to pay(cents=100)" in outcome.actions[0].result.content


def test_edited_arguments_are_validated_like_any():
    desk = one_payment()
    outcome = desk.agent(Verdict("yes", arguments={"cents": "much"})).run("Pay")
    assert desk.paid == []
    assert "bad arguments for pay: cents" in results(outcome)[0].content


def test_quit_ends_the_run():
    desk = one_payment()
    outcome = desk.agent(Verdict("quit", by="Ada", reason="lunch")).run("Pay")
    assert (desk.paid, outcome.exit, outcome.model_calls) == ([], "declined", 1)
    assert "Ada" in outcome.answer
    assert "lunch" in outcome.answer


def test_the_verdict_is_recorded_with_time_and_by_whom():
    outcome = one_payment().agent(Verdict("yes", by="Ada"), now=lambda: NOW).run("Pay")
    (verdict,) = verdicts(outcome)
    assert (verdict.decision, verdict.call_id, verdict.by, verdict.at) == ("yes", "p", "Ada", NOW)


# When is a person asked?


@pytest.mark.parametrize(
    ("cents", "asked"), [(50_000, 0), (50_001, 1), ("50001", 1), ("50000", 0), ("much", 0)]
)
def test_a_predicate_decides_by_what_the_function_will_get(cents, asked):
    def above_500(arguments):
        return arguments["cents"] > 50_000

    desk = Desk(calling(pay_call(cents)), Assistant("Settled."), needs_approval=above_500)
    desk.agent(False).run("Pay")
    assert len(desk.asked) == asked


@pytest.mark.parametrize("arguments", ["{", {}, {"cents": None}, {"cents": 1, "more": 2}])
def test_a_call_that_cannot_run_asks_nobody(arguments):
    desk = Desk(calling(ToolCall("p", "pay", arguments)), Assistant("Settled."))
    outcome = desk.agent(True).run("Pay")
    assert (desk.asked, desk.paid) == ([], [])
    assert results(outcome)[0].is_error


def test_what_stands_before_the_question_is_done_before_it():
    look = ToolCall("l", "look")
    desk = Desk(calling(look, pay_call(1), look, pay_call(2, "q")), Assistant("Settled."))
    outcome = desk.agent(True, False).run("Pay")
    kinds = [type(m).__name__ for m in outcome.transcript]
    assert kinds == [
        "User",
        "Assistant",
        *("Started", "ToolResult", "Verdict", "Started", "ToolResult"),
        *("Started", "ToolResult", "Verdict", "ToolResult"),
        "Assistant",
    ]
    assert desk.paid == [1]


@pytest.mark.parametrize("second", [True, False])
def test_a_yes_covers_one_call_also_where_ids_repeat(second):
    desk = Desk(calling(pay_call(1), pay_call(1_000_000)), Assistant("Settled."))
    desk.agent(True, second).run("Pay")
    assert len(desk.asked) == 2
    assert desk.paid == ([1, 1_000_000] if second else [1])


def test_an_edit_covers_one_call_also_where_ids_repeat():
    desk = Desk(calling(pay_call(1), pay_call(2)), Assistant("Settled."))
    desk.agent(Verdict("yes", arguments={"cents": 3}), True).run("Pay")
    assert desk.paid == [3, 2]


def test_nobody_is_asked_about_what_a_limit_refuses_anyway():
    desk = Desk(calling(pay_call(1), pay_call(2, "q")), Assistant("Settled."))
    outcome = desk.agent(True, True, max_actions=1).run("Pay")
    assert (len(desk.asked), desk.paid, outcome.exit) == (1, [1], "limit")


# Async.


@pytest.mark.parametrize(
    ("answer", "paid"),
    [(True, [58_000]), (False, []), (Verdict("yes", arguments={"cents": 7}), [7])],
)
def test_an_async_callback_is_awaited(answer, paid):
    async def approve(question):
        await asyncio.sleep(0)
        return answer

    desk = one_payment()
    asyncio.run(desk.agent(approve=approve).arun("Pay"))
    assert desk.paid == paid


def test_a_plain_callback_serves_arun_too():
    desk = one_payment()
    outcome = asyncio.run(desk.agent(True).arun("Pay"))
    assert (desk.paid, outcome.exit) == ([58_000], "silence")


def test_an_async_callback_under_run_is_an_error_that_says_what_to_do():
    class Later:
        def __await__(self):
            yield

    with pytest.raises(TypeError, match="arun"):
        one_payment().agent(approve=lambda question: Later()).run("Pay")


# Nobody there: pause, and go on days later.


def test_without_a_person_the_run_pauses_with_the_question():
    desk = one_payment()
    outcome = desk.agent().run("Pay")
    assert (outcome.exit, outcome.answer) == ("needs_human", "Run pay(cents=58000)?")
    assert (desk.paid, outcome.model_calls) == ([], 1)


@pytest.mark.parametrize("verdict", [Verdict("yes", by="Ada"), Verdict("no"), Verdict("quit")])
def test_a_paused_run_goes_on_with_the_verdict_as_if_it_had_never_paused(tmp_path, verdict):
    never_paused, from_file, in_memory = one_payment(), one_payment(), one_payment()
    expected = never_paused.agent(verdict).run("Pay", transcript=tmp_path / "never.jsonl")

    path = tmp_path / "run.jsonl"
    assert from_file.agent().run("Pay", transcript=path).exit == "needs_human"
    assert from_file.agent().resume(path).exit == "needs_human"  # still nobody
    assert from_file.agent(verdict).resume(path) == expected

    paused = in_memory.agent().run("Pay")
    assert in_memory.agent(verdict).resume(paused.transcript) == expected
    assert never_paused.paid == from_file.paid == in_memory.paid


def test_a_verdict_can_be_written_into_the_file_by_anybody(tmp_path):
    """A web page, say, that lets a manager decide: one line, and the run goes on."""
    path, desk = tmp_path / "run.jsonl", one_payment()
    desk.agent().run("Pay", transcript=path)
    with path.open("a") as file:
        line = {"type": "verdict", "decision": "yes", "call_id": "p", "by": "Ada", "at": NOW}
        file.write(json.dumps(line) + "\n")
    assert desk.agent().resume(path).exit == "silence"
    assert desk.paid == [58_000]


# After a crash: a call was started and has no result.


def crashed(path, desk, *, said=()):
    """What a kill in the middle of the payment leaves behind."""
    agent = desk.agent()
    with Transcript(path, agent.made_of(), now=NOW) as transcript:
        transcript.append(User("Pay"))
        transcript.append(calling(pay_call(58_000)))
        for message in said:
            transcript.append(message)
        transcript.append(Started("p", "pay"))
    return path


def in_doubt(**options):
    settings = {"needs_approval": False, **options}
    return Desk(calling(pay_call(58_000)), Assistant("Settled."), **settings)


def test_a_started_call_is_not_repeated_without_a_person(tmp_path):
    desk = in_doubt()
    path = crashed(tmp_path / "run.jsonl", desk)
    outcome = desk.agent().resume(path)
    assert (outcome.exit, desk.paid) == ("needs_human", [])
    assert "pay(cents=58000)" in outcome.answer
    assert "may have happened" in outcome.answer
    assert desk.agent(True).resume(path).exit == "silence"
    assert desk.paid == [58_000]


def test_no_leaves_it_and_the_model_is_not_told_that_it_did_not_happen(tmp_path):
    desk = in_doubt()
    path = crashed(tmp_path / "run.jsonl", desk)
    outcome = desk.agent(Verdict("no", reason="it is on the account", by="Ada")).resume(path)
    (result,) = results(outcome)
    assert desk.paid == []
    assert "may have happened" in result.content
    assert "it is on the account" in result.content


def test_an_idempotent_tool_is_repeated(tmp_path):
    desk = in_doubt(idempotent=True)
    outcome = desk.agent().resume(crashed(tmp_path / "run.jsonl", desk))
    assert (outcome.exit, desk.paid) == ("silence", [58_000])


def test_the_second_doubt_is_asked_about_again(tmp_path):
    desk = in_doubt()
    path = crashed(tmp_path / "run.jsonl", desk, said=[Started("p", "pay"), Verdict("yes", "p")])
    assert desk.agent().resume(path).exit == "needs_human"
    assert desk.paid == []


def test_a_yes_from_before_the_crash_is_no_yes_to_a_second_time(tmp_path):
    desk = in_doubt(needs_approval=True)
    path = crashed(tmp_path / "run.jsonl", desk, said=[Verdict("yes", "p", by="Ada")])
    assert desk.agent().resume(path).exit == "needs_human"
    desk.agent(True).resume(path)
    assert (len(desk.asked), desk.paid) == (1, [58_000])


def test_a_yes_after_the_crash_keeps_the_edit_from_before_it(tmp_path):
    desk = in_doubt(needs_approval=True)
    edit = Verdict("yes", "p", arguments={"cents": 100}, by="Ada")
    path = crashed(tmp_path / "run.jsonl", desk, said=[edit])
    desk.agent(True).resume(path)
    (asked,) = desk.asked
    assert "pay(cents=100)" in asked.question
    assert asked.call == pay_call(100)
    assert desk.paid == [100]


def test_one_call_that_is_done_puts_no_other_in_doubt_where_ids_repeat(tmp_path):
    desk = Desk(calling(pay_call(1), pay_call(2)), Assistant("Settled."), needs_approval=False)
    with Transcript(tmp_path / "run.jsonl", desk.agent().made_of(), now=NOW) as transcript:
        for message in (
            User("Pay"),
            calling(pay_call(1), pay_call(2)),
            Started("p", "pay"),
            ToolResult("p", "pay", "paid 1"),
        ):
            transcript.append(message)
    assert desk.agent().resume(tmp_path / "run.jsonl").exit == "silence"
    assert desk.paid == [2]


# Idempotency keys.


class Bank:
    """A tool with a key, killed in the middle of one of its calls."""

    def __init__(self, deadly_call):
        self.keys = []
        self._calls = itertools.count()
        self._deadly = deadly_call

    def agent(self):
        def pay(cents: int, idempotency_key: str) -> str:
            self.keys.append(idempotency_key)
            if next(self._calls) == self._deadly:
                raise KeyboardInterrupt
            return f"paid {cents}"

        def reply(request):
            said = sum(isinstance(m, Assistant) for m in request.messages)
            same = pay_call(100)  # the same id and arguments, twice in a reply and in the next
            return calling(same, same) if said < 2 else Assistant("Done.")

        return Agent(ScriptedModel(reply), [tool(pay)], force="never", max_repeats=9)


@pytest.mark.parametrize("deadly_call", range(4))
def test_a_tool_with_a_key_is_repeated_with_the_same_key_and_no_other(tmp_path, deadly_call):
    path, bank = tmp_path / "run.jsonl", Bank(deadly_call)
    with pytest.raises(KeyboardInterrupt):
        bank.agent().run("Pay", transcript=path)
    outcome = bank.agent().resume(path)
    assert outcome.exit == "silence"
    assert len(outcome.actions) == 4
    keys = bank.keys
    assert keys[deadly_call] == keys[deadly_call + 1]
    assert len(keys) == 5
    assert len(set(keys)) == 4


def test_two_runs_have_different_keys(tmp_path):
    bank = Bank(deadly_call=None)
    for run in ("a.jsonl", "b.jsonl", None, None):
        bank.agent().run("Pay", transcript=run and tmp_path / run)
    assert len(set(bank.keys)) == 16


def test_the_model_never_sees_the_key():
    (shown,) = Bank(None).agent().tools.values()
    assert list(shown.parameters["properties"]) == ["cents"]
    injected = ToolCall("p", "pay", {"cents": 1, "idempotency_key": "mine"})
    bank = Bank(None)
    agent = bank.agent()
    agent.model = ScriptedModel([calling(injected), Assistant("Done.")])
    outcome = agent.run("Pay")
    assert outcome.actions[0].result.is_error
    assert bank.keys == []
