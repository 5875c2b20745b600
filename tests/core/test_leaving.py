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
    ModelError,
    Notice,
    Outcome,
    Paused,
    Progress,
    ScriptedModel,
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
        model = ScriptedModel(by_place(*SCRIPT))
        usual = {"model": model, "approve": lambda asked: True, "done_when": [all_paid]}
        return Agent(tools=self.tools, **{**usual, **settings})


def all_paid(turn) -> None:
    """Nothing is missing."""


def events() -> list:
    return list(Desk().agent().stream("Pay 1 and 2."))


EVENTS = range(len(events()))


class Left(Exception):
    pass


def test_each_kind_of_event_is_left():
    assert {type(event) for event in events()} == {Delta, Notice, Progress, Outcome, *MESSAGES} - {
        Paused
    }


def assert_nothing_is_lost(desk, shown, saved):
    """The messages that were shown are in the file or the transcript that was saved, and the run
    goes on to the end of the whole one.
    """
    kept = list(saved) if isinstance(saved, tuple) else said(saved)
    messages = of_kind(shown, *MESSAGES)
    assert kept[: len(messages)] == messages
    outcome = desk.agent().resume(saved)
    assert outcome.exit == "signal"
    assert outcome.answer == "Paid."
    assert desk.paid == [1, 2]


@pytest.mark.parametrize("number", EVENTS)
def test_a_stream_that_is_left_at_an_event_loses_nothing(tmp_path, number):
    path, desk = tmp_path / "run.jsonl", Desk()
    with closing(desk.agent().stream("Pay 1 and 2.", transcript=path)) as stream:
        shown = [next(stream) for _ in range(number + 1)]
    assert len(results(said(path), "pay")) == len(desk.paid)
    assert_nothing_is_lost(desk, shown, path)


@pytest.mark.parametrize("number", EVENTS)
def test_an_async_stream_that_is_left_at_an_event_loses_nothing(tmp_path, number):
    path, desk = tmp_path / "run.jsonl", Desk()

    async def leave():
        async with aclosing(desk.agent().astream("Pay 1 and 2.", transcript=path)) as stream:
            shown = [await anext(stream) for _ in range(number + 1)]
        assert len(results(said(path), "pay")) == len(desk.paid)
        assert_nothing_is_lost(desk, shown, path)  # the file is free, although the loop goes on

    asyncio.run(leave())


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
    assert_nothing_is_lost(desk, shown, raised.value.transcript)


@pytest.mark.parametrize("number", EVENTS)
def test_a_run_that_is_cancelled_at_an_event_carries_itself(number):
    shown, left, desk = [], [], Desk()

    async def main():
        def watch(event):
            shown.append(event)
            if len(shown) == number + 1:
                asyncio.current_task().cancel()

        try:
            await desk.agent().arun("Pay 1 and 2.", on_event=watch)
        except asyncio.CancelledError as error:
            left.append(error.transcript)
            raise
        await asyncio.sleep(0)  # cancelled after the last wait

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    left.append(tuple(of_kind(shown, *MESSAGES)))  # if it was over by then
    assert_nothing_is_lost(desk, shown, left[0])


def test_under_a_timeout_the_run_is_on_the_cause():
    class Slow(ScriptedModel):
        async def acomplete(self, request):
            if len(request.messages) > 3:
                await asyncio.sleep(60)
            return self.complete(request)

    agent = Agent(Slow(by_place(*SCRIPT)), Desk().tools)

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
    if len(turn.actions) == 3:
        raise Left("a policy")
    return step


RAISES = {  # what raises: its settings, and the orders that were paid before
    "a person": ({"approve": refuses}, []),
    "a policy": ({"policies": [breaks]}, [1, 2]),
    "the model": ({"model": ScriptedModel(by_place(*SCRIPT[:3]))}, [1, 2]),
}


@pytest.mark.parametrize(("settings", "paid"), RAISES.values(), ids=RAISES)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_raises_carries_the_run(settings, paid, way):
    desk = Desk()
    with pytest.raises((Left, ModelError)) as raised:
        way(desk.agent(**settings), "Pay 1 and 2.")
    assert desk.paid == paid
    assert_nothing_is_lost(desk, [], raised.value.transcript)
