"""Each exercise is red as it stands, and green with its solution."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.commands import environment
from tests.support.sizes import ROOT

FOLDER = ROOT / "demos/exercises"
EXERCISES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
SOLUTIONS = dict(
    re.findall(
        r"^## (\w+)\n\n```python\n(.*?)^```",
        (FOLDER / "SOLUTIONS.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)
BEGINS, ENDS = "    # Your code begins.\n", "    # Your code ends.\n"


def failing(folder: Path) -> set[str]:
    """The exercises in a folder of which a test fails."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    command += sorted(folder.glob("*.py"))
    env = environment(PYTHONPATH=str(ROOT))
    shown = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    failed = set(re.findall(r"^FAILED (\w+)\.py", shown.stdout, re.MULTILINE))
    assert shown.returncode == (1 if failed else 0)
    return failed


def test_an_exercise_is_red_and_its_solution_of_ten_lines_makes_it_green(tmp_path):
    for name in EXERCISES:
        task = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert len(SOLUTIONS[name].splitlines()) <= 10
        assert "\nTask: " in task
        assert "\nHint: " in task
        assert task.count(BEGINS + ENDS) == 1
        (tmp_path / f"{name}.py").write_text(task, encoding="utf-8")
    assert failing(tmp_path) == set(EXERCISES)

    for path in tmp_path.glob("*.py"):
        task = path.read_text(encoding="utf-8")
        path.write_text(task.replace(BEGINS, BEGINS + SOLUTIONS[path.stem]), encoding="utf-8")
    assert failing(tmp_path) == set()


def test_the_page_lists_every_exercise():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(EXERCISES) == 9
    for name in EXERCISES:
        assert f"]({name}.py)" in page
