"""A call that changes something and did not return may have happened: it crashed, timed out or
raised. A person decides whether it is made again.
"""

import itertools
import uuid
from dataclasses import replace
from typing import Annotated

import pydantic
import pytest

from tests.support.agents import results
from think_agent import (
    Agent,
    CallTool,
    NothingDone,
    Notice,
    Outcome,
    Refuse,
    ScriptedModel,
    Started,
    ToolResult,
    User,
    Verdict,
    tool,
)
from think_agent.messages import Assistant, ToolCall
from think_agent.running import STOPPED_IN_IT
from think_agent.testing import call
from think_agent.tools import MAY_HAVE_HAPPENED

NOW = "2026-03-01T12:00:00.000+00:00"
PAY = call("pay", order="A")
FAILURES = {
    "raises": ValueError("the line broke"),
    "takes too long": TimeoutError("HTTP"),
    "knows": NothingDone("the shop is closed"),
}


class Shop:
    """A shop. Its `pay` books, and then raises the next of `outcomes`. It remembers keys."""

    def __init__(self, *outcomes: Exception | None, takes_key=False, kind=str, **options) -> None:
        self.outcomes = itertools.chain(outcomes, itertools.repeat(None))
        self.booked: list[str] = []
        self.keys: list[str] = []
        self.asked: list[str] = []

        def book(order: str) -> str:
            self.booked.append(order)
            error = next(self.outcomes)
            if error is not None:
                raise error
            return f"paid {order}"

        def pay(order: kind) -> str:
            """Pay."""
            return book(order)

        def pay_once(order: kind, idempotency_key: str) -> str:
            """Pay."""
            self.keys.append(idempotency_key)
            return book(order)

        self.pay = tool(pay_once if takes_key else pay, name="pay", **options)

    def agent(self, *replies, person: bool | Verdict | None = None, **settings) -> Agent:
        """`person`: what a person answers to every question; None if there is nobody."""

        def approve(question):
            self.asked.append(question.question)
            return person

        if person is not None:
            settings = {"approve": approve, **settings}
        settings = {"force": "never", "silence": "accept", "patience": 9, **settings}
        return Agent(ScriptedModel(replies), [self.pay], **settings)


def codes(outcome: Outcome) -> list[str]:
    return [result.refused for result in results(outcome, "pay")]


# The same call again, in one turn.


@pytest.mark.parametrize("failure", ["raises", "takes too long"])
def test_without_a_person_a_repeat_is_refused_and_the_notice_says_what_to_declare(failure):
    shop, events = Shop(FAILURES[failure]), []
    outcome = shop.agent(PAY, PAY, "Open.").run("Pay A.", on_event=events.append)
    assert (shop.booked, codes(outcome)) == (["A"], ["", "doubt"])
    first, second = results(outcome, "pay")
    assert first.content.endswith(MAY_HAVE_HAPPENED)
    assert "may have happened" in second.content
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("@tool(read_only=True)" in notice for notice in notices)


@pytest.mark.parametrize(("person", "booked"), [(True, ["A", "A"]), (False, ["A"])])
def test_with_a_person_a_repeat_is_asked_about(person, booked):
    shop = Shop(ValueError())
    outcome = shop.agent(PAY, PAY, "So.", person=person).run("Pay A.")
    assert (shop.booked, len(shop.asked)) == (booked, 1)
    assert shop.asked[0] == 'Run pay(order="A")? It was tried before and may have happened.'
    assert codes(outcome) == ["", "" if person else "person"]


@pytest.mark.parametrize(
    ("options", "booked"),
    [
        ({"read_only": True}, ["A", "A"]),
        ({"idempotent": True}, ["A", "A"]),
        ({"takes_key": True}, ["A", "A"]),
        ({"takes_key": True, "idempotent": True}, ["A", "A"]),
        ({}, ["A"]),
    ],
)
def test_a_call_is_repeated_if_that_does_no_harm(options, booked):
    shop = Shop(ValueError(), **options)
    shop.agent(PAY, PAY, "So.").run("Pay A.")
    assert shop.booked == booked
    assert len(set(shop.keys)) <= 1  # both tries have one key


def test_what_does_no_harm_is_run_again_in_a_later_turn_too():
    """Also if the tool takes a key."""
    for harmless in ({"read_only": True}, {"idempotent": True}):
        shop = Shop(ValueError(), takes_key=True, **harmless)
        before = shop.agent(PAY, "So.").run("Look at A.")
        shop.agent(PAY, "So.").run("And again.", transcript=before.transcript)
        assert shop.booked == ["A", "A"]


def test_a_tool_that_knows_that_nothing_happened_is_called_again():
    shop = Shop(FAILURES["knows"])
    outcome = shop.agent(PAY, PAY, "Paid.").run("Pay A.")
    assert shop.booked == ["A", "A"]
    assert results(outcome, "pay")[0].content == "error: the shop is closed"


def test_a_try_that_did_nothing_leaves_the_doubt_about_the_try_before_it():
    shop = Shop(ValueError(), FAILURES["knows"])
    shop.agent(PAY, PAY, PAY, "So.", person=True).run("Pay A.")
    assert (len(shop.booked), len(shop.asked)) == (3, 2)


def test_a_call_is_the_same_if_its_arguments_are_but_for_a_carried_thought():
    shop = Shop(ValueError())
    other = call("pay", order="B")
    same = call("pay", order="A", thought="once more")
    outcome = shop.agent(PAY, other, same, "So.").run("Pay.")
    assert (shop.booked, codes(outcome)) == (["A", "B"], ["", "", "doubt"])


def test_of_two_equal_calls_in_one_reply_the_second_is_a_repeat_while_the_first_is_in_doubt():
    for failure, booked in ((ValueError(), ["A"]), (None, ["A", "A"])):
        shop = Shop(failure)
        shop.agent((PAY, PAY), "So.").run("Pay A, twice.")
        assert shop.booked == booked


def test_a_call_that_returned_is_not_in_doubt_any_more():
    shop = Shop(ValueError(), takes_key=True)
    shop.agent(PAY, PAY, PAY, "So.").run("Pay A, and once more.")
    first, again, new = shop.keys
    assert first == again != new


# Other words for the same call.


class Parcel(pydantic.BaseModel):
    number: str = pydantic.Field(default_factory=lambda: uuid.uuid4().hex)
    tags: list[str] = pydantic.Field(default_factory=list)
    code: pydantic.SecretStr = pydantic.SecretStr("0000")
    limit: int = pydantic.Field(100, exclude=True)


class Bank:
    """A bank. It books a payment once for each key, and refuses a key that comes with other values.
    `fails`: the first payment is booked, and then the line breaks.
    """

    def __init__(self, takes_key: bool, *, fails: bool = True, **options) -> None:
        self.booked: list[tuple] = []
        self.keys: dict[str, tuple] = {}
        self.tries: list[tuple] = []
        self.fails = fails

        def book(key: str, *values) -> str:
            self.tries.append((key, *values))
            if self.keys.setdefault(key, values) != values:
                raise NothingDone("this key was used for another payment")
            if not takes_key or [one for one, *_ in self.tries].count(key) == 1:
                self.booked.append(values)
            if self.fails and len(self.tries) == 1:
                raise ConnectionError("the line broke")
            return "paid"

        def pay(cents: int, reason: str = "", note: str | None = None, parcel: Parcel = Parcel()):  # noqa: B008
            """Pay."""
            return book(str(len(self.tries)), cents, reason, note, parcel.tags, parcel.code)

        def pay_once(
            cents: int,
            idempotency_key: str,
            reason: str = "",
            note: str | None = None,
            parcel: Parcel = Parcel(),  # noqa: B008
        ):
            """Pay."""
            return book(idempotency_key, cents, reason, note, parcel.tags, parcel.code)

        self.pay = tool(pay_once if takes_key else pay, name="pay", **options)

    def agent(self, *calls, **settings) -> Agent:
        settings = {"force": "never", "silence": "accept", "patience": 9, **settings}
        return Agent(ScriptedModel([*calls, "So."]), [self.pay], **settings)


FIRST = call("pay", cents=8900, reason="the stand wobbles", parcel={})
SAME_VALUES = [
    call("pay", cents=8900, reason="the stand wobbles", parcel={}),
    call("pay", cents="8900", reason="the stand wobbles", parcel={}),
    call("pay", cents=8900, reason="the stand wobbles", note=None, parcel={}),
    call("pay", cents=8900.0, reason="the stand wobbles"),
    call("pay", cents=8900, reason="the stand wobbles", parcel={"tags": [], "code": "0000"}),
    call("pay", cents=8900, reason="the stand wobbles", parcel={"limit": 100}),
    call("pay", cents=8900, reason="the stand wobbles", parcel={}, thought="once more"),
]
REWORDED = [
    call("pay", cents=8900, reason="It wobbles.", parcel={}),
    call("pay", cents="8900"),
    call("pay", cents=8900, reason="It wobbles.", note="again", parcel={"code": "4711"}),
]
OTHERS = [call("pay", cents=8901, reason="the stand wobbles", parcel={}), call("pay", cents=1)]


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("takes_key", [True, False])
@pytest.mark.parametrize(
    ("again", "same", "is_same"),
    [
        *[(again, (), True) for again in SAME_VALUES],
        *[(again, ("cents",), True) for again in SAME_VALUES + REWORDED],
        *[(again, (), False) for again in REWORDED + OTHERS],
        *[(again, ("cents",), False) for again in OTHERS],
    ],
)
def test_a_retry_is_told_by_its_values(again, same, is_same, takes_key, where, tmp_path):
    bank = Bank(takes_key, same=same)
    path = tmp_path / "run.jsonl" if where == "file" else None
    outcome = bank.agent(FIRST, again).run("Pay.", transcript=path)
    assert len(bank.booked) == (1 if is_same else 2)
    if is_same and takes_key:  # the first try again, as it was
        assert bank.tries[0] == bank.tries[1]
        assert not outcome.transcript[-3].is_error
    elif is_same:
        assert codes(outcome) == ["", "doubt"]


@pytest.mark.parametrize("options", [{"read_only": True}, {"idempotent": True}])
def test_what_may_run_twice_runs_as_it_is_written(options):
    bank = Bank(False, same=("cents",), **options)
    bank.agent(FIRST, *REWORDED[:1]).run("Pay.")
    assert [reason for _, reason, *_ in bank.booked] == ["the stand wobbles", "It wobbles."]


def test_an_edited_first_try_is_repeated_as_it_was_edited():
    bank = Bank(True, same=("cents",), needs_approval=True)
    answers = iter([Verdict("yes", arguments={"cents": 100}), True])
    asked = []

    def approve(question):
        asked.append(question)
        return next(answers)

    bank.agent(FIRST, FIRST, approve=approve).run("Pay.")
    assert [cents for _, cents, *_ in bank.tries] == [100, 100]
    assert len(bank.booked) == 1
    assert asked[1].received["cents"] == 100  # what runs is what is shown
    assert asked[1].as_new.arguments["cents"] == 8900


def test_a_call_that_a_person_edits_into_one_in_doubt_is_asked_about():
    bank = Bank(False, same=("cents",), needs_approval=True)
    other = call("pay", cents=5)
    answers = iter([True, Verdict("yes", arguments={"cents": "8900"}), False])
    asked = []

    def approve(question):
        asked.append(question.question)
        return next(answers)

    bank.agent(FIRST, other, approve=approve).run("Pay.")
    assert len(bank.booked) == 1
    assert "It was tried before and may have happened." in asked[2]


@pytest.mark.parametrize("takes_key", [True, False])
@pytest.mark.parametrize(
    ("answer", "tries", "booked"), [("same", 2, 1), ("new", 2, 2), ("no", 1, 1)]
)
def test_in_a_later_turn_there_are_three_answers(takes_key, answer, tries, booked):
    verdicts = {"same": True, "new": Verdict("yes", new=True), "no": False}
    bank = Bank(takes_key, same=("cents",))
    agent = bank.agent(FIRST, "Not sure.", REWORDED[0], approve=lambda asked: verdicts[answer])
    first = agent.run("The rent of May.")
    agent.run("The rent of June.", transcript=first.transcript)
    assert len(bank.tries) == tries
    if takes_key:
        assert len(bank.booked) == booked
        keys = {key for key, *_ in bank.tries}
        assert len(keys) == booked


def test_a_new_payment_that_succeeded_does_not_settle_the_older_one():
    bank = Bank(True)
    answers = iter([Verdict("yes", new=True), True])
    agent = bank.agent(FIRST, "?", FIRST, "?", FIRST, approve=lambda asked: next(answers))
    outcome = agent.run("May.")
    outcome = agent.run("June.", transcript=outcome.transcript)
    agent.run("And May, once more.", transcript=outcome.transcript)
    may, june, again = [key for key, *_ in bank.tries]
    assert may == again != june
    assert len(bank.booked) == 2


def test_two_partial_refunds_of_one_order_are_two_calls():
    bank = Bank(True, same=("cents", "note"))
    half = call("pay", cents=4450, note="first half")
    rest = call("pay", cents=4450, note="second half")
    bank.agent((half, rest)).run("Refund both halves.")
    assert len(bank.booked) == 2


def test_of_what_the_function_gets_only_a_digest_is_kept(tmp_path):
    path = tmp_path / "run.jsonl"
    Bank(True).agent(FIRST).run("Pay.", transcript=path)
    assert '"same":"' in path.read_text()
    assert "0000" not in path.read_text()


def test_same_names_parameters_of_the_tool():
    with pytest.raises(ValueError, match="no such parameters"):
        Bank(True, same=("cent",))


# In later turns.


@pytest.mark.parametrize("takes_key", [False, True])
@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize(("person", "tries"), [(None, 1), (False, 1), (True, 2)])
def test_in_a_later_turn_a_person_is_asked_even_if_there_is_a_key(
    takes_key, where, person, tries, tmp_path
):
    shop = Shop(ValueError(), takes_key=takes_key)
    path = tmp_path / "run.jsonl" if where == "file" else None
    agent = shop.agent(PAY, "I am not sure.", PAY, "So.", person=person)
    before = agent.run("Pay the rent.", transcript=path)
    agent.run("And next month's rent.", transcript=path or before.transcript)
    assert len(shop.booked) == tries
    assert len(shop.asked) == (person is not None)
    assert len(set(shop.keys)) <= 1  # a yes means: try again


def test_in_a_later_turn_a_call_without_doubt_is_a_new_call():
    shop = Shop(takes_key=True)
    agent = shop.agent(PAY, "Paid.", PAY, "Paid.")
    before = agent.run("Pay the rent.")
    agent.run("And next month's rent.", transcript=before.transcript)
    assert len(set(shop.keys)) == 2


# After a crash: a call was started but has no result.

WRITTEN = ToolCall("p", "pay", {"order": "A"})
STARTED = Started("p", "pay", "key-1")


def crashed(*notes, calls=(WRITTEN,)):
    """What a kill in the middle of a payment leaves behind."""
    return User("Pay"), Assistant(tool_calls=calls, stop_reason="tool_use"), *notes


@pytest.mark.parametrize(
    ("options", "exit", "booked"),
    [
        ({}, "needs_human", []),
        ({"idempotent": True}, "silence", ["A"]),
        ({"takes_key": True}, "silence", ["A"]),
    ],
)
def test_a_started_call_is_repeated_only_if_that_does_no_harm(options, exit, booked):
    shop = Shop(**options)
    outcome = shop.agent("So.").resume(crashed(STARTED))
    assert (outcome.exit, shop.booked) == (exit, booked)
    assert shop.keys in ([], ["key-1"])


def test_a_person_decides_about_a_started_call():
    for person, booked in ((True, ["A"]), (False, [])):
        shop = Shop()
        outcome = shop.agent("So.", person=person).resume(crashed(STARTED))
        assert (shop.booked, len(shop.asked)) == (booked, 1)
        assert "was tried before and may have happened" in shop.asked[0]
        [result] = results(outcome, "pay")
        assert person or result.content.endswith("It was started before and may have happened.")


def test_a_call_that_was_started_without_a_key_is_asked_about():
    shop = Shop(takes_key=True)
    assert shop.agent("So.").resume(crashed(Started("p", "pay"))).exit == "needs_human"
    shop.agent("So.", person=True).resume(crashed(Started("p", "pay")))
    assert (len(shop.asked), len(shop.keys), all(shop.keys)) == (1, 1, True)


@pytest.mark.parametrize("needs_approval", [False, True])
def test_a_yes_covers_one_try(needs_approval):
    """After a second crash the call is in doubt again, and the first yes does not count."""
    notes = STARTED, Verdict("yes", "p"), STARTED
    shop = Shop(needs_approval=needs_approval)
    assert shop.agent("So.").resume(crashed(*notes)).exit == "needs_human"
    shop.agent("So.", person=True).resume(crashed(*notes))
    assert (len(shop.asked), shop.booked) == (1, ["A"])


def test_a_yes_after_the_crash_keeps_the_edit_from_before_it():
    edit = Verdict("yes", "p", arguments={"order": "B"}, by="Ada")
    shop = Shop(needs_approval=True)
    shop.agent("So.", person=True).resume(crashed(edit, STARTED))
    assert 'pay(order="B")' in shop.asked[0]
    assert shop.booked == ["B"]


def test_one_yes_covers_doubt_and_approval():
    shop = Shop(ValueError(), needs_approval=True)
    shop.agent(PAY, PAY, "So.", person=True).run("Pay A.")
    assert (len(shop.asked), shop.booked) == (2, ["A", "A"])  # one question a call


def test_doubt_never_turns_a_refusal_into_a_call():
    def never(step, turn):
        if isinstance(step, CallTool):
            return Refuse(step.call, "rule", "not run.")
        return step

    shop = Shop()
    outcome = shop.agent("So.", person=True, policies=[never]).resume(crashed(STARTED))
    [result] = results(outcome, "pay")
    assert (shop.booked, shop.asked, result.refused) == ([], [], "rule")
    assert result.content == "error: not run. It was started before and may have happened."


@pytest.mark.parametrize("settings", [{"max_actions": 1}, {"on_tool_error": "fail_fast"}])
def test_limits_that_are_not_reached_change_nothing(settings):
    shop = Shop()
    assert shop.agent("So.", **settings).resume(crashed(STARTED)).exit == "needs_human"


def test_a_call_that_is_done_puts_no_other_in_doubt_if_ids_repeat():
    other = ToolCall("p", "pay", {"order": "B"})
    done = STARTED, ToolResult("p", "pay", "paid A")
    shop = Shop()
    outcome = shop.agent("So.").resume(crashed(*done, calls=(WRITTEN, other)))
    assert (outcome.exit, shop.booked) == ("silence", ["B"])


def test_a_call_that_never_got_to_its_function_is_not_in_doubt():
    """Its arguments did not fit when it ran. An earlier start may still have happened."""
    failed = ToolResult("p", "pay", "error", is_error=True, refused="invalid")
    for starts, booked in (([STARTED], ["A"]), ([STARTED, STARTED], [])):
        shop = Shop()
        shop.agent(PAY, "So.").run("Pay A.", transcript=crashed(*starts, failed))
        assert shop.booked == booked


def pays_b(step, turn):
    """A policy of the user: whatever the model wrote, order B is paid."""
    if isinstance(step, CallTool):
        return CallTool(replace(step.call, arguments={"order": "B"}))
    return step


def test_a_call_that_a_policy_changes_is_in_doubt_as_the_model_wrote_it():
    shop = Shop(ValueError())
    outcome = shop.agent(PAY, PAY, "So.", policies=[pays_b]).run("Pay.")
    assert (shop.booked, codes(outcome)) == (["B"], ["", "doubt"])


def test_after_a_crash_the_question_shows_the_call_as_a_policy_changed_it():
    shop = Shop()
    started = replace(STARTED, arguments={"order": "B"})
    outcome = shop.agent("So.", policies=[pays_b]).resume(crashed(started))
    assert (shop.booked, outcome.exit) == ([], "needs_human")
    assert outcome.answer.startswith('Run pay(order="B")? It was tried before')


def test_a_started_call_that_does_not_validate_any_more_stays_in_doubt():
    """It was killed in the middle. Then its validator looks at the world, and refuses."""
    known = []

    def check(order):
        if order not in known:
            raise ValueError("there is no such order")
        return order

    shop = Shop(kind=Annotated[str, pydantic.AfterValidator(check)])
    outcome = shop.agent("I do not know.").resume(crashed(STARTED))
    [result] = results(outcome)
    assert (result.refused, result.in_doubt) == ("invalid", True)
    known.append("A")
    later = shop.agent(PAY, "So.").run("Try again.", transcript=outcome.transcript)
    assert (shop.booked, codes(later)) == ([], ["invalid", "doubt"])


def test_a_call_in_doubt_cannot_be_edited():
    agent = Shop().agent("So.", person=Verdict("yes", arguments={"order": "B"}))
    with pytest.raises(TypeError, match="new=True"):
        agent.resume(crashed(STARTED))


def test_a_new_request_after_a_crash_tells_the_model_which_call_may_have_happened():
    shop = Shop()
    left = crashed(STARTED, calls=(WRITTEN, call("look")))
    outcome = shop.agent("It may.").run("Did it work?", transcript=left)
    in_doubt, not_run = results(outcome)
    assert (in_doubt.content, in_doubt.refused) == (STOPPED_IN_IT, "")
    assert (not_run.refused, shop.booked) == ("stopped", [])
    assert isinstance(outcome.transcript[-3], User)


def test_a_call_in_doubt_stays_in_doubt_when_a_person_quits():
    agent = Shop().agent("I paid already.", person=Verdict("quit"))
    stopped = agent.resume(crashed(STARTED))
    outcome = agent.run("Go on.", transcript=stopped.transcript)
    assert (stopped.exit, outcome.answer) == ("declined", "I paid already.")
    [result] = results(outcome)
    assert (result.content, result.in_doubt) == (STOPPED_IN_IT, True)


def test_an_approval_after_a_crash_says_that_the_call_may_have_happened():
    """It was not asked about before: a predicate may answer otherwise now."""
    shop = Shop(takes_key=True, needs_approval=True)
    outcome = shop.agent("Nothing.", person=False).resume(crashed(STARTED))
    assert "may have happened" in shop.asked[0]
    [result] = results(outcome)
    assert result.content.endswith("It was started before and may have happened.")
