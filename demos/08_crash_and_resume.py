"""A crash at the worst moment, and how the run continues.

Since lesson 07: the transcript is a file, and the process dies.

Rule 1: If the transcript is a path, each message is on disk before the next step is planned. A
        `started` line is on disk before a tool with side effects is called.
Rule 2: `agent.resume(path)` runs the same loop on the saved list. It needs the file and the tools.
Rule 3: A call that started and has no result may have happened. It's repeated only if that does no
        harm. Here, the tool takes an idempotency key, which is the same in every process.
Rule 4: `same=` names the arguments that identify a call. Another `reason` isn't another payment.

Limitations: the power cut is an exception that isn't caught; for the file, there's no difference.
The workers of `demos/fleet` are really killed.
"""

import logging
import tempfile
from pathlib import Path

from demos.common import call, follow_steps, play
from think_agent import Agent, Model, tool
from think_agent.audit import read

called: list[str] = []  # the order of each call
paid: dict[str, int] = {}  # the bank's books: each key is paid once


class PowerCut(SystemExit):
    """The end of the process."""


@tool(think_first=True, same=("order_id", "dollars"))
def refund(order_id: str, dollars: int, reason: str, idempotency_key: str = "") -> str:
    """Pay a refund."""
    called.append(order_id)
    if idempotency_key in paid:
        return f"${dollars} for {order_id} had been paid already."
    paid[idempotency_key] = dollars
    if order_id == "ORD-001":
        raise PowerCut  # after the money has moved, before the result is recorded
    raise TimeoutError("the bank does not answer")  # and its money has moved, too


stand_in = follow_steps(
    ("It's broken: refund it.", call("refund", order_id="ORD-001", dollars=89, reason="broken")),
    ("Now the other one.", call("refund", order_id="ORD-003", dollars=45, reason="broken")),
    ("No answer. Try again.", call("refund", order_id="ORD-003", dollars=45, reason="defective")),
)


def lesson(model: Model) -> None:
    """Crash and resume."""
    # Without a handler, Python would print the traceback of each tool that raised.
    logging.getLogger("think_agent").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        try:
            Agent(model, [refund]).run("Refund ORD-001 and ORD-003.", transcript=path)
        except PowerCut:
            print("\npower cut! In the file by now:")
            for entry in read(path).entries:
                print(" ", type(entry).__name__, getattr(entry, "name", ""))
        outcome = Agent(model, [refund]).resume(path)
        print(f"\nresumed, exit {outcome.exit}: {outcome.answer}")
        print(f"calls of refund: {called}, payments: {list(paid.values())}")
    print("\nremember: a `started` without a result; the call was repeated, the money was not.")


if __name__ == "__main__":
    play(lesson, stand_in)
