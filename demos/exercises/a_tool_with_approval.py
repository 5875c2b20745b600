"""A tool of your own that asks first (after lesson 07): `delete` is asked about outside of /tmp.

Task: make `delete` a tool that needs a thought behind it, and a yes if the path is not below /tmp.
Hint: `@tool(think_first=True, needs_approval=…)`; a function gets the arguments as a dict.
"""

from think_agent import Agent, ScriptedModel, Tool, tool
from think_agent.testing import call, think

gone: list[str] = []


def delete(path: str) -> str:
    """Delete a file."""
    gone.append(path)
    return f"{path} is deleted."


def as_a_tool() -> Tool:
    """`delete` as a tool that asks."""
    # Your code begins.
    # Your code ends.
    return tool(delete)


def exit_of(path: str, *, thinks: bool = True) -> str:
    gone.clear()
    calls = (think("It is not needed."), call("delete", path=path))
    script = [calls if thinks else calls[1:], "Done."]
    agent = Agent(ScriptedModel(script), [as_a_tool()], force="never", silence="accept")
    return agent.run("Clean up.").exit


def test_a_person_is_asked_outside_of_tmp_alone() -> None:
    assert (exit_of("/tmp/a"), gone) == ("silence", ["/tmp/a"])
    assert (exit_of("/etc/passwd"), gone) == ("needs_human", [])


def test_it_needs_a_thought() -> None:
    exit_of("/tmp/a", thinks=False)
    assert gone == []
