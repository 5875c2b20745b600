"""`think-agent gate` as a command on stdio: official clients, kills, signals, bad servers."""

import asyncio
import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("mcp", reason='needs pip install -e ".[mcp]"')

from mcp import MCPError
from mcp import types as wire

from tests.gate_soak import soak
from tests.support.commands import run
from tests.support.gates import ERAS, Till, pid_of_gate, recorded, text_of
from tests.support.mcp import hostile, is_running, until
from tests.support.sizes import ROOT
from think_agent import Ended
from think_agent.audit import read

WHY = "The bill is due."


@pytest.fixture
def till(tmp_path):
    return Till(tmp_path)


@pytest.mark.parametrize("era", ERAS)
def test_an_official_client_pays_behind_a_thought(till, era):
    async def talk() -> list[str]:
        async with till.session(era=era, TOKEN="secret") as gate:
            results = [
                await gate.call("pay", cents=5),
                await gate.call("think", thought=WHY),
                await gate.call("pay", cents=5),
                await gate.call("variable", name="TOKEN", thought=WHY),
            ]
            return [text_of(result) for result in results]

    refused, _, paid, token = asyncio.run(talk())
    assert "Call think first" in refused
    assert paid == "paid 5"
    assert token == "secret"  # of the client's configuration
    assert till.paid == [5]
    assert isinstance(read(till.record).messages[-1], Ended)
    assert "the record is run.jsonl" in till.log


FOLDER = os.environ.get("THINK_AGENT_TEST_MCP", "")
PACKAGES = Path(FOLDER, "node_modules")


@pytest.mark.mcp_servers
@pytest.mark.parametrize(
    ("package", "era"),
    [
        ("@modelcontextprotocol/sdk", "legacy"),
        ("@modelcontextprotocol/client", "legacy"),
        ("@modelcontextprotocol/client", "auto"),
    ],
)
def test_a_client_in_typescript_pays_behind_a_thought(till, package, era):
    """npm install --prefix DIR PACKAGE, for both; THINK_AGENT_TEST_MCP=DIR."""
    if not FOLDER:
        pytest.skip("set THINK_AGENT_TEST_MCP to the folder of the packages (see above)")
    if not (PACKAGES / package).exists():
        pytest.skip(f"{package} is not installed there: it needs npm")
    client = ["node", str(ROOT / "tests/servers/gate_client.cjs"), package, era]
    done = subprocess.run(
        [*client, *till.command()],
        cwd=till.folder,
        env=till.environment(NODE_PATH=str(PACKAGES)),
        capture_output=True,
        text=True,
    )
    read_by_client = json.loads(done.stdout)
    assert read_by_client["tools"] == ["think", "pay", "variable", "pid"]
    refused, *paid = read_by_client["texts"]
    assert "Call think first" in refused
    assert paid == [f"paid {cents}" for cents in (1, 2, 3, 4)]
    assert [text.splitlines()[-1] for text in read_by_client["asked"]] == ["Run pay?"] * 4
    assert sorted(till.paid) == [1, 2, 3, 4]
    assert recorded(till.record).count("done pay") == 4  # all in one record


class Killed(NamedTuple):
    """Who is killed in the call, and what the user says when it is made again (nothing: the client
    has no way to ask).
    """

    whom: str
    answer: str
    paid: list[int]


@pytest.mark.parametrize(
    "case",
    [
        Killed("gate", "accept", [5, 5]),
        Killed("gate", "", [5]),
        Killed("server", "decline", [5]),
    ],
    ids=lambda case: f"{case.whom}-{case.answer or 'no person'}",
)
def test_after_a_kill_in_a_call_nothing_runs_twice_without_a_question(till, case):
    asked = []

    async def ask(_: object, params: wire.ElicitRequestParams) -> wire.ElicitResult:
        asked.append(params.message)
        return wire.ElicitResult(action=case.answer)

    async def pay_and_kill() -> None:
        async with till.session("--read-only", "pid") as gate:
            pid = pid_of_gate(till.folder)
            if case.whom == "server":
                pid = int(text_of(await gate.call("pid")))
            paying = asyncio.create_task(gate.call("pay", cents=5, thought=WHY))
            await asyncio.to_thread(until, lambda: till.paid)
            os.kill(pid, signal.SIGKILL)
            with suppress(MCPError):
                assert "may have happened" in text_of(await paying)

    async def pay_again() -> str:
        async with till.session(ask=ask if case.answer else None) as gate:
            return text_of(await gate.call("pay", cents=5, thought=WHY))

    with till.on_hold():
        asyncio.run(pay_and_kill())
    shown = asyncio.run(pay_again())
    assert till.paid == case.paid
    assert "may have happened" in (asked[0] if case.answer else shown)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_some_random_kills_none_makes_a_payment_twice(tmp_path):
    """`python -m tests.gate_soak` makes a hundred."""
    counts = soak(tmp_path, times=6, seed=1)
    assert counts["kills of the gate"] + counts["kills of the server"] == 6
    assert counts["twice"] == 0
    assert counts["reported but not made"] == 0


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_session_in_order(till, number):
    """Also while the client keeps stdin open."""

    async def talk() -> None:
        async with till.session() as gate:
            paying = asyncio.create_task(gate.call("pay", cents=5, thought=WHY))
            await asyncio.to_thread(until, lambda: till.paid)
            os.kill(pid_of_gate(till.folder), number)
            with suppress(MCPError):
                await paying
            await asyncio.to_thread(until, lambda: not is_running(pid_of_gate(till.folder)))

    with till.on_hold():
        asyncio.run(talk())
    assert recorded(till.record)[-1] == "may have happened: pay"
    assert isinstance(read(till.record).messages[-1], Ended)
    assert "Traceback" not in till.log


def test_when_the_record_cannot_be_written_nothing_runs_any_more(till):
    """The disk is full, so to speak: no file of the gate may have more than 8 KB."""

    async def talk() -> list[str]:
        async with till.session(limit=8) as gate:
            calls = [await gate.call("pay", cents=n, thought=WHY * 9) for n in range(30)]
            return [text_of(result) for result in calls]

    shown = asyncio.run(talk())
    ran = [text for text in shown if text.startswith("paid")]
    refused = shown[len(ran) :]
    assert ran
    assert till.paid in ([*range(len(ran))], [*range(len(ran) + 1)])
    assert all("nothing runs any more" in text for text in refused)
    if len(till.paid) > len(ran):  # its result could not be recorded
        assert "may have happened" in refused[0]
    assert "cannot be written" in till.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("usage", "it exited with code 2"),
        ("garbage", "it does not speak MCP"),
        pytest.param("endless_line", "a message of more than 10 MB", marks=pytest.mark.slow),
        pytest.param("pages", "its list of tools has no end", marks=pytest.mark.slow),
    ],
)
def test_a_server_that_does_not_start_is_told_in_one_line(tmp_path, kind, said):
    words = ["-m", "think_agent", "gate", "--record", str(tmp_path / "run.jsonl")]
    done = run(*words, "--", *hostile(kind))
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: MCP server ")
    assert said in last


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        pytest.param("wrong_ids", "no result in time", marks=pytest.mark.slow),
        ("large", "a message of more than 10 MB"),
        pytest.param("malformed", "malformed", marks=pytest.mark.slow),
    ],
)
def test_what_a_bad_server_sends_in_a_call_is_bounded(till, kind, shown):
    async def talk() -> str:
        async with till.session("--timeout", "2", server=hostile(kind)) as gate:
            return text_of(await gate.call("look", what="tea", thought=WHY))

    text = asyncio.run(talk())
    assert shown in text
    assert len(text) < 1000
    assert "may have happened" in text


def test_a_server_that_does_not_answer_is_given_up(till):
    async def talk() -> str:
        async with till.session("--timeout", "1") as gate:
            return text_of(await gate.call("pay", cents=5, thought=WHY))

    with till.on_hold():
        shown = asyncio.run(talk())
    assert "no result in time" in shown
    assert "may have happened" in shown
