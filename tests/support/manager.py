"""Payments that wait for a manager, in a process that is killed at any point. The manager lives on.

Everything is real: the process, SIGKILL, the transcript file, the SQLite file. Only the model is
scripted. The points are numbered: before and after each model call, after each message is in the
file, before and after a payment is booked.
"""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.support.desk import PROCESSES
from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    Outcome,
    Request,
    ScriptedModel,
    ToolResult,
    Verdict,
    tool,
)
from think_agent.errors import TranscriptError
from think_agent.messages import MESSAGES
from think_agent.testing import call

Point = Callable[[str], None]
ORDERS = (1, 2, 3)
DENIED = 2  # the manager says no to this order
REQUEST = "Pay the three orders."


def make_agent(folder: Path, point: Point) -> Agent:
    """The agent of a process. `point` is called at each point."""

    @tool(needs_approval=True)
    def pay(order: int) -> str:
        """Pay an order."""
        point("before booking")
        with closing(sqlite3.connect(folder / "books.db")) as books, books:
            books.execute("INSERT INTO paid VALUES (?)", [order])
        point("after booking")
        return "paid"

    def reply(request: Request) -> Assistant:
        """It pays one order after the other. The server calls each of its calls `call_0`."""
        point("asked")
        answered = sum(isinstance(message, ToolResult) for message in request.messages)
        point("replied")
        if answered == len(ORDERS):
            return Assistant("Done.")
        paying = call("pay", order=ORDERS[answered])
        return ScriptedModel([paying]).complete(request)

    return Agent(ScriptedModel(reply), [pay], force="never", silence="accept")


def open_books(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "books.db")) as books, books:
        books.execute("CREATE TABLE paid (order_number INTEGER)")


def paid(folder: Path) -> list[int]:
    """The orders in the books, one entry for each payment."""
    with closing(sqlite3.connect(folder / "books.db")) as books:
        return [order for (order,) in books.execute("SELECT order_number FROM paid")]


def work(folder: Path, verdict: Verdict | None, point: Point) -> Outcome:
    """What a process does: it begins the run, goes on, or takes the manager's answer."""
    path = folder / "run.jsonl"
    agent = make_agent(folder, point)

    def pass_by(event: object) -> None:
        if isinstance(event, (*MESSAGES, Outcome)):
            point(type(event).__name__)

    if not path.exists() or path.read_bytes().count(b"\n") < 2:  # nothing is recorded yet
        return agent.run(REQUEST, transcript=path, on_event=pass_by)
    return agent.resume(path, verdict=verdict, on_event=pass_by)


def take(folder: Path, verdict: Verdict | None, point: Point) -> None:
    """Work with the manager's answer, which may have arrived before."""
    try:
        work(folder, verdict, point)
    except TranscriptError:
        work(folder, None, point)


def _work_until(folder: Path, verdict: Verdict | None, number: int) -> None:
    """A process runs this. It is killed at the point with this number."""
    passed = 0

    def point(name: str) -> None:
        nonlocal passed
        if passed == number:
            (folder / "killed").write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1

    take(folder, verdict, point)


def work_until(folder: Path, verdict: Verdict | None, number: int) -> str:
    """Work in a process that is killed at a point: its name. Empty if it ended before that."""
    process = PROCESSES.Process(target=_work_until, args=(folder, verdict, number))
    process.start()
    process.join()
    if process.exitcode == 0:
        return ""
    if process.exitcode != -signal.SIGKILL:
        raise RuntimeError(f"the process ended with {process.exitcode}")
    return (folder / "killed").read_text()


def decide(question: AskHuman, folder: Path) -> Verdict:
    """The manager's answer. If a call may have happened, the manager looks into the books."""
    assert question.received
    order = question.received["order"]
    if order == DENIED:
        return question.no("not this one")
    if order in paid(folder):
        return question.no("it is in the books")
    return question.yes()


def see_through(folder: Path, kills: Callable[[], int | None]) -> tuple[list[str], list[int]]:
    """Work until the run is over. Each process is killed at the point that `kills` names (None:
    it isn't, and it is this process). The manager sends an answer again until a process that got it
    wasn't killed. Returns the points of the kills, and the books.
    """
    open_books(folder)
    points: list[str] = []
    verdict: Verdict | None = None
    while True:
        number = kills()
        if number is None:
            killed = ""
            take(folder, verdict, lambda name: None)
        else:
            killed = work_until(folder, verdict, number)
        if killed:
            points.append(killed)
            continue  # the same answer again
        outcome = work(folder, None, lambda name: None)
        if outcome.question is None:
            return points, paid(folder)
        verdict = decide(outcome.question, folder)
