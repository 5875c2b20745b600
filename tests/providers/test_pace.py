"""`per_minute`: requests of one model are spaced. No test waits: clock and sleep are injected."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.servers import Reply
from tests.support.providers import ASK, HELLO, every_provider, every_way, talking
from think_agent import Agent, Notice
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
    assert [pace.reserve() for _ in range(3)] == [0, 10, 20]
    passing.now += 25  # nobody waits for a place that has gone by
    assert [pace.reserve() for _ in range(2)] == [5, 15]
    passing.now += 1000
    assert [pace.reserve() for _ in range(2)] == [0, 10]


@pytest.mark.usefixtures("passing")
def test_threads_share_the_places():
    pace = Pace(60)
    begin = threading.Barrier(8)
    places: list[float] = []

    def take() -> None:
        begin.wait()
        places.extend([pace.reserve() for _ in range(25)])

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
        assert (passing.sleeps, len(server.requests)) == ([3, 0.5], 3)


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
        assert (over.stop_reason, over.cause) == ("incomplete", "deadline")
        assert (len(passing.sleeps), len(server.requests)) == (1, 2)


def test_ctrl_c_ends_the_wait(passing, monkeypatch):
    def stopped(seconds: float) -> None:
        raise KeyboardInterrupt

    with talking("anthropic", per_minute=1) as (server, model):
        model.complete(HELLO)
        monkeypatch.setattr(provider, "time", SimpleNamespace(sleep=stopped))
        with pytest.raises(KeyboardInterrupt):
            model.complete(HELLO)
        assert len(server.requests) == 1


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
