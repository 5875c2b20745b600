"""Without tau2-bench, `demos.tau2` says in one line what to install."""

import os
import subprocess
import sys

import pytest

from tests.support.sizes import ROOT

OTHER_PROJECT = {"tau2/__init__.py": ""}  # what PyPI has under that name
NOTHING = {"loguru.py": "raise ModuleNotFoundError(\"No module named 'loguru'\")"}
HOW = (
    "tau2-bench is not installed; with Python 3.12 or 3.13 run: git clone --branch v1.0.1 "
    "https://github.com/sierra-research/tau2-bench && pip install -e tau2-bench"
)
EVAL = ("think_agent", "eval", "demos/refund/cases.jsonl", "--suite", "demos.tau2")


@pytest.mark.parametrize("installed", [NOTHING, OTHER_PROJECT], ids=["nothing", "another project"])
@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("demos.tau2", "airline"), 2, f"error: {HOW}"),
        (EVAL, 2, f"error: {HOW}"),
    ],
)
def test_it_says_in_one_line_what_to_install(tmp_path, installed, words, code, line):
    for name, text in installed.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}  # before what is installed
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
