"""Both sides in one process, by turns: `python -m tests.benchmarks.paired PROVIDER URL SLOW_URL
ROUNDS`.

Prints a JSON object: for each measure a list of pairs, the loop by hand first. What differs from
one moment to the next (another process, a slower clock) meets both alike, and which one begins
changes with every round.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import TypeAlias

from tests.benchmarks import by_hand, kit
from tests.benchmarks.conversation import ANSWER

Pair: TypeAlias = list[float]
Sides: TypeAlias = list[Callable[[], object]]
EACH = 4  # conversations at a stretch


def timed(work: Callable[[], object], times: int) -> tuple[float, float]:
    """CPU and wall seconds of one `work`, without a garbage collection of what was before."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(times):
        work()
    return (time.process_time() - cpu) / times, (time.perf_counter() - wall) / times


def by_turns(sides: Sides, rounds: int, times: int) -> tuple[list[Pair], list[Pair]]:
    """CPU and wall pairs of both sides."""
    cpu, wall = [], []
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        measured = {side: timed(sides[side], times) for side in order}
        cpu.append([measured[0][0], measured[1][0]])
        wall.append([measured[0][1], measured[1][1]])
    return cpu, wall


def at_once(side: object, provider: str, url: str, count: int) -> Callable[[], None]:
    """`count` conversations on a new event loop with new clients: connecting is a part of it."""

    async def talk() -> None:
        talk = side.async_talker(provider, url)  # type: ignore[attr-defined]
        assert await asyncio.gather(*(talk() for _ in range(count))) == [ANSWER] * count

    return lambda: asyncio.run(talk())


def main() -> None:
    provider, url, slow_url, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    measured: dict[str, list[Pair]] = {}

    sides: Sides = [side.talker(provider, url) for side in (by_hand, kit)]
    assert [side() for side in sides] == [ANSWER, ANSWER]
    measured["cpu"], measured["wall"] = by_turns(sides, rounds, EACH)

    with asyncio.Runner() as runner:
        talkers = [side.async_talker(provider, url) for side in (by_hand, kit)]
        sides = [lambda talk=talk: runner.run(talk()) for talk in talkers]
        assert [side() for side in sides] == [ANSWER, ANSWER]
        measured["async cpu"], measured["async wall"] = by_turns(sides, rounds, EACH)

    count = 200 if rounds > 1 else 20
    sides = [at_once(side, provider, slow_url, count) for side in (by_hand, kit)]
    measured["200 cpu"], measured["200 wall"] = by_turns(sides, max(1, rounds // 4), 1)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
