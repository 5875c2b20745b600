"""Servers that others wrote: listed, called and killed. They are installed by hand, or by .ci/run:

npm install --prefix DIR @modelcontextprotocol/server-{everything,filesystem,memory}
npm install --prefix DIR @modelcontextprotocol/server-sequential-thinking
python -m venv DIR/python && DIR/python/bin/pip install mcp-server-time mcp-server-git
THINK_AGENT_TEST_MCP=DIR pytest -m mcp_servers
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason='needs pip install -e ".[mcp]"')

from tests.support.agents import results
from tests.support.commands import environment
from tests.support.mcp import answers, calling, children, free_port, is_running, made, until
from think_agent import NoResult, Tool
from think_agent.integrations.mcp import Server
from think_agent.testing import call

FOLDER = os.environ.get("THINK_AGENT_TEST_MCP", "")
NPM = Path(FOLDER, "node_modules/.bin")
PYTHON = Path(FOLDER, "python/bin")

pytestmark = pytest.mark.mcp_servers


def path_of(name: str) -> str:
    """The program of a server. Without it, the test is skipped with a reason."""
    if not FOLDER:
        pytest.skip("set THINK_AGENT_TEST_MCP to the folder of the servers (see above)")
    for folder in (NPM, PYTHON):
        if (folder / name).exists():
            return str(folder / name)
    if not shutil.which("npm"):
        pytest.skip("npm is absent, and the servers from npm with it")
    raise AssertionError(f"{name} is not installed in {FOLDER}")


@dataclass
class Known:
    """What is known of a server: some of its guards if it is trusted, and a call with its result.
    `DIR` is a folder of the test.
    """

    guards: dict[str, str]
    call: str
    arguments: dict[str, Any]
    result: str
    words: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


THOUGHT = {"thought": "So far: two.", "nextThoughtNeeded": False}
SERVERS = {
    "mcp-server-everything": Known(
        guards={"echo": "read_only", "toggle-simulated-logging": "think_first"},
        call="echo",
        arguments={"message": "tea"},
        result="Echo: tea",
    ),
    "mcp-server-filesystem": Known(
        guards={
            "read_text_file": "read_only",
            "write_file": "idempotent think_first needs_approval",
            "create_directory": "idempotent think_first",
        },
        call="write_file",
        arguments={"path": "DIR/tea.txt", "content": "Earl Grey"},
        result="Successfully wrote to DIR/tea.txt",
        words=("DIR",),
    ),
    "mcp-server-memory": Known(
        guards={"read_graph": "read_only", "create_entities": "think_first"},
        call="create_entities",
        arguments={"entities": [{"name": "tea", "entityType": "drink", "observations": ["hot"]}]},
        result='"name": "tea"',
        env={"MEMORY_FILE_PATH": "DIR/memory.jsonl"},
    ),
    "mcp-server-sequential-thinking": Known(
        guards={"sequentialthinking": "read_only"},
        call="sequentialthinking",
        arguments={**THOUGHT, "thoughtNumber": 2, "totalThoughts": 2},
        result='"thoughtHistoryLength": 1',
    ),
    "mcp-server-time": Known(
        guards={"convert_time": "read_only"},
        call="convert_time",
        arguments={
            "source_timezone": "Europe/Berlin",
            "time": "12:00",
            "target_timezone": "Asia/Tokyo",
        },
        result="Asia/Tokyo",
    ),
    "mcp-server-git": Known(
        guards={"git_status": "read_only", "git_commit": "think_first"},
        call="git_status",
        arguments={"repo_path": "DIR"},
        result="On branch",
        words=("--repository", "DIR"),
    ),
}


def placed(value: Any, folder: Path) -> Any:
    return json.loads(json.dumps(value).replace("DIR", str(folder)))


@contextmanager
def opened(name: str, folder: Path, **settings: Any) -> Iterator[list[Tool]]:
    """A server on a folder that is a git repository."""
    known = SERVERS[name]
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    words = [path_of(name), *placed(known.words, folder)]
    with Server(words, env=placed(known.env, folder), **settings) as tools:
        yield tools


def guards(item: Tool) -> str:
    names = ("read_only", "idempotent", "think_first", "needs_approval")
    return " ".join(name for name in names if getattr(item, name))


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_is_listed_and_called(name, tmp_path) -> None:
    known = SERVERS[name]
    with opened(name, tmp_path, trusted=True) as tools:
        listed = {item.name: guards(item) for item in tools}
        (result,) = made(
            tools, call(known.call, **placed(known.arguments, tmp_path)), approve=lambda _: True
        )
    assert {tool: listed[tool] for tool in known.guards} == known.guards
    assert placed(known.result, tmp_path) in result.content
    assert not result.is_error


@pytest.mark.parametrize("name", SERVERS)
def test_an_untrusted_server_is_asked_about(name, tmp_path) -> None:
    known = SERVERS[name]
    with opened(name, tmp_path) as tools:
        assert {guards(item) for item in tools} == {"think_first needs_approval"}
        asked = calling(tools, call(known.call, **placed(known.arguments, tmp_path))).run("Go.")
    assert asked.exit == "needs_human"
    assert results(asked, known.call) == []


@pytest.mark.parametrize("name", SERVERS)
def test_a_killed_server_was_sent_nothing(name, tmp_path) -> None:
    known = SERVERS[name]
    before = children()
    with opened(name, tmp_path, trusted=True) as tools:
        (server,) = children() - before
        os.killpg(server, signal.SIGKILL)
        until(lambda: not is_running(server))
        arguments = placed(known.arguments, tmp_path)
        until(
            lambda: (
                "nothing was sent"
                in made(tools, call(known.call, **arguments), approve=lambda _: True)[0].content
            )
        )


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_a_server_killed_in_a_call_gives_no_result(way) -> None:
    with everything(way, path_of("mcp-server-everything")) as (server, pid):

        async def kill(*_: object) -> None:  # as soon as it says that it is at work
            os.kill(pid, signal.SIGKILL)

        arguments = {"duration": 60, "steps": 600}
        work = server.call("trigger-long-running-operation", arguments, on_progress=kill)
        with pytest.raises(NoResult):
            asyncio.run(work)


@contextmanager
def everything(way: str, program: str) -> Iterator[tuple[Server, int]]:
    """The server of all features, open, and its process."""
    before = children()
    if way == "stdio":
        server = Server(program)
        with server:
            (pid,) = children() - before
            yield server, pid
        return
    port = free_port()
    process = subprocess.Popen(
        [program, "streamableHttp"],
        env=environment(PORT=str(port)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: answers(port))
        server = Server(f"http://127.0.0.1:{port}/mcp")
        with server:
            yield server, process.pid
    finally:
        process.kill()
        process.wait()


def test_npx_leaves_no_process_behind(tmp_path) -> None:
    path_of("mcp-server-memory")
    before = children()
    command = f"npx --no-install --prefix {FOLDER} mcp-server-memory"
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    with Server(command, trusted=True, only=["read_graph"], env=env) as tools:
        (launcher,) = children() - before
        assert "entities" in made(tools, call("read_graph"))[0].content
    until(lambda: not group_of(launcher))


def group_of(leader: int) -> list[int]:
    """The processes of a group that are running."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        try:
            is_member = os.getpgid(pid) == leader
        except OSError:
            continue
        if is_member and is_running(pid):
            found.append(pid)
    return found
