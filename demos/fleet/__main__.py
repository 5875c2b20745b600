"""The fleet at a terminal.

\b
python -m demos.fleet enqueue 20        twenty customers, an order and a conversation each
python -m demos.fleet work              a worker; start as many as you like, and kill them
python -m demos.fleet status            where each conversation stands, and what it decided
python -m demos.fleet status ORD-1001   the transcript of one that is over, as JSON lines
"""

import os
import socket
import sqlite3
import sys
import time
from collections import Counter
from importlib.util import find_spec
from typing import Any

import click

from demos.refund.offline import reply
from demos.refund.shop import INSTRUCTIONS, Shop
from think_agent import Assistant, Request
from think_agent.cli.main import run
from think_agent.cli.options import Command, File, chosen_model, flags, model_flags, positive, whole
from think_agent.messages import Json

EXIT_CODES = "exit codes: 0 done, 1 a model or file is out of reach, 2 a flag is wrong, 130 stopped"
FIRST = 1001  # the number of the first order made here; the shop's own are below

POSTGRES = "postgresql://USER:PASSWORD@HOST/NAME"
database = flags("files", ("--fleet", "URL", str, "sqlite:///fleet.db", f"or {POSTGRES}"))
shop = flags("files", ("--db", "PATH", File(), "shop.db", "the shop's SQLite file"))


@click.group(help=__doc__, no_args_is_help=True)
def main() -> None:
    if find_spec("dbos") is None:
        said = 'dbos is not installed; in the clone run: pip install -e ".[fleet]"'
        raise click.UsageError(said)


@main.command(cls=Command, epilog=EXIT_CODES)
@click.argument("count", type=whole)
@database
@shop
def enqueue(count: int, fleet: str, db: str) -> None:
    """Queue COUNT conversations, each about an order of its own."""
    from demos.fleet import fleet as desks

    with desks.client(fleet) as client:
        orders = new_orders(db, count)
        desks.enqueue(client, orders)
    print(f"queued {len(orders)} conversations: {orders[0]} to {orders[-1]}")


@main.command(cls=Command, epilog=EXIT_CODES)
@database
@shop
@model_flags(default="auto")
@flags(
    "worker",
    ("--name", "N", str, None, "the worker's name (default: the host and process)"),
    ("--concurrency", "N", whole, 4, "conversations at a time"),
    ("--per-minute", "N", whole, None, "conversations the fleet may begin"),
    ("--lost-after", "S", positive, 600.0, "take over what was silent for S seconds"),
    ("--pace", "S", float, 0.5, "seconds the stand-in takes for a reply"),
    ("--until-done", "", bool, False, "stop when nothing is left"),
)
@click.pass_context
def work(ctx: click.Context, /, fleet: str, db: str, until_done: bool, **settings: Any) -> None:
    """Be a worker, until Ctrl-C."""
    from dbos import DBOS

    from demos.fleet import fleet as desks
    from think_agent.integrations.dbos import DurableAgent

    def unhurried(request: Request) -> Assistant:
        time.sleep(settings["pace"])
        return reply(request)

    worker = settings["name"] or f"{socket.gethostname()}-{os.getpid()}"
    tools, lost_after = Shop(db).tools(), settings["lost_after"]
    with desks.client(fleet) as client:
        model = chosen_model(ctx, scripts={"stand-in": unhurried})
        model.check()
        agent = DurableAgent(model, tools, instructions=INSTRUCTIONS.read_text(encoding="utf-8"))
        print(f"worker {worker}: {model.name}:{model.model}", flush=True)
        pace = {name: settings[name] for name in ("concurrency", "per_minute")}
        desks.begin_work(fleet, agent, worker=worker, **pace)
        try:
            while not (until_done and desks.is_done(client)):
                for taken in desks.take_over(lost_after):
                    print(f"{taken}: silent for {lost_after:g} s, taken over", flush=True)
                time.sleep(0.5)
        finally:  # what is under way may end; what does not is taken over by another worker
            DBOS.destroy(workflow_completion_timeout_sec=10)


@main.command(cls=Command, epilog=EXIT_CODES)
@click.argument("id", required=False)
@database
def status(id: str | None, fleet: str) -> None:
    """Show where each conversation stands and what it decided, or the transcript of one."""
    from demos.fleet import fleet as desks

    with desks.client(fleet) as client:
        runs = client.list_workflows(queue_name=desks.NAME, workflow_ids=[id] if id else None)
    if id:
        if not runs or not runs[0].output:
            raise click.UsageError(f"{id}: no conversation of that number is over; see status")
        print(*runs[0].output["transcript"], sep="\n")
        return
    row = "{:10} {:9} {:20} {:7} {}"
    if runs:
        print(row.format("order", "state", "worker", "exit", "decided"))
    for found in runs:
        end = ended(found.output) if found.output else ("", found.error or "")
        worker = found.executor_id or "-"
        print(row.format(found.workflow_id, found.status, worker, *end).rstrip())
    counts = Counter(found.status for found in runs)
    print(", ".join(f"{n} {state}" for state, n in counts.items()) or "nothing queued")


@main.command(cls=Command, epilog=EXIT_CODES)
@database
def retry(fleet: str) -> None:
    """Queue again what failed, from where it failed."""
    from demos.fleet import fleet as desks

    with desks.client(fleet) as client:
        again = ", ".join(desks.retry(client))
    print(f"queued again: {again}" if again else "nothing had failed; nothing was queued")


def ended(output: Json) -> tuple[str, str]:
    """How a conversation ended and what it decided: "-" is nothing, "?" was not noted, as by an
    earlier version of this fleet.
    """
    return output["exit"], ", ".join(output.get("decisions", ["?"])) or "-"


def new_orders(path: str, count: int) -> list[str]:
    """Orders for so many new customers, who bought what the first four did; their numbers."""
    Shop(path)  # which makes the file where there is none
    with sqlite3.connect(path) as db:
        query = "SELECT count(*) FROM orders WHERE id >= ?"
        (made,) = db.execute(query, (f"ORD-{FIRST}",)).fetchone()
        orders = {
            f"ORD-{n}": f"ORD-00{n % 4 + 1}" for n in range(FIRST + made, FIRST + made + count)
        }
        db.executemany(
            "INSERT INTO orders SELECT"
            " ?, item, price_cents, bought_on, final_sale, refunded_on, note"
            " FROM orders WHERE id = ?",
            orders.items(),
        )
    return list(orders)


if __name__ == "__main__":
    sys.exit(run(main, "python -m demos.fleet"))
