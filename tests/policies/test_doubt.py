"""A call that changes something and did not return may have happened: it crashed, timed out or
raised. A person decides whether it is made again (`policies/doubt.py`).
"""

import itertools
import uuid
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import pydantic
import pytest

from tests.support.agents import results
from think_agent import (
    Agent,
    CallTool,
    NothingDone,
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

BROKEN = ConnectionError("the line broke")  # after the payment was booked
CLOSED = NothingDone("the shop is closed")


class Parcel(pydantic.BaseModel):
    number: str = pydantic.Field(default_factory=lambda: uuid.uuid4().hex)
    tags: list[str] = pydantic.Field(default_factory=list)
    code: pydantic.SecretStr = pydantic.SecretStr("0000")
    limit: int = pydantic.Field(100, exclude=True)


def pay(order: str):
    """Pay."""


def pay_rent(cents: int, reason: str = "", note: str | None = None, parcel: Parcel = Parcel()):  # noqa: B008
    """Pay."""


class Shop:
    """A shop. Its tool has the parameters of `declared`. It books, and then raises the next of
    `outcomes`.
    """

    def __init__(
        self, *outcomes: Exception | None, declared=pay, takes_key=False, **options
    ) -> None:
        outcomes_left = iter(outcomes)
        self.tries: list[dict] = []  # what the function got
        self.asked: list = []

        def book(**arguments) -> str:
            self.tries.append(arguments)
            error = next(outcomes_left, None)
            if error is not None:
                raise error
            return "paid"

        made = tool(declared, name="pay", **options)
        self.pay = replace(made, function=book, takes_key=takes_key)

    @property
    def booked(self) -> list[str]:
        return [arguments["order"] for arguments in self.tries]

    @property
    def keys(self) -> list[str]:
        return [arguments["idempotency_key"] for arguments in self.tries if self.pay.takes_key]

    @property
    def payments(self) -> int:
        """How many there are: tries with one key are one payment."""
        if self.pay.takes_key:
            return len(set(self.keys))
        return len(self.tries)

    def agent(self, *replies, answers=(), **settings) -> Agent:
        """`answers`: what a person answers in turn, and from the start again; empty if no
        person can be asked.
        """
        given = itertools.cycle(answers)

        def approve(asked):
            self.asked.append(asked)
            return next(given)

        if answers:
            settings = {"approve": approve, **settings}
        settings = {"force": "never", "silence": "accept", "patience": 9, **settings}
        return Agent(ScriptedModel(replies), [self.pay], **settings)

    def resumed(self, *notes, **settings) -> Outcome:
        """The run that goes on after a crash."""
        return self.agent("So.", **settings).resume(crashed(*notes))


WRITTEN = ToolCall("p", "pay", {"order": "A"})


def crashed(*notes, calls=(WRITTEN,)):
    """What a kill in the middle of a payment leaves behind."""
    return User("Pay"), Assistant(tool_calls=calls, stop_reason="tool_use"), *notes


def codes(outcome: Outcome) -> list[str]:
    return [result.refused for result in results(outcome, "pay")]


# The same call again, in one turn.

PAY = call("pay", order="A")


@pytest.mark.parametrize("failure", [BROKEN, TimeoutError("HTTP")], ids=["raises", "is late"])
def test_without_a_person_the_run_waits_and_the_question_says_what_to_declare(failure):
    shop = Shop(failure)
    outcome = shop.agent(PAY, PAY, "Open.").run("Pay A.")
    assert shop.booked == ["A"]
    [first] = results(outcome, "pay")
    assert first.content.endswith(MAY_HAVE_HAPPENED)
    assert outcome.exit == "needs_human"
    assert "@tool(read_only=True)" in outcome.question.remark


@pytest.mark.parametrize("says_yes", [True, False])
def test_with_a_person_a_repeat_is_asked_about(says_yes):
    shop = Shop(BROKEN)
    outcome = shop.agent(PAY, PAY, "So.", answers=[says_yes]).run("Pay A.")
    [asked] = shop.asked
    assert asked.question.startswith(
        'Run pay(order="A")? It was tried before and may have happened.'
    )
    if says_yes:
        assert shop.booked == ["A", "A"]
        assert codes(outcome) == ["", ""]
    else:
        assert shop.booked == ["A"]
        assert codes(outcome) == ["", "person"]


@dataclass(frozen=True)
class Declared:
    """How a tool is declared, and whether a call in doubt runs again without a question."""

    options: dict[str, bool]
    runs_again: bool

    def __str__(self) -> str:
        return " and ".join(self.options) or "nothing"


DECLARED = [
    Declared({"read_only": True}, runs_again=True),  # rule 1
    Declared({"idempotent": True}, runs_again=True),
    Declared({"takes_key": True}, runs_again=True),  # rule 3
    Declared({"takes_key": True, "idempotent": True}, runs_again=True),
    Declared({}, runs_again=False),  # rule 4
]


@pytest.mark.parametrize("declared", DECLARED, ids=str)
def test_a_call_in_doubt_is_repeated_if_its_tool_says_that_this_does_no_harm(declared):
    shop = Shop(BROKEN, **declared.options)
    shop.agent(PAY, PAY, "So.").run("Pay A.")
    assert shop.booked == (["A", "A"] if declared.runs_again else ["A"])
    assert len(set(shop.keys)) <= 1  # both tries have one key


@pytest.mark.parametrize("harmless", ["read_only", "idempotent"])
def test_what_does_no_harm_is_run_again_in_a_later_turn_too(harmless):
    """Also if the tool takes a key."""
    shop = Shop(BROKEN, takes_key=True, **{harmless: True})
    agent = shop.agent(PAY, "So.", PAY, "So.")
    before = agent.run("Look at A.")
    agent.run("And again.", transcript=before.transcript)
    assert shop.booked == ["A", "A"]


def test_a_tool_that_knows_that_nothing_happened_is_called_again():
    shop = Shop(CLOSED)
    outcome = shop.agent(PAY, PAY, "Paid.").run("Pay A.")
    assert shop.booked == ["A", "A"]
    assert results(outcome, "pay")[0].content == "error: the shop is closed"


def test_a_try_that_did_nothing_leaves_the_doubt_about_the_try_before_it():
    shop = Shop(BROKEN, CLOSED)
    shop.agent(PAY, PAY, PAY, "So.", answers=[True]).run("Pay A.")
    assert len(shop.booked) == 3
    assert len(shop.asked) == 2


def test_of_two_equal_calls_in_one_reply_the_second_is_a_repeat_while_the_first_is_in_doubt():
    for failure, booked in ((BROKEN, ["A"]), (None, ["A", "A"])):
        shop = Shop(failure, repeats=True)
        shop.agent((PAY, PAY), "So.").run("Pay A, twice.")
        assert shop.booked == booked


def test_a_call_that_returned_is_not_in_doubt_any_more():
    shop = Shop(BROKEN, takes_key=True)
    shop.agent(PAY, PAY, PAY, "So.").run("Pay A, and once more.")
    first, again, new = shop.keys
    assert first == again != new


# Other words for the same call.


def bank(takes_key: bool, **options) -> Shop:
    """A bank whose line breaks after the first payment."""
    return Shop(BROKEN, declared=pay_rent, takes_key=takes_key, **options)


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


@dataclass(frozen=True)
class Again:
    """A call after `FIRST`, which is in doubt: is it the same call, compared by `same`?"""

    call: ToolCall
    same: tuple[str, ...]  # of the tool; empty: all arguments
    is_same: bool


RETRIES = [
    *[Again(again, (), is_same=True) for again in SAME_VALUES],
    *[Again(again, (), is_same=False) for again in REWORDED + OTHERS],
    *[Again(again, ("cents",), is_same=True) for again in SAME_VALUES + REWORDED],
    *[Again(again, ("cents",), is_same=False) for again in OTHERS],
    Again(call("pay", cents=8900, note="the second half"), ("cents", "note"), is_same=False),
]


@pytest.mark.parametrize("takes_key", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("case", RETRIES)
def test_two_calls_are_the_same_if_the_arguments_in_same_have_equal_values(case, takes_key, saved):
    shop = bank(takes_key, same=case.same)
    outcome = shop.agent(FIRST, case.call, "So.").run("Pay.", transcript=saved)
    assert shop.payments == (1 if case.is_same else 2)
    if case.is_same and takes_key:  # the first try again, as it was
        first, again = shop.tries
        again["parcel"].number = first["parcel"].number  # made anew each time
        assert first == again
        assert not outcome.transcript[-3].is_error
    elif case.is_same:
        assert outcome.exit == "needs_human"


@pytest.mark.parametrize("options", [{"read_only": True}, {"idempotent": True}])
def test_what_may_run_twice_runs_as_it_is_written(options):
    shop = bank(False, same=("cents",), **options)
    shop.agent(FIRST, REWORDED[0], "So.").run("Pay.")
    assert [tried["reason"] for tried in shop.tries] == ["the stand wobbles", "It wobbles."]


def test_an_edited_first_try_is_repeated_as_it_was_edited():
    shop = bank(True, same=("cents",), needs_approval=True)
    answers = [Verdict("yes", arguments={"cents": 100}), True]
    shop.agent(FIRST, FIRST, "So.", answers=answers).run("Pay.")
    assert [tried["cents"] for tried in shop.tries] == [100, 100]
    assert shop.payments == 1
    _, again = shop.asked
    assert again.received["cents"] == 100  # what runs is what is shown
    assert again.as_new.arguments["cents"] == 8900


def test_a_call_that_a_person_edits_into_one_in_doubt_is_asked_about():
    shop = bank(False, same=("cents",), needs_approval=True)
    answers = [True, Verdict("yes", arguments={"cents": "8900"}), False]
    shop.agent(FIRST, call("pay", cents=5), "So.", answers=answers).run("Pay.")
    assert shop.payments == 1
    assert "It was tried before and may have happened." in shop.asked[2].question


@dataclass(frozen=True)
class LaterTurn:
    """What a person answers about a call in doubt that comes again in a later turn."""

    name: str
    answers: list[Any]
    tries: int
    payments_with_a_key: int


LATER = [
    LaterTurn("the same again", [True], tries=2, payments_with_a_key=1),
    LaterTurn("a new one", [Verdict("yes", new=True)], tries=2, payments_with_a_key=2),
    LaterTurn("no", [False], tries=1, payments_with_a_key=1),
    LaterTurn("there is no person to ask", [], tries=1, payments_with_a_key=1),
]


@pytest.mark.parametrize("takes_key", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("case", LATER, ids=lambda case: case.name)
def test_in_a_later_turn_a_person_is_asked_even_if_there_is_a_key(takes_key, case, saved):
    shop = bank(takes_key, same=("cents",))
    agent = shop.agent(FIRST, "Not sure.", REWORDED[0], "So.", answers=case.answers)
    first = agent.run("The rent of May.", transcript=saved)
    agent.run("The rent of June.", transcript=saved or first.transcript)
    assert len(shop.tries) == case.tries
    assert len(shop.asked) == len(case.answers)
    if takes_key:
        assert shop.payments == case.payments_with_a_key


def test_a_new_payment_that_succeeded_does_not_settle_the_older_one():
    shop = bank(True)
    answers = [Verdict("yes", new=True), True]
    agent = shop.agent(FIRST, "?", FIRST, "?", FIRST, "So.", answers=answers)
    outcome = agent.run("May.")
    outcome = agent.run("June.", transcript=outcome.transcript)
    agent.run("And May, once more.", transcript=outcome.transcript)
    may, june, again = shop.keys
    assert may == again != june


def test_the_file_keeps_only_a_digest_of_the_arguments_that_identify_a_call(tmp_path):
    path = tmp_path / "run.jsonl"
    bank(True).agent(FIRST, "So.").run("Pay.", transcript=path)
    assert '"same":"' in path.read_text()
    assert "0000" not in path.read_text()


def test_same_names_parameters_of_the_tool():
    with pytest.raises(ValueError, match="no such parameters"):
        bank(True, same=("cent",))


# After a crash: a call was started but has no result.

STARTED = Started("p", "pay", "key-1")
TWICE = STARTED, Verdict("yes", "p"), STARTED  # a second crash, after a yes


@pytest.mark.parametrize("options", [{"idempotent": True}, {"takes_key": True}])
def test_a_started_call_is_repeated_if_that_does_no_harm(options):
    shop = Shop(**options)
    assert shop.resumed(STARTED).exit == "silence"
    assert shop.booked == ["A"]
    assert shop.keys in ([], ["key-1"])


@dataclass(frozen=True)
class Waiting:
    """What a crash left behind, where the call waits for a person."""

    name: str
    notes: list[Any]
    options: dict[str, Any] = field(default_factory=dict)  # of the tool
    settings: dict[str, Any] = field(default_factory=dict)  # of the agent


WAITING = [
    Waiting("it does harm", [STARTED]),
    Waiting("it was started without a key", [Started("p", "pay")], options={"takes_key": True}),
    Waiting("a yes covers one try", [*TWICE]),
    Waiting("a yes covers one try, in approval, too", [*TWICE], options={"needs_approval": True}),
    Waiting("a limit is not reached", [STARTED], settings={"max_actions": 1}),
    Waiting("nothing has failed", [STARTED], settings={"on_tool_error": "fail_fast"}),
]


@pytest.mark.parametrize("case", WAITING, ids=lambda case: case.name)
def test_after_a_crash_a_started_call_waits_for_a_person(case):
    shop = Shop(**case.options)
    assert shop.resumed(*case.notes, **case.settings).exit == "needs_human"
    shop.resumed(*case.notes, answers=[True], **case.settings)
    assert len(shop.asked) == 1
    assert shop.booked == ["A"]
    assert all(shop.keys)


@pytest.mark.parametrize("options", [{}, {"takes_key": True, "needs_approval": True}])
def test_a_person_who_is_asked_after_a_crash_reads_that_the_call_may_have_happened(options):
    """With a key it was not asked about before: a predicate may answer otherwise now."""
    shop = Shop(**options)
    [result] = results(shop.resumed(STARTED, answers=[False]))
    [asked] = shop.asked
    assert "It was tried before and may have happened." in asked.question
    assert result.content.endswith("It was started before and may have happened.")
    assert shop.booked == []


def test_a_yes_after_the_crash_keeps_the_edit_from_before_it():
    edit = Verdict("yes", "p", arguments={"order": "B"}, by="Ada")
    shop = Shop(needs_approval=True)
    shop.resumed(edit, STARTED, answers=[True])
    assert 'pay(order="B")' in shop.asked[0].question
    assert shop.booked == ["B"]


def test_one_yes_covers_doubt_and_approval():
    shop = Shop(BROKEN, needs_approval=True)
    shop.agent(PAY, PAY, "So.", answers=[True]).run("Pay A.")
    assert len(shop.asked) == 2  # one question a call
    assert shop.booked == ["A", "A"]


def test_doubt_never_turns_a_refusal_into_a_call():
    def never(step, turn):
        if isinstance(step, CallTool):
            return Refuse(step.call, "rule", "not run.")
        return step

    shop = Shop()
    [result] = results(shop.resumed(STARTED, answers=[True], policies=[never]))
    assert shop.booked == []
    assert shop.asked == []
    assert result.refused == "rule"
    assert result.content == "error: not run. It was started before and may have happened."


def test_a_call_that_is_done_puts_no_other_in_doubt_if_ids_repeat():
    other = ToolCall("p", "pay", {"order": "B"})
    done = STARTED, ToolResult("p", "pay", "paid A")
    shop = Shop()
    outcome = shop.agent("So.").resume(crashed(*done, calls=(WRITTEN, other)))
    assert outcome.exit == "silence"
    assert shop.booked == ["B"]


def test_a_call_that_never_got_to_its_function_is_not_in_doubt():
    """Its arguments did not fit when it ran. An earlier start may still have happened."""
    failed = ToolResult("p", "pay", "error", is_error=True, refused="invalid")
    for starts, booked in (([STARTED], ["A"]), ([STARTED, STARTED], [])):
        shop = Shop()
        shop.agent(PAY, "So.").run("Pay A.", transcript=crashed(*starts, failed))
        assert shop.booked == booked


def test_after_a_crash_the_question_shows_the_call_as_a_policy_changed_it():
    def pays_b(step, turn):
        if isinstance(step, CallTool):
            return CallTool(replace(step.call, arguments={"order": "B"}))
        return step

    shop = Shop()
    outcome = shop.resumed(replace(STARTED, arguments={"order": "B"}), policies=[pays_b])
    assert shop.booked == []
    assert outcome.exit == "needs_human"
    assert outcome.answer.startswith('Run pay(order="B")? It was tried before')


def test_a_started_call_that_does_not_validate_any_more_stays_in_doubt():
    """It was killed in the middle. Then its validator looks at the world, and refuses."""
    known = []

    def check(order):
        if order not in known:
            raise ValueError("there is no such order")
        return order

    def pay_known(order: Annotated[str, pydantic.AfterValidator(check)]):
        """Pay."""

    shop = Shop(declared=pay_known)
    outcome = shop.resumed(STARTED)
    [result] = results(outcome)
    assert result.refused == "invalid"
    assert result.in_doubt
    known.append("A")
    later = shop.agent(PAY, "So.").run("Try again.", transcript=outcome.transcript)
    assert shop.booked == []
    assert later.exit == "needs_human"


def test_a_call_in_doubt_cannot_be_edited():
    edit = Verdict("yes", arguments={"order": "B"})
    with pytest.raises(TypeError, match="yes, no or new"):
        Shop().resumed(STARTED, answers=[edit])


def test_a_new_request_after_a_crash_tells_the_model_which_call_may_have_happened():
    shop = Shop()
    left = crashed(STARTED, calls=(WRITTEN, call("look")))
    outcome = shop.agent("It may.").run("Did it work?", transcript=left)
    in_doubt, not_run = results(outcome)
    assert in_doubt.content == STOPPED_IN_IT
    assert in_doubt.refused == ""
    assert not_run.refused == "stopped"
    assert shop.booked == []
    assert isinstance(outcome.transcript[-3], User)


def test_a_call_in_doubt_stays_in_doubt_when_a_person_quits():
    agent = Shop().agent("I paid already.", answers=[Verdict("quit")])
    stopped = agent.resume(crashed(STARTED))
    outcome = agent.run("Go on.", transcript=stopped.transcript)
    assert stopped.exit == "declined"
    assert outcome.answer == "I paid already."
    [result] = results(outcome)
    assert result.content == STOPPED_IN_IT
    assert result.in_doubt
