"""An agent with a check and a file, in a folder outside of the clone: written from README.md."""

from pathlib import Path

from think_agent import Agent, ScriptedModel, Turn, tool
from think_agent.testing import call, think

stock = {"tea": 0}


@tool(think_first=True)
def order(item: str, packets: int) -> str:
    """Order packets."""
    stock[item] += packets
    return f"{packets} packets of {item} are on their way."


def nothing_runs_out(turn: Turn) -> str | None:
    low = [item for item, packets in stock.items() if packets < 2]
    return f"order {', '.join(low)}" if low else None


SCRIPT = [
    think("All is there.", should_continue=False),  # the check says that this is not true
    (think("So order it."), call("order", item="tea", packets=5)),
    think("Ordered.", should_continue=False),
    "Tea is on its way.",
]

if __name__ == "__main__":
    path = Path("tea.jsonl")
    path.unlink(missing_ok=True)
    agent = Agent(ScriptedModel(SCRIPT), [order], done_when=[nothing_runs_out])
    outcome = agent.run("Do we need tea?", transcript=path)
    assert outcome.exit == "signal", outcome
    assert stock == {"tea": 5}, outcome
    assert [bool(check.missing) for check in outcome.checks] == [True, False]
    assert agent.resume(path).answer == "Tea is on its way."
    print(outcome)
