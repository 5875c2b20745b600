"""The command line of the fleet.

\b
python -m demos.fleet enqueue 20        twenty customers, an order and a conversation each
python -m demos.fleet work              a worker; start as many as you like, and kill them
python -m demos.fleet status            the state of each conversation, and what it decided
python -m demos.fleet status ORD-1001   the transcript of one that is over, as JSON lines
"""

import os
import socket
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from demos.refund.checks import make_checks
from demos.refund.offline import reply
from demos.refund.shop import INSTRUCTIONS, Shop
from think_agent import Assistant, Request
from think_agent.cli.choosing import choose_model, model_flags
from think_agent.cli.main import run
from think_agent.cli.options import Command, Group, file_option, new_file, positive, whole
from think_agent.cli.screen import say
from think_agent.messages import Json

if TYPE_CHECKING:
    from dbos import DBOSClient, WorkflowStatus

    from demos.fleet.shared import Shared

EXIT_CODES = (
    "exit codes: 0 done, 1 a model or file can't be used, 2 a flag is wrong, 3 what is left "
    "waits for a worker with other code, 130 stopped"
)
LOST_AFTER = 10.0  # seconds: ten looks of a worker
NAMED = 5  # orders in a message
FIRST = 1001  # the number of the first order made here; the shop's own are below

worker_option = Group("worker")
POSTGRES = "postgresql://USER:PASSWORD@HOST/NAME"
database = file_option(
    "--fleet", metavar="URL", default="sqlite:///fleet.db", help=f"or {POSTGRES}"
)
shop_file = file_option(
    "--db", metavar="PATH", type=new_file, default="shop.db", help="the shop's SQLite file"
)


@click.group(help=__doc__, no_args_is_help=True)
def main() -> None:
    if find_spec("dbos") is None:
        raise click.UsageError('dbos is not installed; in the clone run: pip install -e ".[fleet]"')


@main.command(cls=Command, epilog=EXIT_CODES)
@click.argument("count", type=whole)
@database
@shop_file
def enqueue(count: int, fleet: str, db: Path) -> None:
    """Queue COUNT conversations, each about another order."""
    from demos.fleet import fleet as desks
    from demos.fleet.shared import Shared

    with desks.client(fleet) as client:
        orders = new_orders(str(db), count)
        desks.enqueue(client, Shared(fleet), orders)
    print(f"queued {len(orders)} conversations: {orders[0]} to {orders[-1]}")


@main.command(cls=Command, epilog=EXIT_CODES)
@database
@shop_file
@model_flags(default="auto", whose=" of the whole fleet")
@worker_option("--name", metavar="N", help="the worker's name (default: the host and process)")
@worker_option("--concurrency", metavar="N", type=whole, default=4, help="conversations at a time")
@worker_option(
    "--lost-after",
    metavar="S",
    type=positive,
    default=LOST_AFTER,
    help="take over from a worker silent for S seconds",
)
@worker_option(
    "--keep",
    metavar="DAYS",
    type=positive,
    help="delete conversations that ended well DAYS ago",
)
@worker_option(
    "--pace",
    metavar="S",
    type=float,
    default=0.5,
    help="seconds for each reply of the scripted model",
)
@worker_option(
    "--newest", is_flag=True, help="this code is the newest: after a rollback, new ones begin here"
)
@worker_option("--until-done", is_flag=True, help="stop when no worker has anything left to do")
@click.pass_context
def work(ctx: click.Context, /, fleet: str, db: Path, until_done: bool, **settings: Any) -> int:
    """Run a worker until Ctrl-C."""
    from dbos import DBOS

    from demos.fleet import fleet as desks
    from demos.fleet.shared import Shared
    from think_agent.integrations.dbos import DurableAgent

    def reply_slowly(request: Request) -> Assistant:
        time.sleep(settings["pace"])
        return reply(request)

    worker = settings["name"] or f"{socket.gethostname()}-{os.getpid()}"
    per_minute = ctx.params.pop("per_minute")  # else each worker would have its own pace
    shop = Shop(str(db))
    with desks.client(fleet) as client:
        shared = Shared(fleet)
        model = choose_model(ctx, scripts={"stand-in": reply_slowly})
        model.check()
        if per_minute:
            model = desks.Paced(model, shared, per_minute)
        agent = DurableAgent(
            model,
            shop.tools(),
            instructions=INSTRUCTIONS.read_text(encoding="utf-8"),
            done_when=make_checks(shop),
        )
        print(f"worker {worker}: {model.name}:{model.model}", flush=True)
        desks.begin_work(client, fleet, agent, worker=worker, concurrency=settings["concurrency"])
        if settings["newest"]:
            client.set_latest_application_version(agent.version)
        try:
            return look(client, shared, worker, agent.version, until_done=until_done, **settings)
        finally:  # running conversations may end; another worker takes the others over
            DBOS.destroy(workflow_completion_timeout_sec=10)


def look(
    client: "DBOSClient",
    shared: "Shared",
    worker: str,
    version: str,
    *,
    until_done: bool,
    lost_after: float,
    keep: float | None,
    **_: object,
) -> int:
    """Look after the fleet once a second, until Ctrl-C or, with `until_done`, until no worker has
    anything left to do. Returns the exit code.
    """
    from demos.fleet import fleet as desks

    said = ""
    while True:
        shared.say_alive(worker, version)
        taken = desks.look_after(client, shared, worker, lost_after=lost_after, keep=keep)
        for order in taken:
            print(f"{order}: its worker is lost, taken over", flush=True)
        if until_done and desks.is_done(client):
            return 0

        blocked = desks.find_blocked(client, shared.versions(lost_after))
        if blocked:
            text = waits_for(blocked, version)
            if text != said:
                say(text)
            said = text
            if until_done:
                return 3
        time.sleep(1)


def waits_for(blocked: Mapping[str, Sequence[str]], version: str) -> str:
    """For which code the conversations wait that no living worker can take, in a line."""
    parts = []
    for needed, orders in blocked.items():
        named = ", ".join(orders[:NAMED])
        if len(orders) > NAMED:
            named = f"{named} and {len(orders) - NAMED} more"
        parts.append(f"{named} for {needed}")
    return (
        f"waiting for a worker with other code than this one ({version}): {'; '.join(parts)}. "
        "Start one, or after a rollback use --newest for those that have not begun."
    )


@main.command(cls=Command, epilog=EXIT_CODES)
@click.argument("id", required=False)
@database
def status(id: str | None, fleet: str) -> None:
    """Show the state of each conversation and what it decided, or the transcript of one."""
    from demos.fleet import fleet as desks

    with desks.client(fleet) as client:
        ids = None
        if id:
            ids = [id]
        runs = client.list_workflows(queue_name=desks.NAME, workflow_ids=ids)
        if id is None:
            show_table(runs)
            return
        if not runs or not runs[0].output:
            raise click.UsageError(f"{id}: no conversation of that number is over; see status")
        for line in desks.transcript(client, runs[0].workflow_id, runs[0].output):
            print(line)


@main.command(cls=Command, epilog=EXIT_CODES)
@database
def retry(fleet: str) -> None:
    """Queue the failed conversations again, from the step that failed."""
    from demos.fleet import fleet as desks

    with desks.client(fleet) as client:
        orders = desks.retry(client)
    if orders:
        print(f"queued again: {', '.join(orders)}")
    else:
        print("nothing had failed; nothing was queued")


def show_table(runs: "Sequence[WorkflowStatus]") -> None:
    """Print a line for each conversation, and the number of conversations in each state."""
    if not runs:
        print("nothing queued")
        return
    row = "{:10} {:9} {:20} {:7} {}"
    print(row.format("order", "state", "worker", "exit", "decided"))
    for found in runs:
        exit, decided = "", found.error or ""
        if found.output:
            exit, decided = describe_end(found.output)
        worker = found.executor_id or "-"
        print(row.format(found.workflow_id, found.status, worker, exit, decided).rstrip())
    counts = Counter(found.status for found in runs)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))


def describe_end(output: Json) -> tuple[str, str]:
    """How a conversation ended and what it decided; "-" means no decision."""
    return output["exit"], ", ".join(output["decisions"]) or "-"


def new_orders(path: str, count: int) -> list[str]:
    """Add orders for new customers, as copies of the first four orders. Returns their numbers."""
    Shop(path)  # makes the file if there is none
    with sqlite3.connect(path) as db:
        query = "SELECT count(*) FROM orders WHERE id >= ?"
        (already,) = db.execute(query, (f"ORD-{FIRST}",)).fetchone()
        orders = {}
        for number in range(FIRST + already, FIRST + already + count):
            orders[f"ORD-{number}"] = f"ORD-00{number % 4 + 1}"
        db.executemany(
            "INSERT INTO orders SELECT"
            " ?, item, price_cents, bought_on, final_sale, refunded_on, note"
            " FROM orders WHERE id = ?",
            orders.items(),
        )
    return list(orders)


if __name__ == "__main__":
    sys.exit(run(main, "python -m demos.fleet"))
