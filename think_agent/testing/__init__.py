"""Helpers to script a model in tests and demos.

    from think_agent.testing import call, scripted, think

    with scripted(think("Look first."), call("look_up", item="tea"), "There is none.") as model:
        outcome = Agent(model, [look_up]).run("Is there tea?")

Rule 1: each argument is a reply: a call, several calls in a tuple, or the text of the answer.
Rule 2: if replies are left over, the test fails, because the run ended too early.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ..messages import THINK_NAME, ToolCall
from .scripted import Reply, ScriptedModel


def call(name: str, /, **arguments: object) -> ToolCall:
    """A call of the tool `name`. It has no id (some providers give none); the run adds one."""
    return ToolCall("", name, arguments)


def think(thought: str, should_continue: bool | str = True) -> ToolCall:
    """A call of the think tool; `should_continue=False` is the exit signal."""
    if isinstance(should_continue, bool):
        should_continue = str(should_continue).lower()
    return call(THINK_NAME, thought=thought, should_continue=should_continue)


@contextmanager
def scripted(*replies: Reply) -> Iterator[ScriptedModel]:
    """A model that gives these replies in order. Raises AssertionError at the end of the block if
    any are left over.
    """
    model = ScriptedModel(replies)
    yield model
    assert not model.left, f"{model.left} of {len(replies)} replies were never asked for"
