"""The benchmark runs and prints its tables. People judge the numbers."""

import re
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
    assert [len(table) for table in tables] == [5, 4, 12, 3, 3, 3, 9]
    head, _, *rows = tables[-1]
    assert head == "| kit / typed, raw, http | ollama |"
    cell = r"\d+\.\d\d, \d+\.\d\d, \d+\.\d\d"
    assert all(re.fullmatch(rf"\| [^|]+ \| {cell} \|", row) for row in rows)


@pytest.mark.parametrize("declared", ACTIONS, ids=lambda declared: declared["name"])
def test_both_sides_declare_the_same_tools(declared):
    ours = tool(FUNCTIONS[declared["name"]])
    assert (ours.description, ours.parameters) == (declared["description"], declared["parameters"])
