"""A travel desk with five tools, two of which ask: written from README.md alone."""

from think_agent import Agent, AskHuman, ScriptedModel, Verdict, tool
from think_agent.testing import call, think

booked: list[str] = []


@tool(read_only=True)
def find_trains(to: str) -> list[str]:
    """The trains to a city today."""
    return [f"{to} 08:15", f"{to} 10:15"]


@tool(read_only=True)
def price(train: str) -> int:
    """The price of a train, in dollars."""
    return 120 if "08:15" in train else 40


@tool(idempotent=True)
def remind(text: str) -> str:
    """Set a reminder."""
    return f"set: {text}"


@tool(think_first=True, same=("train",), needs_approval=lambda given: price(given["train"]) > 50)
def book(train: str, seat: int, idempotency_key: str = "") -> str:
    """Book a seat."""
    booked.append(f"{train}, seat {seat}")
    return f"{train} is booked."


@tool(think_first=True, needs_approval=True)
def cancel(train: str) -> str:
    """Cancel a booking. This cannot be undone."""
    booked.clear()
    return f"{train} is cancelled."


def approve(asked: AskHuman) -> Verdict:
    """Ada says yes to a booking on another seat, and no to anything else."""
    assert asked.call
    if asked.call.name == "book":
        return Verdict("yes", by="Ada", arguments={"train": "Rome 08:15", "seat": 7})
    return Verdict("no", by="Ada", reason="not today")


SCRIPT = [
    (think("Which trains are there?"), call("find_trains", to="Rome")),
    (think("The early one."), call("book", train="Rome 08:15", seat=3)),
    (think("A reminder, then."), call("remind", text="Rome 08:15")),
    (think("No, cancel it."), call("cancel", train="Rome 08:15")),
    think("It is booked, and she keeps it.", should_continue=False),
    "You are on the 08:15 to Rome.",
]

if __name__ == "__main__":
    agent = Agent(
        ScriptedModel(SCRIPT), [find_trains, price, remind, book, cancel], approve=approve
    )
    outcome = agent.run("I have to be in Rome by noon.")
    assert outcome.exit == "signal", outcome
    assert booked == ["Rome 08:15, seat 7"]
    assert [action.call.name for action in outcome.actions] == ["find_trains", "book", "remind"]
    print(outcome.report)
