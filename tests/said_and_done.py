"""A check that reads words, held against recorded runs: `python -m tests.said_and_done`.

The 200 gpt-4o runs of tau-bench (`tests/support/traces.py`) are played again through an Agent. The
last turn of each has one check in `done_when`. It knows nothing but what the run itself says: a
write that the agent announced and the user confirmed, and that was never called.

Rule 1: announced: the agent asks whether to go on with something that a write does.
Rule 2: confirmed: the user's answer begins with "yes".
Rule 3: what was confirmed is open until a write is called, or the user is passed on to a person.

Limitations: it takes any write for the one that was confirmed, and it knows nothing of a user who
thinks better of it. So it finds little, and some of what it finds was right.
"""

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import click

from tests.support.traces import PATH, Replay, recorded, writes
from think_agent import Assistant, Turn, User
from think_agent.cli.main import run
from think_agent.cli.options import Command

ASKS = re.compile(r"\b(confirm|proceed|go ahead)\b", re.IGNORECASE)
NAMES = re.compile(r"\b(book|cancel|updat|upgrad|chang|modif|add|certificate)", re.IGNORECASE)
YES = re.compile(r"\W*yes\b", re.IGNORECASE)
PASSED_ON = "transfer_to_human_agents"


class Found(NamedTuple):
    """A recorded run that ends with something open."""

    number: int
    is_right: bool
    missing: str


def confirmed_and_never_called(turn: Turn) -> str | None:
    """What the user said yes to, in the whole conversation, if no write followed."""
    announced = False
    confirmed = None
    for message in turn.history.spoken:
        match message:
            case User(text=text):
                if announced and YES.match(text):
                    confirmed = text
            case Assistant(tool_calls=calls, text=text):
                if any(writes(call.name) or call.name == PASSED_ON for call in calls):
                    confirmed = None
                if not calls:
                    announced = bool(ASKS.search(text) and NAMES.search(text))
    return f"confirmed, and no write was called: {confirmed!r}" if confirmed else None


def found() -> Iterator[Found]:
    """The runs of which the check says that something is missing."""
    for number, recording in enumerate(recorded()):
        replay = Replay(recording["messages"])
        transcript = ()
        *before, last = replay.asked
        for text in before:
            transcript = replay.agent().run(text, transcript=transcript).transcript
        agent = replay.agent(done_when=[confirmed_and_never_called])
        outcome = agent.run(last, transcript=transcript)
        if outcome.exit == "unmet":
            yield Found(number, recording["reward"] == 1, str(outcome.checks[-1].missing))


@click.command(cls=Command, help=__doc__)
def command() -> None:
    if not PATH.is_file():
        raise click.UsageError("the recorded runs (../shared/traces) are not here")
    runs = list(found())
    for number, is_right, missing in runs:
        print(f"run {number}, {'right' if is_right else 'wrong'}: {missing}")
    right = sum(one["reward"] == 1 for one in recorded())
    alarms = sum(one.is_right for one in runs)
    total = len(recorded())
    print(f"{len(runs)} of {total} runs end with a write that was confirmed and never called:")
    print(f"{len(runs) - alarms} of the {total - right} wrong ones, {alarms} of the {right} right")


if __name__ == "__main__":
    sys.exit(run(command, "python -m tests.said_and_done"))
