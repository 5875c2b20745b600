"""Agents that somebody wrote from the READMEs alone: both type checkers take them, and they run.

So do the READMEs' own. `.ci/run` also runs the one in `outside.py` on the wheel, without the clone.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import readme
from tests.support.commands import environment
from tests.support.sizes import ROOT

AGENTS = sorted((ROOT / "tests/data/own_agents").glob("*.py"))
PYRIGHT = Path(sys.executable).with_name("basedpyright")
KEPT = """
from think_agent import tool

@tool
def add(x: str) -> int:
    \"\"\"Add.\"\"\"
    return 1

sum: int = add("x")
"""
WRONG = {"unknown": 'add("x", foo=3)\n', "of_another_type": "text: str = add('x')\n"}


def mypy(folder: Path) -> subprocess.CompletedProcess[str]:
    env = environment(MYPYPATH=str(ROOT), MYPY_CACHE_DIR=str(folder / "cache"))
    command = [sys.executable, "-m", "mypy", "--strict", "."]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def basedpyright(folder: Path) -> subprocess.CompletedProcess[str]:
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [PYRIGHT, "--pythonpath", sys.executable, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


HAS_PYRIGHT = pytest.mark.skipif(not PYRIGHT.exists(), reason="needs pip install basedpyright")
CHECKERS = [mypy, pytest.param(basedpyright, marks=HAS_PYRIGHT)]


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_every_agent_that_the_readmes_show_or_led_to_has_types(tmp_path, checker):
    """On files outside the kit, as a user would check them. A tool keeps the types of its function:
    nothing but its wrong calls is reported.
    """
    for page in readme.readmes():
        folder = "_".join(page.relative_to(ROOT).parent.parts) or "root"
        for number, code in enumerate(readme.programs(page.read_text(encoding="utf-8"))):
            name = f"block_{folder}_{number}"
            if page == readme.README and "def make_agent" in code:
                name = "pantry"  # the blocks after it import it by this name
            (tmp_path / f"{name}.py").write_text(code)
    for path in AGENTS:
        shutil.copy(path, tmp_path)
    (tmp_path / "right.py").write_text(KEPT)
    for name, line in WRONG.items():
        (tmp_path / f"{name}.py").write_text(KEPT + line)
    done = checker(tmp_path)
    assert done.returncode == 1
    reported = re.findall(r"(\w+)\.py:(\d+).* error", done.stdout)
    assert sorted(reported) == [(name, "10") for name in sorted(WRONG)], done.stdout


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_an_agent_of_ones_own_runs(tmp_path, path):
    if "fastapi" in path.read_text(encoding="utf-8"):
        pytest.importorskip("fastapi", reason='needs pip install -e ".[web]"')
    env = environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout
