"""Reads of one reply run at the same time under `arun` (`ahead.py`)."""

import asyncio
from random import Random

import pytest

from tests.support.agents import by_place
from think_agent import Agent, ScriptedModel, tool
from think_agent.messages import to_json
from think_agent.testing import call


class Reads:
    """Look-ups that each wait until `together` of them have begun. (So no clock is needed.)"""

    def __init__(self, together: int = 1) -> None:
        self.together = together
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.all_begun = asyncio.Event()
        self.three_begun = asyncio.Event()

    def tools(self):
        @tool(read_only=True)
        async def look(n: int) -> str:
            """Look."""
            self.begun.append(n)
            if len(self.begun) >= self.together:
                self.all_begun.set()
            if len(self.begun) == 3:
                self.three_begun.set()
            await self.all_begun.wait()
            self.ended.append(n)
            if n == 13:
                raise ValueError("no such order")
            return f"order {n}"

        @tool
        async def pay(n: int) -> str:
            """Pay."""
            self.begun.append(-n)
            return "paid"

        return [look, pay]


def looks(*numbers):
    return tuple(call("look", n=n) for n in numbers)


def agent(reads, *replies, **settings):
    settings = {"force": "never", "silence": "accept", **settings}
    return Agent(ScriptedModel(by_place(*replies)), reads.tools(), **settings)


def written(outcome):
    """The transcript without its times and the random ids of its questions."""
    return [{**to_json(m), "at": None, "question": ""} for m in outcome.transcript]


def test_three_reads_begin_before_one_ends():
    async def run():
        reads = Reads(together=3)
        outcome = await asyncio.wait_for(agent(reads, looks(1, 2, 3), "Done.").arun("Look."), 60)
        return reads, outcome

    reads, outcome = asyncio.run(run())
    assert sorted(reads.begun) == [1, 2, 3]
    assert [a.result.content for a in outcome.actions] == ["order 1", "order 2", "order 3"]


OFF = {
    "read_ahead=False": {"read_ahead": False},
    "a custom policy": {"policies": [lambda step, turn: step]},
    "a limit of actions": {"max_actions": 2},
    "fail_fast": {"on_tool_error": "fail_fast"},
    "raise": {"on_tool_error": "raise"},
}


@pytest.mark.parametrize("settings", OFF.values(), ids=OFF)
def test_nothing_is_read_ahead_where_a_later_read_could_be_refused(settings):
    async def run():
        reads = Reads()
        await agent(reads, looks(1, 2, 3), "Done.", **settings).arun("Look.")
        return reads

    reads = asyncio.run(run())
    assert reads.begun == reads.ended  # one after another


def test_a_limit_of_this_run_turns_it_off_too():
    async def run():
        reads = Reads()
        await agent(reads, looks(1, 2, 3), "Done.").arun("Look.", max_actions=2)
        return reads

    assert asyncio.run(run()).begun == [1, 2]


def test_a_payment_between_reads_waits_for_its_place():
    async def run():
        reads = Reads(together=2)
        calls = (*looks(1, 2), call("pay", n=1), *looks(3))
        await agent(reads, calls, "Done.").arun("Look.")
        return reads

    assert asyncio.run(run()).begun == [1, 2, -1, 3]


def test_the_transcript_is_that_of_one_after_the_other():
    """Random replies: reads, payments, failures, invalid and unknown calls."""

    def reply(rng):
        calls = []
        for _ in range(rng.randint(1, 5)):
            kind = rng.choice(["look", "look", "look", "pay", "fly"])
            n = rng.choice([1, 2, 3, 13, "many"])
            calls.append(call(kind, n=n))
        return tuple(calls)

    async def run(seed, read_ahead):
        rng = Random(seed)
        replies = [reply(rng) for _ in range(rng.randint(1, 3))]
        made = agent(
            Reads(), *replies, "Done.", read_ahead=read_ahead, approve=lambda question: True
        )
        return written(await made.arun("Look."))

    for seed in range(200):
        assert asyncio.run(run(seed, True)) == asyncio.run(run(seed, False)), seed


@pytest.mark.parametrize("cancels", [1, 2])
def test_no_task_is_left_behind_when_the_run_is_cancelled(cancels):
    async def run():
        reads = Reads(together=99)
        task = asyncio.create_task(agent(reads, looks(1, 2, 3), "Done.").arun("Look."))
        await reads.three_begun.wait()
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(run()) == set()


def test_no_task_is_left_behind_when_a_stream_is_left():
    async def run():
        reads = Reads(together=99)
        stream = agent(reads, looks(1, 2, 3), "Done.").astream("Look.")
        next_event = asyncio.ensure_future(anext(stream))
        while not reads.three_begun.is_set():
            await next_event
            next_event = asyncio.ensure_future(anext(stream))
            waiting = asyncio.ensure_future(reads.three_begun.wait())
            await asyncio.wait({next_event, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        next_event.cancel()
        await asyncio.wait({next_event})
        await stream.aclose()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(run()) == set()
