"""Random kills, by hand: `python -m tests.soak [KILLS] [SEED]`. 200 take about half a minute.

Each run is of random orders and is killed at random points, in the middle of a line, too, until it
gets through. Then its rows and its transcript are compared with those of the run that is never
stopped. Prints the counts, and exits with 1 when anything was lost or doubled.
"""

import random
import sqlite3
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from tests.support.desk import each_started_once, killed, points, said
from think_agent.cli.main import run
from think_agent.cli.options import Command, whole

ORDERS = [f"ORD-{number:03}" for number in range(1, 12)]


def main(kills: int = 200, seed: int = 1) -> int:
    chance, counts = random.Random(seed), Counter[str]()
    while counts["killed"] < kills:
        text = "Please refund " + ", ".join(chance.sample(ORDERS, chance.randint(1, 4)))
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as stopped:
            length = len(points(Path(whole), text))
            folder = Path(stopped)
            before = counts["killed"]
            while killed(folder, text, chance.randrange(length + 5)):
                counts["killed"] += 1
                if chance.random() < 0.5:
                    counts["torn"] += tear(folder / "run.jsonl", chance)
            counts["resumed"] += counts["killed"] > before
            counts["runs"] += 1
            expected, found = rows(Path(whole)), rows(folder)
            counts["lost"] += (expected - found).total()
            counts["doubled"] += (found - expected).total()
            kept = each_started_once(said(folder / "run.jsonl"))
            counts["different transcripts"] += kept != said(Path(whole) / "run.jsonl")
    for name in ("runs", "killed", "torn", "resumed", "lost", "doubled", "different transcripts"):
        print(f"{name:22}{counts[name]:5}")
    return int(any(counts[name] for name in ("lost", "doubled", "different transcripts")))


def tear(path: Path, chance: random.Random) -> bool:
    """Leave a part of the next line in the file, as a kill in the middle of a write would."""
    whole = path.read_bytes().splitlines()
    line = chance.choice(whole)
    with path.open("ab") as file:
        file.write(line[: chance.randrange(1, len(line))])
    return True


def rows(folder: Path) -> Counter[tuple[str, str, int]]:
    """The decisions in the shop of a folder."""
    with sqlite3.connect(folder / "shop.db") as db:
        return Counter(db.execute("SELECT order_id, decision, amount_cents FROM decisions"))


@click.command(cls=Command, help=__doc__)
@click.argument("kills", type=whole, default=200)
@click.argument("seed", type=int, default=1)
def command(kills: int, seed: int) -> int:
    return main(kills, seed)


if __name__ == "__main__":
    sys.exit(run(command, "python -m tests.soak"))
