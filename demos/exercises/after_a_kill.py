"""After a kill (after lesson 08): the process died in a payment. Was it made?

Task: continue the run in the file. A payment that is in the books must not be made again, one
that is not must be made.
Hint: first let the run ask: `agent.resume(path)` pauses, because the kit can't know. You can: look
into `books`, and resume once more with `verdict=`, which `outcome.question` makes: `.yes()`, or
`.no(reason)`. The model reads the reason.
"""

from pathlib import Path

import pytest

from think_agent import Agent, Outcome, ScriptedModel, tool
from think_agent.testing import call

books: list[int] = []
power_cuts: list[str] = []  # when the power goes, once: before a payment, or after it


class Killed(SystemExit):
    """The end of the process."""


@tool
def pay(dollars: int) -> str:
    """Pay this sum."""
    if "before" in power_cuts:
        power_cuts.clear()
        raise Killed
    books.append(dollars)
    if "after" in power_cuts:
        power_cuts.clear()
        raise Killed
    return f"${dollars} paid."


def go_on(agent: Agent, path: Path) -> Outcome:
    """The rest of the run in the file."""
    # Your code begins.
    # Your code ends.
    return agent.resume(path)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_it_is_paid_once(tmp_path: Path, moment: str) -> None:
    books.clear()
    power_cuts.append(moment)
    agent = Agent(ScriptedModel([call("pay", dollars=80), "It is paid."]), [pay], force="never")
    with pytest.raises(Killed):
        agent.run("Pay the bill.", transcript=tmp_path / "run.jsonl")
    outcome = go_on(agent, tmp_path / "run.jsonl")
    assert (outcome.exit, books) == ("silence", [80])
