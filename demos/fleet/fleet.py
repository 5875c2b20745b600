"""The refund desk on many machines: a conversation is a workflow, and workers take it from a queue.

Rule 1: workers share only the engine's database: SQLite for one machine, Postgres for several. A
        worker keeps no state.
Rule 2: a worker runs `concurrency` conversations at a time. The whole fleet begins at most
        `starts_per_minute`: a provider's quota, divided by the model calls of a conversation (six
        here).
Rule 3: a conversation is taken over if it has finished no step for longer than any step should
        take. Its worker may be dead or only slow, so two workers may run it for a while. That is
        safe: the engine keeps the first record of a step and ignores the other, the shop gets the
        same idempotency key twice, and the look-ups are `read_only`.
Rule 4: a worker that is started again under its old name goes on with its conversations at once.

Limitations: the shop stands for a company's service. Here it is a SQLite file, so workers on
several machines need a shop that all of them can reach.
"""

import json
import logging
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, WorkflowStatus, error
from sqlalchemy.exc import SQLAlchemyError

from think_agent import ModelError, Outcome
from think_agent.integrations.dbos import DurableAgent, lines
from think_agent.messages import Json

NAME = "refund-desk"  # of the application, its queue and its workflow
URLS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
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
        raise ValueError(f"that is no database to share; use {URLS}") from problem
    except (SQLAlchemyError, error.DBOSException) as problem:
        cause = str(getattr(problem, "orig", problem)).strip().splitlines()[0]
        raise ValueError(f"the database cannot be used ({cause}); use {URLS}") from problem
    try:
        yield fleet
    finally:
        fleet.destroy()


def enqueue(fleet: DBOSClient, orders: Sequence[str]) -> None:
    """Queue a conversation for each order. The order's number is its id, so it is queued once."""
    for order in orders:
        text = f"I want a refund on order {order}"
        fleet.enqueue({"workflow_name": NAME, "queue_name": NAME, "workflow_id": order}, text)


def begin_work(
    url: str, agent: DurableAgent, *, worker: str, concurrency: int, starts_per_minute: int | None
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
        return {
            "exit": outcome.exit,
            "decisions": decisions(outcome),
            "transcript": lines(outcome.transcript),
        }

    DBOS.launch()
    DBOS.register_queue(
        NAME,
        worker_concurrency=concurrency,
        limiter={"limit": starts_per_minute, "period": 60.0} if starts_per_minute else None,
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


def take_over(silence: float) -> list[str]:
    """Queue again the conversations of other workers that finished no step for this many seconds.
    If such a worker goes on, it does no harm: the first record of a step counts.
    """
    under_way = DBOS.list_workflows(
        status="PENDING", queue_name=NAME, app_version=DBOS.application_version, load_input=False
    )
    taken = []
    for run in under_way:
        if run.executor_id != DBOS.executor_id and time.time() - last_sign(run) > silence:
            DBOS.resume_workflow(run.workflow_id, queue_name=NAME)
            taken.append(run.workflow_id)
    return taken


def last_sign(run: WorkflowStatus) -> float:
    """When the last step of the conversation was finished, or else when it was started."""
    signs = [run.dequeued_at or 0]
    for step in DBOS.list_workflow_steps(run.workflow_id, load_output=False):
        signs.append(step["completed_at_epoch_ms"] or 0)
    return max(signs) / 1000


def is_done(fleet: DBOSClient) -> bool:
    """Is no conversation waiting or running?"""
    waiting = ["ENQUEUED", "DELAYED", "PENDING"]
    return not fleet.list_workflows(queue_name=NAME, status=waiting, limit=1, load_input=False)


def retry(fleet: DBOSClient) -> list[str]:
    """Queue the failed conversations again, from the step that failed. Earlier steps are kept."""
    failed = fleet.list_workflows(queue_name=NAME, status="ERROR", load_input=False)
    for run in failed:
        steps = fleet.list_workflow_steps(run.workflow_id)
        last = max(step["function_id"] for step in steps)
        fleet.rewind_workflow(run.workflow_id, start_step=last, queue_name=NAME)
    return [run.workflow_id for run in failed]
