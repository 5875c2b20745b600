"""Random trouble, by hand: `python -m tests.soak [TIMES] [SEED]`. 200 times take some minutes.

Kills: the refund desk works on random orders and is killed at random points, in the middle of a
line, too, until it gets through. Then its rows and its transcript are compared with those of the
run that is never stopped.

Kills around an answer: payments wait for a manager, and the processes are killed between question,
verdict, start and result. The manager sends an answer again until it gets through. Each order is
paid once, and none against a no.

Answers: a person answers late, twice, to old cards, and after changes of the code; fifty examples
for each of TIMES. What is shown is what runs.

Reads ahead: random runs whose reads begin at the same time, and the same runs one call after the
other; twenty-five for each of TIMES. Their records are the same.

Late answers: the shop books over HTTP, and its answer comes after the tool's client gave up. The
model makes the same call again, in the same words, in others, or with a default spelled out: with
an idempotency key, without one, and with a person who looks into the books. Each order is booked
once, under one key.

Random examples: the property tests with new examples. A find is printed as a case to keep.

Prints the counts, and exits with 1 when anything was lost, doubled or found.
"""

import random
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.core.test_ahead import compare_with_one_after_the_other
from tests.support import manager, questions
from tests.support.desk import each_started_once, killed, points, said
from tests.support.late import late_shop, work
from tests.support.sizes import ROOT
from think_agent import Started
from think_agent.cli.main import run
from think_agent.cli.options import Command, whole

ORDERS = [f"ORD-{number:03}" for number in range(1, 12)]
BAD = ("lost", "doubled", "different transcripts", "changed keys")


def some_orders(chance: random.Random) -> list[str]:
    return chance.sample(ORDERS, chance.randint(1, 4))


def kills(times: int, chance: random.Random) -> Counter[str]:
    """Runs that are killed, so many times in all; what became of them."""
    counts: Counter[str] = Counter()
    while counts["killed"] < times:
        text = "Please refund " + ", ".join(some_orders(chance))
        with tempfile.TemporaryDirectory() as undisturbed, tempfile.TemporaryDirectory() as stopped:
            length = len(points(Path(undisturbed), text))
            folder = Path(stopped)
            before = counts["killed"]
            while killed(folder, text, chance.randrange(length + 5)):
                counts["killed"] += 1
                if chance.random() < 0.5:
                    tear(folder / "run.jsonl", chance)
                    counts["torn"] += 1
            counts["resumed"] += counts["killed"] > before
            counts["runs"] += 1

            expected = rows(Path(undisturbed))
            found = rows(folder)
            counts["lost"] += (expected - found).total()
            counts["doubled"] += (found - expected).total()
            kept = each_started_once(said(folder / "run.jsonl"))
            counts["different transcripts"] += kept != said(Path(undisturbed) / "run.jsonl")
    return counts


def tear(path: Path, chance: random.Random) -> None:
    """Leave a part of the next line in the file, as a kill in the middle of a write would."""
    line = chance.choice(path.read_bytes().splitlines())
    with path.open("ab") as file:
        file.write(line[: chance.randrange(1, len(line))])


def rows(folder: Path) -> Counter[tuple[str, str, int]]:
    """The decisions in the shop of a folder."""
    with sqlite3.connect(folder / "shop.db") as db:
        return Counter(db.execute("SELECT order_id, decision, amount_cents FROM decisions"))


def kills_around_answers(times: int, chance: random.Random) -> Counter[str]:
    """Runs whose processes are killed, so many in all; what became of the payments."""
    counts: Counter[str] = Counter()
    while counts["killed"] < times:
        with tempfile.TemporaryDirectory() as folder:
            points, books = manager.see_through(Path(folder), lambda: chance.randrange(10))
        counts["runs"] += 1
        counts["killed"] += len(points)
        counts.update(f"killed at {point}" for point in points)
        expected = Counter(order for order in manager.ORDERS if order != manager.DENIED)
        counts["lost"] += (expected - Counter(books)).total()
        counts["doubled"] += (Counter(books) - expected).total()
    return counts


def answers(times: int) -> bool:
    """The state machine of a person's answers, with examples that nobody has seen."""
    trials = settings(max_examples=50 * times, stateful_step_count=15, deadline=None, database=None)
    run_state_machine_as_test(questions.Answers, settings=trials)  # raises at the first find
    return shown("answers", questions.SEEN)


def reads_ahead(times: int) -> bool:
    """Runs with reads that begin ahead of their places, compared with runs without."""
    for seed in range(25 * times):
        compare_with_one_after_the_other(seed)  # raises at the first difference
    return shown("reads ahead", Counter({"runs": 25 * times}))


def late_answers(times: int, chance: random.Random) -> Counter[str]:
    """Runs of which so many answers come too late in all; what became of them."""
    counts: Counter[str] = Counter()
    while counts["late"] < times:
        with_key, with_person = chance.choice([(True, False), (False, False), (False, True)])
        with late_shop(lambda: chance.random() < 0.5) as shop:
            text = "Please refund " + ", ".join(some_orders(chance))
            words = chance.choice(["as before", "reworded", "defaults"])
            outcome = work(shop, text, with_key=with_key, with_person=with_person, words=words)
            counts["runs"] += 1
            counts[f"runs that repeat {words}"] += 1
            counts["late"] += shop.late_answers

            arguments = {}
            for reply in outcome.turn.replies:
                for call in reply.tool_calls:
                    arguments[call.id] = call.arguments
            starts = [message for message in outcome.transcript if isinstance(message, Started)]
            for order in {arguments[start.call_id]["order_id"] for start in starts}:
                bookings = shop.bookings(order)
                counts["lost"] += bookings == 0
                counts["doubled"] += bookings > 1
                counts["booked"] += bookings
            counts["changed keys"] += sum(len(keys) > 1 for keys in shop.keys.values())
    return counts


def shown(title: str, counts: Counter[str]) -> bool:
    """Print the counts; was nothing bad among them?"""
    print(title)
    for name in sorted({*counts} - {*BAD}) + [name for name in BAD if name in counts]:
        print(f"  {name:28}{counts[name]:5}", flush=True)
    return not any(counts[name] for name in BAD)


def random_examples() -> bool:
    """The property tests, with examples that nobody has seen; do they hold?"""
    print("random examples", flush=True)
    words = ["-m", "hypothesis", "--hypothesis-profile=random"]
    return subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT).returncode == 0


@click.command(cls=Command, help=__doc__)
@click.argument("times", type=whole, default=200)
@click.argument("seed", type=int, default=1)
def command(times: int, seed: int) -> int:
    chance = random.Random(seed)
    held = [
        shown("kills", kills(times, chance)),
        shown("kills around an answer", kills_around_answers(times, chance)),
        answers(times),
        reads_ahead(times),
        shown("late answers", late_answers(times, chance)),
        random_examples(),
    ]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(run(command, "python -m tests.soak"))
