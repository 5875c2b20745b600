"""The benchmark runs and prints its table. What is in the table is for people to look at."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.conversation import ACTIONS, FUNCTIONS
from think_agent import tool

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform == "win32", reason="os.wait4 is POSIX")
def test_the_quick_benchmark_prints_a_row_per_measure():
    command = [sys.executable, "-m", "tests.benchmarks.overhead", "--quick"]
    done = subprocess.run(
        [*command, "--provider", "openai-chat"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    head, _, *rows = done.stdout.splitlines()
    assert head.endswith("| openai-chat |")
    assert len(rows) == 11
    assert all("**" in row and row.count("|") == 4 for row in rows)


@pytest.mark.parametrize("declared", ACTIONS, ids=lambda declared: declared["name"])
def test_both_sides_declare_the_same_tools(declared):
    ours = tool(FUNCTIONS[declared["name"]])
    assert (ours.description, ours.parameters) == (declared["description"], declared["parameters"])
