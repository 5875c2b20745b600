"""The fleet under kills: `python -m tests.benchmarks.fleet postgresql://USER@HOST/ [--quick]`.

For 1, 2 and 4 workers: so many conversations of the refund desk are queued, and a worker is killed
with SIGKILL at each interval; a new one takes its place. At the end each conversation has to be
over, and each order decided once. `sqlite` instead of an address makes a file.

On Postgres it counts what the fleet asked of the server. Statements are counted if the extension
pg_stat_statements is loaded. The scripted model takes no time, so all that is measured is the cost
of the kit, the engine and the database.
"""

import contextlib
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from demos.fleet import fleet as desks
from demos.fleet.__main__ import new_orders
from demos.fleet.shared import Shared

HEAD = (
    "| workers | conversations | kills | minutes | a second | CPU of workers, ms each | steps each "
    "| statements each | commits each | WAL, kB each | kept, kB each |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)
Counts = dict[str, float]


@contextlib.contextmanager
def database(server: str) -> Iterator[str]:
    """The address of a new database."""
    if server == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/fleet.db"
        return
    import psycopg

    name = f"fleet_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(f"{server.rstrip('/')}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        url = f"{server.rstrip('/')}/{name}"
        with contextlib.suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE EXTENSION pg_stat_statements")  # a server may not have it
        yield url
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def counted(url: str) -> Counts:
    """What the server has done for this database so far; nothing on SQLite."""
    if url.startswith("sqlite"):
        return {}
    import psycopg

    own = "(SELECT oid FROM pg_database WHERE datname = current_database())"
    queries = {
        "commits": "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()",
        "WAL": "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn",
        "kept": "SELECT pg_database_size(current_database())",
        "statements": f"SELECT sum(calls) FROM pg_stat_statements WHERE dbid = {own}",
    }
    counts = {}
    with psycopg.connect(url, autocommit=True) as db:
        for name, query in queries.items():
            with contextlib.suppress(psycopg.Error):  # no such extension
                counts[name] = float(db.execute(query).fetchone()[0] or 0)
    return counts


class Workers:
    """Processes of the command line, all for one database and one shop."""

    def __init__(self, url: str, shop: str) -> None:
        self.command = [sys.executable, "-m", "demos.fleet", "work", "--fleet", url, "--db", shop]
        self.command += ["--provider", "offline", "--pace", "0", "--concurrency", "8"]
        self.running: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        self.running.append(subprocess.Popen(self.command, stdout=subprocess.DEVNULL))

    def kill_one(self) -> None:
        worker = self.running.pop(random.randrange(len(self.running)))
        worker.kill()
        worker.wait()

    def kill_all(self) -> None:
        while self.running:
            self.kill_one()


def measured(server: str, workers: int, conversations: int, kill_every: float) -> str:
    """A row of the table. Raises AssertionError if anything was lost or done twice."""
    with database(server) as url, tempfile.TemporaryDirectory() as folder:
        shop = str(Path(folder, "shop.db"))
        with desks.client(url) as client:
            orders = new_orders(shop, conversations)
            desks.enqueue(client, Shared(url), orders)
            before = counted(url)
            cpu = _cpu()
            began = time.monotonic()
            kills = _work(client, Workers(url, shop), workers, kill_every)
            seconds = time.monotonic() - began
            cpu = _cpu() - cpu
            after = counted(url)
            steps = _verified(client, shop, orders)
    each = {name: (after[name] - before[name]) / conversations for name in after}
    cells = [
        f"{workers} | {conversations:,} | {kills} | {seconds / 60:.1f}",
        f"{conversations / seconds:.1f} | {cpu / conversations * 1000:.0f} | {steps:.1f}",
        f"{each.get('statements', 0):.0f} | {each.get('commits', 0):.0f}",
        f"{each.get('WAL', 0) / 1000:.1f} | {each.get('kept', 0) / 1000:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _work(client: desks.DBOSClient, fleet: Workers, workers: int, kill_every: float) -> int:
    """Work until all is done; returns the number of kills."""
    kills = 0
    try:
        for _ in range(workers):
            fleet.begin()
        next_kill = time.monotonic() + kill_every
        while not desks.is_done(client):
            if time.monotonic() > next_kill:
                fleet.kill_one()
                fleet.begin()
                kills += 1
                next_kill += kill_every
            time.sleep(0.5)
    finally:
        fleet.kill_all()
    return kills


def _verified(client: desks.DBOSClient, shop: str, orders: list[str]) -> float:
    """Nothing is lost, and nothing is done twice. Returns the steps of a conversation."""
    states = Counter(run.status for run in client.list_workflows(queue_name=desks.NAME))
    assert states == {"SUCCESS": len(orders)}, states
    with contextlib.closing(sqlite3.connect(shop)) as db:
        decided = [order for (order,) in db.execute("SELECT order_id FROM decisions")]
    assert sorted(decided) == sorted(orders), Counter(decided).most_common(3)
    some = orders[:: max(1, len(orders) // 20)]
    return sum(len(client.list_workflow_steps(order)) for order in some) / len(some)


def _cpu() -> float:
    """Seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.argument("server")
@click.option("--conversations", default=2_000)
@click.option("--workers", "sizes", default=(1, 2, 4), multiple=True)
@click.option("--kill-every", default=30.0, help="seconds")
@click.option("--quick", is_flag=True, help="show that it runs")
def main(
    server: str, conversations: int, sizes: tuple[int, ...], kill_every: float, quick: bool
) -> None:
    if quick:
        conversations, sizes, kill_every = 8, (2,), 5.0
    print(HEAD, flush=True)
    for workers in sizes:
        print(measured(server, workers, conversations, kill_every), flush=True)


if __name__ == "__main__":
    main()
