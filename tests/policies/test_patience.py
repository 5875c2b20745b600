"""Failures, repeats, replies that cannot be read, tools that hang, and runs that are stopped."""

import asyncio
import contextvars
import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from tests.support.agents import agent, kit_said, results
from tests.support.desk import said
from tests.support.providers import run_async, run_plain
from think_agent import tool
from think_agent.loop import CallModel
from think_agent.messages import (
    Assistant,
    Force,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from think_agent.testing import call, think
from think_agent.tools import MAY_HAVE_HAPPENED


@tool(repeats=True)
def work(n: int = 0) -> str:
    """Fail, but for n=0."""
    if n:
        raise ValueError(f"no {n}")
    return "worked"


WORK, HM = call("work", n=0), think("hm")


def worker(*replies, tools=(work,), **settings):
    return agent(*replies, tools=tools, **settings)


def plays(*numbers):
    """A script that works with n, reply by reply, and then is done."""
    return [*(call("work", n=n) for n in numbers), "Done."]


# Failures in a row.


@pytest.mark.parametrize(
    ("replies", "exit", "actions"),
    [
        (plays(1, 2), "silence", 2),
        (plays(1, 2, 3), "gave_up", 3),
        (plays(1, 2, 0, 3, 4), "silence", 5),
        ([(HM, call("work", n=n)) for n in (1, 2, 3, 4)], "gave_up", 3),  # a thought is no success
        ([*plays(1, 2)[:2], (call("work", n=3), think("no use", False)), "No."], "signal", 3),
    ],
)
def test_failures_in_a_row_end_the_run(replies, exit, actions):
    outcome = worker(*replies).run("go")
    assert (outcome.exit, len(outcome.actions)) == (exit, actions)


def test_giving_up_says_what_was_tried():
    _, worked, *failed = worker(*plays(0, 1, 2, 3)).run("go").answer.splitlines()
    assert worked == "✓ work(n=0)"
    assert failed == [f"✗ work(n={n}) (error: ValueError: no {n})" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("answers", "exit", "actions"),
    [
        ([True, True], "silence", 8),  # yes starts a new row
        ([False], "declined", 3),
        ([Verdict("quit")], "declined", 3),
    ],
)
def test_a_person_is_asked_before_the_run_gives_up(answers, exit, actions):
    asked, given = [], iter(answers)
    person = {"approve": lambda question: asked.append(question) or next(given)}
    outcome = worker(*plays(*range(1, 9)), **person).run("go")
    assert (outcome.exit, len(outcome.actions), len(asked)) == (exit, actions, len(answers))
    assert asked[0].call is None
    assert "✗ work(n=3) (error: ValueError: no 3)" in asked[0].question


def test_fail_fast_neither_runs_nor_asks_about_the_calls_after_the_failed_one():
    pay = tool(lambda: pytest.fail("paid"), name="pay", needs_approval=True)
    fast = {"on_tool_error": "fail_fast", "approve": lambda question: pytest.fail("asked")}
    calls = WORK, call("work", n=1), HM, call("pay")
    outcome = worker(calls, tools=[work, pay], **fast).run("go")
    assert outcome.exit == "gave_up"
    assert [(m.name, m.is_error, m.refused) for m in results(outcome)] == [
        ("work", False, ""),
        ("work", True, ""),
        ("think", False, ""),
        ("pay", True, "failed"),
    ]


def test_fail_fast_gives_up_even_if_the_model_signals_the_end():
    failing, leave = call("work", n=1), think("so", False)
    for calls in ((failing, leave), (leave, failing), (leave, failing, WORK)):
        outcome = worker(calls, "Bye.", on_tool_error="fail_fast").run("go")
        assert (outcome.exit, outcome.model_calls) == ("gave_up", 1)


def test_an_unknown_way_to_fail_is_refused():
    with pytest.raises(ValueError, match="on_tool_error"):
        worker(on_tool_error="fail_slowly")


# Repeats.


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(read_only=True)
def look(item: str) -> str:
    """Look it up."""
    return f"{item}: 89 $"


ONE_WAY, OTHER_WAY = call("add", a=1, b=2), call("add", b=2, a=1)
TEA, MILK, RICE = (call("look", item=item) for item in ("tea", "milk", "rice"))
REPEATS = {  # replies: exit, actions, and how often a repeat was pointed out
    "to the end": ([WORK] * 9, "gave_up", 4, 1),
    "new thoughts, another order": ([(HM, ONE_WAY), (HM, OTHER_WAY)] * 3, "gave_up", 4, 1),
    "it changes its way": ([*[WORK] * 3, *plays(1, 2)], "silence", 5, 1),
    "in one reply": ([(WORK,) * 5, "I see."], "silence", 5, 1),
    "two of them": ([*[WORK] * 3, *[ONE_WAY] * 3, "I see."], "silence", 6, 2),
    "thoughts after the hint": ([*[WORK] * 3, HM, HM, "I see."], "silence", 3, 1),
    "it reads in a row": ([*[TEA] * 3, "I see."], "silence", 3, 1),
    "it reads two things in turn": ([TEA, MILK, TEA, MILK, TEA, "I see."], "silence", 5, 1),
    "it goes on reading them in turn": ([TEA, MILK] * 4, "gave_up", 7, 2),
    "it reads three in turn": ([TEA, MILK, RICE] * 4, "gave_up", 10, 3),
    "two in turn, and a change": ([TEA, MILK, TEA, WORK, MILK, TEA, "I see."], "silence", 6, 0),
    "it reads again after an action": ([TEA, WORK, TEA, WORK, TEA, "I see."], "silence", 5, 0),
    "it reads between its actions": ([WORK, TEA, WORK, TEA, WORK, "I see."], "silence", 5, 1),
}


@pytest.mark.parametrize(("replies", "exit", "actions", "hints"), REPEATS.values(), ids=REPEATS)
def test_repeats_are_pointed_out_and_then_stopped(replies, exit, actions, hints):
    outcome = worker(*replies, tools=[work, add, look]).run("go")
    assert (outcome.exit, len(outcome.actions)) == (exit, actions)
    asked = kit_said(outcome)
    assert [m.kind for m in asked] == ["repeat"] * hints
    assert all("3 times" in m.text or "5 times" in m.text for m in asked)


def test_another_result_is_no_repeat():
    pages = iter(range(9))
    poll = tool(lambda: next(pages), name="poll")
    outcome = worker(*[call("poll")] * 6, "Done.", tools=[poll]).run("go")
    assert (outcome.exit, len(outcome.actions)) == ("silence", 6)


@pytest.mark.parametrize(("refused", "choice"), [("", "auto"), ("gate", Force("think"))])
def test_resumed_after_the_hint_the_model_is_asked_with_the_same_choice(refused, choice):
    """Also if the gate refused a call in the same reply."""
    first, second = ToolCall("a", "work"), ToolCall("b", "work")
    reply = Assistant(tool_calls=(first, second))
    worked, answered = ToolResult("a", "work", "worked"), ToolResult("b", "work", "worked")
    answered = replace(answered, refused=refused)
    messages = [User("go"), *[reply, worked, answered] * 2]
    desk = worker(max_repeats=2)
    step = desk.next_step(messages)
    assert (step.say.kind, step.tool_choice) == ("repeat", choice)
    assert desk.next_step([*messages, step.say]) == CallModel(choice)


# Replies that cannot be read.

GARBLED = Assistant(stop_reason="malformed", mistake="Write one JSON object.", dialect="json")


@pytest.mark.parametrize(
    ("replies", "exit", "calls", "hints"),
    [
        ([GARBLED, GARBLED, "Done."], "silence", 3, 2),
        ([GARBLED] * 5, "gave_up", 3, 2),
        ([GARBLED, GARBLED, WORK, GARBLED, GARBLED, "Done."], "silence", 6, 4),  # a new row
    ],
)
def test_a_reply_that_cannot_be_read_goes_back_to_the_model(replies, exit, calls, hints):
    outcome = worker(*replies).run("go")
    assert (outcome.exit, outcome.model_calls) == (exit, calls)
    assert [m.text for m in kit_said(outcome)] == ["Write one JSON object."] * hints


def test_the_next_try_has_the_same_tool_choice_even_if_resumed():
    first = worker(GARBLED, WORK, "Done.", force="first")
    outcome = first.run("go")
    assert [step.tool_choice for step in outcome.turn.replies[:2]] == [Force("think")] * 2
    assert first.next_step(outcome.transcript[:3]) == CallModel(Force("think"))


# Tools that hang. They wait for an event that is set only when the test is over.


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
    outcome = run(worker(call("hang"), "It hangs.", tools=[hanging(never, kind)]), "go")
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
    outcome = run(worker([call(one.name) for one in tools], "Done.", tools=tools), "go")
    contents = [action.result.content for action in outcome.actions]
    assert contents == ["in the caller's context", "error: StopIteration", "waited"]


# Runs that are stopped.


def stopping(stop):
    """An agent that is stopped in its second action."""
    return worker(WORK, call("stop"), tools=[work, stop])


def assert_it_can_go_on(path):
    before = said(path)
    kinds = [User, Assistant, Started, ToolResult, Assistant, Started]
    assert [type(message) for message in before] == kinds
    twice = tool(lambda: "done twice", name="stop", idempotent=True)
    outcome = worker(WORK, call("stop"), "Done.", tools=[work, twice]).resume(path)
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
