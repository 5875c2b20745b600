"""The README says what is so: its code runs and its figures are true."""

import re
import subprocess
import sys

import pytest

from tests import readme

TEXT = readme.README.read_text(encoding="utf-8")
PYTHON = re.compile(r"(<!-- goes on -->\n)?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs() -> list[str]:
    """The code blocks, those that go on with the one before joined to it."""
    found: list[str] = []
    for goes_on, code in PYTHON.findall(TEXT):
        if goes_on:
            found[-1] += code
        else:
            found.append(code)
    return found


@pytest.mark.parametrize("number", range(len(programs())))
def test_every_code_block_runs(number):
    exec(compile(programs()[number], f"README block {number + 1}", "exec"), {"__name__": "readme"})


def test_the_made_parts_are_up_to_date():
    assert readme.written(TEXT) == TEXT, "run: python -m tests.readme --write"


def test_every_module_is_in_the_reading_order():
    listed = {path for path, _ in (*readme.CORE, *readme.REST)}
    core = {
        f"think_agent/{path.name}"
        for path in (readme.ROOT / "think_agent").glob("*.py")
        if path.name not in ("__init__.py", "__main__.py", "cli.py")
    }
    assert core <= listed


def test_your_own_agent_is_made_as_the_section_says(tmp_path):
    """The first two blocks are `pantry.py`, the third is its test."""
    section = TEXT.split("## Write your own agent")[1].split("\n## ")[0]
    tools, agent, test = (code for _, code in PYTHON.findall(section))
    (tmp_path / "pantry.py").write_text(tools + agent)
    (tmp_path / "test_pantry.py").write_text("from pantry import STOCK, make_agent\n" + test)
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pantry.py"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
    own = subprocess.run(
        [sys.executable, "pantry.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Do we need coffee?" in own.stdout
