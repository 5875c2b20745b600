"""A tool that hangs gives an error result with `@tool(timeout=…)`. After Ctrl-C or a cancellation
inside a tool, the run can go on.

The tools wait for an event that is set only when the test is over.
"""

import asyncio
import contextvars
import os
import signal
import threading
import time

import pytest

from tests.support.agents import agent
from tests.support.desk import said
from tests.support.providers import run_async, run_plain
from think_agent import tool
from think_agent.messages import Assistant, Started, ToolResult, User
from think_agent.testing import call
from think_agent.tools import MAY_HAVE_HAPPENED


@tool
def work() -> str:
    """Work."""
    return "worked"


WORK = call("work")


@pytest.fixture
def never():
    event = threading.Event()
    yield event
    event.set()


def hanging(never, kind, name="hang", timeout=0.05, before=lambda: None):
    def wait() -> None:
        before()
        never.wait(20)

    async def sleep() -> None:
        before()
        await asyncio.sleep(20)

    return tool({"sync": wait, "async": sleep}[kind], name=name, timeout=timeout)


@pytest.mark.parametrize("run", [run_plain, run_async])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_tool_that_hangs_gives_an_error_result(never, kind, run):
    outcome = run(agent(call("hang"), "It hangs.", tools=[hanging(never, kind)]), "go")
    (action,) = outcome.actions
    assert action.result.is_error
    assert action.result.content == f"error: no result in time.\n{MAY_HAVE_HAPPENED}"
    assert outcome.answer == "It hangs."


@pytest.mark.parametrize("run", [run_plain, run_async])
def test_a_tool_within_its_timeout_works_as_any_other(run):
    where = contextvars.ContextVar("where", default="nowhere")
    where.set("in the caller's context")

    def fine() -> str:
        return where.get()

    def stops() -> str:
        raise StopIteration

    async def waits() -> str:
        await asyncio.sleep(0)
        return "waited"

    tools = [tool(f, timeout=5, read_only=True) for f in (fine, stops, waits)]
    outcome = run(agent([call(one.name) for one in tools], "Done.", tools=tools), "go")
    contents = [action.result.content for action in outcome.actions]
    assert contents == ["in the caller's context", "error: StopIteration", "waited"]


# Runs that are stopped.


def stopping(stop):
    """An agent that is stopped in its second action."""
    return agent(WORK, call("stop"), tools=[work, stop])


def assert_it_can_go_on(path):
    before = said(path)
    kinds = [User, Assistant, Started, ToolResult, Assistant, Started]
    assert [type(message) for message in before] == kinds
    twice = tool(lambda: "done twice", name="stop", idempotent=True)
    outcome = agent(WORK, call("stop"), "Done.", tools=[work, twice]).resume(path)
    assert outcome.transcript[: len(before)] == tuple(before)
    assert [a.result.content for a in outcome.actions] == ["worked", "done twice"]


@pytest.mark.parametrize("timeout", [None, 20])
def test_a_run_can_go_on_after_ctrl_c_in_a_tool(tmp_path, timeout):
    def stop() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(20)
        return "never"

    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        stopping(tool(stop, timeout=timeout)).run("go", transcript=path)
    assert_it_can_go_on(path)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_run_can_go_on_after_a_cancellation_in_a_tool(tmp_path, never, kind):
    running = []
    cancel = lambda: running[0].call_soon_threadsafe(running[1].cancel)  # noqa: E731
    stop = hanging(never, kind, "stop", 30, cancel)
    path = tmp_path / "run.jsonl"

    async def main():
        task = asyncio.create_task(stopping(stop).arun("go", transcript=path))
        running.extend([asyncio.get_running_loop(), task])
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert_it_can_go_on(path)
