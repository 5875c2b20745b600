"""Approval: a person decides before something that can't be undone.

Since lesson 06: the tool changes something, so a person is asked.

Rule 1: A tool says when it needs approval: `needs_approval=True`, or a function of the arguments.
Rule 2: The person sees the call and its thought. The verdict is a message in the transcript.
Rule 3: "Yes" runs the call; the person may change its arguments. "No" goes back to the model, with
        the reason.
Rule 4: Without an approver, the run pauses (`needs_human`) and runs nothing. The question is in the
        file, and any process that has the file can answer it, today or tomorrow.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from demos.common import call, follow_steps, play
from think_agent import Agent, AskHuman, Model, Verdict, tool


@tool(think_first=True, needs_approval=lambda arguments: arguments["dollars"] > 500)
def refund(order_id: str, dollars: int) -> str:
    """Pay a refund, at once and for good. No other tool is needed for it."""
    return f"${dollars} paid for {order_id}."


REQUEST = "My monitor arm (ORD-004) is broken. Refund the $580."
WHY = "Broken goods are refunded in full. $580 is over $500, so a person will be asked."
stand_in = follow_steps((WHY, call("refund", order_id="ORD-004", dollars=580)))


def make_approver(verdict: Verdict) -> Callable[[AskHuman], Verdict]:
    """A person with this verdict. `think_agent.cli.at_the_terminal` asks a real one."""

    def approve(question: AskHuman) -> Verdict:
        print(f"  asked: {question.question}")
        print(f"  its thought: {question.thought}")
        return verdict

    return approve


def lesson(model: Model) -> None:
    """Approval: a person decides."""
    half = {"order_id": "ORD-004", "dollars": 290}
    verdicts = {
        "yes": Verdict("yes", by="Ada"),
        "yes, but half of it": Verdict("yes", by="Ada", arguments=half),
        "no": Verdict("no", by="Ada", reason="the arm was never sent back"),
    }
    for name, verdict in verdicts.items():
        print(f"\n{name}")
        outcome = Agent(model, [refund], approve=make_approver(verdict)).run(REQUEST)
        print(f"  exit {outcome.exit}: {outcome.answer}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        waiting = Agent(model, [refund]).run(REQUEST, transcript=path)
        assert waiting.question
        print(f"\nno approver\n  exit {waiting.exit}: {waiting.question.question}")
        # The rest could be in another process: it needs the tools and the file.
        outcome = Agent(model, [refund]).resume(path, verdict=waiting.question.yes(by="Ada"))
        print(f"  a day later, exit {outcome.exit}: {outcome.answer}")
    print("\nremember: the person also judges the thought; without a yes, nothing runs.")


if __name__ == "__main__":
    play(lesson, stand_in)
