"""Small holes of the loop that were found once, each with the case that was red. (Others stand with
their subject: prices in policies/test_limits.py, validators in policies/test_answer.py, async tools
in test_tools.py.)
"""

import asyncio
import contextlib
import itertools
import resource
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.agents import agent, results
from think_agent import Agent, CallModel, CallTool, Force, Request, ScriptedModel, tool
from think_agent.effects import CLOSING_TOKENS
from think_agent.errors import ModelError, Overloaded, TranscriptError
from think_agent.messages import Assistant, Ended, Started, ToolCall, ToolResult, Usage, User
from think_agent.testing import call, think
from think_agent.transcript import Transcript

NOW = "2026-03-01T12:00:00.000+00:00"


@tool(read_only=True)
def look(item: str = "tea") -> str:
    """Look it up."""
    return f"{item} is there"


# Limits.


@pytest.mark.parametrize("used", [300, 299, 301])
def test_a_token_limit_that_is_met_exactly_leaves_the_closing_call_its_tokens(used):
    most = []

    def reply(request: Request) -> Assistant:
        most.append(request.max_output_tokens)
        if request.tool_choice == "none":
            return Assistant("What I could.")
        return Assistant(tool_calls=(call("look"),), usage=Usage(used))

    outcome = Agent(ScriptedModel(reply), [look], force="never", max_tokens=300).run("Go.")
    assert outcome.answer == "What I could."
    assert most[-1] == CLOSING_TOKENS


@pytest.mark.parametrize("left", [0, 1])
def test_so_it_does_where_the_model_signals_the_end(left):
    most = []

    def reply(request: Request) -> Assistant:
        most.append(request.max_output_tokens)
        if request.tool_choice == "none":
            return Assistant("All is done.")
        return Assistant(tool_calls=(think("All done.", False),), usage=Usage(300 - left))

    outcome = Agent(ScriptedModel(reply), force="never", max_tokens=300).run("Go.")
    assert (outcome.exit, most[-1]) == ("signal", CLOSING_TOKENS)


def test_a_clock_that_was_set_back_does_not_end_a_resumed_run():
    late = [
        User("Look.", at="2026-03-01T12:00:00+00:00"),
        Assistant(tool_calls=(ToolCall("a", "look"),), at="2026-03-01T12:00:01+00:00"),
    ]
    hours = itertools.count()
    earlier = agent(
        call("look"),
        "There is tea.",
        tools=[look],
        max_seconds=60,
        now=lambda: f"2026-03-01T10:00:{next(hours):02}+00:00",
    )
    assert earlier.resume(late).exit == "silence"
    hours = itertools.count()
    later = [replace(late[0], at="2026-03-01T09:00:00+00:00"), late[1]]
    assert earlier.resume(later).exit == "silence"


# Forcing.


def test_a_run_that_is_resumed_after_the_repeat_question_asks_without_a_forced_thought():
    """As the run that was not stopped does: the question of the kit comes first."""
    again = Assistant(tool_calls=(ToolCall("a", "look"),))
    result = ToolResult("a", "look", "tea is there")
    asked = [User("Look."), again, result, again, result]
    desk = agent(tools=[look], max_repeats=2)
    step = desk.next_step(asked)
    assert isinstance(step, CallModel)
    assert (step.tool_choice, step.say.kind) == ("auto", "repeat")
    assert desk.next_step([*asked, step.say]) == CallModel("auto")


def test_so_does_one_whose_gate_had_refused_a_call():
    """A refusal of the gate beside the repeat: forced before the question, and not after it."""

    @tool(think_first=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    look_twice = Assistant(tool_calls=(ToolCall("a", "look"), ToolCall("b", "pay")))
    seen = ToolResult("a", "look", "tea is there")
    refused = ToolResult("b", "pay", "error: not run", is_error=True, refused="gate")
    messages = [User("Look."), look_twice, seen, refused, look_twice, seen, refused]
    desk = agent(tools=[look, pay], max_repeats=2)
    step = desk.next_step(messages)
    assert isinstance(step, CallModel)
    assert step.say.kind == "repeat"
    assert desk.next_step([*messages, step.say]) == replace(step, say=None)


def test_after_a_refusal_of_the_gate_a_thought_is_forced_also_when_the_run_is_resumed():
    @tool(think_first=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    refused = ToolResult("b", "pay", "error: not run", is_error=True, refused="gate")
    messages = [User("Pay."), Assistant(tool_calls=(ToolCall("b", "pay"),)), refused]
    assert agent(tools=[pay]).next_step(messages) == CallModel(Force("think"))


# Policies of the user.


@pytest.mark.parametrize("needs_approval", [False, True])
def test_a_policy_that_changes_the_id_of_a_call_does_not_go_on_for_ever(needs_approval):
    """Neither the call, nor a thought, nor the question to a person."""
    ran, asked = [], []

    def approve(question):
        asked.append(question.call.id)
        return True

    @tool(needs_approval=needs_approval)
    def pay(order: str) -> str:
        """Pay."""
        ran.append(order)
        return "paid"

    def rename(step, turn):
        if isinstance(step, CallTool):
            return CallTool(replace(step.call, id="another"))
        return step

    replies = (think("A is due."), call("pay", order="A")), "Paid."
    settings = {"tools": [pay], "policies": [rename], "approve": approve}
    outcome = agent(*replies, **settings).run("Pay.")
    assert asked == ["call_1"] * needs_approval
    assert (ran, outcome.exit) == (["A"], "silence")
    assert [result.call_id for result in results(outcome)] == ["call_0", "call_1"]


# Files.


@pytest.mark.parametrize("text", [123, b"Hi", ["Hi"]])
def test_a_request_that_is_no_text_makes_no_file(text, tmp_path):
    path = tmp_path / "run.jsonl"
    with pytest.raises(TypeError, match="is no text"):
        agent("Hello.").run(text, transcript=path)
    with pytest.raises(TypeError, match="is no text"):
        asyncio.run(agent("Hello.").arun(text, transcript=path))
    assert not path.exists()


def test_a_transcript_takes_nothing_but_append(tmp_path):
    with closing(Transcript(tmp_path / "run.jsonl", {}, now=NOW)) as transcript:
        with pytest.raises(AttributeError):
            transcript.extend([User("Hi")])
        with pytest.raises(TypeError):
            transcript += [User("Hi")]
        with pytest.raises(TypeError):
            transcript[:] = [User("Hi")]
        assert list(transcript) == []


@pytest.mark.parametrize("silence", ["confirm", "accept"])
@pytest.mark.parametrize("more", [{}, {"force": "always"}, {"max_model_calls": 1}])
def test_a_finished_file_is_gone_on_with_under_other_settings(silence, more, tmp_path):
    """Whether its turn is over is read from it, not planned anew."""
    path = tmp_path / "run.jsonl"
    first = agent((think("There is more to do."),), "Hello.", silence="accept")
    assert first.run("Hi", transcript=path).exit == "silence"
    other = Agent(ScriptedModel(lambda _: Assistant("Bye.")), silence=silence, **more)
    again = other.resume(path)
    assert (again.exit, again.answer) == ("silence", "Hello.")
    assert other.run("And now?", transcript=path).answer == "Bye."


@contextlib.contextmanager
def full_disk(size: int):
    """No file may become larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 10])
def test_a_disk_that_is_full_at_the_header_keeps_no_lock(size, tmp_path):
    path = tmp_path / "run.jsonl"
    with full_disk(size), pytest.raises(TranscriptError, match="cannot be written"):
        agent("Hello.").run("Hi", transcript=path)
    assert path.read_bytes() == b""
    assert agent("Hello.").run("Hi", transcript=path).answer == "Hello."


def test_so_it_does_where_a_later_header_cannot_be_written(tmp_path):
    path = tmp_path / "run.jsonl"
    agent("Hello.").run("Hi", transcript=path)
    before = path.read_bytes()
    other = agent("Hello.", "Bye.", instructions="Be brief.")
    with full_disk(len(before) + 20), pytest.raises(TranscriptError, match="cannot be written"):
        other.run("Bye", transcript=path)
    assert path.read_bytes() == before
    assert other.run("Bye", transcript=path).answer == "Bye."


def test_arun_opens_and_locks_and_reads_its_file_beside_the_event_loop(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    agent("Hello.").run("Hi", transcript=path)
    threads = []
    open_it = Transcript.__init__

    def noted(self, *given, **more):
        threads.append(threading.current_thread())
        open_it(self, *given, **more)

    monkeypatch.setattr(Transcript, "__init__", noted)
    outcome = asyncio.run(agent("Hello.", "Bye.").arun("Bye", transcript=path))
    assert outcome.answer == "Bye."
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_run_that_is_cancelled_while_its_file_is_opened_frees_it(cancels, tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    is_opening, may_go_on = threading.Event(), threading.Event()
    load = Transcript._load

    def slow_load(self):
        is_opening.set()
        may_go_on.wait(10)
        return load(self)

    monkeypatch.setattr(Transcript, "_load", slow_load)

    async def cancel_it() -> None:
        task = asyncio.create_task(agent("Hello.").arun("Hi", transcript=path))
        await asyncio.to_thread(is_opening.wait)
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0.01)
        threading.Timer(0.05, may_go_on.set).start()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    if cancels == 2:  # it did not wait for the thread that opens the file
        wait_until_free(path)
    assert agent("Hello.").run("Hi", transcript=path).answer == "Hello."


def wait_until_free(path) -> None:
    for _ in range(1_000):
        with contextlib.suppress(TranscriptError), closing(Transcript(path, {}, now=NOW)):
            return
        time.sleep(0.01)


# Errors carry what was done.


async def drain(events) -> None:
    async for _ in events:
        pass


WAYS = {
    "run": lambda desk: desk.run("Pay."),
    "arun": lambda desk: asyncio.run(desk.arun("Pay.")),
    "stream": lambda desk: list(desk.stream("Pay.")),
    "astream": lambda desk: asyncio.run(drain(desk.astream("Pay."))),
    "resume": lambda desk: desk.resume([User("Pay.")]),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_the_model_carries_what_was_done(way):
    ran = []

    @tool
    def pay(order: str) -> str:
        """Pay."""
        ran.append(order)
        return "paid"

    def reply(request: Request) -> Assistant:
        if any(isinstance(message, ToolResult) for message in request.messages):
            raise Overloaded("busy", retryable=True)
        return Assistant(tool_calls=(call("pay", order="A"),))

    desk = Agent(ScriptedModel(reply), [pay], force="never")
    with pytest.raises(ModelError) as caught:
        WAYS[way](desk)
    kinds = [type(message) for message in caught.value.transcript]
    assert kinds == [User, Assistant, Started, ToolResult]
    assert ran == ["A"]
    gone_on = agent("x", "Paid.", tools=[pay]).resume(caught.value.transcript)
    assert (gone_on.answer, ran) == ("Paid.", ["A"])
    assert isinstance(gone_on.transcript[-1], Ended)


def test_a_file_error_in_the_middle_leaves_the_file_to_others(tmp_path):
    path = tmp_path / "run.jsonl"

    def reply(request: Request) -> Assistant:
        raise Overloaded("busy")

    with pytest.raises(Overloaded):
        Agent(ScriptedModel(reply)).run("Hi", transcript=path)
    assert agent("Hello.").resume(Path(path)).answer == "Hello."
