"""The fleet: workers are killed with SIGKILL, and nothing is lost, repeated or decided twice.

The oracle for a conversation that was interrupted and taken over is the same conversation with a
plain Agent, without interruption. Every test of a kill runs on SQLite and, marked `postgres`, on
the server that THINK_AGENT_TEST_POSTGRES names (a URL whose user may create databases).
"""

import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pytest

pytest.importorskip("dbos", reason='needs DBOS: pip install -e ".[fleet]"')

from dbos import DBOS, DBOSPortableJSONSerializer, SetWorkflowID

from demos.fleet import fleet as desks
from demos.fleet.__main__ import describe_end
from demos.fleet.shared import Shared
from demos.refund.checks import make_checks
from demos.refund.offline import reply
from demos.refund.shop import Shop
from tests.benchmarks.fleet import database
from tests.servers import Reply, serve
from tests.servers.ollama import OllamaServer
from tests.support.agents import by_place, of_kind, results
from tests.support.commands import decisions, environment, run_here
from tests.support.providers import RIGHT, desk, run_async, run_plain
from tests.support.sizes import ROOT
from think_agent import (
    Agent,
    Assistant,
    Ended,
    Paused,
    ScriptedModel,
    Started,
    Usage,
    Verdict,
    connect,
    tool,
)
from think_agent.errors import AuthError, Overloaded
from think_agent.integrations.dbos import ASK_THE_MODEL, DurableAgent, lines, read
from think_agent.testing import call, think

POSTGRES = os.environ.get("THINK_AGENT_TEST_POSTGRES", "")
BOUGHT = [*RIGHT]  # what the new orders are copies of, in turn
OLD = "DBOS needs SQLite 3.42 on Python 3.12 and later"
NEEDS_SQLITE = pytest.mark.skipif(desks.OLD_SQLITE, reason=OLD)
NEW_ORDERS = {f"ORD-{n}": RIGHT[BOUGHT[n % 4]] for n in range(1001, 1009)}


NO_SERVER = pytest.mark.skipif(not POSTGRES, reason="THINK_AGENT_TEST_POSTGRES names no server")
BOTH = [
    pytest.param("sqlite", marks=NEEDS_SQLITE),
    pytest.param(
        POSTGRES.rpartition("/")[0], id="postgres", marks=[pytest.mark.postgres, NO_SERVER]
    ),
]


@pytest.fixture(params=BOTH)
def fleet(request, tmp_path):
    """A fleet with a database of either kind."""
    with database(request.param) as url:
        yield Fleet(tmp_path, url)


@pytest.fixture
def on_sqlite(tmp_path):
    return Fleet(tmp_path)


class Fleet:
    """The command line, with a database and a shop of its own. Workers are processes."""

    def __init__(self, folder, url=""):
        self.shop, self.url = str(folder / "shop.db"), url or f"sqlite:///{folder}/fleet.db"
        self.settings = {"THINK_AGENT_FLEET": self.url, "SHOP": self.shop}

    def begin(self, *words):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        env = environment(**self.settings)
        return subprocess.Popen([sys.executable, *words], cwd=ROOT, env=env, **pipes)

    @contextmanager
    def worker(self, name, server, *flags):
        """A worker that asks the model on a server."""
        model = ("--provider", "ollama", "--base-url", server.url)
        words = ("work", "--name", name, "--db", self.shop, *model, *flags)
        process = self.begin("-m", "demos.fleet", *words)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def work(self, *server_and_flags):
        """Run a worker until all is done. Gives its output."""
        with self.worker("last", *server_and_flags, "--until-done") as process:
            said, err = process.communicate(timeout=90)
        assert err == ""
        assert process.returncode == 0
        return said

    def enqueue(self, count):
        return self.command("enqueue", str(count), "--db", self.shop)

    def command(self, *words):
        done = run_here("demos.fleet", *words, **self.settings)
        assert done.returncode == 0
        assert done.stderr == ""
        return done.stdout

    def transcript(self, order):
        with desks.client(self.url) as client:
            output = client.retrieve_workflow(order).get_result()
            return read(desks.transcript(client, order, output))


def wait_until(true):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_another_worker_finishes_what_a_killed_one_began(tmp_path, fleet):
    killed = threading.Event()

    def half_way(request):
        if len(server.requests) > 8:  # three conversations at a time, each of six calls
            killed.wait(60)
        return reply(request)

    with serve(OllamaServer(), half_way) as server:
        assert "ORD-1001 to ORD-1008" in fleet.enqueue(8)
        with fleet.worker("first", server, "--concurrency", "3") as first:
            wait_until(lambda: len(server.requests) == 11)
            first.send_signal(signal.SIGKILL)
            first.wait()
        killed.set()
        assert fleet.work(server, "--lost-after", "1").count("taken over") == 3
        used = len(server.requests)
        shop = Shop(str(tmp_path / "undisturbed.db"))
        model = connect("ollama", base_url=server.url)
        undisturbed = desk(model, shop, done_when=make_checks(shop))
        outcomes = {o: undisturbed.run(f"I want a refund on order {o}") for o in RIGHT}
    assert sorted(decisions(fleet.shop)) == sorted(NEW_ORDERS.items())
    _, *rows, counts = fleet.command("status").splitlines()
    shown = [(order, *end) for order, _, _, *end in sorted(map(str.split, rows))]
    assert shown == [(order, "signal", decided) for order, decided in NEW_ORDERS.items()]
    assert counts == "8 SUCCESS"
    # Only what was in flight when the worker died was asked a second time.
    assert used == 8 * outcomes["ORD-001"].model_calls + 3
    for order in NEW_ORDERS:
        found, copied = fleet.transcript(order), BOUGHT[int(order[-1]) % 4]
        assert untimed(found).replace(order, copied) == untimed(outcomes[copied].transcript)
        times = [message.at for message in found]
        assert times == sorted(times)


def test_status_tells_what_was_decided():
    for decided, shown in (["deny"], "deny"), (["deny", "approve"], "deny, approve"), ([], "-"):
        assert describe_end({"exit": "signal", "decisions": decided}) == ("signal", shown)


def test_a_refused_proposal_is_no_decision():
    order = {"order_id": "ORD-001", "reason": "so"}
    proposed = [call("process_refund", **order, decision=one) for one in ("deny", "approve")]
    model = ScriptedModel([(think("One of them will do."), *proposed), "Done."])
    outcome = Agent(model, Shop().tools(), silence="accept").run("refund ORD-001")
    assert len(outcome.actions) == 2
    assert desks.decisions(outcome) == ["approve"]


def untimed(messages):
    """The messages as text, without what differs in every run: times, idempotency keys, digests of
    the order's number, and tokens that are estimated from the length of a request.
    """
    mine = {Started: {"key": "", "same": ""}, Assistant: {"usage": Usage()}}
    return str([replace(m, at=None, **mine.get(type(m), {})) for m in messages])


def freeze(process, database):
    """Stop a process while it holds no lock on its database, so that others can go on."""
    for _ in range(100):
        process.send_signal(signal.SIGSTOP)
        # Its threads go on for a moment after the signal, and may take the lock in that moment.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(database, 0.5)) as db:
            db.execute("BEGIN EXCLUSIVE")
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    pytest.fail("the worker held a lock each time it was stopped")


@NEEDS_SQLITE
def test_a_worker_that_was_only_slow_does_no_harm(on_sqlite):
    """It is stopped, another worker ends its conversation, and then it goes on."""
    frozen = threading.Event()

    def half_way(request):
        if len(server.requests) == 4:  # the next reply records a decision
            frozen.wait(60)
        return reply(request)

    fleet = on_sqlite
    with serve(OllamaServer(), half_way) as server:
        fleet.enqueue(1)
        with fleet.worker("first", server) as first:
            wait_until(lambda: len(server.requests) == 4)
            freeze(first, fleet.url.removeprefix("sqlite:///"))
            frozen.set()
            assert "taken over" in fleet.work(server, "--lost-after", "1")
            first.send_signal(signal.SIGCONT)
            time.sleep(1)
            assert first.poll() is None
            first.send_signal(signal.SIGTERM)
            shown, err = first.communicate(timeout=60)
            assert first.returncode == 130
            assert err.strip() == "stopped"
            assert "signal" not in shown  # its own end was not the one that counts
    assert decisions(fleet.shop) == [("ORD-1001", "deny")]
    assert len(results(fleet.transcript("ORD-1001"), "process_refund")) == 1


KILLED_AFTER_THE_DEED = """
import os, pathlib, signal
from dataclasses import replace
from demos.fleet import fleet
from demos.refund.offline import reply
from demos.refund.shop import Shop
from think_agent import ScriptedModel
from think_agent.integrations.dbos import DurableAgent
import time

url = os.environ["THINK_AGENT_FLEET"]
shop = os.environ["SHOP"]
flag = pathlib.Path(shop + ".killed")
*others, refund = Shop(shop).tools()

def refund_and_die(**arguments):
    receipt = refund.function(**arguments)
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return receipt

agent = DurableAgent(ScriptedModel(reply), [*others, replace(refund, function=refund_and_die)])
with fleet.client(url) as client:
    fleet.begin_work(client, url, agent, worker="only", concurrency=1)
    while not fleet.is_done(client):
        time.sleep(0.1)
fleet.DBOS.destroy()
"""


def test_a_call_whose_record_was_lost_is_not_done_twice(fleet):
    fleet.enqueue(4)
    orders = list(NEW_ORDERS.items())[:4]
    assert fleet.begin("-c", KILLED_AFTER_THE_DEED).wait(60) == -signal.SIGKILL
    assert len(decisions(fleet.shop)) == 1  # it was done, and not recorded
    # Under its old name it takes up its own.
    assert fleet.begin("-c", KILLED_AFTER_THE_DEED).wait(60) == 0
    assert decisions(fleet.shop) == orders
    for order, decision in orders:
        [receipt] = results(fleet.transcript(order), "process_refund")
        assert not receipt.is_error
        assert json.loads(receipt.content)["decision"] == decision


@NEEDS_SQLITE
def test_a_failed_conversation_goes_on_from_the_step_that_failed(on_sqlite):
    def quota_is_out_once(request):
        if len(server.requests) == 3:
            server.canned.append(Reply(401, {"error": "unauthorized"}))  # to the fourth
        return reply(request)

    fleet = on_sqlite
    fleet.enqueue(1)
    with serve(OllamaServer(), quota_is_out_once) as server:
        assert "ORD-1001: failed (" in fleet.work(server)
        failed = fleet.command("status")
        assert "ERROR" in failed
        assert "unauthorized" in failed
        assert len(server.requests) == 4
        assert "ORD-1001" in fleet.command("retry")
        assert "ORD-1001: signal" in fleet.work(server)
        assert len(server.requests) == 1 + 6
    assert decisions(fleet.shop) == [("ORD-1001", "deny")]
    assert fleet.command("retry") == "nothing had failed; nothing was queued\n"


@NEEDS_SQLITE
def test_the_fleet_asks_models_no_more_often_than_it_may(on_sqlite):
    on_sqlite.enqueue(2)
    slowly = ("--per-minute", "1")
    with serve(OllamaServer(), reply) as server, on_sqlite.worker("a", server, *slowly):
        wait_until(lambda: "2 PENDING" in on_sqlite.command("status"))
        wait_until(lambda: len(server.requests) == 1)
        time.sleep(1)
        assert len(server.requests) == 1
        assert Shared(on_sqlite.url).wait(1) > 60  # the second's first call waits, too


def test_a_minute_s_calls_mean_the_same_in_help_and_readme():
    said = run_here("demos.fleet", "work", "--help", COLUMNS="200").stdout
    assert re.findall(r"--\S*per-minute N +(.*), at", said) == [
        "requests a minute of the whole fleet"
    ]
    page = (ROOT / "think_agent/integrations/README.md").read_text(encoding="utf-8")
    assert "`--per-minute` | model calls a minute of the whole fleet" in page


OTHER_CODE = """
import os, signal, sys
from demos.fleet import fleet
from demos.refund.offline import reply
from demos.refund.shop import Shop
from think_agent import ScriptedModel
from think_agent.integrations.dbos import DurableAgent

def die(request):
    os.kill(os.getpid(), signal.SIGKILL)

url = os.environ["THINK_AGENT_FLEET"]
script = die if "die" in sys.argv else reply
agent = DurableAgent(ScriptedModel(script), Shop(os.environ["SHOP"]).tools(), instructions="Other.")
with fleet.client(url) as client:
    fleet.begin_work(client, url, agent, worker="other", concurrency=1)
    print(agent.version, flush=True)
    while "die" in sys.argv:
        signal.pause()
fleet.DBOS.destroy()
"""


def work_until_done(fleet, *flags):
    words = (
        "work",
        "--provider",
        "offline",
        "--pace",
        "0",
        "--db",
        fleet.shop,
        "--lost-after",
        "1",
    )
    done = run_here("demos.fleet", *words, *flags, "--until-done", **fleet.settings)
    return done.returncode, done.stderr


@NEEDS_SQLITE
def test_a_worker_with_other_code_says_for_what_it_waits_and_ends(on_sqlite):
    """It waited for ever, and said nothing."""
    on_sqlite.enqueue(2)
    killed = on_sqlite.begin("-c", OTHER_CODE, "die")
    version, _ = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    code, said = work_until_done(on_sqlite)
    assert code == 3
    assert said.count("\n") == 1
    assert said.startswith("waiting for a worker with other code than this one (")
    assert f"ORD-1001 for {version.strip()}" in said
    assert decisions(on_sqlite.shop) == [("ORD-1002", "approve")]  # the other one had not begun


@NEEDS_SQLITE
def test_after_a_rollback_a_worker_is_told_what_to_do(on_sqlite):
    """New conversations begin under the newest code, and this one is older."""
    assert work_until_done(on_sqlite) == (0, "")
    other = on_sqlite.begin("-c", OTHER_CODE)
    version, _ = other.communicate(timeout=60)
    assert other.returncode == 0
    on_sqlite.enqueue(7)
    code, said = work_until_done(on_sqlite)
    orders = ", ".join(f"ORD-{number}" for number in range(1001, 1006))
    assert code == 3
    assert f"{orders} and 2 more for {version.strip()}." in said
    assert "--newest" in said
    with desks.client(on_sqlite.url) as client:
        assert desks.find_blocked(client, ["1", version.strip()]) == {}  # such a worker lives
        assert len(desks.find_blocked(client, ["1"])[version.strip()]) == 7
    assert work_until_done(on_sqlite, "--newest") == (0, "")
    assert len(decisions(on_sqlite.shop)) == 7


@NEEDS_SQLITE
@pytest.mark.parametrize(
    ("url", "words", "message"),
    [
        ("postgresql://me:secret@127.0.0.1:9/none?connect_timeout=2", "status", "cannot be "),
        ("nonsense", "status", "; use sqlite:///FILE or "),
        ("", "status ORD-7", "ORD-7: no conversation of that number is over; see status"),
        ("", "enqueue 2 --db .", "--db (flag): "),
        ("", "work --db .", "--db (flag): "),  # before a model is looked for
    ],
)
def test_a_wrong_argument_is_one_line(tmp_path, url, words, message):
    env = {"THINK_AGENT_FLEET": url or f"sqlite:///{tmp_path}/fleet.db"}
    done = run_here("demos.fleet", *words.split(), **env)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "secret" not in done.stderr


def test_a_missing_engine_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dbos", None)
    done = run_here("demos.fleet", "work")
    text = 'error: dbos is not installed; in the clone run: pip install -e ".[fleet]"\n'
    assert done.returncode == 2
    assert done.stderr == text


def test_an_old_sqlite_is_named_in_one_line(monkeypatch):
    monkeypatch.setattr(desks, "OLD_SQLITE", True)
    with pytest.raises(ValueError, match=r"needs SQLite 3\.42 or later, and there is 3\.\d+"):
        desks.client("sqlite:///fleet.db").__enter__()


@pytest.fixture
def engine(tmp_path):
    """DBOS in this process; give it an agent, and get a function that runs it as a workflow."""
    if desks.OLD_SQLITE:
        pytest.skip(OLD)
    url = f"sqlite:///{tmp_path}/engine.db"
    config = {"name": "test", "system_database_url": url, "log_level": "CRITICAL"}
    DBOS(config={**config, "serializer": DBOSPortableJSONSerializer()})
    agents = []
    paid.clear()

    @DBOS.workflow()
    def conversation(*texts: str) -> list[str]:
        runs = [agents[0].run(text).transcript for text in texts]
        return lines(itertools.chain(*runs))

    @DBOS.workflow()
    def answered(recorded: list[str], question: str, decision: str) -> list[str]:
        verdict = Verdict(decision, question=question)
        return lines(agents[0].resume(read(recorded), verdict=verdict).transcript)

    def start(agent, *texts):
        agents[:] = [agent]
        DBOS.launch()
        return DBOS.start_workflow(conversation, *texts)

    start.answered = answered
    yield start
    DBOS.destroy(destroy_registry=True)


@pytest.mark.parametrize(
    ("error", "times", "asked"),
    [
        (Overloaded("busy; try again"), 1, 2),
        (Overloaded("busy; try again"), 99, ASK_THE_MODEL["max_attempts"]),
        (AuthError("no key; set one"), 99, 1),
    ],
)
def test_a_model_is_asked_again_where_that_may_help(engine, monkeypatch, error, times, asked):
    requests = []

    def script(request):
        requests.append(request)
        if len(requests) <= times:
            raise error
        return Assistant("Here I am.")

    monkeypatch.setitem(ASK_THE_MODEL, "interval_seconds", 0.001)
    run = engine(DurableAgent(ScriptedModel(script)), "hello")
    if asked > times:
        assert last_reply(run) == "Here I am."
    else:  # the workflow fails with the model's own error
        with pytest.raises(type(error), match=str(error)):
            run.get_result()
    assert len(requests) == asked


paid = []  # the keys that the service has seen


@tool
def pay(cents: int, idempotency_key: str) -> str:
    """Pay."""
    paid.append(idempotency_key)
    time.sleep(0.01)
    return "paid"


def durable(*replies, tools=(pay,), **settings):
    """A durable agent on a script, which is not forced to think."""
    return DurableAgent(ScriptedModel(by_place(*replies)), tools, force="never", **settings)


BILL = call("pay", cents=8900)


def last_reply(handle):
    messages = read(handle.get_result())
    assert isinstance(messages[-1], Ended)
    return of_kind(messages, Assistant)[-1].text


def test_a_person_is_waited_for_in_the_workflow(engine):
    def is_dear(arguments):
        return arguments["cents"] > 5000

    asked, is_asked = [], threading.Event()
    guarded = replace(pay, needs_approval=is_dear)
    agent = durable(BILL, "Done.", tools=[guarded], approve=receiver(asked, is_asked))
    handle = engine(agent, "the bill, please")
    assert is_asked.wait(60)
    assert paid == []
    post(handle, asked[0], "yes")
    assert last_reply(handle) == "Done."
    assert len(paid) == 1
    assert "approval" in [step["function_name"] for step in steps_of(handle)]


def receiver(asked, is_asked):
    """`approve=` of a durable agent: it waits until somebody answers this question."""

    def ask(question):
        asked.append(question.id)
        is_asked.set()
        while True:
            posted = DBOS.recv("verdict", timeout_seconds=60)
            if posted["question"] == question.id:
                return Verdict(**posted)

    return ask


def post(handle, question, decision):
    """What a page does: it sends the id of the question, and the answer."""
    answer = {"question": question, "decision": decision}
    DBOS.send(handle.get_workflow_id(), answer, "verdict")


def test_an_answer_that_is_sent_twice_answers_one_question(engine):
    asked, is_asked = [], threading.Event()
    guarded = replace(pay, needs_approval=True)
    agent = durable(BILL, BILL, "Done.", tools=[guarded], approve=receiver(asked, is_asked))
    handle = engine(agent, "two bills")
    assert is_asked.wait(60)
    is_asked.clear()
    post(handle, asked[0], "yes")
    post(handle, asked[0], "yes")
    assert is_asked.wait(60)  # the second question, for an equal call
    assert len(paid) == 1
    post(handle, asked[1], "no")
    assert last_reply(handle) == "Done."
    assert len(paid) == 1


def test_a_question_whose_predicate_raises_keeps_its_id_when_the_workflow_starts_over(engine):
    def broken(arguments):
        raise ConnectionError("the risk service is down")

    asked, is_asked = [], threading.Event()
    guarded = replace(pay, needs_approval=broken)
    agent = durable(BILL, "Done.", tools=[guarded], approve=receiver(asked, is_asked))
    handle = engine(agent, "the bill, please")
    assert is_asked.wait(60)
    post(handle, asked[0], "yes")
    assert last_reply(handle) == "Done."
    DBOS.rewind_workflow(
        handle.get_workflow_id(), start_step=len(steps_of(handle)) + 1
    ).get_result()
    assert asked[0] == asked[1]
    assert len(paid) == 1


def test_equal_requests_of_two_conversations_are_two_questions(engine):
    agent = durable(BILL, "Done.", tools=[replace(pay, needs_approval=True)])
    pauses = [read(engine(agent, "the bill, please").get_result())[-1].id for _ in range(2)]
    assert pauses[0] != pauses[1]


@pytest.mark.parametrize("decision", ["yes", "no"])
def test_a_run_that_paused_is_answered_in_a_workflow_that_has_the_id_of_the_question(
    engine, decision
):
    agent = durable(BILL, "Done.", tools=[replace(pay, needs_approval=True)])
    waiting = engine(agent, "the bill, please").get_result()
    question = agent.next_step(read(waiting)).question
    assert isinstance(read(waiting)[-1], Paused)
    assert paid == []
    for _ in range(2):  # a double click: the engine runs a workflow of one id once
        with SetWorkflowID(question.pause):
            handle = DBOS.start_workflow(engine.answered, waiting, question.id, decision)
        assert last_reply(handle) == "Done."
    assert len(paid) == (decision == "yes")


def test_a_paused_run_is_answered_in_no_other_workflow(engine):
    agent = durable(BILL, "Done.", tools=[replace(pay, needs_approval=True)])
    waiting = engine(agent, "the bill, please").get_result()
    question = agent.next_step(read(waiting)).question
    with pytest.raises(ValueError, match="SetWorkflowID"):
        DBOS.start_workflow(engine.answered, waiting, question.id, "yes").get_result()
    assert paid == []


def test_a_check_is_a_step_and_is_not_run_again(engine):
    looked = []

    def the_light_is_off(turn):
        looked.append(turn.request.text)
        return None if turn.actions else "the light is still on"

    @tool(idempotent=True)
    def turn_off() -> str:
        """Turn the light off."""
        return "off"

    replies = ["Good night.", call("turn_off"), "It is off."]
    agent = durable(*replies, tools=[turn_off], done_when=[the_light_is_off])
    handle = engine(agent, "lights off")
    assert last_reply(handle) == "It is off."
    assert len(looked) == 2
    steps = steps_of(handle)
    assert [step["function_name"] for step in steps].count("check the_light_is_off") == 2

    again = DBOS.fork_workflow(handle.get_workflow_id(), len(steps) + 1)
    assert last_reply(again) == "It is off."
    assert len(looked) == 2


def steps_of(handle):
    return DBOS.list_workflow_steps(handle.get_workflow_id())


def test_each_payment_has_a_key_of_its_own(engine):
    """The second of a run, one of another run in the workflow, and one that a fork makes."""
    handle = engine(durable(BILL, BILL, "Done."), "pay two bills", "and again")
    handle.get_result()
    assert len({*paid}) == len(paid) == 4

    first = next(step for step in steps_of(handle) if step["function_name"] == "pay")
    DBOS.fork_workflow(handle.get_workflow_id(), first["function_id"]).get_result()
    assert len({*paid}) == len(paid) == 8


def test_a_run_that_starts_over_is_the_same_to_the_millisecond(engine):
    """All of it is read from the record: its keys, its times, and so its limit by the clock."""
    handle = engine(durable(BILL, BILL, "Done.", max_seconds=0.02), "pay two bills")
    said = handle.get_result()
    assert read(said)[-1].exit == "limit"
    steps = steps_of(handle)
    assert {step["function_name"] for step in steps} <= {"open", "model", "pay"}

    again = DBOS.rewind_workflow(handle.get_workflow_id(), start_step=len(steps) + 1)
    assert again.get_result() == said
    assert [started.key for started in of_kind(read(said), Started)] == paid
    assert len(steps_of(handle)) == len(steps)


def test_a_tool_that_the_engine_must_not_run_twice_is_refused():
    def bill(cents: int) -> str:
        """Send a bill."""
        return "sent"

    with pytest.raises(ValueError, match=r"^tool bill: the engine may run it twice; give .*key"):
        durable(tools=[tool(bill)])
    durable(tools=[tool(bill, read_only=True)])
    durable(tools=[tool(bill, idempotent=True), pay])


def test_a_run_that_would_not_be_durable_is_refused(tmp_path, engine):
    agent = DurableAgent(ScriptedModel(["hi"]))
    for run in (run_plain, run_async):
        with pytest.raises(TypeError, match="in a DBOS workflow"):
            run(agent, "hello")
    with agent.open(tmp_path / "talk.jsonl") as talk:

        @DBOS.workflow()
        def in_a_file() -> str:
            return agent.run("hello", transcript=talk).answer

        DBOS.launch()
        with pytest.raises(TypeError, match="without a path"):
            in_a_file()


def test_a_tool_that_raises_is_recorded_and_ends_the_workflow(engine):
    """With `on_tool_error="raise"`. A fork after that step has the result, and goes on."""

    @tool(idempotent=True)
    def turn_off() -> str:
        """Turn the light off."""
        raise KeyError("switch")

    agent = durable(call("turn_off"), "It is broken.", tools=[turn_off], on_tool_error="raise")
    handle = engine(agent, "lights off")
    with pytest.raises(KeyError, match="switch"):
        handle.get_result()
    steps = steps_of(handle)
    assert steps[-1]["function_name"] == "turn_off"
    assert "KeyError" in steps[-1]["output"]
    again = DBOS.fork_workflow(handle.get_workflow_id(), len(steps) + 1)
    assert last_reply(again) == "It is broken."


def all_is_well(turn):
    return None


@pytest.mark.parametrize(
    ("change", "is_the_same"),
    [
        ({"model": ScriptedModel(reply, model="b")}, True),
        ({"tools": ()}, False),
        ({"instructions": "be quick"}, False),
        ({"done_when": [all_is_well]}, False),
    ],
)
def test_the_version_covers_all_of_an_agent_but_its_model(change, is_the_same):
    settings = {
        "model": ScriptedModel(reply, model="a"),
        "tools": Shop().tools(),
        "instructions": "be kind",
    }
    version = DurableAgent(**settings).version
    assert (DurableAgent(**{**settings, **change}).version == version) == is_the_same
