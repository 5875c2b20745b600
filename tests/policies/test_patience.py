"""How much may go wrong: failures, repeats, unreadable replies, tools that hang, being stopped."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from think_agent import (
    Agent,
    Assistant,
    CallModel,
    Force,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
    tool,
)
from think_agent.policies.patience import patience
from think_agent.transcript import Transcript

ROOT = Path(__file__).parents[2]


@tool
def work(n: int = 0) -> str:
    """Fail, but for n=0."""
    if n:
        raise ValueError(f"no {n}")
    return "worked"


def call(name="work", id="", **arguments):
    return ToolCall(id, name, arguments)


def calling(*calls):
    return Assistant(tool_calls=calls, stop_reason="tool_use")


def agent(script, tools=(work,), **settings):
    return Agent(ScriptedModel(script), tools, **{"force": "never", **settings})


def plays(*numbers):
    """A script that works with n, reply by reply, and then is done."""
    return [*(calling(call(n=n)) for n in numbers), Assistant("Done.")]


def kit_said(outcome, kind):
    return [m.text for m in outcome.transcript if isinstance(m, User) and m.kind == kind]


# Failures in a row.


@pytest.mark.parametrize(
    ("numbers", "exit", "actions"),
    [
        ((1, 2), "silence", 2),
        ((1, 2, 3), "gave_up", 3),
        ((1, 2, 0, 3, 4), "silence", 5),
        ((0, 1, 2, 3), "gave_up", 4),
    ],
)
def test_failures_in_a_row_end_the_run(numbers, exit, actions):
    outcome = agent(plays(*numbers)).run("go")
    assert (outcome.exit, len(outcome.actions)) == (exit, actions)


def test_giving_up_comes_with_what_was_tried():
    outcome = agent(plays(0, 1, 2, 3)).run("go")
    assert outcome.answer.splitlines()[1:] == [
        "✓ work(n=0)",
        "✗ work(n=1) (error: ValueError: no 1)",
        "✗ work(n=2) (error: ValueError: no 2)",
        "✗ work(n=3) (error: ValueError: no 3)",
    ]


def test_thoughts_do_not_mend_a_row_of_failures():
    thought = call("think", thought="again", should_continue="true")
    script = [calling(thought, call(n=n)) for n in (1, 2, 3, 4)]
    assert len(agent(script).run("go").actions) == 3


def test_a_model_that_leaves_after_its_failures_may_say_so():
    leave = call("think", thought="no use", should_continue="false")
    script = [*plays(1, 2)[:-1], calling(call(n=3), leave), Assistant("It did not work.")]
    assert agent(script).run("go").exit == "signal"


class Person:
    def __init__(self, *answers):
        self.asked, self._answers = [], iter(answers)

    def __call__(self, question):
        self.asked.append(question)
        return next(self._answers)


def test_a_person_who_is_there_is_asked_before_giving_up():
    person = Person(True)
    outcome = agent(plays(1, 2, 3, 4, 5), approve=person).run("go")
    (asked,) = person.asked
    assert asked.call is None
    assert "✗ work(n=3) (error: ValueError: no 3)" in asked.question
    assert (outcome.exit, len(outcome.actions)) == ("silence", 5)


def test_yes_starts_a_new_row():
    person = Person(True, True, True)
    agent(plays(*range(1, 9)), approve=person).run("go")
    assert len(person.asked) == 2


@pytest.mark.parametrize("answer", [False, Verdict("no"), Verdict("quit")])
def test_no_and_quit_end_it(answer):
    person = Person(answer)
    outcome = agent(plays(1, 2, 3, 4), approve=person).run("go")
    assert (outcome.exit, len(outcome.actions), len(person.asked)) == ("declined", 3, 1)


# Fail fast.


def test_fail_fast_gives_up_at_the_first():
    outcome = agent(plays(0, 1, 2), on_tool_error="fail_fast").run("go")
    assert (outcome.exit, len(outcome.actions)) == ("gave_up", 2)


def test_fail_fast_does_not_run_the_calls_beside_the_failed_one():
    done = []

    @tool
    def pay(cents: int) -> str:
        done.append(cents)
        return "paid"

    leave = call("think", thought="x", should_continue="true")
    script = [calling(call("pay", cents=1), call(n=1), leave, call("pay", cents=2))]
    outcome = agent(script, [work, pay], on_tool_error="fail_fast").run("go")
    assert done == [1]
    assert outcome.exit == "gave_up"
    results = [m for m in outcome.transcript if isinstance(m, ToolResult)]
    assert [(m.name, m.is_error, m.refused) for m in results] == [
        ("pay", False, ""),
        ("work", True, ""),
        ("think", False, ""),
        ("pay", True, "failed"),
    ]


def test_nobody_is_asked_about_a_call_that_fail_fast_stops():
    person = Person(True)
    pay = tool(lambda: "paid", name="pay", needs_approval=True)
    script = [calling(call(n=1), call("pay"))]
    agent(script, [work, pay], on_tool_error="fail_fast", approve=person).run("go")
    assert person.asked == []


def test_an_unknown_way_to_fail_is_refused():
    with pytest.raises(ValueError, match="on_tool_error"):
        patience(on_tool_error="fail_slowly")


# The same again.


def test_repeats_are_pointed_out_and_then_stopped():
    outcome = agent([calling(call(n=0))] * 9).run("go")
    assert (outcome.exit, len(outcome.actions)) == ("gave_up", 4)
    (said,) = kit_said(outcome, "repeat")
    assert "work 3 times" in said


def test_new_thoughts_and_another_order_of_arguments_are_the_same_again():
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    script = [
        calling(call("think", thought=f"idea {i}", should_continue="true"), made)
        for i, made in enumerate([call("add", a=1, b=2), call("add", b=2, a=1)] * 3)
    ]
    outcome = agent(script, [add], patience=9).run("go")
    assert (outcome.exit, len(outcome.actions)) == ("gave_up", 4)


def test_another_result_is_not_the_same_again():
    results = iter(range(9))
    poll = tool(lambda: next(results), name="poll")
    outcome = agent([*[calling(call("poll"))] * 6, Assistant("Done.")], [poll]).run("go")
    assert (outcome.exit, len(outcome.actions)) == ("silence", 6)


def test_a_model_that_changes_its_way_goes_on():
    outcome = agent([*[calling(call(n=0))] * 3, *plays(1, 2)]).run("go")
    assert outcome.exit == "silence"


def test_the_model_is_told_first_also_when_it_repeats_itself_in_one_reply():
    script = [calling(*[call(n=0)] * 5), Assistant("I see.")]
    outcome = agent(script).run("go")
    assert len(kit_said(outcome, "repeat")) == 1
    assert outcome.exit == "silence"


def test_every_action_is_pointed_out_before_it_is_stopped():
    @tool
    def other() -> str:
        return "same"

    script = [*[calling(call(n=0))] * 3, *[calling(call("other"))] * 3, Assistant("I see.")]
    outcome = agent(script, [work, other]).run("go")
    assert ["work" in said for said in kit_said(outcome, "repeat")] == [True, False]
    assert outcome.exit == "silence"


def test_a_thought_after_the_hint_is_no_repeat():
    thought = calling(call("think", thought="hm", should_continue="true"))
    script = [*[calling(call(n=0))] * 3, thought, thought, Assistant("I see.")]
    assert agent(script).run("go").exit == "silence"


# Replies that no dialect could read.

GARBLED = Assistant(stop_reason="malformed", mistake="Write one JSON object.", dialect="json")


def test_a_mistake_of_format_goes_back_to_the_model():
    outcome = agent([GARBLED, GARBLED, Assistant("Done.")]).run("go")
    assert kit_said(outcome, "format") == ["Write one JSON object."] * 2
    assert outcome.exit == "silence"


def test_three_in_a_row_end_the_run():
    outcome = agent([GARBLED] * 5).run("go")
    assert (outcome.exit, outcome.model_calls) == ("gave_up", 3)


def test_a_readable_reply_between_starts_a_new_row():
    script = [GARBLED, GARBLED, calling(call(n=0)), GARBLED, GARBLED, Assistant("Done.")]
    assert agent(script).run("go").exit == "silence"


def test_the_next_try_is_under_the_same_tool_choice_resumed_or_not():
    outcome = agent([GARBLED, calling(call(n=0)), Assistant("Done.")], force="first").run("go")
    assert [step.tool_choice for step in outcome.steps[:2]] == [Force("think")] * 2
    asking = agent([], force="first")
    assert asking.next_step(outcome.transcript[:3]) == CallModel(Force("think"))


# Tools that hang. A tool of these tests waits on an event that is never set while it matters.


@pytest.fixture
def never():
    event = threading.Event()
    yield event
    event.set()


def hanging(never, kind):
    def sync_tool() -> str:
        never.wait(20)
        return "too late"

    async def async_tool() -> str:
        await asyncio.sleep(20)
        return "too late"

    return tool({"sync": sync_tool, "async": async_tool}[kind], name="hang", timeout=0.05)


def run_plain(agent, text, **more):
    return agent.run(text, **more)


def run_async(agent, text, **more):
    return asyncio.run(agent.arun(text, **more))


@pytest.mark.parametrize("run", [run_plain, run_async])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_tool_that_hangs_is_an_error_result_and_the_program_goes_on(never, kind, run):
    started = time.monotonic()
    script = [calling(call("hang")), Assistant("It hangs.")]
    outcome = run(agent(script, [hanging(never, kind)]), "go")
    assert time.monotonic() - started < 5
    (action,) = outcome.actions
    assert action.result.is_error
    assert "no result in time; it may have happened" in action.result.content
    assert outcome.answer == "It hangs."


@pytest.mark.parametrize("run", [run_plain, run_async])
def test_a_tool_within_its_timeout_is_as_any_other(run):
    where = contextvars.ContextVar("where", default="nowhere")
    where.set("in the caller's context")

    def fine(n: int) -> str:
        return f"{n} {where.get()}"

    def fails() -> str:
        raise KeyError("inside")

    def stops() -> str:
        raise StopIteration

    async def waits() -> str:
        await asyncio.sleep(0)
        return "waited"

    tools = [tool(f, timeout=5) for f in (fine, fails, stops, waits)]
    calls = [call("fine", n=1), call("fails"), call("stops"), call("waits")]
    outcome = run(agent([calling(*calls), Assistant("Done.")], tools), "go")
    assert [action.result.content for action in outcome.actions] == [
        "1 in the caller's context",
        "error: KeyError: 'inside'",
        "error: StopIteration",
        "waited",
    ]


# Being stopped.


def stopping(stop):
    """An agent whose second action is the end of it."""
    return agent([calling(call(n=0)), calling(call("stop", id="s"))], [work, stop])


KINDS = [User, Assistant, Started, ToolResult, Assistant, Started]


def assert_it_can_go_on(path):
    with Transcript(path, {}, now="") as transcript:
        said = tuple(transcript)
    assert [type(message) for message in said] == KINDS
    twice = tool(lambda: "done twice", name="stop", idempotent=True)
    outcome = agent([Assistant("Done.")], [work, twice]).resume(path)
    assert outcome.transcript[: len(said)] == said
    assert [a.result.content for a in outcome.actions] == ["worked", "done twice"]


@pytest.mark.parametrize("timeout", [None, 20])
def test_ctrl_c_in_the_middle_of_a_sync_tool(tmp_path, timeout):
    def stop() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(20)
        return "never"

    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        stopping(tool(stop, timeout=timeout)).run("go", transcript=path)
    assert_it_can_go_on(path)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_cancellation_in_the_middle_of_a_tool(tmp_path, never, kind):
    def cancel() -> None:
        loop.call_soon_threadsafe(task.cancel)

    def sync_stop() -> str:
        cancel()
        never.wait(20)
        return "never"

    async def async_stop() -> str:
        cancel()
        await asyncio.sleep(20)
        return "never"

    stop = tool({"sync": sync_stop, "async": async_stop}[kind], name="stop", timeout=30)
    path = tmp_path / "run.jsonl"

    async def main():
        nonlocal loop, task
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(stopping(stop).arun("go", transcript=path))
        await task

    loop, task = None, None
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert_it_can_go_on(path)


def test_cancellation_while_the_model_is_asked(tmp_path):
    class Slow(ScriptedModel):
        async def acomplete(self, request):
            if len(request.messages) > 1:
                await asyncio.sleep(20)
            return self.complete(request)

    async def main():
        slow = Agent(Slow(plays(0)), [work], force="never")
        async with asyncio.timeout(0.1):
            await slow.arun("go", transcript=tmp_path / "run.jsonl")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    outcome = agent([Assistant("Done.")]).resume(tmp_path / "run.jsonl")
    assert [type(m) for m in outcome.transcript] == [*KINDS[:4], Assistant]


def test_a_stream_that_is_left_frees_the_file(tmp_path):
    path = tmp_path / "run.jsonl"

    async def leave():
        stream = agent(plays(0)).astream("go", transcript=path)
        async for event in stream:
            if isinstance(event, ToolResult):
                break
        await stream.aclose()

    asyncio.run(leave())
    for event in agent([Assistant("Done.")]).stream("hm", transcript=None):
        assert event
    assert agent([Assistant("Done.")]).resume(path).exit == "silence"


TERMINATED = """
import sys, time
from think_agent import Agent, Assistant, ScriptedModel, ToolCall, tool

def hang() -> str:
    print("in the tool", flush=True)
    time.sleep(20)
    return "never"

script = [Assistant(tool_calls=(ToolCall("h", "hang"),))]
Agent(ScriptedModel(script), [tool(hang)], force="never").run("go", transcript=sys.argv[1])
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_ended_in_a_tool_leaves_a_whole_file(tmp_path, how):
    path = tmp_path / "run.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", TERMINATED, path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"in the tool\n"
        process.send_signal(how)
    with Transcript(path, {}, now="") as transcript:
        assert [type(message) for message in transcript] == [User, Assistant, Started]
        assert list(transcript.notices()) == []
