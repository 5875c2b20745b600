"""What does the kit cost by itself, when the model costs nothing? `python -m tests.benchmarks.core`

A scripted model, a guarded tool, all limits set, equal results, so that whatever could look back
over the turn has something to find. CPU time, the least of several runs, for whatever else the
machine does only adds to it:

- the marginal cost of a model call at the 10th, 1,000th and 10,000th call of one turn (planned,
  asked, its thought or its action carried out and recorded);
- opening a transcript file of 100 and of 4,000 turns, per message;
- a history on its way to the wire, beside `json.dumps` of the body that is made of it;
- a thought that streams in 10,000 deltas, in plain letters and all in escapes;
- 100 runs at once with a file each beside 100 without, at 50 ms a model call: wall time.

The edge: no SDK and no network is in it. What must hold on any machine is counted in
`tests/core/test_growth.py`, without a clock.
"""

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from tests.benchmarks.kit import waiting
from tests.support.agents import by_place
from think_agent import (
    Agent,
    Assistant,
    Request,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    tool,
)
from think_agent.policies import Price
from think_agent.testing import call, think
from think_agent.transcript import Transcript
from think_agent.wire import anthropic, gemini, ollama, openai_chat, openai_responses
from think_agent.wire.common import Settings
from think_agent.wire.pieces import CallReader

HUGE = 10**9
WINDOW = 100  # model calls over which a marginal cost is taken; the first place has 10
NOTES = think("within 30 days")
WIRES: dict[str, Callable[[Request], Any]] = {
    "openai-responses": lambda request: openai_responses.to_wire(request, "m"),
    "openai-chat": lambda request: openai_chat.to_wire(request, "m"),
    "anthropic": lambda request: anthropic.to_wire(request, "m", Settings(max_output_tokens=9)),
    "gemini": gemini.to_wire,
    "ollama": lambda request: ollama.to_wire(request, "m", num_ctx=9),
}


@tool(think_first=True)
def pay(order: int) -> str:
    """Pay an order back."""
    return "paid"


def agent() -> Agent:
    """It thinks and pays by turns, with the same result each time."""
    numbers, seconds = count(), count()
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def reply(request: Request) -> Assistant:
        number = next(numbers)
        calls = (call("pay", order=number) if number % 2 else NOTES,)
        return Assistant(tool_calls=calls, stop_reason="tool_use", usage=Usage(10, 5))

    return Agent(
        ScriptedModel(reply),
        [pay],
        max_model_calls=HUGE,
        max_actions=HUGE,
        max_tokens=HUGE,
        max_seconds=HUGE,
        max_cost=HUGE,
        prices={"script": Price(input=1, output=2)},
        now=lambda: (start + timedelta(seconds=next(seconds))).isoformat(),
    )


def marginal(places: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    """CPU seconds of a model call at each place of one turn, and of the copy of the history alone
    that its request takes.
    """
    events = agent()._events("Pay them all.", None, False)
    spoken: list[object] = []
    done, found = 0, {}
    for place in places:
        half = min(WINDOW, place) // 2
        done = replied(events, spoken, done, place - half)
        start = time.process_time()
        done = replied(events, spoken, done, place + half)
        end = time.process_time()
        for _ in range(2 * half):
            tuple(spoken)
        copied = time.process_time() - end
        found[place] = (end - start) / (2 * half), copied / (2 * half)
    events.close()
    return found


def replied(events: Iterator[object], spoken: list[object], done: int, until: int) -> int:
    """Goes on until so many replies are done; what a model gets to see is kept in `spoken`."""
    while done < until:
        event = next(events)
        done += isinstance(event, Assistant)
        if isinstance(event, (User, Assistant, ToolResult)):
            spoken.append(event)
    return done


def written(path: Path, turns: int) -> int:
    """A file of so many turns; its messages."""
    desk = agent()
    with Transcript(path, desk.made_of(), now=desk.now()) as file:
        for number in range(turns):
            thinks = ToolCall(f"t{number}", "think", NOTES.arguments)
            pays = ToolCall(f"p{number}", "pay", {"order": number})
            for message in (
                User(f"Please refund order {number}", at=desk.now()),
                Assistant(tool_calls=(thinks, pays), stop_reason="tool_use", usage=Usage(10, 5)),
                ToolResult(thinks.id, "think", "Thought recorded.", at=desk.now()),
                Started(pays.id, "pay", f"{number:032x}", at=desk.now()),
                ToolResult(pays.id, "pay", "paid", at=desk.now()),
                Assistant("Order refunded.", usage=Usage(20, 9)),
            ):
                file.append(message)
        return len(file)


def opened(path: Path) -> None:
    """Open a file: read it, and check every message."""
    with Transcript(path, {}, now=""):
        pass


def history(messages: int) -> Request:
    """A request after so many messages: replies with a call each, and their results."""
    said: list[User | Assistant | ToolResult] = [User("Please refund them all.")]
    for number in range(messages // 2):
        pays = ToolCall(f"p{number}", "pay", {"order": number})
        said.append(Assistant("It is due, so it is paid.", tool_calls=(pays,)))
        said.append(ToolResult(pays.id, "pay", "paid"))
    return Request(said)


def streamed(unit: str, deltas: int) -> None:
    """Read a thought out of the JSON of a call that comes in so many pieces."""
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
    script = by_place(*[NOTES, call("pay", order=1)] * 3, think("done", False), "Paid.")
    desk = Agent(Slow(script), [tool(waiting(pay.function), name="pay")], max_repeats=9)
    paths = [Path(folder) / f"{number}.jsonl" if folder else None for number in range(runs)]

    async def all_of_them() -> None:
        await asyncio.gather(*(desk.arun("Pay.", transcript=path) for path in paths))

    start = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - start


def least(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of one `work`: the least of several stretches, each long enough for any clock."""
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


def tables(rounds: int, *, quick: bool = False) -> Iterator[str]:
    """What was measured. Quickly: on a hundredth of the work."""
    less = 100 if quick else 1
    marginal((10,))  # the first run pays for what is made once
    places = (10, 50, 100) if quick else (10, 1_000, 10_000)
    runs = [marginal(places) for _ in range(rounds)]
    rows = []
    for place in places:
        took, copied = (f"{min(run[place][i] for run in runs) * 1e3:.3f}" for i in (0, 1))
        rows.append((f"{place:,}", took, copied, 0.15))
    head = "model calls | CPU of one more, ms | of it the request's copy of the history | at most"
    yield table(head, rows)

    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for turns in (100, 4_000 // less):
            path = Path(folder) / f"{turns}-turns.jsonl"
            messages = written(path, turns)
            took = least(lambda path=path: opened(path), rounds + 1) / messages * 1e6
            rows.append((f"{turns:,}", f"{messages:,}", f"{took:.1f}", 5))
        yield table("turns in the file | messages | opening, µs a message | at most", rows)

    rows = []
    for name, to_wire in WIRES.items():
        cells = []
        for messages in (100, 1_000, 10_000 // less):
            request = history(messages)
            body = to_wire(request)
            encoding = least(lambda ask=request, make=to_wire: make(ask), rounds)
            cells.append(f"{encoding / least(lambda body=body: json.dumps(body), rounds):.2f}")
        rows.append((name, *cells, 1.5))
    head = f"to_wire / json.dumps of the body | 100 messages | 1,000 | {10_000 // less:,} | at most"
    yield table(head, rows)

    deltas = 10_000 // less
    took = [
        least(lambda unit=unit: streamed(unit, deltas), rounds) / deltas * 1e6
        for unit in ("Hello, word", "é😀")
    ]
    cells = [f"{each:.2f}" for each in (*took, took[1] / took[0])]
    yield table(f"{deltas:,} deltas of a thought, µs each | in escapes | ratio", [cells])

    runs = 100 // less or 2
    with tempfile.TemporaryDirectory() as folder:
        plain, kept = at_once(runs, None), at_once(runs, folder)
    cells = (runs, f"{plain:.2f}", f"{kept:.2f}", f"{kept / plain:.2f}", 1.5)
    yield table("runs at once | wall, s | with a file each | ratio | at most", [cells])


def main() -> None:
    parser = argparse.ArgumentParser(description="What the kit costs by itself.")
    parser.add_argument("--rounds", type=int, default=5, help="runs of which the best is shown")
    parser.add_argument("--quick", action="store_true", help="one round of a hundredth")
    args = parser.parse_args()
    print("\n\n".join(tables(1 if args.quick else args.rounds, quick=args.quick)))


if __name__ == "__main__":
    main()
