"""The command `think-agent`: what it says of itself, and of what is missing or misspelled."""

import subprocess
import sys

import pytest

from tests.support.commands import ROOT, run_here


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("think_agent", 0, "Commands:\n  audit "),
        ("think_agent eval", 2, "Usage: think-agent eval [OPTIONS] CASES"),
        ("think_agent audit", 2, "Usage: think-agent audit [OPTIONS] RUN.jsonl"),
        ("think_agent --version", 0, "0."),
        ("demos.fleet", 0, "Commands:\n  enqueue "),
    ],
)
def test_a_command_without_its_argument_explains_itself(words, code, said):
    done = run_here(*words.split())
    assert (done.returncode, done.stderr) == (code, "")
    assert said in done.stdout


@pytest.mark.parametrize("command", ["think_agent", "demos.fleet"])
def test_the_help_of_a_group_cuts_no_line(command):
    said = run_here(command, "--help", COLUMNS="60").stdout.partition("Commands:")[2]
    assert "..." not in said
    assert max(map(len, said.splitlines())) <= 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("evla", "No such command 'evla'. Did you mean 'eval'?"),
        ("probe --provder ollama", "--provider"),
        ("probe --provider gemni", "did you mean gemini?"),
        ("probe --provider auto", "--provider: name a real one"),
    ],
)
def test_what_is_misspelled_is_one_line_with_a_suggestion(words, said):
    done = run_here("think_agent", *words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("provider", "module", "package", "what"),
    [
        ("anthropic", "anthropic", "anthropic", '".[anthropic]"'),
        ("openai", "openai", "openai", '".[openai]"'),
        ("gemini", "google.genai", "google-genai", '".[gemini]"'),
        ("ollama", "ollama", "ollama", "."),
    ],
)
def test_a_missing_sdk_is_named_with_the_command_that_installs_it(
    monkeypatch, provider, module, package, what
):
    """As a change of the clone that stays one: `-e`."""
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"think_agent.providers.{provider}", raising=False)
    done = run_here("demos.refund", "x", "--provider", provider)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"the package {package} is not installed" in done.stderr
    assert done.stderr.endswith(f"pip install -e {what}\n")


def test_auto_without_the_package_of_ollama_says_so_and_plays_the_stand_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "ollama", None)
    monkeypatch.delitem(sys.modules, "think_agent.providers.ollama", raising=False)
    done = run_here("demos.refund", "ORD-001", "--provider", "auto")
    assert (done.returncode, "refund desk · offline:stand-in" in done.stdout) == (0, True)
    assert done.stderr.startswith("ollama: the package ollama is not installed")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize(
    "command", ["demos.refund --provider offline --json ORD-001", "think_agent"]
)
@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        (">&-", 1, "error: stdout is closed"),
        (">/dev/full", 1, "error: [Errno 28] No space left on device"),
        ("<&-", 0, ""),
    ],
)
def test_a_stream_that_is_closed_or_full_is_one_line(command, streams, code, said):
    words = ["sh", "-c", f"exec {sys.executable} -m {command} {streams}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (code, bool(said))
    assert done.stderr.startswith(said)
