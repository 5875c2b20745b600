"""A run that is left, that raises or is cancelled at any event loses nothing: what came is in its
transcript before anybody sees it, and whatever ends the run carries that transcript.
"""

import asyncio
from contextlib import aclosing, closing

import pytest

from tests.support.agents import by_place, of_kind, results
from tests.support.desk import said
from tests.support.providers import WAYS
from think_agent import (
    Agent,
    Delta,
    Notice,
    Outcome,
    Paused,
    ScriptedModel,
    Verdict,
    tool,
)
from think_agent.messages import MESSAGES
from think_agent.testing import call, think

SCRIPT = [
    think("Look it up."),
    call("look", order=1),
    (think("It is due."), call("pay", order=1), call("pay", order=2)),
    think("Both are paid.", should_continue=False),
    "Paid.",
]


class Desk:
    """It looks up and pays, once for each key. It raises for order 2, so that there is a Notice."""

    def __init__(self, books: dict[str, int] | None = None) -> None:
        self.books = {} if books is None else books  # the orders that were paid, by their key

        @tool(read_only=True)
        def look(order: int) -> str:
            """Look it up."""
            return "89 $"

        @tool(needs_approval=True)
        def pay(order: int, idempotency_key: str) -> str:
            """Pay."""
            self.books[idempotency_key] = order
            if order == 2:
                raise KeyError("pirce")
            return "paid"

        self.tools = [look, pay]

    @property
    def paid(self) -> list[int]:
        return list(self.books.values())

    def agent(self, **settings) -> Agent:
        settings = {"approve": lambda asked: True, "done_when": [all_paid], **settings}
        return Agent(ScriptedModel(by_place(*SCRIPT)), self.tools, **settings)


def all_paid(turn) -> None:
    """Nothing is missing."""


def events() -> list:
    return list(Desk().agent().stream("Pay 1 and 2."))


EVENTS = range(len(events()))


class Left(Exception):
    pass


def test_each_kind_of_event_is_left():
    assert {type(event) for event in events()} == {Delta, Notice, Outcome, *MESSAGES} - {Paused}


def assert_nothing_is_lost(path, shown, desk):
    """What was shown is in the file, what was paid has a result, and the run goes on to the end of
    the whole one.
    """
    kept = said(path)
    assert kept[: len(shown)] == shown
    assert len(results(kept, "pay")) == len(desk.paid)
    outcome = desk.agent().resume(path)
    assert (outcome.exit, outcome.answer) == ("signal", "Paid.")
    assert desk.paid == [1, 2]


@pytest.mark.parametrize("number", EVENTS)
def test_a_stream_that_is_left_at_an_event_loses_nothing(tmp_path, number):
    path, shown, desk = tmp_path / "run.jsonl", [], Desk()
    with closing(desk.agent().stream("Pay 1 and 2.", transcript=path)) as stream:
        for place, event in enumerate(stream):
            if isinstance(event, MESSAGES):
                shown.append(event)
            if place == number:
                break
    assert_nothing_is_lost(path, shown, desk)


@pytest.mark.parametrize("number", EVENTS)
def test_an_async_stream_that_is_left_at_an_event_loses_nothing(tmp_path, number):
    path, shown, desk = tmp_path / "run.jsonl", [], Desk()

    async def leave():
        async with aclosing(desk.agent().astream("Pay 1 and 2.", transcript=path)) as stream:
            place = 0
            async for event in stream:
                if isinstance(event, MESSAGES):
                    shown.append(event)
                if place == number:
                    break
                place += 1

    asyncio.run(leave())
    assert_nothing_is_lost(path, shown, desk)


@pytest.mark.parametrize("number", EVENTS)
@pytest.mark.parametrize("error", [Left, KeyboardInterrupt])
def test_a_watcher_that_raises_loses_nothing_and_the_error_carries_the_run(number, error):
    shown, desk = [], Desk()

    def watch(event):
        shown.append(event)
        if len(shown) == number + 1:
            raise error("enough")

    with pytest.raises(error) as raised:
        desk.agent().run("Pay 1 and 2.", on_event=watch)
    transcript = raised.value.transcript
    messages = of_kind(shown, *MESSAGES)
    assert list(transcript[: len(messages)]) == messages
    outcome = desk.agent().resume(transcript)
    assert (outcome.exit, desk.paid) == ("signal", [1, 2])


@pytest.mark.parametrize("number", EVENTS)
def test_a_run_that_is_cancelled_at_an_event_carries_itself(number):
    shown, left, desk = [], [], Desk()

    async def main():
        task = asyncio.current_task()

        def watch(event):
            shown.append(event)
            if len(shown) == number + 1:
                task.cancel()

        try:
            await desk.agent().arun("Pay 1 and 2.", on_event=watch)
        except asyncio.CancelledError as error:
            left.append(error)
            raise
        await asyncio.sleep(0)  # cancelled after the last wait

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    messages = of_kind(shown, *MESSAGES)
    transcript = left[0].transcript if left else messages  # it may be over by then
    assert list(transcript[: len(messages)]) == messages
    outcome = desk.agent().resume(transcript)
    assert (outcome.exit, desk.paid) == ("signal", [1, 2])


def test_under_a_timeout_the_run_is_on_the_cause():
    class Slow(ScriptedModel):
        async def astream(self, request):
            if len(request.messages) > 3:
                await asyncio.sleep(60)
            yield self.complete(request)

        async def acomplete(self, request):
            if len(request.messages) > 3:
                await asyncio.sleep(60)
            return self.complete(request)

    desk = Desk()
    agent = Agent(Slow(by_place(*SCRIPT)), desk.tools, approve=lambda asked: True)

    async def main():
        async with asyncio.timeout(0.2):
            await agent.arun("Pay 1 and 2.")

    with pytest.raises(TimeoutError) as raised:
        asyncio.run(main())
    assert len(raised.value.__cause__.transcript) == 5  # up to the result of the look-up


# What else may raise: a person's function, a policy, the model.


def refuses(asked):
    raise Left("no person today")


def breaks(step, turn):
    if turn.actions:
        raise Left("a policy")
    return step


@pytest.mark.parametrize("settings", [{"approve": refuses}, {"policies": [breaks]}])
@pytest.mark.parametrize("way", WAYS)
def test_whatever_raises_carries_the_run(settings, way):
    desk = Desk()
    with pytest.raises(Left) as raised:
        way(desk.agent(**settings), "Pay 1 and 2.")
    transcript = raised.value.transcript
    assert len(transcript) > 4
    outcome = Desk().agent().resume(transcript)
    assert (outcome.exit, outcome.answer) == ("signal", "Paid.")


def test_two_payments_are_not_lost_when_a_policy_breaks():
    desk = Desk()

    def broken(step, turn):
        if len(turn.actions) == 3:
            raise ZeroDivisionError
        return step

    with pytest.raises(ZeroDivisionError) as raised:
        desk.agent(policies=[broken]).run("Pay 1 and 2.")
    assert desk.paid == [1, 2]
    again = desk.agent().resume(raised.value.transcript)
    assert (again.exit, desk.paid) == ("signal", [1, 2])


def test_every_yes_says_to_what():
    outcome = Desk().agent(approve=lambda asked: Verdict("yes")).run("Pay 1 and 2.")
    verdicts = of_kind(outcome.transcript, Verdict)
    assert [(m.arguments, m.edited) for m in verdicts] == [
        ({"order": 1}, False),
        ({"order": 2}, False),
    ]
