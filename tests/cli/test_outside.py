"""Without a clone: the commands of the wheel, in an environment that has nothing else.

`.ci/run` makes that environment, and THINK_AGENT_TEST_WHEEL is the folder of its programs.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_shell import WAITS, advised, shell
from tests.support.commands import decisions, environment
from tests.support.sizes import ROOT

BIN = Path(os.environ.get("THINK_AGENT_TEST_WHEEL", "."))
pytestmark = pytest.mark.skipif(
    "THINK_AGENT_TEST_WHEEL" not in os.environ,
    reason="needs the wheel in an environment of its own; runs in .ci/run",
)


def run(
    folder: Path, *words: str | Path, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """A program of that environment, in a folder outside the clone."""
    command = [BIN / words[0], *words[1:]]
    return subprocess.run(
        command, cwd=folder, env=environment(**env), input=stdin, capture_output=True, text=True
    )


def test_nothing_of_the_clone_is_there(tmp_path):
    code = "import sys, think_agent; print(think_agent.__file__, *sys.path)"
    assert str(ROOT) not in run(tmp_path, "python", "-c", code).stdout
    assert "ModuleNotFoundError" in run(tmp_path, "python", "-c", "import demos").stderr


def test_the_demo_decides_a_refund(tmp_path):
    done = run(tmp_path, "think-agent", "demo", "I want a refund on ORD-001", "--db", "shop.db")
    assert done.returncode == 0, done.stderr
    assert decisions(tmp_path / "shop.db") == [("ORD-001", "approve")]
    assert "no language model is at work" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("start", ["think-agent demo", "python -m think_agent_demos.refund"])
def test_the_command_that_a_paused_run_prints_resumes_it(tmp_path, start):
    first = shell(f"{BIN}/{start} {WAITS}", tmp_path)
    assert first.returncode == 3, first
    rule = advised(first.stdout).replace("--approve ask", "--approve 'always-under 600'")
    again = shell(rule, tmp_path)
    assert again.returncode == 0, again
    assert decisions(tmp_path / "my run.shop.db") == [("ORD-004", "approve")]


def test_an_agent_in_a_file_talks(tmp_path):
    agent = 'from think_agent import Agent, ScriptedModel\nagent = Agent(ScriptedModel(["Hi!"]))\n'
    (tmp_path / "mine.py").write_text(agent)
    done = run(tmp_path, "think-agent", "chat", "mine.py:agent", stdin="Hello\n")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Hi!" in done.stdout


def test_the_desk_is_a_suite_for_the_evaluation(tmp_path):
    code = "from think_agent_demos.refund.shop import HERE; print(HERE / 'cases.jsonl')"
    cases = run(tmp_path, "python", "-c", code).stdout.strip()
    suite = ["--suite", "think_agent_demos.refund.suite", "--provider", "offline:careful"]
    done = run(tmp_path, "think-agent", "eval", cases, *suite)
    assert done.returncode == 0, done.stderr


GATE = ("think-agent", "gate", "--record", "run.jsonl", "--")


def test_the_gate_stands_before_a_server_or_says_what_is_missing(tmp_path):
    """Under `uvx` there is no pip, and the wheel is named from which the program was installed."""
    till = [BIN / "python", ROOT / "tests/servers/mcp_till.py"]
    done = run(tmp_path, *GATE, *till, LEDGER="ledger")  # the client leaves at once
    if run(tmp_path, "python", "-c", "import mcp").returncode == 0:
        assert done.returncode == 0
        assert done.stdout == ""
        assert "gate: 3 tools, 3 of them only with a thought" in done.stderr
        return
    assert done.stderr == 'error: the gate needs an SDK; run: pip install "think-agent[mcp]"\n'
    assert done.returncode == 2
    in_uvx = run(tmp_path, *GATE, *till, LEDGER="ledger", UV="uv").stderr
    assert 'run: uvx --from "think-agent[mcp] @ file:///' in in_uvx
    assert in_uvx.endswith('.whl" think-agent\n')
