"""`per_minute`: requests of one model are spaced. No test waits: clock and sleep are injected."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import Reply
from tests.support.providers import ASK, HELLO, every_provider, every_way, talking
from think_agent import Agent, Model, Notice
from think_agent.dialects.text_calls import recovered
from think_agent.providers import provider
from think_agent.providers.pace import Pace


class Time:
    """A clock that goes on only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def passing(monkeypatch) -> Time:
    passing = Time()
    waits = SimpleNamespace(sleep=passing.asleep, to_thread=provider.asyncio.to_thread)
    monkeypatch.setattr(provider, "time", SimpleNamespace(sleep=passing.sleep))
    monkeypatch.setattr(provider, "asyncio", waits)
    monkeypatch.setattr("think_agent.providers.pace.monotonic", passing.clock)
    return passing


def test_places_are_as_far_apart_as_the_limit_says(passing):
    pace = Pace(6)
    assert waits(pace, 3) == [0, 10, 20]
    passing.now += 25  # no request waits for a place that has gone by
    assert waits(pace, 2) == [5, 15]
    passing.now += 1000
    assert waits(pace, 2) == [0, 10]


@dataclass
class Case:
    """Five requests take places that are 10 s apart. Then some are not sent."""

    name: str
    given_back: list[int]
    now: float
    waits: list[float]


CASES = [
    Case("none", [], 0, [50, 60]),
    Case("one in the middle", [2], 0, [20, 50]),
    Case("the last", [4], 0, [40, 50]),
    Case("the last two, the later first", [4, 3], 0, [30, 40]),
    Case("the last two, the earlier first", [3, 4], 0, [30, 40]),
    Case("all but the first", [1, 2, 3, 4], 0, [10, 20, 30]),
    Case("all but the first, and time goes by", [1, 2, 3, 4], 35, [0, 10, 20]),
    Case("one that has gone by, with no room left", [1], 12, [38, 48]),
    Case("two that have gone by, with room left", [1, 2], 15, [0, 35]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_place_that_is_given_back_is_taken_again(passing, case):
    pace = Pace(6)
    places = [pace.reserve()[0] for _ in range(5)]
    for number in case.given_back:
        pace.give_back(places[number])
    passing.now += case.now
    assert waits(pace, len(case.waits)) == case.waits


@given(
    steps=st.lists(st.tuples(st.floats(0, 30), st.integers(0, 9), st.floats(0, 5)), max_size=40),
    per_minute=st.sampled_from([1, 6, 7, 60, 1000]),
)
def test_requests_that_are_sent_are_never_too_close(steps, per_minute):
    """Whoever gives a place back, and whenever."""
    passing = Time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("think_agent.providers.pace.monotonic", passing.clock)
        pace = Pace(per_minute)
        taken: list[float] = []
        for pause, number, after in steps:
            passing.now += pause
            place, wait = pace.reserve(after)
            assert wait >= after - 1e-9
            taken.append(place)
            taken.sort()
            if number < len(taken) and taken[number] > passing.now:
                pace.give_back(taken.pop(number))
    gaps = [later - place for place, later in pairwise(taken)]
    assert min(gaps, default=60) > 60 / per_minute - 1e-9


def waits(pace: Pace, count: int) -> list[float]:
    """The waits of so many requests, one after another."""
    return [pace.reserve()[1] for _ in range(count)]


@pytest.mark.usefixtures("passing")
def test_threads_share_the_places():
    pace = Pace(60)
    begin = threading.Barrier(8)
    places: list[float] = []

    def take() -> None:
        begin.wait()
        places.extend(waits(pace, 25))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == list(range(200))


@every_provider
@every_way
def test_requests_are_spaced(provider, way, passing):
    with talking(provider, per_minute=20) as (server, model):
        assert ASK[way](model, HELLO) == ASK[way](model, HELLO)
        assert passing.sleeps == [3]
        passing.now += 2.5
        ASK[way](model, HELLO)
        assert passing.sleeps == [3, 0.5]
        assert len(server.requests) == 3


@every_way
def test_another_try_takes_a_place_too(way, passing):
    with talking("anthropic", per_minute=20) as (server, model):
        server.canned = [Reply(503, {"error": {}}, headers={"retry-after": "0.5"})] * 2
        ASK[way](model, HELLO)
        assert passing.sleeps == [3, 3]


@every_way
def test_the_deadline_ends_the_wait(way, passing):
    """And it is no silence of the server: the reply was cut at the deadline."""
    with talking("anthropic", per_minute=1) as (server, model):
        ASK[way](model, HELLO)
        soon = time.monotonic() + 30
        ASK[way](model, replace(HELLO, deadline=soon))
        [wait] = passing.sleeps
        assert 0 < wait <= 30  # not the 60 of the pace
        over = ASK[way](model, replace(HELLO, deadline=time.monotonic() - 1))
        assert over.stop_reason == "incomplete"
        assert over.cause == "deadline"
        assert len(passing.sleeps) == 1
        assert len(server.requests) == 2


def test_ctrl_c_ends_the_wait(passing, monkeypatch):
    def stopped(seconds: float) -> None:
        raise KeyboardInterrupt

    with talking("anthropic", per_minute=1) as (server, model):
        model.complete(HELLO)
        monkeypatch.setattr(provider, "time", SimpleNamespace(sleep=stopped))
        with pytest.raises(KeyboardInterrupt):
            model.complete(HELLO)
        assert len(server.requests) == 1


def broken_off(way: str, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask, and break the wait off."""

    class Stop(BaseException):
        pass

    def sleep(seconds: float) -> None:
        raise Stop

    async def asleep(seconds: float) -> None:
        raise asyncio.CancelledError

    waits = SimpleNamespace(sleep=asleep, to_thread=provider.asyncio.to_thread)
    with monkeypatch.context() as patch:
        patch.setattr(provider, "time", SimpleNamespace(sleep=sleep))
        patch.setattr(provider, "asyncio", waits)
        with pytest.raises((Stop, asyncio.CancelledError)):
            ASK[way](model, HELLO)


@every_way
def test_a_wait_that_is_broken_off_takes_no_place(way, passing, monkeypatch):
    with talking("anthropic", per_minute=20) as (server, model):
        ASK[way](model, HELLO)
        for _ in range(10):
            broken_off(way, model, monkeypatch)
        ASK[way](model, HELLO)
        assert passing.sleeps == [3]
        assert len(server.requests) == 2


@every_way
def test_a_wait_that_the_deadline_ends_takes_no_place(way, passing):
    with talking("anthropic", per_minute=20) as (server, model):
        ASK[way](model, HELLO)
        for _ in range(10):
            cut = ASK[way](model, replace(HELLO, deadline=time.monotonic() - 1))
            assert cut.cause == "deadline"
        ASK[way](model, HELLO)
        assert passing.sleeps == [3]
        assert len(server.requests) == 2


def test_a_stream_that_is_closed_before_it_waits_takes_no_place(passing):
    """A watcher may leave at the notice."""
    with talking("anthropic", per_minute=20) as (_, model):
        model.complete(HELLO)
        for _ in range(10):
            stream = model.stream(HELLO)
            assert isinstance(next(stream), Notice)
            stream.close()
        model.complete(HELLO)
        assert passing.sleeps == [3]


def test_a_wait_between_two_tries_is_not_said_to_be_the_pace(passing):
    with talking("anthropic", per_minute=600) as (server, model):
        server.canned = [Reply(503, {"error": {}}, headers={"retry-after": "5"})]
        events = list(model.stream(HELLO))
        assert [event for event in events if isinstance(event, Notice)] == []
        assert passing.sleeps == [5]


async def astreamed(agent: Agent, told: Callable[[object], None]) -> None:
    async for event in agent.astream("Hello"):
        told(event)


@pytest.mark.parametrize("read", [lambda model: model, recovered])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_tells_of_a_wait_that_one_notices_before_it(passing, read, is_async):
    """What is left of the second wait is short, and not worth a line."""
    notices = []

    def told(event: object) -> None:
        if isinstance(event, Notice):
            notices.append((event.text, list(passing.sleeps)))

    with talking("anthropic", per_minute=20) as (_, model):
        model.pace.reserve()
        for _ in range(2):
            agent = Agent(read(model), force="never")
            if is_async:
                asyncio.run(astreamed(agent, told))
            else:
                agent.run("Hello", on_event=told)
            passing.now += 2.5
    assert notices == [("anthropic: waiting 3 s, to keep to per_minute", [])]
    assert passing.sleeps == [3, 0.5]
