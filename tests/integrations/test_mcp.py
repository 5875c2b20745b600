"""Tools of MCP servers, over the official SDK: what they declare, what they answer, how they end.

The servers are our own, honest and hostile: tests/servers/mcp_shop.py, mcp_hostile.py. Those of
others are in test_mcp_servers.py.
"""

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason='needs pip install -e ".[mcp]"')

from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.servers.mcp_shop import shop
from tests.support.agents import results
from tests.support.mcp import (
    SHOP,
    calling,
    hostile,
    made,
    shop_over_http,
    until,
)
from tests.support.sizes import ROOT
from think_agent import tool
from think_agent.integrations.mcp import Server
from think_agent.testing import call

MAY_HAVE = "\nIt may have happened: check before you repeat it."


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """Where a shop that is a command writes its payments."""
    path = tmp_path / "ledger"
    monkeypatch.chdir(ROOT)  # so that the command finds its module
    monkeypatch.setenv("LEDGER", str(path))
    return path


def command(ledger: Path) -> dict[str, object]:
    return {"address": SHOP, "env": {"LEDGER": str(ledger)}, "trusted": True}


# --- what is believed ---


def guards(tools) -> dict[str, str]:
    """What is declared of each tool, in one word each."""
    names = ("read_only", "idempotent", "think_first", "needs_approval")
    return {
        item.name: " ".join(name for name in names if getattr(item, name)) or "-" for item in tools
    }


EACH_NEEDS = "think_first needs_approval"


@dataclass
class Belief:
    settings: dict[str, object]
    look: str
    pay: str
    put: str
    wipe: str


BELIEFS = {
    "whoever is not trusted is believed nothing": Belief(
        {}, look=EACH_NEEDS, pay=EACH_NEEDS, put=EACH_NEEDS, wipe=EACH_NEEDS
    ),
    "the annotations of a trusted server count": Belief(
        {"trusted": True},
        look="read_only",
        pay="think_first",
        put="idempotent think_first",
        wipe=EACH_NEEDS,  # it says nothing of itself
    ),
    "your word wins, and what follows from it": Belief(
        {"declared": {"look": {"read_only": True}, "put": {"idempotent": True}}},
        look="read_only",
        pay=EACH_NEEDS,
        put="idempotent think_first needs_approval",
        wipe=EACH_NEEDS,
    ),
    "your word wins against a trusted server, too": Belief(
        {
            "trusted": True,
            "declared": {"look": {"read_only": False}, "wipe": {"needs_approval": False}},
        },
        look=EACH_NEEDS,
        pay="think_first",
        put="idempotent think_first",
        wipe="think_first",
    ),
}


@pytest.mark.parametrize("belief", BELIEFS.values(), ids=BELIEFS)
def test_what_a_server_says_of_its_tools(belief) -> None:
    with Server(shop(), **belief.settings) as tools:
        declared = guards(tools)
    for name in ("look", "pay", "put", "wipe"):
        assert declared[name] == getattr(belief, name), name


def test_a_call_of_an_untrusted_server_needs_a_thought_and_a_yes() -> None:
    with Server(shop()) as tools:
        outcome = calling(tools, call("look", what="tea")).run("Look.")
        assert outcome.exit == "needs_human"
        outcome = calling(tools, call("look", what="tea")).resume(outcome.transcript, verdict=True)
    assert results(outcome, "look")[0].content == "tea: 3"


def test_tools_can_be_chosen_and_renamed() -> None:
    declared = {"a.b/c": {"name": "tree"}, "pay": {"same": ("amount",), "timeout": 5.0}}
    with Server(shop(), only=["pay", "look", "a.b/c"], prefix="x_", declared=declared) as tools:
        assert [item.name for item in tools] == ["x_look", "tree", "x_pay"]  # the server's order
        assert (tools[2].same, tools[2].timeout) == (("amount",), 5.0)
        assert tools[0].timeout == 60.0


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"only": ["nope"]}, ValueError, r"it has no tools \['nope'\]; it has \['a.b/c', "),
        ({"declared": {"nope": {}}}, ValueError, r"it has no tools \['nope'\]"),
        ({"declared": {"pay": {"same": ("cents",)}}}, ValueError, r"tool pay .*no such parameters"),
        ({"declared": {"pay": {"idempotant": True}}}, TypeError, "no option idempotant; use name"),
        ({"only": "look"}, TypeError, "pass a list of names"),
        ({"timeout": 0, "only": ["look"]}, ValueError, "use seconds above 0"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line(settings, error, says) -> None:
    with pytest.raises(error, match=says) as caught, Server(shop(), **settings):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("empty", ["", " ", []])
def test_an_empty_command_is_an_error(empty) -> None:
    with pytest.raises(ValueError, match="empty command"):
        Server(empty)


# --- how it is used ---


def test_runs_sync_async_and_side_by_side() -> None:
    async def several(tools) -> list[str]:
        runs = [calling(tools, call("pay", amount=n, seconds=0.05)).arun("Pay.") for n in range(5)]
        outcomes = await asyncio.gather(*runs)
        return [results(outcome, "pay")[0].content for outcome in outcomes]

    async def inside() -> str:
        async with Server(shop(), trusted=True) as tools:
            outcome = await calling(tools, call("look", what="tea")).arun("Look.")
            return results(outcome, "look")[0].content

    with Server(shop(), trusted=True) as tools:
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"
        assert asyncio.run(several(tools)) == [f"paid {n}" for n in range(5)]
    assert asyncio.run(inside()) == "tea: 3"


def test_a_server_is_opened_once_at_a_time_and_again_later() -> None:
    server = Server(shop(), trusted=True)
    with server, pytest.raises(RuntimeError, match="make a Server for each use"), server:
        pass
    with server as tools:
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"
    closed = made(tools, call("look", what="tea"))[0]
    assert closed.content == "error: nothing was sent: the server is gone."


@pytest.mark.timeout(20)
def test_an_async_tool_may_open_a_server_but_not_block_for_it() -> None:
    @tool(read_only=True)
    async def right() -> int:
        """Open it."""
        async with Server(shop(), trusted=True) as tools:
            return len(tools)

    @tool(read_only=True)
    async def wrong() -> int:
        """Open it, and wait for oneself."""
        with Server(shop(), trusted=True) as tools:
            return len(tools)

    right_one, wrong_one = made([right, wrong], call("right"), call("wrong"))
    assert right_one.content == "11"
    assert "use `async with`" in wrong_one.content


def test_what_else_the_sdk_takes(ledger) -> None:
    words = StdioServerParameters(
        command=sys.executable, args=SHOP[1:], cwd=ROOT, env={"GIVEN": "yes"}
    )
    with Server(words, trusted=True) as tools:
        assert made(tools, call("variable", name="GIVEN"))[0].content == "yes"
    with shop_over_http() as (url, _), Server(streamable_http_client(url), trusted=True) as tools:
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"


def test_a_command_line_is_split_as_a_shell_does(ledger) -> None:
    with Server(f"{sys.executable} -m 'tests.servers.mcp_shop'", only=["pid"]) as tools:
        assert guards(tools) == {"pid": EACH_NEEDS}


def test_a_command_sees_only_the_variables_that_it_is_given(ledger, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "k")
    with Server(SHOP, trusted=True, env={"GIVEN": "yes"}) as tools:
        found = made(tools, *(call("variable", name=name) for name in ("SECRET_KEY", "GIVEN")))
    assert [result.content for result in found] == ["not set", "yes"]


# --- results and schemas ---


def test_results_are_text_and_what_is_not_is_named() -> None:
    with Server(shop(), trusted=True) as tools:
        calls = (call("picture"), call("a_b_c", node={"name": "n"}), call("pid"))
        picture, tree, pid = made(tools, *calls)
    assert picture.content == "[image/png, 3,000 bytes, not shown]"
    assert tree.content == "n"
    assert pid.content == str(os.getpid())


def test_arguments_are_validated_before_a_call_is_sent() -> None:
    with Server(shop(), trusted=True) as tools:
        (misfit,) = made(tools, call("a_b_c", node={"x": 1}))
        recursive = next(item for item in tools if item.name == "a_b_c")
        assert "$ref" not in str(recursive.parameters)
    assert misfit.refused == "invalid"


def test_an_error_of_a_tool_is_a_line_without_a_traceback(caplog) -> None:
    with Server(shop(), trusted=True) as tools:
        (result,) = made(tools, call("fail"))
    assert result.in_doubt
    assert result.content.startswith("error: Error executing tool fail")
    assert [record for record in caplog.records if record.name == "think_agent"] == []


def test_a_result_that_does_not_fit_its_own_schema_is_a_result() -> None:
    with Server(hostile("mismatch"), trusted=True) as tools:
        (result,) = made(tools, call("look", what="tea"), approve=lambda _: True)
    assert (result.content, result.is_error) == ("3 packets", False)


def test_the_order_of_keys_is_the_servers_where_it_matters_and_always_the_same() -> None:
    """A server may list its keys in another order each time it starts."""
    seen = set()
    for turn in "01":
        with Server(hostile("shuffled", turn)) as tools:
            seen.add(json.dumps(tools[0].parameters))
    assert len(seen) == 1
    assert list(json.loads(seen.pop())["properties"]) == ["to", "cents", "at", "note"]


def test_a_tool_that_cannot_be_used_is_named_and_does_not_take_the_others_with_it() -> None:
    unusable = [
        ("no_type", "input"),
        ("no_schema", "input"),
        ("schema_is_text", "input"),
        ("properties_are_a_list", "properties"),
        ("unknown_type", "'text'"),
        ("lost_reference", "not in it"),
        ("odd_reference", "its schema cannot be read"),
        ("reference_is_a_number", "its schema cannot be read"),
        ("too_deep", "its schema cannot be read"),
        ("too_many_parts", "more than 10,000 parts"),
        ("n" * 80, "1 to 64 letters"),
        ("think", "use prefix="),
        ("hints_are_text", "annotations"),
        ("5", "name"),
        ("None", ""),
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Server(hostile("bad_tools")) as tools:
            assert [item.name for item in tools] == ["look"]
            (result,) = made(tools, call("look", what="tea"), approve=lambda _: True)
    assert result.content == "looked"
    told = {str(warning.message) for warning in caught}
    for name, problem in unusable:
        assert any(f"tool {name} cannot" in text and problem in text for text in told), name
    assert not any("\n" in text for text in told)


def test_a_tool_that_is_named_has_to_be_usable() -> None:
    with pytest.raises(ValueError, match="tool no_type cannot be used: malformed: "):
        Server(hostile("bad_tools"), only=["no_type"]).__enter__()


def test_tools_that_are_not_wanted_are_not_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Server(hostile("bad_tools"), only=["look"], declared={"look": {"name": "l"}}) as tools:
            assert [item.name for item in tools] == ["l"]


@contextmanager
def changing(way: str, ledger: Path) -> Iterator[Server]:
    if way == "by the protocol of 2025":
        yield Server(hostile("changes"), trusted=True)
    elif way == "in this process":
        yield Server(shop(), trusted=True)
    elif way == "a command":
        yield Server(**command(ledger))
    else:
        with shop_over_http() as (url, _):
            yield Server(url, trusted=True)


@pytest.mark.parametrize(
    "way", ["by the protocol of 2025", "in this process", "a command", "over HTTP"]
)
def test_a_tool_that_changes_is_reported_once(way, ledger) -> None:
    change = call("look") if "2025" in way else call("rewrite")
    with warnings.catch_warnings(record=True) as told, changing(way, ledger) as server:
        warnings.simplefilter("always")
        with server as tools:
            made(tools, change, approve=lambda _: True)
            until(lambda: told)
            made(tools, change, approve=lambda _: True)
    (warning,) = told
    text = str(warning.message)
    assert "tool look has changed (description) since the server was opened." in text


# --- a server that is gone, slow or left ---


@contextmanager
def shop_by(way: str, ledger: Path) -> Iterator[tuple[list[Tool], Callable[[], object]]]:
    """Its tools, and what kills its process with -9."""
    if way == "http":
        with (
            shop_over_http(LEDGER=str(ledger)) as (url, process),
            Server(url, trusted=True) as tools,
        ):
            yield tools, process.kill
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
        killed, again, after = made(
            tools,
            call("pay", amount=5, seconds=60),
            call("pay", amount=5, seconds=60),
            call("look", what="tea"),
        )
        waiting.join()
    assert (killed.content, killed.in_doubt) == (BROKE[way] + MAY_HAVE, True)
    assert again.refused == "doubt"
    assert (after.content, after.in_doubt) == (GONE[way], False)
    assert lines(ledger) == ["paid 5"]


@pytest.mark.parametrize("way", WAYS)
def test_a_server_killed_between_calls_was_sent_nothing(way, ledger) -> None:
    with shop_by(way, ledger) as (tools, kill):
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"
        kill()
        until(lambda: made(tools, call("look", what="tea"))[0].content == GONE[way])
        (result,) = made(tools, call("pay", amount=5))
    assert (result.content, result.in_doubt) == (GONE[way], False)
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
    assert (late.content, late.in_doubt) == ("error: no result in time." + MAY_HAVE, True)
    assert after.content == "tea: 3"


@pytest.mark.parametrize("way", WAYS)
def test_a_cancelled_run_cancels_its_call_and_leaves_the_server_usable(way, ledger) -> None:
    async def cancelled(tools) -> None:
        agent = calling(tools, call("pay", amount=1, seconds=60))
        run = asyncio.ensure_future(agent.arun("Pay."))
        while not lines(ledger):
            await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    with shop_by(way, ledger) as (tools, _):
        asyncio.run(cancelled(tools))
        until(lambda: lines(ledger) == ["paid 1", "cancelled"])
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"


# Pays by the agent of this file, in a process of its own: PROGRAM TRANSCRIPT
PROGRAM = """
import os, sys
from tests.integrations.test_mcp import command, paying, Server
with Server(**command(os.environ["LEDGER"])) as tools:
    print(next(tool for tool in tools if tool.name == "pid")(), flush=True)
    paying(tools).run("Pay 5.", transcript=sys.argv[1])
"""


def paying(tools, seconds: float = 60) -> Agent:
    return calling(tools, call("pay", amount=5, seconds=seconds))


@contextmanager
def paying_elsewhere(
    tmp_path: Path, ledger: Path
) -> Iterator["tuple[subprocess.Popen[str], Path]"]:
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
        no = Verdict("no", reason="it is in the books")
        outcome = paying(tools).resume(transcript, verdict=no)
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
        ("http:/nowhere", r"MCP server \(an address that cannot be shown\): "),
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


CALLS = [
    Call("wrong_ids", "error: no result in time."),
    Call("large", "error: it sent a message of more than 10 MB"),
    Call("malformed", "error: malformed: content: Input should be a valid list"),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.kind)
def test_a_hostile_answer_is_one_line_and_may_have_happened(case, capfd) -> None:
    with Server(hostile(case.kind), timeout=0.5) as tools:
        (result,) = made(tools, call("look", what="tea"), approve=lambda _: True)
    assert (result.content, result.in_doubt) == (case.says + MAY_HAVE, True)
    assert capfd.readouterr().err == ""


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
        (Reply(200, chunks=[b"data: " + b"x" * 2**20] * 20, content_type="text/event-stream"), ""),
    ],
)
def test_a_hostile_answer_over_http_is_one_line(reply, says, capfd) -> None:
    with serve(SimpleNamespace(answer=lambda *_: reply), None) as server:
        with pytest.raises(ConnectionError) as caught:
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
        (result,) = made(tools, call("large", megabytes=5), max_result_chars=100)
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
        assert not is_running(int(started))


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
    seen = []

    def answer(method, path, headers, raw):
        seen.append(headers["authorization"])
        return Reply(401, "")

    with serve(SimpleNamespace(answer=answer), None) as server, pytest.raises(ConnectionError):
        Server(server.url, headers={"Authorization": f"Bearer {KEY}"}).__enter__()
    assert set(seen) == {f"Bearer {KEY}"}


# --- nothing is left behind ---


def resources() -> dict[str, int]:
    gc.collect()
    return {
        "threads": len([t for t in threading.enumerate() if "waitpid" not in t.name]),
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


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("way", ["in this process", "stdio", "http"])
def test_fifty_sessions_leave_nothing_behind(way) -> None:
    counts = []
    for server in sessions(way):
        with server as tools:
            made(tools, call("look", what="tea"), approve=lambda _: True)
        counts.append(resources())
    assert counts[-1] == counts[5]  # by then, what is made once has been made
