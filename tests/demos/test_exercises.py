"""Each exercise is red as it stands, and green with its solution."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import environment
from tests.support.sizes import ROOT

FOLDER = ROOT / "demos/exercises"
EXERCISES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
SOLUTIONS = (FOLDER / "SOLUTIONS.md").read_text(encoding="utf-8")
BEGINS, ENDS = "    # Your code begins.\n", "    # Your code ends.\n"


def is_green(path: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", path]
    env = environment(PYTHONPATH=str(ROOT))
    return subprocess.run(command, cwd=path.parent, env=env, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_is_red_and_its_solution_of_ten_lines_makes_it_green(tmp_path, name):
    task = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    [solution] = re.findall(rf"^## {name}\n\n```python\n(.*?)^```", SOLUTIONS, re.M | re.S)
    assert len(solution.splitlines()) <= 10
    assert "\nTask: " in task
    assert "\nHint: " in task
    assert task.count(BEGINS + ENDS) == 1
    work = tmp_path / f"{name}.py"
    work.write_text(task, encoding="utf-8")
    assert not is_green(work)
    work.write_text(task.replace(BEGINS, BEGINS + solution), encoding="utf-8")
    assert is_green(work)


def test_the_page_lists_every_exercise():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(EXERCISES) == 8
    for name in EXERCISES:
        assert f"]({name}.py)" in page
