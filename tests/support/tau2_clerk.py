"""The suite of `demos/tau2.py` with a script: it does what tau2's mock domain is asked for.

It is no language model. With lines of a user in the cases, tau2's tasks and checker run offline.
"""

import re

from demos.tau2 import ADVICE as ADVICE
from demos.tau2 import prepare as prepare
from think_agent import Assistant, Force, Request, ToolCall, Turn
from think_agent.testing import call, think
from think_agent.testing.scripted import Script

NEW = re.compile(r"task called '(.+?)' for (\w+)")
STATUS = re.compile(r"(task_\d+) .*?(pending|completed)")


def wanted(text: str) -> ToolCall | None:
    """The call that a user asks for."""
    if found := NEW.search(text):
        return call("create_task", title=found[1], user_id=found[2])
    if found := STATUS.search(text):
        return call("update_task_status", task_id=found[1], status=found[2])
    return None


def called(request: Request) -> list[str]:
    """The names of the tools that were called since the user spoke."""
    turn = Turn.of(request.messages)
    return [made.name for reply in turn.replies for made in reply.tool_calls]


def clerk(request: Request) -> Assistant:
    """Thinks, does what the user asks for, and says so."""
    turn = Turn.of(request.messages)
    assert turn.request
    text = turn.request.text
    names = called(request)
    thinks = "think" in [tool.name for tool in request.tools]
    if request.tool_choice == Force("think") or (thinks and not names):
        return Assistant(tool_calls=(think(f"The user wants: {text}"),))
    action = wanted(text)
    if action and action.name not in names:
        return Assistant(tool_calls=(action,))
    if thinks and request.tool_choice != "none":
        return Assistant(tool_calls=(think("Nothing is left.", should_continue=False),))
    return Assistant("That is done.")


def idle(request: Request) -> Assistant:
    """Only says that it is done."""
    if request.tool_choice == Force("think"):
        return Assistant(tool_calls=(think("I will say that it is done."),))
    return Assistant("That is done.")


STAND_INS: dict[str, Script] = {"clerk": clerk, "idle": idle}
