"""Runs: how long a reply may be, how a run goes on after a reply that was cut off, and who may use
the file.
"""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from math import inf

import pytest

from tests.support.agents import NOTHING, kit_said, look, of_kind, pay
from think_agent import Agent, Delta, Model, Notice, ScriptedModel, Turn, tool
from think_agent.errors import TranscriptError
from think_agent.loop import CallModel, plan
from think_agent.messages import (
    Assistant,
    Force,
    ToolCall,
    Usage,
    User,
    Verdict,
)
from think_agent.testing import call, scripted, think

ASK = User("Refund it.")


def agent(*replies, **more) -> Agent:
    return Agent(ScriptedModel(replies), [pay, look], **{"now": lambda: "2026-01-01", **more})


def bound(agent: Agent, step: CallModel, *messages) -> int | None:
    bounded = agent.limits.bound_step(step, Turn.of(messages))
    return bounded.bounds.max_output_tokens


LEAVES = think("Done.", should_continue=False)
LOOKS = call("look", item="tea")


@pytest.mark.parametrize(
    ("limits", "first", "seconds"),
    [
        ({}, LEAVES, [inf, inf]),
        ({"max_seconds": 1_000}, LEAVES, [1_000, 1_000]),
        ({"max_seconds": 30}, LEAVES, [30, 60]),
        ({"max_model_calls": 2}, LOOKS, [inf, inf]),  # a slow model may take its time
        (
            {"max_seconds": 1_000, "max_model_calls": 2},
            LOOKS,
            [1_000, 60],
        ),  # at a limit it may take no more
    ],
)
def test_a_reply_may_take_the_seconds_that_are_left(limits, first, seconds):
    left = []

    def reply(request) -> Assistant:
        left.append(request.deadline - time.monotonic())
        if len(left) == 1:
            return Assistant(tool_calls=(first,))
        return Assistant("Paid.")

    desk = Agent(ScriptedModel(reply), [look], now=lambda: "2026-01-01", **limits)
    desk.run("Pay.")
    assert len(left) == 2
    for found, most in zip(left, seconds, strict=True):
        assert found == most or most - 20 < found <= most


def test_a_reply_may_have_the_tokens_that_are_left_and_the_last_one_always_1000():
    spent = Assistant("Hm.", usage=Usage(300, 200))
    assert bound(agent(), CallModel(), ASK, spent) is None
    limited = agent(max_tokens=2_000)
    assert bound(limited, CallModel(Force("think")), ASK) == 2_000
    assert bound(limited, CallModel(), ASK, spent) == 1_500
    closing = [bound(limited, CallModel("none"), ASK, *[spent] * replies) for replies in range(6)]
    assert closing == [2_000, 1_500, 1_000, 1_000, 1_000, 1_000]  # after 4 the limit is met


@pytest.mark.parametrize(
    ("most", "exit"), [(500, "budget"), (501, "truncated"), (None, "truncated")]
)
def test_a_reply_that_is_cut_at_the_token_limit_ends_the_turn_with_budget(most, exit):
    cut = Assistant("I w", "", (call("look", item="a"),), "max_tokens", Usage(300, 200))
    outcome = agent(cut, max_tokens=most).run(ASK.text)
    assert outcome.exit == exit
    assert outcome.answer == "I w"
    assert outcome.actions == ()


@pytest.mark.parametrize("stop", ["incomplete", "max_tokens"])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_resume_goes_on_after_a_reply_that_was_cut_off(stop, where, tmp_path):
    cut = Assistant("I will", tool_calls=(call("pay", cents=1),), stop_reason=stop)
    replies = cut, think("It is due."), call("pay", cents=1), think("Paid.", False), "Paid."
    with scripted(*replies) as model:
        desk = Agent(model, [pay, look])
        kept = tmp_path / "run.jsonl" if where == "file" else None
        first = desk.run(ASK.text, transcript=kept)
        outcome = desk.resume(kept or first.transcript)
    assert first.exit == "truncated"
    assert first.actions == ()
    assert outcome.exit == "signal"
    assert outcome.answer == "Paid."
    assert len(outcome.actions) == 1
    assert outcome.transcript[: len(first.transcript)] == first.transcript


def test_a_run_that_had_ended_says_so_when_it_is_resumed_and_only_then():
    desk = agent("Hello.", silence="accept")
    ended = desk.run("Hi").transcript
    killed = ended[:-1]  # before its end was written
    for transcript, times in ((ended, 1), (killed, 0)):
        events = []
        assert desk.resume(transcript, on_event=events.append).answer == "Hello."
        notices = [notice.text for notice in of_kind(events, Notice)]
        assert sum("nothing was done again" in text for text in notices) == times


@pytest.mark.parametrize("is_async", [False, True])
def test_a_resumed_run_is_streamed_like_any_other(is_async):
    events = []
    desk = agent("Hello.", silence="accept")
    if is_async:
        asyncio.run(desk.aresume([ASK], on_event=events.append))
    else:
        desk.resume([ASK], on_event=events.append)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "Hello."


def test_a_call_is_repeated_also_with_other_words_in_its_carried_thought():
    desk = agent(*[call("pay", cents=1, thought=text) for text in "abc"], "So.", carry=True)
    outcome = desk.run(ASK.text)
    assert [said.kind for said in kit_said(outcome)] == ["repeat"]


# The file


def test_a_child_process_does_not_keep_the_file(tmp_path):
    children = []

    @tool
    def work() -> str:
        """Leave a process behind."""
        children.append(os.fork())
        if not children[-1]:
            time.sleep(30)
            os._exit(0)
        return "begun"

    desk = Agent(ScriptedModel([call("work"), "One.", "Two."]), [work], silence="accept")
    try:
        desk.run(ASK.text, transcript=tmp_path / "run.jsonl")
        assert desk.run("Again.", transcript=tmp_path / "run.jsonl").answer == "Two."
    finally:
        os.kill(children[0], 9)
        os.waitpid(children[0], 0)


LEAVES_A_HELPER = """if True:
    import multiprocessing, os, signal, sys
    from think_agent import Agent, ScriptedModel, tool
    from think_agent.testing import call

    pipe = os.dup(0)  # multiprocessing takes 0 away

    def waits():
        os.write(1, b"!")  # it lives
        os.read(pipe, 1)  # until the test closes its end
        os._exit(0)

    def fork():
        if not os.fork():
            waits()

    def process():
        multiprocessing.get_context("fork").Process(target=waits, daemon=True).start()

    @tool
    def work() -> str:
        "Leave a helper that outlives this process."
        globals()[sys.argv[1]]()
        os.kill(os.getpid(), signal.SIGKILL)

    desk = Agent(ScriptedModel([call("work")]), [work], force="never")
    if sys.argv[2] == "run":
        desk.run("Work.", transcript="run.jsonl")
    with desk.open("run.jsonl") as held:
        desk.run("Work.", transcript=held)
"""


@pytest.mark.parametrize("kind", ["fork", "process"])
@pytest.mark.parametrize("opened", ["run", "open"])
def test_a_helper_that_outlives_a_killed_run_does_not_keep_its_file(tmp_path, kind, opened):
    env = os.environ | {"PYTHONPATH": os.getcwd()}
    words = [sys.executable, "-W", "ignore", "-c", LEAVES_A_HELPER, kind, opened]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, env=env, **pipes) as killed:
        assert killed.wait(60) == -signal.SIGKILL
        assert killed.stdout.read(1) == b"!"
        with (tmp_path / "run.jsonl").open() as file:  # the helper lives: it waits for our pipe
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_forked_child_cannot_write_into_the_file_of_its_parent(tmp_path):
    """It could, as if it were the parent: two processes in one file."""
    with agent("Hello.", "Hello.").open(tmp_path / "run.jsonl") as held:
        child = os.fork()
        if not child:
            refused = False
            try:
                agent("Hello.").run("Hi.", transcript=held)
            except TranscriptError as error:
                refused = "it is closed" in str(error)
            finally:
                os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert agent("Hello.", silence="accept").run("Hi.", transcript=held).answer == "Hello."


# The outcome


def test_an_outcome_prints_as_its_answer_and_its_counts():
    looks, thinks = call("look", item="tea"), think("Look again.")
    outcome = agent(looks, thinks, looks, "89 $", silence="accept", force="never").run("Tea?")
    assert str(outcome) == "89 $\n(silence; 2 actions, 1 of them after a thought; 4 model calls)"
    assert "Tea?" not in repr(outcome)  # not the whole transcript


# Unexpected replies and verdicts


THINKS = [{"thought": text} for text in NOTHING] + [{"thought": [""]}, {}, "[]", '""', "{", "yes"]


@pytest.mark.parametrize("arguments", THINKS)
def test_a_blank_or_unreadable_thought_covers_no_call(arguments):
    calls = ToolCall("t", "think", arguments), call("pay", cents=1)
    outcome = agent(calls, "Done.", silence="accept").run("Pay.")
    assert outcome.actions == ()


def test_a_verdict_finds_its_call_even_if_the_id_is_a_lone_surrogate():
    reply = Assistant(tool_calls=(ToolCall("\ud800", "look", {"item": "tea"}),))
    asks = replace(look, needs_approval=True)
    desk = Agent(ScriptedModel([reply, "No."]), [asks], approve=lambda asked: False)
    outcome = desk.run("Look.")
    assert outcome.answer == "No."
    assert len(of_kind(outcome.transcript, Verdict)) == 1


@pytest.mark.parametrize("kind", ["nudge", "silence", "format", "repeat", "answer", "limit"])
def test_a_verdict_between_a_question_and_its_reply_changes_nothing(kind):
    """A policy may ask a person before any model call, and a crash may come after the verdict."""
    before = [ASK, Assistant("Hm.", stop_reason="malformed", mistake="?"), User("?", kind=kind)]
    for policies in ([], agent().policies()):
        asked = plan(before, policies)
        assert isinstance(asked, CallModel)
        assert plan([*before, Verdict("yes")], policies) == asked


def test_a_child_that_leaves_a_tool_does_not_free_the_file_of_its_parent(tmp_path):
    script = """if True:
        import fcntl, os, sys
        from think_agent import Turn, Agent, ScriptedModel, tool
        from think_agent.testing import call

        @tool
        def work() -> str:
            "Leave a process that ends by itself."
            if not (child := os.fork()):
                sys.exit()
            os.waitpid(child, 0)
            with open("run.jsonl") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        model = ScriptedModel([call("work"), "Done."])
        outcome = Agent(model, [work], force="never").run("Work.", transcript="run.jsonl")
        print(outcome.actions[0].result.content)
        """
    env = os.environ | {"PYTHONPATH": os.getcwd()}
    said = subprocess.check_output([sys.executable, "-c", script], cwd=tmp_path, env=env, text=True)
    assert "BlockingIOError" in said


class Unfinished(Model):
    """A model whose stream ends without an Assistant."""

    def stream(self, request):
        yield Delta("answer", "Hel")


def test_a_stream_without_a_reply_is_an_error():
    """Else the model would be asked again and again."""
    with pytest.raises(TypeError, match="ended without an Assistant"):
        list(Agent(Unfinished()).stream("Hi"))
