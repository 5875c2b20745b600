"""The README says what is so: its code runs and its figures are true."""

import re

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
    listed = {path for path, _ in readme.ORDER}
    core = {
        f"think_agent/{path.name}"
        for path in (readme.ROOT / "think_agent").glob("*.py")
        if path.name not in ("__init__.py", "__main__.py", "cli.py")
    }
    assert core <= listed
