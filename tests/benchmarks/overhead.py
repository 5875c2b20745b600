"""What does the kit cost, compared with loops that are written by hand?

    python -m tests.benchmarks.overhead            the table of its README, in half an hour
    python -m tests.benchmarks.overhead --quick    does it run? (numbers of one round mean nothing)

Rule 1: all sides hold the same conversation, eight model calls (`conversation.py`), against a
        server in a process of its own (`replay.py`). `kit.py` is a default Agent; the others are in
        `by_hand.py`: the typed API of each SDK, its raw entry point, and HTTP without an SDK.
Rule 2: the sides take turns in one run. A ratio is the median of the ratios of all rounds. Below
        1, the kit is cheaper. Where the largest of them is a third above the smallest, both stand
        beside the median: between them, this machine shows no difference.
Rule 3: start, memory and imports are measured in a new process each time.

Limitations: POSIX only, because `os.wait4` says what one child used. The time of a model is not
included; in real runs it is a thousand times as long.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias
from urllib.request import urlopen

PROVIDERS = ("openai-responses", "openai-chat", "anthropic", "gemini", "ollama")
SIDES = ("typed", "raw", "http", "kit")
THOUSAND = "ollama"  # where 1,000 are held at once: its typed loop takes eight minutes
AS_A_USER = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # has it, with bytecode cached
NOISY = 4 / 3  # the largest ratio of the rounds by the smallest, from which both are shown
LATENCY = 0.05  # seconds, of the server that many conversations meet at once

Rounds: TypeAlias = dict[str, list[dict[str, float]]]  # by measure: what each side took in a round

MEASURES = {  # what is measured, in words
    "cpu": "CPU per conversation",
    "async cpu": "async: CPU per conversation",
    "1 wall": "process start to exit: wall time",
    "1 cpu": "process start to exit: CPU",
    "1 imports": "of it imports and client",
    "1 memory": "peak memory",
    "1 bytes": "request bytes per conversation",
    "200 wall": "200 at once, 50 ms latency: wall time",
    "200 cpu": "200 at once: CPU",
    "200 memory": "200 at once: peak memory",
    "1000 wall": "1,000 at once, 50 ms latency: wall time",
    "1000 cpu": "1,000 at once: CPU",
    "1000 memory": "1,000 at once: peak memory",
}


@contextmanager
def replaying(latency: float) -> Iterator[str]:
    """Start a replay server in a process of its own. Gives its URL."""
    command = [sys.executable, "-m", "tests.benchmarks.replay", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def warm(provider: str, url: str, rounds: int) -> Rounds:
    """The numbers of `paired.py`, from a process that imports all sides."""
    command = [sys.executable, "-m", "tests.benchmarks.paired", provider, url, str(rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    measured: Rounds = json.loads(done.stdout)
    return measured


def cold(
    provider: str, url: str, rounds: int, count: int = 1, sides: Sequence[str] = SIDES
) -> Rounds:
    """Start new processes in turn, each with `count` conversations at once."""
    measured: Rounds = {}
    skipped = int(rounds > 1 and count == 1)  # the disk cache is still cold
    for number in range(skipped + rounds):
        order = sides if number % 2 else sides[::-1]
        found = {side: one_process(side, provider, url, count) for side in order}
        if number >= skipped:
            for measure in found["kit"]:
                row = {side: found[side][measure] for side in sides}
                measured.setdefault(f"{count} {measure}", []).append(row)
    return measured


def one_process(side: str, provider: str, url: str, count: int) -> dict[str, float]:
    asked(url)
    start = time.perf_counter()
    module = "kit" if side == "kit" else "by_hand"
    which = [f"tests.benchmarks.{module}", side, provider, url, str(count)]
    command = [sys.executable, "-m", *which]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=AS_A_USER) as child:
        assert child.stdout
        imports = float(child.stdout.read())
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return {
        "wall": time.perf_counter() - start,
        "cpu": used.ru_utime + used.ru_stime,
        "imports": imports,
        "memory": used.ru_maxrss,
        "bytes": asked(url),
    }


def asked(url: str) -> float:
    """The bytes of requests to the server since the last call of this."""
    with urlopen(url + "/") as answer:
        return float(answer.read())


def ratio(rounds: list[dict[str, float]], other: str) -> str:
    """The median of the ratios of all rounds, with its band if they differ by a third."""
    ratios = [row["kit"] / row[other] for row in rounds if other in row]
    if not ratios:
        return "–"
    middle = f"{statistics.median(ratios):.2f}"
    low, high = min(ratios), max(ratios)
    if high >= NOISY * low:
        middle += f" ({low:.2f}–{high:.2f})"
    return middle


def table(measured: dict[str, Rounds]) -> str:
    """Markdown: a row for each measure, a column for each provider."""
    lines = [
        f"| kit / {', '.join(SIDES[:-1])} | {' | '.join(measured)} |",
        f"|---|{'---|' * len(measured)}",
    ]
    for measure, words in MEASURES.items():
        cells = []
        for rounds in measured.values():
            found = rounds.get(measure)
            if found:
                cells.append(", ".join(ratio(found, other) for other in SIDES[:-1]))
            else:
                cells.append("–")
        if set(cells) != {"–"}:
            lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measure_all(providers: Sequence[str], rounds: int) -> dict[str, Rounds]:
    """What was measured, by provider."""
    measured: dict[str, Rounds] = {}
    with replaying(0.0) as url, replaying(LATENCY) as slow_url:
        for provider in providers:
            print(f"measuring {provider} ...", file=sys.stderr)
            measured[provider] = warm(provider, url, rounds) | cold(provider, url, rounds)
            measured[provider] |= cold(
                provider, slow_url, max(1, rounds // 2), 200 if rounds > 1 else 20
            )
        if rounds > 1 and THOUSAND in providers:
            measured[THOUSAND] |= cold(THOUSAND, slow_url, 1, 1_000, ("typed", "kit"))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.overhead",
        description="The kit beside loops that are written by hand.",
    )
    parser.add_argument("--provider", action="append", choices=PROVIDERS, help="only this one")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of each measure")
    parser.add_argument("--quick", action="store_true", help="one round")
    args = parser.parse_args()
    rounds = 1 if args.quick else max(2, args.rounds)
    print(table(measure_all(args.provider or PROVIDERS, rounds)))


if __name__ == "__main__":
    main()
