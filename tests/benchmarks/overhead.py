"""What does the kit cost, compared with loops that are written by hand?

    python -m tests.benchmarks.overhead            the tables of its README, in half an hour
    python -m tests.benchmarks.overhead --quick    does it run? (numbers of one round mean nothing)

Rule 1: all sides hold the same conversation, eight model calls (`conversation.py`), against a
        server in a process of its own (`replay.py`). `kit.py` is a default Agent; the others are in
        `by_hand.py`: the typed API of each SDK, its raw entry point, and HTTP without an SDK.
Rule 2: the sides take turns in one run. A ratio is the median of the ratios of all rounds, followed
        by their quartiles. Below 1, the kit is cheaper.
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
PER_MB = 1024 if sys.platform == "linux" else 1024**2  # of `ru_maxrss`
THOUSAND = "ollama"  # where 1,000 are held at once: its typed loop takes eight minutes
AS_A_USER = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # has it, with bytecode cached
LATENCY = 0.05  # seconds, of the server that many conversations meet at once

Rounds: TypeAlias = dict[str, list[dict[str, float]]]  # by measure: what each side took in a round

# measure: words, unit, factor from what was measured, the most the ratio should be beside a side
MEASURES: dict[str, tuple[str, str, float, dict[str, float]]] = {
    "cpu": ("CPU per conversation", "ms", 1e3, {"typed": 1.0, "raw": 1.15}),
    "async cpu": ("async: CPU per conversation", "ms", 1e3, {"typed": 1.0, "raw": 1.15}),
    "1 wall": ("process start to exit: wall time", "ms", 1e3, {"typed": 1.05}),
    "1 cpu": ("process start to exit: CPU", "ms", 1e3, {"typed": 1.05}),
    "1 imports": ("of it imports and client", "ms", 1e3, {}),
    "1 memory": ("peak memory", "MB", 1 / PER_MB, {"typed": 1.1}),
    "1 bytes": ("request bytes per conversation", "kB", 1e-3, {"raw": 1.05}),
    "200 wall": ("200 at once, 50 ms latency: wall time", "s", 1.0, {"typed": 0.7}),
    "200 cpu": ("200 at once: CPU", "s", 1.0, {}),
    "200 memory": ("200 at once: peak memory", "MB", 1 / PER_MB, {}),
    "1000 wall": ("1,000 at once, 50 ms latency: wall time", "s", 1.0, {"typed": 0.7}),
    "1000 cpu": ("1,000 at once: CPU", "s", 1.0, {}),
    "1000 memory": ("1,000 at once: peak memory", "MB", 1 / PER_MB, {}),
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
    words = ["kit"] if side == "kit" else ["by_hand", side]
    which = [*words[1:], provider, url, str(count)]
    command = [sys.executable, "-m", f"tests.benchmarks.{words[0]}", *which]
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


def cell(rounds: list[dict[str, float]], other: str, factor: float, most: float | None) -> str:
    """`ratio (quartiles) kit/other`; with a mark where the ratio misses its target."""
    ratios = [row["kit"] / row[other] for row in rounds if other in row]
    if not ratios:
        return "–"
    low, ratio, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    kit, beside = (
        statistics.median(row[side] for row in rounds) * factor for side in ("kit", other)
    )
    mark = " ✗" if most and round(ratio, 2) > most else ""
    spread = f"({low:.2f}–{high:.2f})" if low < high else ""
    return f"**{ratio:.2f}**{mark} {spread} {kit:.3g}/{beside:.3g}"


def table(measured: dict[str, Rounds], other: str) -> str:
    """Markdown: a row per measure, a column per provider."""
    lines = [
        f"| kit / {other} | at most | {' | '.join(measured)} |",
        f"|---|---|{'---|' * len(measured)}",
    ]
    for measure, (words, unit, factor, most) in MEASURES.items():
        bound = most.get(other)
        found = (rounds.get(measure, []) for rounds in measured.values())
        cells = [cell(rounds, other, factor, bound) for rounds in found]
        if set(cells) != {"–"}:
            lines.append(f"| {words}, {unit} | {bound or ''} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(providers: Sequence[str], rounds: int) -> Iterator[str]:
    """A table for each of the other sides."""
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
    for other in SIDES[:-1]:
        yield table(measured, other)


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
    print("\n\n".join(tables(args.provider or PROVIDERS, rounds)))


if __name__ == "__main__":
    main()
