"""Each exercise is red as it stands, and green with its solution."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.commands import environment
from tests.support.sizes import ROOT

FOLDER = ROOT / "demos/exercises"
EXERCISES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
SOLUTIONS = (FOLDER / "SOLUTIONS.md").read_text(encoding="utf-8")
BEGINS, ENDS = "    # Your code begins.\n", "    # Your code ends.\n"


def colors(folder: Path) -> dict[str, str]:
    """What becomes of each exercise in a folder: "PASSED" if all of its tests pass."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rA", "-p", "no:cacheprovider"]
    paths = sorted(folder.glob("*.py"))
    shown = subprocess.run(
        [*command, *paths],
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        encoding="utf-8",
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR) (\w+)\.py", shown.stdout, re.M)
    return {name: color for color, name in sorted(found, reverse=True)}  # "FAILED" is the last


def test_an_exercise_is_red_and_its_solution_of_ten_lines_makes_it_green(tmp_path):
    for name in EXERCISES:
        task = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        [solution] = re.findall(rf"^## {name}\n\n```python\n(.*?)^```", SOLUTIONS, re.M | re.S)
        assert len(solution.splitlines()) <= 10
        assert "\nTask: " in task
        assert "\nHint: " in task
        assert task.count(BEGINS + ENDS) == 1
        solved = task.replace(BEGINS, BEGINS + solution)
        for folder, text in (("red", task), ("green", solved)):
            path = tmp_path / folder / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    assert colors(tmp_path / "red") == dict.fromkeys(EXERCISES, "FAILED")
    assert colors(tmp_path / "green") == dict.fromkeys(EXERCISES, "PASSED")


def test_the_page_lists_every_exercise():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(EXERCISES) == 8
    for name in EXERCISES:
        assert f"]({name}.py)" in page
