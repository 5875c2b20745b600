"""What does the kit cost by itself, when the model costs nothing? `python -m tests.benchmarks.core`

It uses a scripted model, guarded tools and all limits (`tests/support/busy.py`), so that every part
that looks back over the turn has work to do. It takes the smallest CPU time of several runs,
because other work of the machine only adds to it:

- the marginal cost of a model call at the 10th, 1,000th and 10,000th call of one turn (plan, ask,
  run and record its thought or action);
- opening a transcript file of 100 and of 4,000 turns, and reading its Turn, per message;
- turning a history into a request body, compared with `json.dumps` of that body: a history that
  this provider wrote, as in a run, and one that another provider wrote;
- a thought that streams in 10,000 deltas, in plain letters and all in escapes;
- a run of one reply, without and with a check of `done_when` that finds nothing missing;
- 100 runs at once with a file each beside 100 without, at 50 ms a model call: wall time.

Limitations: no SDK and no network is included. What has to be true on any machine is counted in
`tests/core/test_growth.py`, without a clock.
"""

import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.benchmarks.kit import waiting
from tests.support.agents import by_place
from tests.support.busy import busy_agent, by_turns, pay, replied, written
from tests.support.providers import SPEAKS
from tests.support.wires import WIRES, reply_of, to_wire
from think_agent import (
    Agent,
    Assistant,
    Message,
    Request,
    ScriptedModel,
    ToolCall,
    ToolResult,
    Turn,
    User,
    tool,
)
from think_agent.testing import call, think
from think_agent.transcript import TranscriptFile
from think_agent.wire.pieces import CallReader

WINDOW = 100  # model calls over which a marginal cost is taken; the first place has 10


def marginal(places: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    """CPU seconds of a model call at each place of one turn, and of the copy of the history alone
    that its request takes.
    """
    events = busy_agent(by_turns)._open_run(None, User("Pay them all.")).events()
    spoken: list[Message] = []
    done, found = 0, {}
    for place in places:
        half = min(WINDOW, place) // 2
        spoken += replied(events, place - half - done)
        start = time.process_time()
        spoken += replied(events, 2 * half)
        end = time.process_time()
        for _ in range(2 * half):
            tuple(spoken)
        copied = time.process_time() - end
        done = place + half
        found[place] = (end - start) / (2 * half), copied / (2 * half)
    events.close()
    return found


def opened(path: Path) -> None:
    """Open a file: read it, check every message, and read the Turn."""
    with closing(TranscriptFile(path, {}, now="")):
        pass


def history(messages: int, wire: str = "") -> Request:
    """A request with this many messages: replies with a call each, and their results. With the name
    of a `wire`, the replies are read from that protocol.
    """
    said: list[Message] = [User("Please refund them all.")]
    for number in range(messages // 2):
        pays = ToolCall(f"p{number}", "pay", {"order": number})
        reply = Assistant("It is due, so it is paid.", tool_calls=(pays,), stop_reason="tool_use")
        if wire:
            protocol = SPEAKS[wire][0]()
            reply = reply_of(wire, protocol.encode(reply, to_wire(wire, Request(said[:1]))))
        said += [reply, ToolResult(reply.tool_calls[0].id, "pay", "paid")]
    return Request(said)


def streamed(unit: str, deltas: int) -> None:
    """Read a thought from the JSON of a call that arrives in this many pieces."""
    text, reader = json.dumps({"thought": unit * deltas}), CallReader("think")
    size = len(text) // deltas
    for at in range(0, len(text), size):
        reader.feed(text[at : at + size])


class Slow(ScriptedModel):
    """Takes 50 ms for a reply."""

    async def acomplete(self, request: Request) -> Assistant:
        await asyncio.sleep(0.05)
        return self.complete(request)


def at_once(runs: int, folder: str | None) -> float:
    """Wall seconds of so many runs of eight model calls; with a folder, each has a file."""
    script = by_place(*[think("due"), call("pay", order=1)] * 3, think("done", False), "Paid.")
    desk = Agent(Slow(script), [tool(waiting(pay.function), name="pay")], max_repeats=9)
    paths = [Path(folder) / f"{number}.jsonl" if folder else None for number in range(runs)]

    async def all_of_them() -> None:
        await asyncio.gather(*(desk.arun("Pay.", transcript=path) for path in paths))

    start = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - start


def ending(**settings: object) -> None:
    """A run of one reply, which says that all is done."""
    Agent(ScriptedModel(["Done."]), force="never", **settings).run("Is it done?")


def nothing_is_missing(turn: Turn) -> None:
    """A check that costs nothing by itself."""


def least(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of one `work`: the smallest of several series, each long enough for any clock."""
    found = []
    for _ in range(rounds):
        gc.collect()
        start, times, used = time.process_time(), 0, 0.0
        while used < (0.1 if rounds > 1 else 0.01):
            work()
            times, used = times + 1, time.process_time() - start
        found.append(used / times)
    return min(found)


def table(head: str, rows: Sequence[Sequence[object]]) -> str:
    """Markdown."""
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def limited(cell: str, at_most: float) -> str:
    """A cell with the mark of what is over its limit, as it is shown."""
    if float(cell) > at_most:
        return f"{cell} ✗"
    return cell


def tables(rounds: int, *, quick: bool = False) -> Iterator[str]:
    """What was measured. Quickly: on a hundredth of the work."""
    gc.freeze()  # what the SDKs and the test servers have loaded is not collected again and again
    less = 100 if quick else 1
    marginal((10,))  # the first run also pays for one-time work
    places = (10, 100, 300) if quick else (10, 1_000, 10_000)
    runs = [marginal(places) for _ in range(rounds)]
    rows = []
    for place in places:
        took, copied = (min(run[place][i] for run in runs) * 1e3 for i in (0, 1))
        rows.append((f"{place:,}", limited(f"{took:.3f}", 0.15), f"{copied:.3f}", 0.15))
    head = "model calls | CPU of one more, ms | of it the request's copy of the history | at most"
    yield table(head, rows)

    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for turns in (100, 4_000 // less):
            path = Path(folder) / f"{turns}-turns.jsonl"
            messages = written(path, turns)
            took = least(lambda path=path: opened(path), rounds + 1) / messages * 1e6
            rows.append((f"{turns:,}", f"{messages:,}", limited(f"{took:.1f}", 10), 10))
        yield table(
            "turns in the file | messages | opening with its Turn, µs a message | at most", rows
        )

    rows = []
    for name, writer in [(name, name) for name in WIRES] + [(name, "") for name in WIRES]:
        cells = []
        for messages in (100, 1_000, 10_000 // less):
            request = history(messages, writer)
            body = to_wire(name, request)
            encoding = least(partial(to_wire, name, request), rounds)
            dumping = least(lambda body=body: json.dumps(body), rounds)
            cells.append(limited(f"{encoding / dumping:.2f}", 1.5))
        rows.append((name, "itself" if writer else "another", *cells, 1.5))
    head = "to_wire / json.dumps of the body | the replies are by | 100 messages | 1,000"
    yield table(f"{head} | {10_000 // less:,} | at most", rows)

    deltas = 10_000 // less
    took = [
        least(lambda unit=unit: streamed(unit, deltas), rounds) / deltas * 1e6
        for unit in ("Hello, word", "é😀")
    ]
    cells = [f"{each:.2f}" for each in (*took, took[1] / took[0])]
    yield table(f"{deltas:,} deltas of a thought, µs each | in escapes | ratio", [cells])

    plain = least(ending, rounds) * 1e3
    checked = least(partial(ending, done_when=[nothing_is_missing]), rounds) * 1e3
    cells = [f"{each:.3f}" for each in (plain, checked, checked - plain)]
    yield table("a run of one reply, ms of CPU | with a check that is met | the check", [cells])

    runs = 100 // less or 2
    with tempfile.TemporaryDirectory() as folder:
        plain, kept = at_once(runs, None), at_once(runs, folder)
    ratio = limited(f"{kept / plain:.2f}", 1.5)
    cells = (runs, f"{plain:.2f}", f"{kept:.2f}", ratio, 1.5)
    yield table("runs at once | wall, s | with a file each | ratio | at most", [cells])


def main() -> None:
    print("\n\n".join(tables(5)))


if __name__ == "__main__":
    main()
