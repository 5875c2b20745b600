"""Reads of one reply run at the same time under `arun` (`ahead.py`)."""

import asyncio
from collections import Counter
from random import Random

import pytest

from tests.support.agents import by_place
from think_agent import Agent, CallTool, ModelError, Refuse, ScriptedModel, ToolCall, tool
from think_agent.ahead import ReadsAhead
from think_agent.messages import to_json
from think_agent.testing import call
from think_agent.transcript import Transcript


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


# Random runs, each once with reads ahead and once with one call after another.


class Killed(BaseException):
    """Ends a run in the middle of a call, as a kill does."""


LIMITS = [*[{}] * 6, {"max_actions": 3}, {"max_model_calls": 3}, {"max_tokens": 40}]
OWN_SETTINGS = [
    *[{}] * 6,
    {"patience": 1},
    {"max_repeats": 1},
    {"on_tool_error": "fail_fast"},
    {"on_tool_error": "raise"},
]
STOPS = [None, None, "cancelled", "killed", "the model is gone"]


def refuse_three(step, turn):
    """The user's own policy, which refuses a look-up of order 3."""
    if isinstance(step, CallTool) and step.call.arguments == {"n": 3}:
        return Refuse(step.call, "policy", "not run: order 3 is closed.")
    return step


def decide(question):
    """A person who wants each run to go on, and denies order 2."""
    return question.call is None or question.call.arguments["n"] != 2


class RandomRun:
    """A random script, agent and interruption. `go` plays them, and resumes what was stopped."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.replies = [self.random_reply(rng) for _ in range(rng.randint(1, 4))]
        self.settings = {**rng.choice(LIMITS), **rng.choice(OWN_SETTINGS)}
        if rng.random() < 0.1:
            self.settings["policies"] = [refuse_three]
        self.of_the_run = rng.choice(LIMITS)
        self.ticks = {n: rng.randint(0, 4) for n in NUMBERS}  # how long a look-up takes
        self.stop = rng.choice(STOPS)
        self.stops_at = rng.choice(NUMBERS)

    def random_reply(self, rng):
        calls = []
        for _ in range(rng.randint(2, 6)):
            name = rng.choice([*["look"] * 12, "pay", "peek", "ask", "fly"])
            calls.append(call(name, n=rng.choice([*NUMBERS * 3, "many"])))
        return tuple(calls)

    def go(self, read_ahead):
        """The messages at the end, what was begun, and what was raised."""
        self.begun = []
        self.raised = []
        self.is_stopped = self.stop is None
        asyncio.run(self.main(read_ahead))
        return self.messages, self.begun, self.raised

    async def main(self, read_ahead):
        agent = Agent(
            ScriptedModel(self.reply), self.tools(), force="never", silence="accept",
            approve=decide, read_ahead=read_ahead, **self.settings,
        )  # fmt: skip
        kept = Transcript()
        begin = agent.arun("Look.", transcript=kept, **self.of_the_run)
        while begin:
            self.task = asyncio.create_task(begin)
            begin = None
            try:
                await self.task
            except (asyncio.CancelledError, Killed, ModelError, ValueError) as error:
                self.raised.append(type(error).__name__)
                kept = Transcript(kept.messages)
                begin = agent.aresume(kept)
            assert asyncio.all_tasks() == {asyncio.current_task()}  # none is left behind
        self.messages = [{**to_json(m), "at": None, "question": ""} for m in kept.messages]

    def reply(self, request):
        if self.stop == "the model is gone" and len(request.messages) > 1:
            self.stop_once()
        return by_place(*self.replies, "Done.")(request)

    def stop_once(self):
        if self.is_stopped:
            return
        self.is_stopped = True
        match self.stop:
            case "cancelled":
                self.task.cancel()
            case "killed":
                raise Killed
            case "the model is gone":
                raise ModelError("gone")

    async def read(self, name, n):
        self.begun.append((name, n))
        if n == self.stops_at and self.stop != "the model is gone":
            self.stop_once()
        for _ in range(self.ticks[n]):
            await asyncio.sleep(0)
        if n == 13:
            raise ValueError("no such order")
        return f"order {n}"

    def tools(self):
        @tool(read_only=True)
        async def look(n: int) -> str:
            """Look."""
            return await self.read("look", n)

        @tool(read_only=True, think_first=True)
        async def peek(n: int) -> str:
            """Needs a thought, and has none."""
            return await self.read("peek", n)

        @tool(read_only=True, needs_approval=True)
        async def ask(n: int) -> str:
            """Needs a yes."""
            return await self.read("ask", n)

        @tool
        async def pay(n: int) -> str:
            """Pay."""
            self.begun.append(("pay", n))
            return "paid"

        return [look, peek, ask, pay]


NUMBERS = [1, 2, 3, 4, 13]


def compare_with_one_after_the_other(seed):
    """Also where calls are refused or fail, a limit is reached, or the run is stopped and resumed:
    the record is the same. And without a stop, nothing else was read.
    """
    run = RandomRun(seed)
    ahead, begun, raised = run.go(read_ahead=True)
    after, begun_after, raised_after = run.go(read_ahead=False)
    assert ahead == after, seed
    assert raised == raised_after, seed
    if run.stop in (None, "the model is gone"):
        assert Counter(begun) == Counter(begun_after), seed


def test_a_run_is_that_of_one_after_the_other():
    for seed in range(100):  # `python -m tests.soak` has 5,000
        compare_with_one_after_the_other(seed)


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


def test_no_task_is_left_behind_when_another_call_is_made_in_its_place():
    async def run():
        ended = []

        async def read():
            try:
                await asyncio.Event().wait()
                yield "never"
            finally:
                await asyncio.sleep(0)  # cleaning up takes a moment
                ended.append("read")

        ahead: ReadsAhead[str] = ReadsAhead()
        ahead.begin(ToolCall("1", "look", {"n": 1}), read)
        await asyncio.sleep(0)
        taken = await ahead.take(ToolCall("1", "look", {"n": 2}))
        await ahead.drop()
        return taken, ended

    taken, ended = asyncio.run(run())
    assert taken is None
    assert ended == ["read"]
