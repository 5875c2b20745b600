"""Importing the package does nothing, in a fresh interpreter and an empty folder."""

import os
import pydoc
import subprocess
import sys
from pathlib import Path

import think_agent

PACKAGE = Path(think_agent.__file__).parent
SDKS = ["ollama", "anthropic", "openai", "google.genai", "mcp"]
HEAVY = ["httpx", "httpx2", "httpcore", "requests", "aiohttp", "asyncio", "rich", "sqlite3"]
HEAVY += ["pydantic.fields", "pydantic.dataclasses", "jsonschema", "logging", "_hashlib", "email"]


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


def test_all_public_names_can_be_imported():
    names = """Agent Outcome Turn tool Tool connect Model ScriptedModel Request User Assistant
        ToolResult ToolCall Usage Verdict Started Checked Ended Paused CallModel CallTool Refuse
        AskHuman Check Done next_step Force Step Policy Event Price Action CheckFunction Source
        ModelError AuthError RateLimited Overloaded BadRequest ModelNotFound ConnectionFailed
        TimedOut BadResponse TranscriptError NoResult NothingDone"""
    assert [name for name in names.split() if not hasattr(think_agent, name)] == []
    assert set(names.split()) <= set(think_agent.__all__)


def test_the_help_of_agent_names_types_and_shows_no_addresses():
    shown = pydoc.plain(pydoc.render_doc(think_agent.Agent))
    assert "tools: 'Iterable[Tool]' = ()" in shown
    assert "think: 'Tool | None' = <Tool think>" in shown
    assert "approve: 'Approve | None' = None" in shown
    assert "on_event: 'OnEvent' = None" in shown  # from 3.13 on, each parameter has its line
    assert "-> 'Outcome[Data]'" in shown
    assert " at 0x" not in shown


def test_without_ollama_its_sdk_is_not_loaded():
    """`--provider auto` asks its port first. The SDK takes a third of a second to load."""
    script = (
        "import sys; from think_agent.cli.choosing import make_named_model;"
        "model = make_named_model('auto');"
        "sys.exit(repr((model.name, 'ollama' in sys.modules)))"
    )
    env = {"PATH": os.defpath, "PYTHONPATH": str(PACKAGE.parent), "OLLAMA_HOST": "127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60
    )
    *notices, seen = done.stderr.splitlines()
    assert "no server at http://127.0.0.1:9 (OLLAMA_HOST); start it" in notices[0]
    assert seen == "('offline', False)"
