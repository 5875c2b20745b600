"""Which tau2 `demos/tau2.py` plays. No tau2 is needed: its metadata alone is on the path."""

import pytest

from tests.support.commands import ROOT, run_here

CASES = "tests/data/tau2_mock.jsonl"
COMMANDS = [
    "demos.tau2 airline",
    f"think_agent eval {CASES} --suite demos.tau2 --provider offline:clerk",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("2.0.0", "tau2 2.0.0 is not tau2-bench 1.0.1, and its figures cannot be compared"),
        ("1.0.0", "tau2 1.0.0 is not tau2-bench 1.0.1"),
        ("2.4.0", "tau2 2.4.0 is not tau2-bench 1.0.1"),  # another project, on PyPI
    ],
)
def test_another_tau2_is_refused_in_one_line(tmp_path, monkeypatch, command, version, says):
    described = tmp_path / f"tau2-{version}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tau2\nVersion: {version}\n")
    out = tmp_path / "results.jsonl"
    words = command.split()
    if "eval" in words:
        words += ["--out", str(out)]
    monkeypatch.syspath_prepend(tmp_path)
    done = run_here(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: {says}")
    assert "git clone --branch v1.0.1" in done.stderr
    assert not out.exists()


def test_the_page_pins_the_same_version():
    page = (ROOT / "think_agent/evaluation/README.md").read_text(encoding="utf-8")
    assert "git clone --branch v1.0.1 https://github.com/sierra-research/tau2-bench" in page
