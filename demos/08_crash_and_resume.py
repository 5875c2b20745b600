"""A crash in the worst moment, and the run that goes on as if nothing had happened.

Rule 1: if the transcript is a path, each message is on disk before the next step is planned. A
        `started` line is on disk before a tool with side effects is called.
Rule 2: `agent.resume(path)` runs the same loop on the saved list. It needs the file and the tools.
Rule 3: a call that started and has no result may have happened. It is repeated only if that does no
        harm: here the tool takes an idempotency key, which is the same in every process.

Limitations: the power cut here is an exception that nobody catches. For the file there is no
difference. The workers of `demos/fleet` are really killed.
"""

import json
import tempfile
from pathlib import Path

from demos.common import call, follows, play
from think_agent import Agent, Model, tool

called: list[str] = []  # the order of each call
paid: dict[str, int] = {}  # the bank's book: it knows each key once


class PowerCut(SystemExit):
    """Stands for the end of the process."""


@tool(think_first=True)
def refund(order_id: str, dollars: int, idempotency_key: str = "") -> str:
    """Pay a refund out."""
    called.append(order_id)
    if idempotency_key in paid:
        return f"${dollars} for {order_id} had been paid already."
    paid[idempotency_key] = dollars
    raise PowerCut  # after the money has moved, before the result is recorded


stand_in = follows(("Rule 5: refund it.", call("refund", order_id="ORD-001", dollars=89)))


def lesson(model: Model) -> None:
    """Crash and resume."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        try:
            Agent(model, [refund]).run("Refund the $89 of ORD-001.", transcript=path)
        except PowerCut:
            print("\npower cut! In the file by now:")
            for line in path.read_text(encoding="utf-8").splitlines():
                said = json.loads(line)
                names = [said.get("name"), *(made["name"] for made in said.get("tool_calls", ()))]
                print(" ", said["type"], *filter(None, names))
        outcome = Agent(model, [refund]).resume(path)
        print(f"\nresumed, exit {outcome.exit}: {outcome.answer}")
        print(
            f"calls of refund: {len(called)}, payments: {len(paid)}, ${sum(paid.values())} in all"
        )
    print(
        "\nwhat to notice: a `started` without a result; the call was repeated, the money was not."
    )


if __name__ == "__main__":
    play(lesson, stand_in)
