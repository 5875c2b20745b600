"""`think-agent eval --engine dbos`: killed, shared or failed, it runs no finished trial twice.

The oracles are the plain evaluation, a log that the suite's own tool writes, and the engine's
database, read without the engine. What is about kills and sharing runs on SQLite; marked
`postgres`, on the server that THINK_AGENT_TEST_POSTGRES names, too.
"""

import json
import logging
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest

pytest.importorskip("dbos", reason='needs DBOS: pip install ".[fleet]"')

from demos.refund import offline
from tests.demos.test_fleet import url  # noqa: F401
from tests.evaluation.test_evaluate import (
    CASES,
    COMMAND,
    KNOWN,
    LINES,
    ROOT,
    evaluate,
    keys,
    results_in,
)
from tests.providers.test_four_providers import KEY
from tests.servers import Reply, serve
from tests.servers.openai_chat import Chat

LAMPS = '''
import os, time
from think_agent import Assistant, ToolCall, tool
from think_agent.evaluation.trials import Check

def slow(request):
    time.sleep(0.02)
    if len(request.messages) == 1:
        return Assistant(tool_calls=(ToolCall("", "flip", {}),))
    return Assistant(text="Done.")

STAND_INS = {"slow": slow}

class Lamp:
    instructions = "Work the lamp."

    def __init__(self, name):
        self.name, self.on = name, False
        self.tools = [tool(self.flip)]

    def flip(self) -> str:
        """Flip the switch."""
        self.on = True
        with open(os.environ["FLIPS"], "a") as file:
            file.write(self.name + "\\n")
        return "click"

    def check(self):
        return Check(self.on)

def prepare(case, *, trust_model):
    return Lamp(case["id"])
'''
MANY = 80


class House:
    """A suite with a log of what was really done, evaluated by processes of their own."""

    def __init__(self, folder, database, monkeypatch):
        self.folder, self.database = folder, database
        self.flips = folder / "flips"
        self.flips.touch()
        monkeypatch.setenv("FLIPS", str(self.flips))
        (folder / "suite.py").write_text(LAMPS)
        lines = [{"id": f"lamp-{n}", "kind": "on", "text": "Light!"} for n in range(MANY)]
        (folder / "lamps.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def begin(self, out, *flags):
        words = (
            *(self.folder / "lamps.jsonl", "--provider", "offline:slow", "--force", "never"),
            *("--out", self.folder / out, "--plot", self.folder / "plot.png"),
            *("--engine", "dbos", "--fleet", self.database, *flags),
        )
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-c", COMMAND, *words], cwd=ROOT, **pipes)

    def done(self) -> set[str]:
        """The cases that the engine has on record."""
        ids = self.on_record("workflow_uuid", "status = 'SUCCESS'")
        return {id.split("/")[-2] for id in ids}

    def on_record(self, column, where="true") -> set[str]:
        """What the engine's table of workflows has in a column."""
        if self.database.startswith("sqlite"):
            table, database = "workflow_status", sqlite3.connect(self.database[len("sqlite:///") :])
        else:
            import psycopg

            table, database = "dbos.workflow_status", psycopg.connect(self.database)
        with closing(database) as db:
            rows = db.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {where}").fetchall()
        return {value for (value,) in rows}

    def wait_for(self, process, count):
        deadline = time.monotonic() + 60
        while self.flips.read_text().count("\n") < count:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.fixture(autouse=True)
def _log_of_its_own():
    """The engine's log keeps the stderr it was made with, and that of a test is closed after it."""
    yield
    logging.getLogger("dbos").handlers.clear()


@pytest.fixture
def few(tmp_path):
    path = tmp_path / "few.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES[:6])))
    return path


@pytest.fixture
def house(tmp_path, url, monkeypatch):  # noqa: F811
    return House(tmp_path, url, monkeypatch)


@pytest.mark.parametrize(
    ("sign", "next_out"),
    [
        (signal.SIGKILL, "first.jsonl"),
        (signal.SIGINT, "first.jsonl"),
        (signal.SIGKILL, "second.jsonl"),  # as another machine would: it has to wait for silence
    ],
)
def test_no_finished_trial_is_run_again_after_a_kill(house, sign, next_out):
    first = house.begin("first.jsonl")
    house.wait_for(first, 20)
    first.send_signal(sign)
    _, said = first.communicate(timeout=30)
    assert first.returncode == (130 if sign == signal.SIGINT else -sign), said
    on_record = house.done()
    assert 10 <= len(on_record) < MANY
    second = house.begin(next_out, "--silence", "2")
    _, said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    found = results_in(house.folder / next_out)
    assert len(found) == len({one.case for one in found}) == MANY
    assert all(one.right for one in found)
    flips = Counter(house.flips.read_text().split())
    assert flips.keys() == {f"lamp-{n}" for n in range(MANY)}
    assert all(flips[case] == 1 for case in on_record)
    assert flips.total() <= MANY + 4  # what was under way, four at a time


def test_two_machines_share_the_trials_and_both_get_all_results(house):
    both = [house.begin(out, "--concurrency", "2") for out in ("first.jsonl", "second.jsonl")]
    for process in both:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    first, second = (results_in(house.folder / f"{name}.jsonl") for name in ("first", "second"))
    assert {one.case: one for one in first} == {one.case: one for one in second}
    assert Counter(house.flips.read_text().split()) == {f"lamp-{n}": 1 for n in range(MANY)}
    assert len(house.on_record("executor_id")) == 2


def test_known_models_get_their_known_scores_from_the_engine(tmp_path):
    given = (CASES, "--provider", "offline:careful,offline:hasty")
    assert evaluate(*given, "--out", tmp_path / "plain.jsonl") == 0
    assert evaluate(*given, "--out", tmp_path / "r.jsonl", "--engine", "dbos") == 0
    plain, durable = (
        {replace(one, seconds=0.0) for one in results_in(tmp_path / name)}
        for name in ("plain.jsonl", "r.jsonl")
    )
    assert durable == plain
    for name in ("careful", "hasty"):
        own = [one for one in durable if one.setting.provider == f"offline:{name}"]
        assert {one.case for one in own if one.right} == KNOWN[name]
    assert (tmp_path / "r.db").exists()


@pytest.mark.parametrize(
    ("status", "code", "said"), [(400, 0, "error 1"), (401, 1, "error: openai")]
)
def test_what_failed_is_run_again_by_the_same_command(
    status,
    code,
    said,
    few,
    tmp_path,
    monkeypatch,
    capsys,
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve(Chat(), offline.reply) as server:
        server.canned.append(Reply(status, {"error": {"message": "no, not this one"}}))
        arguments = (
            *(few, "--suite", "demos.refund.suite", "--provider", "openai:local"),
            *("--base-url", server.url + "/v1", "--concurrency", 1, "--engine", "dbos"),
            *("--out", tmp_path / "r.jsonl"),
        )
        assert evaluate(*arguments) == code
        printed = capsys.readouterr()
        assert said in printed.out + printed.err
        assert "Traceback" not in printed.err
        assert evaluate(*arguments) == 0
        assert "error 1" not in capsys.readouterr().out
    assert len(set(keys(tmp_path / "r.jsonl"))) == 6


def test_what_a_user_can_get_wrong_is_one_line(few, tmp_path, monkeypatch, capsys):
    given = (few, "--suite", "demos.refund.suite", "--provider", "offline:silent", "--engine")
    out = ("--out", tmp_path / "r.jsonl")
    nowhere = "postgresql://me:secret@127.0.0.1:9/none?connect_timeout=2"
    assert evaluate(*given, "dbos", *out, "--fleet", nowhere) == 2
    assert evaluate(*given, "dbos", *out, "--fleet", "nonsense") == 2
    assert evaluate(*given, "dbos", *out, "--silence", "0") == 2
    assert evaluate(*given, "steam", *out) == 2
    errors = [e for e in capsys.readouterr().err.splitlines() if "stand-in" not in e]
    assert len(errors) == 4
    assert all(error.startswith("error: ") for error in errors)
    assert not any("secret" in error for error in errors)
    without = f"import sys; sys.modules['dbos'] = None\n{COMMAND}"
    done = subprocess.run(
        [sys.executable, "-c", without, *map(str, given), "dbos", *map(str, out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        'error: --engine dbos needs DBOS; in the clone run: pip install ".[fleet]"'
    )


def test_the_engine_is_imported_only_when_it_is_asked_for():
    code = "import sys, think_agent.evaluation.command; sys.exit('dbos' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
