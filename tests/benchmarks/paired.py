"""All sides in one process, by turns: `python -m tests.benchmarks.paired PROVIDER URL SLOW_URL
ROUNDS`.

Prints a JSON object: for each measure a list of rounds, in each what every side took. What differs
from one moment to the next (another process, a slower clock) meets all alike, and which one begins
changes with every round.
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


def talker(side: str, provider: str, url: str) -> Any:
    """Holds one conversation at each call."""
    return kit.talker(provider, url) if side == "kit" else by_hand.talker(side, provider, url)


def async_talker(side: str, provider: str, url: str) -> Any:
    """`talker`, for an event loop."""
    if side == "kit":
        return kit.async_talker(provider, url)
    return by_hand.async_talker(side, provider, url)


def timed(work: Callable[[], object], times: int) -> tuple[float, float]:
    """CPU and wall seconds of one `work`, without a garbage collection of what was before."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(times):
        work()
    return (time.process_time() - cpu) / times, (time.perf_counter() - wall) / times


def by_turns(
    works: dict[str, Callable[[], object]], rounds: int, times: int
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """CPU and wall time of all sides, in rounds."""
    cpu, wall = [], []
    for number in range(rounds):
        order = SIDES[number % len(SIDES) :] + SIDES[: number % len(SIDES)]
        measured = {side: timed(works[side], times) for side in order}
        cpu.append({side: measured[side][0] for side in SIDES})
        wall.append({side: measured[side][1] for side in SIDES})
    return cpu, wall


def at_once(side: str, provider: str, url: str, count: int) -> Callable[[], None]:
    """`count` conversations on a new event loop with new clients: connecting is a part of it."""

    async def talk() -> None:
        talk = async_talker(side, provider, url)
        assert await asyncio.gather(*(talk() for _ in range(count))) == [ANSWER] * count

    return lambda: asyncio.run(talk())


def main() -> None:
    provider, url, slow_url, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    measured: dict[str, Any] = {}
    works = {side: talker(side, provider, url) for side in SIDES}
    assert {work() for work in works.values()} == {ANSWER}
    measured["cpu"], _ = by_turns(works, rounds, EACH)

    with asyncio.Runner() as runner:
        talkers = {side: async_talker(side, provider, url) for side in SIDES}
        works = {side: lambda talk=talk: runner.run(talk()) for side, talk in talkers.items()}
        assert {work() for work in works.values()} == {ANSWER}
        measured["async cpu"], _ = by_turns(works, rounds, EACH)

    for count, times in ((200, rounds // 4), (1_000, 1)) if rounds > 1 else ((20, 1),):
        works = {side: at_once(side, provider, slow_url, count) for side in SIDES}
        cpu, wall = by_turns(works, max(1, times), 1)
        measured[f"{count} cpu"], measured[f"{count} wall"] = cpu, wall
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
