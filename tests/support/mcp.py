"""MCP servers in processes of their own, and what these tests ask of them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.agents import agent, results
from tests.support.commands import environment
from tests.support.sizes import ROOT
from think_agent import Agent, Tool, ToolCall, ToolResult
from think_agent.testing import think

SHOP = [sys.executable, "-m", "tests.servers.mcp_shop"]


def hostile(kind: str, *words: str) -> list[str]:
    """The command of a server that is one of a kind (tests/servers/mcp_hostile.py)."""
    return [sys.executable, str(ROOT / "tests/servers/mcp_hostile.py"), kind, *words]


def command(ledger: Path) -> dict[str, Any]:
    """The arguments of a Server for the shop as a trusted command, with its ledger."""
    return {"address": SHOP, "env": {"LEDGER": str(ledger)}, "trusted": True}


def calling(tools: list[Tool], *calls: ToolCall, **settings: object) -> Agent:
    """An agent that makes these calls, each with a thought of its own."""
    replies = [(think("why"), call) for call in calls]
    return agent(*replies, "Done.", tools=tools, **settings)


def made(tools: list[Tool], *calls: ToolCall, **settings: object) -> list[ToolResult]:
    """The results of these calls."""
    outcome = calling(tools, *calls, **settings).run("Go.")
    return [result for result in results(outcome) if result.name != "think"]


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def lines(path: Path) -> list[str]:
    """The lines of a file; none if there is no file."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def is_running(pid: int) -> bool:
    """Is there such a process, and has it not ended?"""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def children() -> set[int]:
    """The processes that this one has started, zombies included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            status = path.read_text(encoding="utf-8")
        except OSError:
            continue
        if int(status.rpartition(")")[2].split()[1]) == os.getpid():
            found.add(int(path.parent.name))
    return found


@contextmanager
def shop_over_http(port: int = 0, **env: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The shop's URL and process."""
    port = port or free_port()
    process = subprocess.Popen(
        [*SHOP, str(port)],
        cwd=ROOT,
        env=environment(**env),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: answers(port))
        yield f"http://127.0.0.1:{port}/mcp", process
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def answers(port: int) -> bool:
    """Does a server listen there?"""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
