"""How MCP servers end: killed, slow, cancelled, hostile; and what is left behind, which is nothing.

The servers are our own, honest and hostile (tests/servers/mcp_shop.py, mcp_hostile.py).
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason='needs pip install -e ".[mcp]"')

from tests.servers import ProviderServer, Reply, serve
from tests.servers.mcp_shop import shop
from tests.servers.openai_chat import Chat
from tests.support.agents import of_kind
from tests.support.commands import environment
from tests.support.mcp import (
    calling,
    children,
    command,
    hostile,
    is_running,
    lines,
    made,
    shop_over_http,
    until,
)
from tests.support.sizes import ROOT
from think_agent import Agent, AskHuman, Paused, Started, Tool
from think_agent.integrations.mcp import Server
from think_agent.testing import call

MAY_HAVE = "\nIt may have happened: check before you repeat it."

# --- a server that is gone, slow or left ---


@contextmanager
def shop_by(way: str, ledger: Path) -> Iterator[tuple[list[Tool], Callable[[], object]]]:
    """Its tools, and what kills its process with -9."""
    if way == "http":
        with (
            shop_over_http(LEDGER=str(ledger)) as (url, process),
            Server(url, trusted=True) as tools,
        ):

            def kill() -> None:
                process.kill()
                process.wait()

            yield tools, kill
        return
    with Server(**command(ledger)) as tools:
        pid = int(made(tools, call("pid"))[0].content)
        yield tools, lambda: os.kill(pid, signal.SIGKILL)


BROKE = {
    "stdio": "error: it was killed by signal 9",
    "http": "error: the connection broke: Server disconnected without sending a response.",
}
GONE = {
    "stdio": "error: nothing was sent: the server is gone.",
    "http": "error: nothing was sent: no connection: All connection attempts failed",
}
WAYS = ["stdio", "http"]


@pytest.mark.parametrize("way", WAYS)
def test_a_server_killed_in_a_call_may_have_done_it_and_then_nothing_is_sent(way, ledger) -> None:
    with shop_by(way, ledger) as (tools, kill):
        waiting = threading.Thread(target=lambda: (until(lambda: lines(ledger)), kill()))
        waiting.start()

        def approve(question: AskHuman) -> bool:
            waiting.join()
            return False

        killed, again, after = made(
            tools,
            call("pay", amount=5, seconds=60),
            call("pay", amount=5, seconds=60),
            call("look", what="tea"),
            approve=approve,
        )
    assert killed.content == BROKE[way] + MAY_HAVE
    assert killed.in_doubt
    assert again.refused == "person"  # who was asked whether to try again
    assert after.content == GONE[way]
    assert not after.in_doubt
    assert lines(ledger) == ["paid 5"]


@pytest.mark.parametrize("way", WAYS)
def test_a_server_killed_between_calls_was_sent_nothing(way, ledger) -> None:
    with shop_by(way, ledger) as (tools, kill):
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"
        kill()
        until(lambda: made(tools, call("look", what="tea"))[0].content == GONE[way])
        (result,) = made(tools, call("pay", amount=5))
    assert result.content == GONE[way]
    assert not result.in_doubt
    assert lines(ledger) == []


def test_a_server_over_http_may_come_back(ledger) -> None:
    with shop_over_http() as (url, process), Server(url, trusted=True) as tools:
        process.kill()
        process.wait()
        assert made(tools, call("look", what="tea"))[0].content == GONE["http"]
        with shop_over_http(int(url.split(":")[2].partition("/")[0])):
            assert made(tools, call("look", what="tea"))[0].content == "tea: 3"


@pytest.mark.parametrize("way", ["in this process", *WAYS])
def test_a_call_that_takes_too_long_may_have_happened_and_is_cancelled(way, ledger) -> None:
    with ExitStack() as stack:
        if way == "in this process":
            tools = stack.enter_context(Server(shop(), trusted=True))
        else:
            tools, _ = stack.enter_context(shop_by(way, ledger))
        slow = [replace(item, timeout=0.5) if item.name == "pay" else item for item in tools]
        late, after = made(slow, call("pay", amount=1, seconds=60), call("look", what="tea"))
        until(lambda: lines(ledger) == ["paid 1", "cancelled"])
    assert late.content == "error: no result in time." + MAY_HAVE
    assert late.in_doubt
    assert after.content == "tea: 3"


@pytest.mark.parametrize("way", WAYS)
def test_a_cancelled_run_cancels_its_call_and_leaves_the_server_usable(way, ledger) -> None:
    async def cancelled(tools) -> None:
        agent = calling(tools, call("pay", amount=1, seconds=60))
        run = asyncio.ensure_future(agent.arun("Pay."))
        await asyncio.to_thread(until, lambda: lines(ledger))
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    with shop_by(way, ledger) as (tools, _):
        asyncio.run(cancelled(tools))
        until(lambda: lines(ledger) == ["paid 1", "cancelled"])
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"


# Pays by the agent of this file, in a process of its own: PROGRAM TRANSCRIPT
PROGRAM = """
import os, sys
from tests.integrations.test_mcp_ends import Server, call, command, made, paying
with Server(**command(os.environ["LEDGER"])) as tools:
    print(made(tools, call("pid"))[0].content, flush=True)
    paying(tools).run("Pay 5.", transcript=sys.argv[1])
"""


def paying(tools, seconds: float = 60) -> Agent:
    return calling(tools, call("pay", amount=5, seconds=seconds))


@contextmanager
def paying_elsewhere(tmp_path, ledger) -> Iterator["tuple[subprocess.Popen[str], Path]"]:
    """Another process that is in its call, and its transcript."""
    transcript = tmp_path / "run.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(transcript)],
        cwd=ROOT,
        env=environment(LEDGER=str(ledger)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: lines(ledger))
        yield process, transcript
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_run_stopped_in_a_call_is_paid_once_and_asked_once(sent, tmp_path, ledger) -> None:
    with paying_elsewhere(tmp_path, ledger) as (process, transcript):
        assert process.stdout
        server = int(process.stdout.readline())
        process.send_signal(sent)
        process.wait()
        until(lambda: not is_running(server))
    paid = [line for line in lines(ledger) if line != "cancelled"]
    assert paid == ["paid 5"]

    with Server(**command(ledger)) as tools:
        waiting = paying(tools).resume(transcript)
        assert waiting.exit == "needs_human"
        assert waiting.question
        verdict = waiting.question.no("it is in the books")
        outcome = paying(tools).resume(transcript, verdict=verdict)
    assert outcome.exit == "silence"
    assert [line for line in lines(ledger) if line != "cancelled"] == paid
    assert len(of_kind(outcome.transcript, Started)) == 1
    assert len(of_kind(outcome.transcript, Paused)) == 1


def test_ctrl_c_while_a_server_starts_ends_it(tmp_path) -> None:
    program = (
        "import sys; from think_agent.integrations.mcp import Server\n"
        "with Server(sys.argv[1:]): pass"
    )
    silent = tmp_path / "silent.py"
    silent.write_text(
        "import os, sys, time\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(99)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, sys.executable, str(silent)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: lines(tmp_path / "pid"))
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate()
    assert shown.splitlines()[-1] == "KeyboardInterrupt"
    assert not is_running(int(lines(tmp_path / "pid")[0]))


def test_a_cancelled_opening_ends_the_server(tmp_path, caplog) -> None:
    async def cancelled() -> None:
        before = children()
        opening = asyncio.ensure_future(Server(hostile("silence")).__aenter__())
        await asyncio.to_thread(until, lambda: children() - before)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        # The event loop reaps the process, so the loop must go on meanwhile.
        await asyncio.to_thread(until, lambda: children() == before)

    asyncio.run(cancelled())
    gc.collect()
    assert caplog.records == []  # such as "exception was never retrieved"


# --- hostile servers ---


@dataclass
class Start:
    kind: str
    says: str
    seconds: float = 30


STARTS = [
    Start("usage", r"it exited with code 2: usage: hostile \[--token TOKEN\]"),
    Start("silence", r"it did not answer in 0.5 seconds", seconds=0.5),
    Start("chatter", r"it did not answer in 0.5 seconds: x+", seconds=0.5),
    Start("garbage", r"it does not speak MCP: \{\]"),
    Start("endless_line", r"it sent a message of more than 10 MB"),
    Start("pages", r"its list of tools has no end: 100 pages, and more"),
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.kind)
def test_a_hostile_server_does_not_start_and_that_is_one_line(start, capfd) -> None:
    before = children()
    with pytest.raises(ConnectionError, match=f"^MCP server python: {start.says}") as caught:
        Server(hostile(start.kind), start_timeout=start.seconds).__enter__()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 500
    assert capfd.readouterr().err == ""  # nor does the SDK write a traceback
    assert children() == before


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("no-such-command --key K", "MCP server no-such-command: there is no such command"),
        (str(ROOT), f"MCP server {ROOT.name}: .*Permission denied"),
        ("http://127.0.0.1:9/mcp", "MCP server http://127.0.0.1:9: no connection: "),
        ("http://a b/mcp", r"MCP server \(an address that cannot be shown\): "),
    ],
)
def test_a_server_that_cannot_be_reached_is_one_line(address, says) -> None:
    with pytest.raises(ConnectionError, match=f"^{says}") as caught:
        Server(address).__enter__()
    assert "\n" not in str(caught.value)


@dataclass
class Call:
    kind: str
    says: str
    seconds: float = 30


CALLS = [
    Call("wrong_ids", "error: no result in time.", seconds=0.5),
    Call("large", "error: it sent a message of more than 10 MB"),
    Call("malformed", "error: malformed: content: Input should be a valid list"),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.kind)
def test_a_hostile_answer_is_one_line_and_may_have_happened(case, capfd) -> None:
    with Server(hostile(case.kind), timeout=case.seconds) as tools:
        (result,) = made(tools, call("look", what="tea"), approve=lambda _: True)
    assert result.content == case.says + MAY_HAVE
    assert result.in_doubt
    assert capfd.readouterr().err == ""


@contextmanager
def answering(reply: Reply) -> Iterator[ProviderServer]:
    """A server that gives the same answer to each request."""
    with serve(Chat(), None) as server:
        server.canned = [reply] * 9
        yield server


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(401, {"detail": "no"}), "HTTP 401 Unauthorized"),
        (Reply(500, "<html>", content_type="text/html"), "HTTP 500 Internal Server Error"),
        (Reply(200, "<html>", content_type="text/html"), "Unexpected content type: text/html"),
        (Reply(200, "{]"), "Failed to parse JSON response: 1 validation error"),
        (Reply(200, "x" * 20 * 2**20), "Failed to parse JSON response: it sent a message of more"),
        (Reply(302, "", headers={"location": "http://127.0.0.1:9/?key=0"}), "Redirect to http"),
        (Reply(202, ""), "server answered a request with 202 Accepted"),
        (
            Reply(200, chunks=[b"data: ", *[b"x" * 2**20] * 20], content_type="text/event-stream"),
            "SSE stream failed: ",
        ),
    ],
)
def test_a_hostile_answer_over_http_is_one_line(reply, says, capfd) -> None:
    with answering(reply) as server, pytest.raises(ConnectionError) as caught:
        Server(f"{server.url}/mcp").__enter__()
    assert str(caught.value).startswith(f"MCP server {server.url}: {says}")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_large_result_over_http_fails_alone(ledger) -> None:
    with shop_by("http", ledger) as (tools, _):
        large, after = made(tools, call("large", megabytes=20), call("look", what="tea"))
    assert "more than 10 MB" in large.content
    assert after.content == "tea: 3"


def test_a_long_result_is_cut_as_any_is(ledger) -> None:
    with Server(**command(ledger)) as tools:
        (result,) = made(tools, call("large", megabytes=2), max_result_chars=100)
    assert result.content.startswith("x" * 100 + "\n[cut: ")


def test_a_greeting_is_no_garbage() -> None:
    with Server(hostile("greeting")) as tools:
        assert [item.name for item in tools] == ["look"]


@pytest.mark.parametrize("kind", ["stubborn", "parent"])
def test_a_command_ends_with_all_that_it_started(kind) -> None:
    before = children()
    with Server(hostile(kind)) as tools:
        started = tools[0].description
    assert children() == before
    if kind == "parent":
        until(lambda: not is_running(int(started)))


# --- what is kept secret ---

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    ("address", "settings"),
    [
        (hostile("no_key", KEY), {}),
        (hostile("no_key", f"--key={KEY}"), {}),
        (hostile("no_key", ""), {"env": {"TOKEN": KEY}}),
        (f"no-such-command --key {KEY}", {}),
        (f"http://127.0.0.1:9/mcp/{KEY}?key={KEY}", {}),
        (f"http://me:{KEY}@127.0.0.1:9/mcp", {}),
        ("http://127.0.0.1:9/mcp", {"headers": {"Authorization": f"Bearer {KEY}"}}),
    ],
)
def test_a_key_is_shown_in_no_error(address, settings) -> None:
    server = Server(address, **settings)
    with pytest.raises(ConnectionError) as caught:
        server.__enter__()
    shown = "".join(traceback.format_exception(caught.value)) + repr(server)
    assert KEY not in shown.replace(str(hostile("no_key", KEY)), "")
    assert "\x1b" not in shown  # nor does a server write to the terminal


def test_headers_reach_the_server() -> None:
    with answering(Reply(401, "")) as server, pytest.raises(ConnectionError):
        Server(server.url, headers={"Authorization": f"Bearer {KEY}"}).__enter__()
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


# --- nothing is left behind ---


def resources() -> dict[str, int]:
    gc.collect()
    return {
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "children": len(children()),
    }


def sessions(way: str) -> Iterator[Server]:
    """50 servers, one after the other."""
    if way == "in this process":
        yield from (Server(shop(), trusted=True) for _ in range(50))
    elif way == "stdio":
        yield from (Server(hostile("greeting"), trusted=True) for _ in range(50))
    else:
        with shop_over_http() as (url, _):
            yield from (Server(url, trusted=True) for _ in range(50))


def until_back_at(before: dict[str, int]) -> None:
    until(lambda: resources() == before)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("way", ["in this process", "stdio", "http"])
def test_fifty_sessions_leave_nothing_behind(way) -> None:
    before: dict[str, int] = {}
    for number, server in enumerate(sessions(way)):
        with server as tools:
            made(tools, call("look", what="tea"), approve=lambda _: True)
        if number == 5:  # by now, what is made once has been made
            before = resources()
        if number > 5:
            until_back_at(before)
    assert number == 49
