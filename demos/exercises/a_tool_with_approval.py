"""A tool of your own that asks first (after lesson 07): `delete` is asked about outside of /tmp.

Task: make `delete` a tool that needs a thought, and a yes if the path is not below /tmp.
Hint: `@tool(think_first=True, needs_approval=…)`; a function gets the arguments as a dict. The text
of a path doesn't say where it leads: `/tmp/../etc` is outside. `Path.resolve` knows.
"""

from pathlib import Path
from typing import Any

import pytest

from think_agent import Agent, ScriptedModel, Tool, tool
from think_agent.testing import call, think

deleted: list[str] = []


def delete(path: str) -> str:
    """Delete a file."""
    deleted.append(path)
    return f"{path} is deleted."


def make_tool() -> Tool:
    """`delete` as a tool that asks."""
    # Your code begins.
    # Your code ends.
    return tool(delete)


def run_delete(path: str, *, thinks: bool = True) -> str:
    """The exit of a run in which the model deletes a file."""
    deleted.clear()
    calls = (think("It is not needed."), call("delete", path=path))
    script = [calls if thinks else calls[1:], "Done."]
    agent = Agent(ScriptedModel(script), [make_tool()], force="never", silence="accept")
    return agent.run("Clean up.").exit


def test_no_person_is_asked_below_tmp() -> None:
    assert run_delete("/tmp/a") == "silence"
    assert deleted == ["/tmp/a"]


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/tmp/../etc/passwd", "/tmpfile", "/tmp", "/tmp/."]
)
def test_a_person_is_asked_outside_of_tmp(path: str) -> None:
    assert run_delete(path) == "needs_human"
    assert deleted == []


def test_it_needs_a_thought() -> None:
    run_delete("/tmp/a", thinks=False)
    assert deleted == []
