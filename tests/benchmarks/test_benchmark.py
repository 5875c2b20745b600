"""The benchmark runs and prints its tables. People judge the numbers."""

import subprocess
import sys

import pytest

from tests.benchmarks.conversation import ACTIONS, FUNCTIONS
from tests.support.sizes import ROOT
from think_agent import tool


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="os.wait4 is POSIX")
def test_the_quick_page_has_every_table():
    command = [sys.executable, "-m", "tests.benchmarks.page", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tables = [table.splitlines() for table in done.stdout.split("\n\n") if table.startswith("|")]
    assert [len(table) for table in tables] == [5, 4, 12, 3, 3, 3, 9, 9, 9]
    for other, (head, _, *rows) in zip(["typed", "raw", "http"], tables[-3:], strict=True):
        assert head == f"| kit / {other} | at most | ollama |"
        assert all("**" in row and row.count("|") == 4 for row in rows)


@pytest.mark.parametrize("declared", ACTIONS, ids=lambda declared: declared["name"])
def test_both_sides_declare_the_same_tools(declared):
    ours = tool(FUNCTIONS[declared["name"]])
    assert (ours.description, ours.parameters) == (declared["description"], declared["parameters"])
