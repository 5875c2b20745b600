"""A printed command can be copied: it runs where it was printed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import decisions, environment
from tests.support.sizes import ROOT
from think_agent.cli.shell import on_lines, quote

BIN = Path(sys.executable).parent
WAITS = "'ORD-004' --provider offline --approve ask --transcript 'my run.jsonl'"


def shell(line: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A line that a person types."""
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def advised(shown: str) -> str:
    """The command below "Continue with:"."""
    return shown.partition("Continue with:\n")[2].rstrip("\n")


@pytest.mark.parametrize(
    ("typed", "on_path", "printed"),
    [
        ("{bin}/think-agent demo", False, "{bin}/think-agent demo"),
        ("think-agent demo", True, "think-agent demo"),
        ("./venv/bin/think-agent demo", False, "./venv/bin/think-agent demo"),
        ("{bin}/python -m think_agent demo", False, "{bin}/python -m think_agent demo"),
        ("python -m think_agent demo", True, "python -m think_agent demo"),
        ("./venv/bin/python -m demos.refund", False, "./venv/bin/python -m demos.refund"),
        ("PATH={bin}:$PATH; UV=uv think-agent demo", False, "{bin}/think-agent demo"),
        ("PATH={bin}:$PATH; UV=uv python -m demos.refund", False, "{bin}/python -m demos.refund"),
    ],
    ids=["path", "name", "relative", "module", "module, name", "clone", "uvx", "uv run"],
)
def test_a_paused_run_goes_on_with_the_command_that_it_prints(tmp_path, typed, on_path, printed):
    (tmp_path / "venv").symlink_to(BIN.parent)
    path = f"{BIN}:/usr/bin:/bin" if on_path else "/usr/bin:/bin"
    first = shell(f"{typed.format(bin=BIN)} {WAITS}", tmp_path, PATH=path)
    command = advised(first.stdout)
    assert command.startswith(f"{printed.format(bin=BIN)} --resume 'my run.jsonl' "), first
    assert decisions(tmp_path / "my run.shop.db") == []
    rule = command.replace("--approve ask", "--approve 'always-under 600'")
    again = shell(rule, tmp_path, PATH=path)
    assert again.returncode == 0, again
    assert decisions(tmp_path / "my run.shop.db") == [("ORD-004", "approve")]


def test_the_desk_imports_nothing_of_the_clone_by_its_name():
    """In the wheel the package has another name (pyproject.toml)."""
    absolute = []
    for path in (ROOT / "demos/refund").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                absolute.append(str(node.module))
            elif isinstance(node, ast.Import):
                absolute += [alias.name for alias in node.names]
    assert [name for name in absolute if name.partition(".")[0] in ("demos", "tests")] == []


@pytest.mark.parametrize(
    ("platform", "word", "expected"),
    [
        ("linux", "my run.jsonl", "'my run.jsonl'"),
        ("linux", "it's", "'it'\"'\"'s'"),
        ("win32", r"C:\runs\a.jsonl", r"C:\runs\a.jsonl"),
        ("win32", r"my runs\a.jsonl", r"'my runs\a.jsonl'"),
        ("win32", "it's $580", "'it''s $580'"),
        ("win32", "a,b", "'a,b'"),  # else PowerShell makes two of it
    ],
)
def test_a_command_is_quoted_for_the_shell_of_the_system(monkeypatch, platform, word, expected):
    monkeypatch.setattr("sys.platform", platform)
    assert quote(word) == expected


@pytest.mark.parametrize(("platform", "goes_on"), [("linux", "\\"), ("win32", "`")])
def test_a_long_command_goes_on_in_the_next_line(monkeypatch, platform, goes_on):
    monkeypatch.setattr("sys.platform", platform)
    assert on_lines(["python", "--resume", "a"]) == f"python {goes_on}\n  --resume {goes_on}\n  a"


def test_with_stdin_closed_the_desk_says_that_the_request_is_empty():
    ran = shell(f"{quote(sys.executable)} -m demos.refund --provider offline <&-", ROOT)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("error: the request is empty")
