"""The fleet: workers are killed with SIGKILL, and nothing is lost, repeated or decided twice.

The oracle of a conversation that was broken off and taken over is the same conversation run
undisturbed by a plain Agent. Every test of a kill runs on SQLite; marked `postgres`, on the server
that THINK_AGENT_TEST_POSTGRES names (a URL whose user may create databases), too.
"""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager

import pytest

pytest.importorskip("dbos", reason='needs DBOS: pip install "think-agent[fleet]"')

from dbos import DBOS, DBOSPortableJSONSerializer

from demos.refund.offline import reply
from demos.refund.shop import INSTRUCTIONS, Shop
from tests.servers import serve
from tests.servers.ollama import OllamaServer
from think_agent import Agent, Assistant, ScriptedModel, ToolCall, connect, tool
from think_agent.engine import DurableAgent, lines, read
from think_agent.errors import Overloaded

POSTGRES = os.environ.get("THINK_AGENT_TEST_POSTGRES", "")
BOUGHT = ["ORD-001", "ORD-002", "ORD-003", "ORD-004"]  # what the new orders are copies of, in turn
RIGHT = {"ORD-001": "approve", "ORD-002": "deny", "ORD-003": "approve", "ORD-004": "escalate"}
NEW_ORDERS = {f"ORD-{n}": RIGHT[BOUGHT[n % 4]] for n in range(1001, 1009)}


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param(
            "postgres",
            marks=[
                pytest.mark.postgres,
                pytest.mark.skipif(
                    not POSTGRES, reason="THINK_AGENT_TEST_POSTGRES names no server"
                ),
            ],
        ),
    ]
)
def url(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/fleet.db"
        return
    import psycopg

    name = f"fleet_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(POSTGRES, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield POSTGRES.rpartition("/")[0] + "/" + name
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Fleet:
    """The command line, in a folder and with a database of its own."""

    def __init__(self, folder, url):
        self.folder = folder
        self.environment = {**os.environ, "THINK_AGENT_FLEET": url, "PYTHONPATH": os.getcwd()}

    def begin(self, *words):
        command = [sys.executable, *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **pipes)

    @contextmanager
    def worker(self, name, *flags):
        process = self.begin("-m", "demos.fleet", "work", "--name", name, *flags)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def do(self, *words):
        process = self.begin(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def command(self, *words):
        code, out, err = self.do("-m", "demos.fleet", *words)
        assert (code, err) == (0, "")
        return out

    def decisions(self):
        with sqlite3.connect(self.folder / "shop.db") as db:
            return db.execute(
                "SELECT order_id, decision FROM decisions ORDER BY order_id"
            ).fetchall()

    def transcript(self, order):
        return read(self.command("status", order).splitlines())


def wait_until(true):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_another_worker_finishes_what_a_killed_one_began(tmp_path, url):
    def slow(request):
        time.sleep(0.15)
        return reply(request)

    fleet = Fleet(tmp_path, url)
    with serve(OllamaServer(), slow) as server:
        assert "ORD-1001 to ORD-1008" in fleet.command("enqueue", "8")
        model = ("--provider", "ollama", "--base-url", server.url)
        with fleet.worker("first", *model, "--concurrency", "3") as first:
            wait_until(lambda: len(server.requests) > 8)  # three conversations are half-way
            with fleet.worker("second", *model, "--silence", "1.5", "--until-done") as second:
                assert second.stdout.readline().startswith("worker second")
                first.send_signal(signal.SIGKILL)
                said, err = second.communicate(timeout=90)
                assert (second.returncode, err) == (0, "")
        assert said.count("taken over") in (1, 2, 3)
        assert fleet.decisions() == sorted(NEW_ORDERS.items())
        undisturbed = Agent(
            connect("ollama", base_url=server.url),
            Shop(str(tmp_path / "undisturbed.db")).tools(),
            instructions=INSTRUCTIONS.read_text(encoding="utf-8"),
        )
        used = len(server.requests)
        outcome = undisturbed.run("I want a refund on order ORD-001")
        each = len(server.requests) - used
        # Only what was in flight when the worker died is asked a second time.
        assert 8 * each <= used <= 8 * each + 3
        for order in NEW_ORDERS:
            found = fleet.transcript(order)
            assert [type(m) for m in found] == [type(m) for m in outcome.transcript]
            times = [message.at for message in found]
            assert times == sorted(times)
        as_if = "\n".join(lines(outcome.transcript)).replace("ORD-001", "ORD-1004")
        assert fleet.transcript("ORD-1004") == read(as_if.splitlines())


KILLED_AFTER_THE_DEED = """
import os, pathlib, signal
from dataclasses import replace
from demos.fleet import fleet
from demos.refund.offline import reply
from demos.refund.shop import Shop
from think_agent import ScriptedModel
from think_agent.engine import DurableAgent
import time

url = os.environ["THINK_AGENT_FLEET"]
flag = pathlib.Path("killed")
*others, refund = Shop("shop.db").tools()

def refund_and_die(**arguments):
    receipt = refund.function(**arguments)
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return receipt

agent = DurableAgent(ScriptedModel(reply), [*others, replace(refund, function=refund_and_die)])
with fleet.client(url) as client:
    fleet.begin_work(url, agent, worker="only", concurrency=1, per_minute=None)
    while not fleet.is_done(client):
        time.sleep(0.1)
fleet.DBOS.destroy()
"""


def test_a_deed_whose_record_was_lost_is_not_done_again(tmp_path, url):
    fleet = Fleet(tmp_path, url)
    fleet.command("enqueue", "4")
    orders = list(NEW_ORDERS.items())[:4]
    code, _, _ = fleet.do("-c", KILLED_AFTER_THE_DEED)
    assert code == -signal.SIGKILL
    assert len(fleet.decisions()) == 1  # it was done, and nobody wrote it down
    code, _, err = fleet.do("-c", KILLED_AFTER_THE_DEED)  # under its old name it takes up its own
    assert (code, err) == (0, "")
    assert fleet.decisions() == orders
    for order, decision in orders:
        receipt = next(m for m in fleet.transcript(order) if m_is_refund(m))
        assert not receipt.is_error
        assert json.loads(receipt.content)["decision"] == decision


def m_is_refund(message):
    return getattr(message, "name", "") == "process_refund"


def test_the_fleet_begins_no_more_than_its_share_of_a_minute(tmp_path):
    fleet = Fleet(tmp_path, f"sqlite:///{tmp_path}/fleet.db")
    fleet.command("enqueue", "5")
    with fleet.worker("a", "--provider", "offline", "--pace", "0", "--per-minute", "2"):
        wait_until(lambda: "2 SUCCESS" in fleet.command("status"))
        time.sleep(1)
        assert "2 SUCCESS" in fleet.command("status")


def test_what_a_user_can_get_wrong_is_one_line(tmp_path):
    fleet = Fleet(tmp_path, "postgresql://me:secret@127.0.0.1:9/none?connect_timeout=2")
    code, out, err = fleet.do("-m", "demos.fleet", "status")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: --fleet")
    assert "secret" not in err
    fleet = Fleet(tmp_path, "nonsense")
    code, out, err = fleet.do("-m", "demos.fleet", "status")
    assert (code, out, err.count("\n")) == (2, "", 1)
    fleet = Fleet(tmp_path, f"sqlite:///{tmp_path}/fleet.db")
    code, _, err = fleet.do("-m", "demos.fleet", "status", "ORD-7")
    assert (code, err.count("\n")) == (2, 1)
    without = "import sys, runpy; sys.modules['dbos'] = None; sys.argv = ['fleet', 'status']; "
    without += "runpy.run_module('demos.fleet', run_name='__main__')"
    code, _, err = fleet.do("-c", without)
    assert (code, err) == (
        2,
        'error: the fleet needs DBOS; run: pip install "think-agent[fleet]"\n',
    )


@pytest.fixture
def engine(tmp_path):
    """DBOS in this process; give it an agent, and get a function that runs it as a workflow."""
    DBOS(
        config={
            "name": "test",
            "system_database_url": f"sqlite:///{tmp_path}/engine.db",
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "CRITICAL",
        }
    )
    agents = []

    @DBOS.workflow()
    def conversation(text: str) -> list[str]:
        return lines(agents[0].run(text).transcript)

    def start(agent, text):
        agents[:] = [agent]
        DBOS.launch()
        return DBOS.start_workflow(conversation, text)

    yield start
    DBOS.destroy(destroy_registry=True)


def test_a_model_that_is_out_of_reach_is_asked_again(engine):
    errors = [Overloaded("busy; try again")]

    def busy_once(request):
        if errors:
            raise errors.pop()
        return Assistant(text="Here I am.")

    [_, answer] = read(engine(DurableAgent(ScriptedModel(busy_once)), "hello").get_result())
    assert answer.text == "Here I am."


def test_a_person_is_waited_for_in_the_workflow(engine):
    opened = []

    @tool(needs_approval=True)
    def open_door(which: str) -> str:
        """Open a door."""
        opened.append(which)
        return "open"

    def script(request):
        if len(request.messages) > 1:
            return Assistant(text="Done.")
        return Assistant(tool_calls=(ToolCall("1", "open_door", {"which": "red"}),))

    def ask(question):
        return bool(DBOS.recv("verdict", timeout_seconds=30))

    agent = DurableAgent(ScriptedModel(script), [open_door], force="never", approve=ask)
    handle = engine(agent, "the red one, please")
    time.sleep(0.3)
    assert opened == []
    DBOS.send(handle.get_workflow_id(), True, "verdict")
    assert read(handle.get_result())[-1].text == "Done."
    assert opened == ["red"]


def test_a_run_that_would_not_be_durable_is_refused():
    agent = DurableAgent(ScriptedModel([Assistant(text="hi")]))
    with pytest.raises(TypeError, match=r"use agent\.run"):
        asyncio.run(agent.arun("hello"))


def test_the_version_covers_tools_and_instructions_and_not_the_model():
    one = DurableAgent(ScriptedModel(reply, model="a"), Shop().tools(), instructions="be kind")
    two = DurableAgent(ScriptedModel(reply, model="b"), Shop().tools(), instructions="be kind")
    assert one.version == two.version
    assert one.version != DurableAgent(ScriptedModel(reply), Shop().tools()).version
    assert one.version != DurableAgent(ScriptedModel(reply), instructions="be kind").version
