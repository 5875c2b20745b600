"""The README says what is so: its code runs and its figures are true."""

import re

import pytest

from tests import readme

TEXT = readme.README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_code_block_runs(number):
    exec(compile(BLOCKS[number], f"README block {number + 1}", "exec"), {"__name__": "readme"})


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
