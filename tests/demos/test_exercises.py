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


def copy_exercises(folder: Path, *, solved: bool) -> None:
    """The exercises in a folder, with their solutions if wanted."""
    for name in EXERCISES:
        task = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        if solved:
            task = task.replace(BEGINS, BEGINS + SOLUTIONS[name])
        (folder / f"{name}.py").write_text(task, encoding="utf-8")


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_has_a_task_a_hint_and_a_place_for_ten_lines(name):
    task = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert "\nTask: " in task
    assert "\nHint: " in task
    assert task.count(BEGINS + ENDS) == 1
    assert len(SOLUTIONS[name].splitlines()) <= 10


@pytest.mark.slow
def test_every_exercise_is_red(tmp_path):
    copy_exercises(tmp_path, solved=False)
    assert failing(tmp_path) == set(EXERCISES)


def test_every_solution_makes_its_exercise_green(tmp_path):
    copy_exercises(tmp_path, solved=True)
    assert failing(tmp_path) == set()


@pytest.mark.slow
def test_every_solution_has_types(tmp_path):
    copy_exercises(tmp_path, solved=True)
    env = environment(MYPYPATH=str(ROOT), MYPY_CACHE_DIR=str(tmp_path / "cache"))
    command = [sys.executable, "-m", "mypy", "--strict", "."]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_page_lists_every_exercise():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(EXERCISES) == 9
    for name in EXERCISES:
        assert f"]({name}.py)" in page
