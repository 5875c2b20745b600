"""The benchmark runs and prints its tables. People judge the numbers."""

import re
import subprocess
import sys

import pytest

from tests.benchmarks.conversation import ACTIONS, FUNCTIONS
from tests.benchmarks.core import limited
from tests.benchmarks.overhead import ratio
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
    assert ours.description == declared["description"]
    assert ours.parameters == declared["parameters"]


@pytest.mark.parametrize(
    ("kit", "typed", "cell"),
    [
        ([2, 2, 2], [1, 1, 1], "2.00"),
        ([2, 2.2, 2.4], [1, 1, 1], "2.20"),
        ([3, 4, 5], [2, 2, 2], "2.00 (1.50–2.50)"),
        ([3, 4], [3, 3], "1.17 (1.00–1.33)"),
        ([1], [2], "0.50"),
    ],
)
def test_a_ratio_that_moves_by_a_third_has_its_band(kit, typed, cell):
    rounds = [{"kit": ours, "typed": theirs} for ours, theirs in zip(kit, typed, strict=True)]
    assert ratio(rounds, "typed") == cell
    assert ratio(rounds, "raw") == "–"


@pytest.mark.parametrize(
    ("cell", "at_most", "shown"),
    [("0.15", 0.15, "0.15"), ("0.151", 0.15, "0.151 ✗"), ("1.49", 1.5, "1.49"), ("11", 10, "11 ✗")],
)
def test_the_command_marks_what_is_over_its_limit(cell, at_most, shown):
    assert limited(cell, at_most) == shown
