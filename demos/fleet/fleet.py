"""The refund desk on many machines: a conversation is a workflow, and workers take it from a queue.

Rule 1: workers share only the engine's database: SQLite for one machine, Postgres for several.
Rule 2: a worker runs `concurrency` conversations at a time. The whole fleet makes at most
        `per_minute` model calls a minute, evenly spaced: that is a provider's quota.
Rule 3: the conversations of a worker that is silent for `lost_after` seconds are queued again. If
        it was only slow, two workers run one for a while. That is safe: the engine takes the
        records of the newer one only, and the shop gets the same idempotency key twice.
Rule 4: a worker that restarts under its old name continues its conversations at once.
Rule 5: a conversation continues only with the code it began with (`DurableAgent.version`). If no
        living worker has that code, the others say so.
Rule 6: the record of a step is stored once; a finished transcript refers to it by number.

Limitations: here the shop is a SQLite file. Several machines need one that all of them can reach.
"""

import json
import logging
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from dbos import (
    DBOS,
    DBOSClient,
    DBOSPortableJSONSerializer,
    EnqueueOptions,
    WorkflowStatus,
    error,
)
from sqlalchemy.exc import SQLAlchemyError

from demos.fleet.shared import Shared
from think_agent import Assistant, Model, ModelError, Outcome, Request
from think_agent.integrations.dbos import DurableAgent, lines
from think_agent.messages import Json

NAME = "refund-desk"  # of the application, its queue and its workflow
URLS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
BATCH = 500  # conversations in one transaction
READABLE = DBOSPortableJSONSerializer()  # the default, pickle, cannot be read by a person
# On newer Pythons the engine asks SQLite for a function that came with 3.42.
OLD_SQLITE = sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42)


@contextmanager
def client(url: str) -> Iterator[DBOSClient]:
    """A client of the fleet's database, which is made if there is none. Raises ValueError if it
    cannot be used.
    """
    if OLD_SQLITE and url.startswith("sqlite"):
        raise ValueError(
            f"on this Python the engine needs SQLite 3.42 or later, and there is "
            f"{sqlite3.sqlite_version}; use postgresql://USER:PASSWORD@HOST/NAME, or Python 3.11"
        )
    logging.getLogger("dbos").setLevel(logging.CRITICAL)  # we print what matters
    try:
        DBOS.migrate(url)
        fleet = DBOSClient(system_database_url=url, serializer=READABLE, application_name=NAME)
    except (TypeError, ValueError) as problem:  # not quoted: a password may be in it
        raise ValueError(f"that database can't be shared; use {URLS}") from problem
    except (SQLAlchemyError, error.DBOSException) as problem:
        cause = str(getattr(problem, "orig", problem)).strip().splitlines()[0]
        raise ValueError(f"the database cannot be used ({cause}); use {URLS}") from problem
    try:
        yield fleet
    finally:
        fleet.destroy()


def enqueue(fleet: DBOSClient, shared: Shared, orders: Sequence[str]) -> None:
    """Queue a conversation for each order. The order's number is its id, so it is queued once."""
    for start in range(0, len(orders), BATCH):
        with shared.engine.begin() as transaction:
            for order in orders[start : start + BATCH]:
                text = f"I want a refund on order {order}"
                job = EnqueueOptions(workflow_name=NAME, queue_name=NAME, workflow_id=order)
                fleet.enqueue_in_transaction(transaction, job, text)


class Paced(Model):
    """A model that the whole fleet asks at most `per_minute` times a minute (rule 2). A try that
    the provider makes again by itself is not counted.
    """

    def __init__(self, model: Model, shared: Shared, per_minute: int) -> None:
        self.name = model.name
        self.model = model.model
        self._asked = model
        self._shared = shared
        self._per_minute = per_minute

    def complete(self, request: Request) -> Assistant:
        time.sleep(self._shared.wait(self._per_minute))
        return self._asked.complete(request)


def begin_work(
    fleet: DBOSClient, url: str, agent: DurableAgent, *, worker: str, concurrency: int
) -> None:
    """Make this process a worker. The engine's threads work until `DBOS.destroy`."""
    DBOS(
        config={
            "name": NAME,
            "system_database_url": url,
            "serializer": READABLE,
            "executor_id": worker,
            "application_version": agent.version,
            "log_level": "CRITICAL",
        }
    )

    @DBOS.workflow(name=NAME)
    def conversation(text: str) -> Json:
        try:
            outcome = agent.run(text)
        except ModelError as problem:
            print(f"{DBOS.workflow_id}: failed ({problem})", flush=True)
            raise
        print(f"{DBOS.workflow_id}: {outcome.exit}", flush=True)
        step_of = {line: step for step, line in read_records(fleet, DBOS.workflow_id).items()}
        return {
            "exit": outcome.exit,
            "decisions": decisions(outcome),
            "transcript": [step_of.get(line, line) for line in lines(outcome.transcript)],
        }

    DBOS.launch()
    DBOS.register_queue(
        NAME,
        worker_concurrency=concurrency,
        polling_interval_sec=0.2,
        on_conflict="always_update",
    )


def decisions(outcome: Outcome) -> list[str]:
    """The decisions of a conversation, one for each of the shop's receipts."""
    decided = []
    for action in outcome.actions:
        if action.call.name == "process_refund" and not action.result.is_error:
            receipt = json.loads(action.result.content)
            decided.append(receipt["decision"])
    return decided


def read_records(fleet: DBOSClient, order: str | None) -> dict[int, str]:
    """The lines that the steps of a conversation have recorded, by the number of the step."""
    assert order
    found = {}
    for step in fleet.list_workflow_steps(order):
        if isinstance(step["output"], str):
            found[step["function_id"]] = step["output"]
    return found


def transcript(fleet: DBOSClient, order: str, output: Json) -> list[str]:
    """The lines of a finished conversation (rule 6), from what its workflow returned."""
    line_of = read_records(fleet, order)
    return [line_of.get(part, part) for part in output["transcript"]]


def look_after(
    fleet: DBOSClient, shared: Shared, worker: str, *, lost_after: float, keep: float | None
) -> list[str]:
    """One look of a worker. The first of them sweeps for all. Returns what was taken over."""
    if not shared.is_first(worker, lost_after):
        return []
    if keep is not None:
        forget(fleet, keep)
    return take_over(fleet, shared.lost(lost_after))


def take_over(fleet: DBOSClient, lost: list[str]) -> list[str]:
    """Queue the conversations of lost workers again. One that was only slow does no harm."""
    if not lost:
        return []
    left = fleet.list_workflows(
        status="PENDING", queue_name=NAME, executor_id=lost, load_input=False
    )
    taken = [run.workflow_id for run in left]
    if taken:
        fleet.resume_workflows(taken, queue_name=NAME)
    return taken


def forget(fleet: DBOSClient, keep: float) -> None:
    """Delete the conversations that ended well more than `keep` days ago, a batch at a time."""
    until = (datetime.now(UTC) - timedelta(days=keep)).isoformat()
    old = fleet.list_workflows(
        status="SUCCESS", completed_before=until, limit=BATCH, load_input=False, load_output=False
    )
    if old:
        fleet.delete_workflows([run.workflow_id for run in old])


def is_done(fleet: DBOSClient) -> bool:
    """Is no conversation waiting or running?"""
    return not _find_unfinished(fleet, limit=1)


def find_blocked(fleet: DBOSClient, living: Sequence[str]) -> dict[str, list[str]]:
    """The conversations that wait for other code than the versions of the `living` workers, by the
    version that each needs (rule 5). Empty as long as a living worker has something to do. Of very
    many, only the oldest are named.
    """
    if _find_unfinished(fleet, app_version=list(living), limit=1):
        return {}
    newest = fleet.get_latest_application_version()["version_name"]
    found: dict[str, list[str]] = {}
    for run in _find_unfinished(fleet, limit=BATCH):
        needed = run.app_version or newest
        if needed in living:
            return {}
        found.setdefault(needed, []).append(run.workflow_id)
    return found


def _find_unfinished(fleet: DBOSClient, **which: Any) -> list[WorkflowStatus]:
    return fleet.list_workflows(
        queue_name=NAME, status=["ENQUEUED", "DELAYED", "PENDING"], load_input=False, **which
    )


def retry(fleet: DBOSClient) -> list[str]:
    """Queue the failed conversations again, from the step that failed. Earlier steps are kept."""
    failed = fleet.list_workflows(queue_name=NAME, status="ERROR", load_input=False)
    for run in failed:
        steps = fleet.list_workflow_steps(run.workflow_id)
        last = max(step["function_id"] for step in steps)
        fleet.rewind_workflow(run.workflow_id, start_step=last, queue_name=NAME)
    return [run.workflow_id for run in failed]
