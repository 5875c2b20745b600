"""Any output takes any text, and a terminal shows nothing but the run."""

import subprocess
import sys

import pytest

from tests.support.commands import ROOT, environment, in_a_terminal, text_of

REFUND = ["-m", "demos.refund", "ORD-001", "--provider", "offline"]


C_LOCALE = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize(
    ("encoding", "variables"),
    [
        ("cp1252", {"PYTHONIOENCODING": "cp1252"}),
        ("ascii", {"PYTHONIOENCODING": "ascii"}),
        ("ascii", C_LOCALE),
    ],
)
def test_a_run_goes_on_in_an_encoding_without_our_signs(encoding, variables):
    command = [sys.executable, *REFUND]
    env = environment(**variables)
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stderr == b""
    lines = done.stdout.decode(encoding).splitlines()
    assert lines[2].startswith(r"\U0001f4ad Plan: look up ORD-001")
    assert lines[4].startswith(r"  \u21b3 Laptop Stand")
    assert lines[-1].startswith(r"\u2713 done")


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
