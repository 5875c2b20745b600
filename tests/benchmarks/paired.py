"""All sides in one process, by turns: `python -m tests.benchmarks.paired PROVIDER URL ROUNDS`.

Prints a JSON object: for each measure a list of rounds, with the time of every side in each round.
A disturbance (another process, a slower clock) affects all sides alike, and another side begins in
every round.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks import by_hand, kit
from tests.benchmarks.conversation import ANSWER
from tests.benchmarks.overhead import SIDES

EACH = 4  # conversations at a stretch


MODULES: dict[str, Any] = dict.fromkeys(SIDES, by_hand) | {"kit": kit}


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one `work`, without a garbage collection of what was before."""
    gc.collect()
    start = time.process_time()
    for _ in range(EACH):
        work()
    return (time.process_time() - start) / EACH


def by_turns(works: dict[str, Callable[[], object]], rounds: int) -> list[dict[str, float]]:
    """CPU seconds of all sides, in rounds."""
    measured = []
    for number in range(rounds):
        first = number % len(SIDES)
        measured.append({side: timed(works[side]) for side in SIDES[first:] + SIDES[:first]})
    return measured


def main() -> None:
    provider, url, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    measured: dict[str, Any] = {}
    works = {side: MODULES[side].talker(side, provider, url) for side in SIDES}
    assert {work() for work in works.values()} == {ANSWER}
    measured["cpu"] = by_turns(works, rounds)

    with asyncio.Runner() as runner:
        talkers = {side: MODULES[side].async_talker(side, provider, url) for side in SIDES}
        works = {side: lambda talk=talk: runner.run(talk()) for side, talk in talkers.items()}
        assert {work() for work in works.values()} == {ANSWER}
        measured["async cpu"] = by_turns(works, rounds)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
