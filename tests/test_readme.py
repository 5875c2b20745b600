"""The README says what is so: its code runs and its figures are true."""

import re

import pytest

from tests import line_counts

TEXT = line_counts.README.read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_code_block_runs(number):
    exec(compile(BLOCKS[number], f"README block {number + 1}", "exec"), {"__name__": "readme"})


def test_the_line_counts_are_true():
    table = TEXT.split(line_counts.BEGIN)[1].split(line_counts.END)[0]
    assert table == line_counts.table(), "run: python -m tests.line_counts --write"


def test_every_module_is_in_the_reading_order():
    listed = {path for path, _ in line_counts.ORDER}
    core = {
        f"think_agent/{path.name}"
        for path in (line_counts.ROOT / "think_agent").glob("*.py")
        if path.name not in ("__init__.py", "__main__.py", "cli.py")
    }
    assert core <= listed
