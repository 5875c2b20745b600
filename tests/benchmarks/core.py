"""What does the core cost, when the model costs nothing? `python -m tests.benchmarks.core`

A scripted model, a guarded tool, all limits set, equal results, so that whatever could look back
over the turn has something to find. CPU time, the least of several runs, for whatever else the
machine does only adds to it:

- the marginal cost of a model call at the 10th, 1,000th and 10,000th call of one turn (planned,
  asked, its thought or its action carried out and recorded);
- opening a transcript file of 100 and of 4,000 turns, per message.

The edge: no SDK, no wire, no disk but for the second table, and no clock of a test is in it; what
must hold on any machine is counted in `tests/core/test_growth.py`.
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

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
from think_agent.transcript import Transcript

HUGE = 10**9
WINDOW = 100  # model calls over which a marginal cost is taken; the first place has 10
TARGET_MS, TARGET_US = 0.15, 5.0
NOTES = {"thought": "within 30 days", "should_continue": "true"}


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
        thinks, pays = ToolCall("", "think", NOTES), ToolCall("", "pay", {"order": number})
        calls = (pays if number % 2 else thinks,)
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
            think = ToolCall(f"t{number}", "think", NOTES)
            pays = ToolCall(f"p{number}", "pay", {"order": number})
            for message in (
                User(f"Please refund order {number}", at=desk.now()),
                Assistant(tool_calls=(think, pays), stop_reason="tool_use", usage=Usage(10, 5)),
                ToolResult(think.id, "think", "Thought recorded.", at=desk.now()),
                Started(pays.id, "pay", f"{number:032x}", at=desk.now()),
                ToolResult(pays.id, "pay", "paid", at=desk.now()),
                Assistant("Order refunded.", usage=Usage(20, 9)),
            ):
                file.append(message)
        return len(file)


def opening(path: Path) -> float:
    """CPU seconds to open a file: to read it, and to check every message."""
    gc.collect()
    start = time.process_time()
    with Transcript(path, {}, now=""):
        return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="What the core costs, in CPU time.")
    parser.add_argument("--rounds", type=int, default=5, help="runs of which the best is shown")
    rounds = parser.parse_args().rounds
    marginal((10,))  # the first run pays for what is made once

    places = (10, 1_000, 10_000)
    runs = [marginal(places) for _ in range(rounds)]
    print(
        "| model calls | CPU of one more, ms | of it the request's copy of the history | at most |"
    )
    print("|---|---|---|---|")
    for place in places:
        took, copied = (min(run[place][i] for run in runs) * 1e3 for i in (0, 1))
        print(f"| {place:,} | {took:.3f} | {copied:.3f} | {TARGET_MS} |")

    print("\n| turns in the file | messages | opening, µs a message | at most |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for turns in (100, 4_000):
            path = Path(folder) / f"{turns}.jsonl"
            messages = written(path, turns)
            opening(path)
            took = min(opening(path) for _ in range(rounds)) / messages * 1e6
            print(f"| {turns:,} | {messages:,} | {took:.1f} | {TARGET_US:g} |")


if __name__ == "__main__":
    main()
