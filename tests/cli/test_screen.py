"""Any output takes any text, and a terminal shows nothing but the run."""

import subprocess
import sys

import pytest

from tests.support.commands import ROOT, environment, in_a_terminal, text_of

REFUND = ["-m", "demos.refund", "ORD-001", "--provider", "offline"]


def shown(**env: str) -> subprocess.CompletedProcess[bytes]:
    """The demo in a process with these variables, its output in bytes."""
    command = [sys.executable, *REFUND]
    env = environment(**env)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii"])
def test_a_run_goes_on_in_an_encoding_without_our_signs(encoding):
    done = shown(PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode(encoding).splitlines()
    assert lines[2].startswith(r"\U0001f4ad Plan: look up ORD-001")
    assert lines[4].startswith(r"  \u21b3 Laptop Stand")
    assert lines[-1].startswith(r"\u2713 done")


def test_a_run_goes_on_in_the_c_locale():
    done = shown(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert done.returncode == 0
    assert rb"\u2713 done \xb7 3 actions" in done.stdout


@pytest.mark.parametrize("columns", ["0", "1", "nonsense"])
def test_a_run_goes_on_in_a_terminal_of_any_width(columns):
    code = "from think_agent import *; from think_agent.cli import watch; import os; "
    code += f"os.environ['COLUMNS'] = '{columns}'; "
    code += "watch(Agent(ScriptedModel(['all is well'])), 'go')"
    screen, exit, _ = in_a_terminal(["-c", code])
    assert exit == 0
    assert "all is well" in text_of(screen) or columns == "1"


def test_text_typed_during_a_run_is_not_shown_and_waits_for_the_prompt():
    words = ["-m", "demos.refund", "--provider", "offline"]
    keys = [("\n> ", "ORD-001\r"), ("lookup_order", "/help"), ("model calls", "\r")]
    keys += [("this list", "\x04")]
    screen, code, _ = in_a_terminal(words, keys=keys)
    assert code == 0, screen
    during, _, after = text_of(screen).partition("model calls")
    assert "/help" not in during.partition("lookup_order")[2]
    assert "this list" in after


def test_text_typed_before_a_question_does_not_answer_it():
    words = ["-m", "demos.refund", "ORD-004", "--provider", "offline", "--approve", "ask"]
    keys = [("lookup_order", "y\r"), ("stop the run", "n no\r")]
    screen, _, _ = in_a_terminal(words, keys=keys)
    assert "⚑ denied by" in text_of(screen)
    assert "approved" not in text_of(screen).partition("Run process_refund?")[2]
