"""The commands where a standard stream is closed, and where Ctrl-C comes before the first reply."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.servers import serve
from tests.servers.openai_chat import Chat
from tests.support.commands import ROOT, environment, in_a_terminal, text_of
from think_agent import Assistant, Request

SECONDS = 60  # until a test gives up
STREAMS = ["stdin", "stdout", "stderr"]
DESK = ["-m", "demos.refund", "--provider", "offline"]
REQUEST = "I want a refund on order ORD-001"
OWN = """
from think_agent import Agent, ScriptedModel

agent = Agent(ScriptedModel(lambda request: "Hello."), force="never")
"""
ASKS = """
from think_agent import Agent, ScriptedModel, tool
from think_agent.cli import at_the_terminal
from think_agent.testing import call

@tool(needs_approval=True)
def pay() -> str:
    "Pay."
    return "paid"

model = ScriptedModel([call("pay"), "Done."])
outcome = Agent(model, [pay], force="never", approve=at_the_terminal).run("Pay.")
open("exit.txt", "w").write(outcome.exit)
"""


def run_without(stream: str, words: list[str], folder: str = str(ROOT)) -> tuple[int, str, str]:
    """`python WORDS` with a closed stream: the exit code, and what it wrote to the others."""
    number = STREAMS.index(stream)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT)),
        input="",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        preexec_fn=lambda: os.close(number),
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("stream", STREAMS)
def test_the_demo_works_where_a_stream_is_closed(stream):
    code, out, err = run_without(stream, [*DESK, REQUEST])
    assert code == 0
    assert err == ""
    assert ("approved" in out) == (stream != "stdout")


@pytest.mark.parametrize("stream", STREAMS)
def test_a_conversation_ends_where_a_stream_is_closed(stream, tmp_path):
    path = tmp_path / "own_agent.py"
    path.write_text(OWN)
    code, _, err = run_without(stream, ["-m", "think_agent", "chat", f"{path}:agent"])
    assert code == 0
    assert err == ""


def test_a_missing_request_is_one_line_where_stdin_is_closed():
    code, _, err = run_without("stdin", DESK)
    assert code == 2
    assert "the request is empty" in err
    assert len(err.splitlines()) == 1


def test_a_closed_stdin_declines_a_question(tmp_path):
    """Nobody can be asked."""
    code, _, err = run_without("stdin", ["-c", ASKS], str(tmp_path))
    assert code == 0
    assert err == ""
    assert (tmp_path / "exit.txt").read_text() == "declined"


# Ctrl-C before the first reply.


@contextmanager
def silent_model() -> Iterator[tuple[list[str], threading.Event]]:
    """The flags of a model that never replies, and an event: it was asked."""
    asked, is_over = threading.Event(), threading.Event()

    def brain(_: Request) -> Assistant:
        asked.set()
        is_over.wait(SECONDS)
        return Assistant("Too late.")

    with serve(Chat(), brain) as server:
        try:
            yield ["--provider=openai:m", f"--base-url={server.url}/v1"], asked
        finally:
            is_over.set()


def test_ctrl_c_in_a_pipe_ends_in_one_line(tmp_path):
    with silent_model() as (flags, asked):
        process = subprocess.Popen(
            [sys.executable, "-m", "demos.refund", REQUEST, *flags],
            cwd=ROOT,
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert asked.wait(SECONDS)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    _, *after = out.splitlines()  # the first line names the desk and the model
    assert after == ["Stopped. Nothing was done. With --transcript PATH, the run could be resumed."]
    assert err == ""


def test_with_a_transcript_the_line_has_the_command_that_continues(tmp_path):
    path = tmp_path / "run.jsonl"
    with silent_model() as (flags, _):
        words = ["-m", "demos.refund", REQUEST, *flags, f"--transcript={path}"]
        screen, code, _ = in_a_terminal(words, "model call 1")
    assert code == 130
    _, _, stopped = text_of(screen).partition("Stopped. ")
    line, *rest = stopped.strip().split("\n")
    assert line.startswith("Nothing was done. Continue with: ")
    assert "python -m demos.refund --resume" in line
    assert str(path) in line
    assert rest == []
