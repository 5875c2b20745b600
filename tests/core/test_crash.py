"""The refund desk is killed after every step, and inside its tools before and after they commit.
The next process resumes the run: it decides the same, pays once, and no message is lost.

`python -m tests.soak` does the same at random, several times a run.
"""

import json
import sqlite3

import pytest

from tests.support import manager
from tests.support.desk import each_started_once, killed, points, said, work

TEXT = "Please refund ORD-001 and ORD-002"
RIGHT = [("ORD-001", "approve", 8900), ("ORD-002", "deny", 0)]


def rows(folder):
    with sqlite3.connect(folder / "shop.db") as db:
        return db.execute("SELECT order_id, decision, amount_cents FROM decisions").fetchall()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that is never killed."""
    folder = tmp_path_factory.mktemp("whole")
    seen = points(folder, TEXT)
    return seen, said(folder / "run.jsonl"), rows(folder)


def test_the_run_that_is_never_killed_is_right(whole):
    seen, messages, decisions = whole
    assert decisions == RIGHT
    assert each_started_once(messages) == messages
    assert seen.count("COMMIT") == seen.count("INSERT") == len(RIGHT)
    for place, name in enumerate(seen):
        if name == "COMMIT":  # a point on either side of it, before the result is in the file
            assert seen[place + 1 : place + 3] == ["worked", "ToolResult"]
    assert {"asked", "replied", "User", "Assistant", "Started", "ToolResult", "Outcome"} <= {*seen}


def test_killed_at_any_point_the_run_ends_as_if_it_was_not(whole, tmp_path):
    seen, messages, decisions = whole
    for number, name in enumerate(seen):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert killed(folder, TEXT, number), name
        outcome = work(folder, TEXT, lambda name: None)
        where = f"killed at point {number}, {name}"
        assert rows(folder) == decisions, where
        assert each_started_once(said(folder / "run.jsonl")) == messages, where
        assert each_started_once(list(outcome.transcript)) == messages, where
        assert outcome.exit == "signal", where
        for line in (folder / "run.jsonl").read_text().splitlines():
            assert json.loads(line)["type"]


def test_killed_again_and_again_the_run_still_ends_right(whole, tmp_path):
    """Each process is killed at its tenth point, about one message after the one before."""
    _, messages, decisions = whole
    deaths = 0
    while killed(tmp_path, TEXT, 10):
        deaths += 1
        assert deaths < 100
    assert deaths > 4
    assert rows(tmp_path) == decisions
    assert each_started_once(said(tmp_path / "run.jsonl")) == messages


def test_killed_at_any_point_around_an_answer_each_order_is_paid_once(tmp_path):
    """Between the question, the verdict, the start, the payment and its result."""
    killed_at = set()
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        kills = iter([None, number])  # the first process asks; the one that takes the answer dies
        points, books = manager.see_through(folder, lambda kills=kills: next(kills, None))
        assert books == [1, 3], points
        killed_at.update(points)
    assert {"Verdict", "Started", "before booking", "after booking", "ToolResult"} <= killed_at
