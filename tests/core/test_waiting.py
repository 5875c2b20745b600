"""Waiting (`waiting.py`): functions are called with a timeout, nothing waits for itself, and a slow
disk takes no thread of the program's own.

Tools that hang, and runs that are stopped inside a tool: `test_hanging.py`.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.support.agents import agent, of_kind, results
from tests.support.sizes import ROOT
from think_agent import Agent, Notice, Outcome, ScriptedModel, tool
from think_agent.testing import call
from think_agent.waiting import asettle, settle


@tool(read_only=True)
async def read_async() -> str:
    """An async tool."""
    return "read"


@tool(read_only=True)
def read() -> str:
    """A sync tool."""
    return "read"


async def is_met(turn: object) -> None:
    """An async check that finds nothing missing."""


# Rule 1: what a function returns or raises.

GONE = ConnectionError("the line broke")


def returns() -> str:
    return "done"


def fails() -> str:
    raise GONE


def cancels() -> str:
    raise asyncio.CancelledError


def is_interrupted() -> str:
    raise KeyboardInterrupt


def as_async(function: Callable[[], str]) -> Callable[[], object]:
    async def call_it() -> str:
        return function()

    return call_it


def settled_by_asettle(function, timeout=None):
    return asyncio.run(asettle(function, timeout))


each_settle = pytest.mark.parametrize("settles", [settle, settled_by_asettle])
each_timeout = pytest.mark.parametrize("timeout", [None, 30], ids=["-", "timeout"])
sync_or_async = pytest.mark.parametrize("kind", [lambda f: f, as_async], ids=["sync", "async"])


@each_settle
@each_timeout
@sync_or_async
def test_settle_gives_what_a_function_returned_or_raised(settles, timeout, kind):
    assert settles(kind(returns), timeout) == ("done", None)
    assert settles(kind(fails), timeout) == (None, GONE)


@each_settle
@each_timeout
@sync_or_async
def test_a_cancellation_from_inside_a_function_is_its_error(settles, timeout, kind):
    value, error = settles(kind(cancels), timeout)
    assert value is None
    assert isinstance(error, asyncio.CancelledError)


@each_settle
@each_timeout
def test_ctrl_c_in_a_function_is_raised(settles, timeout):
    with pytest.raises(KeyboardInterrupt):
        settles(is_interrupted, timeout)


# A plain run inside async code.


@dataclass
class Inner:
    """An agent that async code runs by plain `run`."""

    name: str
    make: Callable[[], Agent]


INNER = [
    Inner("an async tool", lambda: agent(call("read_async"), "Done.", tools=[read_async])),
    Inner("a sync tool", lambda: agent(call("read"), "Done.", tools=[read])),
    Inner("a timeout", lambda: agent(call("read"), "Done.", tools=[replace(read, timeout=5)])),
    Inner("an async check", lambda: agent("Done.", done_when=[is_met])),
    Inner("no tools", lambda: agent("Done.")),
]
with_each_agent = pytest.mark.parametrize("inner", INNER, ids=lambda inner: inner.name)
with_and_without_timeout = pytest.mark.parametrize("timeout", [None, 30], ids=["-", "timeout"])


def outer(use: Callable[[], object], timeout: float | None = None) -> Agent:
    """An agent with an async tool that uses another agent."""

    @tool(read_only=True, timeout=timeout)
    async def ask() -> str:
        """Ask another agent."""
        answer = use()
        if asyncio.iscoroutine(answer):
            answer = await answer
        return str(answer)

    return agent(call("ask"), "Over.", tools=[ask])


def asked(outcome: Outcome) -> str:
    [result] = results(outcome, "ask")
    return result.content


@with_each_agent
@with_and_without_timeout
def test_a_plain_run_in_an_async_tool_of_a_plain_run_says_use_arun(inner, timeout):
    """Each waited for the one background loop, so for itself, for ever."""
    events = []
    outcome = outer(lambda: inner.make().run("Go."), timeout).run("Go.", on_event=events.append)
    assert "use `await agent.arun(...)` there" in asked(outcome)
    assert outcome.answer == "Over."
    [notice] = of_kind(events, Notice)
    assert "test_waiting.py" in notice.text  # the author of the tool sees the line


@with_each_agent
@with_and_without_timeout
def test_arun_in_an_async_tool_of_a_plain_run_gives_its_answer(inner, timeout):
    outcome = outer(lambda: answer_of(inner.make()), timeout).run("Go.")
    assert asked(outcome) == "Done."


async def answer_of(inner: Agent) -> str:
    return (await inner.arun("Go.")).answer


@with_each_agent
def test_a_plain_run_in_a_program_s_own_loop_gives_its_answer(inner):
    """It holds that loop up, but waits for another one."""
    outcome = asyncio.run(outer(lambda: inner.make().run("Go.").answer).arun("Go."))
    assert asked(outcome) == "Done."


def test_nothing_is_asked_or_written_before_a_nested_run_is_refused(tmp_path):
    requests = []

    def script(request):
        requests.append(request)
        return "Done."

    used = Agent(ScriptedModel(script), force="never")
    path = tmp_path / "inner.jsonl"
    for use in (
        lambda: used.run("Go.", transcript=path),
        lambda: list(used.stream("Go.", transcript=path)),
    ):
        assert "arun" in asked(outer(use).run("Go."))
    assert requests == []
    assert [line for line in path.read_text().splitlines() if '"user"' in line] == []


def test_a_plain_run_in_an_async_check_of_a_plain_run_is_raised():
    async def looks(turn: object) -> None:
        agent("Done.").run("Go.")

    with pytest.raises(RuntimeError, match="arun") as caught:
        agent("Done.", done_when=[looks]).run("Go.")
    assert caught.value.transcript


# A disk that is slow.


def test_a_flush_takes_no_thread_of_the_program(tmp_path, monkeypatch):
    may_end = threading.Event()

    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        begun = asyncio.Event()

        def fsync(file: object) -> None:
            loop.call_soon_threadsafe(begun.set)
            assert may_end.wait(60)

        monkeypatch.setattr("think_agent.transcript.os.fsync", fsync)
        run = asyncio.create_task(agent("Done.").arun("Go.", transcript=tmp_path / "run.jsonl"))
        await begun.wait()
        told = await asyncio.to_thread(str, "free")  # while the flush goes on
        may_end.set()
        await run
        return told

    assert asyncio.run(main()) == "free"


def test_many_flushes_wait_at_the_same_time(tmp_path, monkeypatch):
    together = threading.Barrier(12)  # more than asyncio has threads on two cores
    monkeypatch.setattr("think_agent.transcript.os.fsync", lambda file: together.wait(60))

    async def main() -> list[Outcome]:
        runs = [
            agent("Done.").arun("Go.", transcript=tmp_path / f"{n}.jsonl")
            for n in range(together.parties)
        ]
        return await asyncio.gather(*runs)

    assert {outcome.answer for outcome in asyncio.run(main())} == {"Done."}


FORKED = """if True:
    import asyncio, os, sys
    from tests.core.test_waiting import agent, call, read_async

    def run(path):
        desk = agent(call("read_async"), "Done.", tools=[read_async])
        print(desk.run("Go.", transcript=path + ".plain").answer, flush=True)
        print(asyncio.run(desk.arun("Go.", transcript=path)).answer, flush=True)

    run("parent.jsonl")
    child = os.fork()
    if not child:
        run("child.jsonl")
        os._exit(0)
    sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_has_a_loop_and_threads_of_its_own(tmp_path):
    """Those of the parent do not run there, so to wait for them would be for ever."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout == "Done.\n" * 4
    assert done.stderr == ""
