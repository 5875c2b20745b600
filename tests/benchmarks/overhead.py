"""What does the kit cost, next to a loop that is written by hand on the same SDK?

    python -m tests.benchmarks.overhead            the table of its README, in about ten minutes
    python -m tests.benchmarks.overhead --quick    does it run? (figures of one round mean nothing)

Rule 1: both sides hold the same conversation, eight model calls (`conversation.py`), against a
        server in a process of its own (`replay.py`). `by_hand.py` is the typed API of each SDK as
        documented, `kit.py` is an Agent.
Rule 2: everything is measured in pairs, by turns, in one run. A ratio is the median of the pairs'
        ratios, with their quartiles behind it; below 1, the kit is cheaper.
Rule 3: what is asked of a cold process (start, memory, imports) is asked of a new one each time.

The edge: POSIX only, for `os.wait4` tells what one child used. The time a model takes is in none of
the figures; in life it is a thousand times all of them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.request import urlopen

PROVIDERS = ("openai-responses", "openai-chat", "anthropic", "gemini", "ollama")
SIDES = ("by_hand", "kit")
LATENCY = 0.05  # seconds, of the server that 200 conversations meet at once

Pairs: TypeAlias = dict[str, list[list[float]]]

# measure: (words, unit, factor from what was measured, the most the ratio should be)
MEASURES: dict[str, tuple[str, str, float, float | None]] = {
    "cpu": ("CPU per conversation", "ms", 1e3, 1.0),
    "wall": ("wall time per conversation", "ms", 1e3, None),
    "async cpu": ("async: CPU per conversation", "ms", 1e3, 1.0),
    "async wall": ("async: wall time per conversation", "ms", 1e3, None),
    "200 wall": ("200 at once, 50 ms latency: wall time", "s", 1.0, 0.7),
    "200 cpu": ("200 at once, 50 ms latency: CPU", "s", 1.0, None),
    "cold wall": ("process start to exit: wall time", "ms", 1e3, 1.05),
    "cold cpu": ("process start to exit: CPU", "ms", 1e3, 1.05),
    "imports": ("of it imports and client", "ms", 1e3, None),
    "memory": ("peak memory", "MB", 1 / 1024 if sys.platform == "linux" else 1 / 1024**2, 1.1),
    "bytes": ("request bytes per conversation", "kB", 1e-3, 1.0),
}


@contextmanager
def replaying(latency: float) -> Iterator[str]:
    """A replay server in a process of its own; its URL."""
    command = [sys.executable, "-m", "tests.benchmarks.replay", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def warm(provider: str, url: str, slow_url: str, rounds: int) -> Pairs:
    """What `paired.py` measures, in a process that imports both sides."""
    pairs: Pairs = printed_by("paired", provider, url, slow_url, str(rounds))
    return pairs


def printed_by(module: str, *arguments: str) -> Any:
    """The JSON that a module of the benchmark prints."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def cold(provider: str, url: str, rounds: int) -> Pairs:
    """New processes by turns, each with one conversation."""
    pairs: Pairs = {}
    for number in range(rounds + 1):
        order = SIDES if number % 2 else SIDES[::-1]
        found = {side: one_process(side, provider, url) for side in order}
        if number:  # the first pair finds nothing in the caches of the disk
            for measure in found["kit"]:
                pairs.setdefault(measure, []).append([found[side][measure] for side in SIDES])
    return pairs


def one_process(side: str, provider: str, url: str) -> dict[str, float]:
    asked(url)
    start = time.perf_counter()
    command = [sys.executable, "-m", f"tests.benchmarks.{side}", provider, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        imports = float(child.stdout.read())
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return {
        "cold wall": time.perf_counter() - start,
        "cold cpu": used.ru_utime + used.ru_stime,
        "imports": imports,
        "memory": used.ru_maxrss,
        "bytes": asked(url),
    }


def asked(url: str) -> float:
    """The bytes that the server was asked since this question."""
    with urlopen(url + "/") as answer:
        return float(answer.read())


def cell(pairs: list[list[float]], factor: float, target: float | None) -> str:
    """`ratio (quartiles) kit/by hand`; with a mark where the ratio misses its target."""
    ratios = [kit / by_hand for by_hand, kit in pairs]
    low, ratio, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    by_hand, kit = (statistics.median(side) * factor for side in zip(*pairs, strict=True))
    mark = " ✗" if target and round(ratio, 2) > target else ""
    spread = f"({low:.2f}–{high:.2f})" if low < high else ""
    return f"**{ratio:.2f}**{mark} {spread} {kit:.3g}/{by_hand:.3g}"


def table(measured: dict[str, Pairs]) -> str:
    """Markdown: a row per measure, a column per provider."""
    lines = [
        f"| kit / by hand | at most | {' | '.join(measured)} |",
        f"|---|---|{'---|' * len(measured)}",
    ]
    for measure, (words, unit, factor, target) in MEASURES.items():
        cells = (cell(pairs[measure], factor, target) for pairs in measured.values())
        lines.append(f"| {words}, {unit} | {target or ''} | {' | '.join(cells)} |")
    return "\n".join(lines)


def loop_table() -> str:
    """Markdown: how the loop itself grows with the model calls of one run."""
    by_calls = {int(calls): used for calls, used in printed_by("turns").items()}
    used = " | ".join(f"{seconds * 1e3:.0f}" for seconds in by_calls.values())
    each = " | ".join(f"{seconds / calls * 1e3:.2f}" for calls, seconds in by_calls.items())
    return "\n".join(
        [
            f"| model calls in one run | {' | '.join(map(str, by_calls))} |",
            f"|---|{'---|' * len(by_calls)}",
            f"| CPU of the loop itself, ms | {used} |",
            f"| per model call, ms | {each} |",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.overhead",
        description="The kit against a loop written by hand, on the same SDKs.",
    )
    parser.add_argument("--provider", action="append", choices=PROVIDERS, help="only this one")
    parser.add_argument("--rounds", type=int, default=12, help="pairs of each measure")
    parser.add_argument("--quick", action="store_true", help="one round, no growth of the loop")
    args = parser.parse_args()
    rounds = 1 if args.quick else max(2, args.rounds)
    measured: dict[str, Pairs] = {}
    with replaying(0.0) as url, replaying(LATENCY) as slow_url:
        for provider in args.provider or PROVIDERS:
            print(f"measuring {provider} ...", file=sys.stderr)
            measured[provider] = warm(provider, url, slow_url, rounds) | cold(provider, url, rounds)
    print(table(measured))
    if not args.quick:
        print(f"\n{loop_table()}")


if __name__ == "__main__":
    main()
