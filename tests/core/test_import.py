"""Importing does nothing: seen from a fresh interpreter in an empty folder."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import think_agent

PACKAGE = Path(think_agent.__file__).parent
SDKS = ["ollama", "anthropic", "openai", "google.genai"]
HEAVY = ["httpx", "httpx2", "httpcore", "requests", "aiohttp", "asyncio", "rich", "sqlite3"]
CORE = ["messages", "loop", "think", "tools", "schema", "model", "agent", "running", "outcome"]
CORE += ["policies", "trail", "waiting"]
INNER = {*CORE, "errors", "streaming", "context"}  # what the core may import


def test_importing_loads_no_sdk_prints_nothing_and_leaves_no_file(tmp_path):
    unwanted = repr([*SDKS, *HEAVY])
    code = f"import sys, think_agent; sys.exit(repr([m for m in {unwanted} if m in sys.modules]))"
    # -B: the byte code of the package itself is Python's doing, not ours
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", code],
        cwd=tmp_path,
        env={"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == ""
    assert done.stderr == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_everything_promised_is_there():
    assert all(hasattr(think_agent, name) for name in think_agent.__all__)
    assert list(think_agent.__all__) == sorted(think_agent.__all__, key=_constants_first)
    names = """Agent Outcome tool connect ScriptedModel Request User Assistant ToolResult ToolCall
        Usage CallModel CallTools Refuse AskHuman Done next_step Force ModelError AuthError
        RateLimited Overloaded BadRequest ModelNotFound ConnectionFailed TimedOut BadResponse"""
    assert set(names.split()) <= set(think_agent.__all__)


def _constants_first(name):
    return (not name.isupper(), not name[0].isupper(), name)


def test_the_core_imports_nothing_from_the_outer_modules():
    """At import, that is: a path or a default may bring in `transcript` when it is used."""
    files = [PACKAGE / f"{module}.py" for module in CORE if module != "policies"]
    inner = {*INNER, "dialects.schemas"}
    for path in [*files, *(PACKAGE / "policies").glob("*.py")]:
        module = path.stem
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level == (1 + (path.parent != PACKAGE)):
                names = [node.module] if node.module else [alias.name for alias in node.names]
                assert set(names) <= inner, f"{module}.py imports {names}"
