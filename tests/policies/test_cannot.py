"""An honest "cannot" (`policies/cannot.py`)."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from think_agent import THINK, THINK_CANNOT, Agent, ScriptedModel, ToolCall, tool
from think_agent.testing import call


def think(signal, **more):
    arguments = {"thought": "I have no tool for it.", "should_continue": signal, **more}
    return ToolCall("", "think", arguments)


CANNOT = think("cannot", missing="a tool that sends mail")


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return "found"


class Sent(BaseModel):
    address: str


@dataclass
class Case:
    name: str
    replies: list[Any]
    exit: str
    settings: dict[str, Any] = field(default_factory=dict)


def not_sent(turn):
    return "no mail was sent"


CASES = [
    Case("cannot", [CANNOT, "I cannot send mail."], "cannot"),
    Case("in capitals", [think("CANNOT"), "I cannot."], "cannot"),
    Case("checks are not run", [CANNOT, "I cannot."], "cannot", {"done_when": [not_sent]}),
    Case("no typed answer is asked for", [CANNOT, "I cannot."], "cannot", {"answer": Sent}),
    Case("an action in the same reply", [(CANNOT, call("look", n=1)), "I cannot."], "cannot"),
    Case("an action after it", [(CANNOT, call("fly")), call("look", n=1), "So."], "silence"),
    Case("it thinks again", [CANNOT, think("true"), "Well."], "cannot"),
    Case("done after all", [think("true"), think("false"), "Sent."], "signal"),
    Case("it is not offered", [CANNOT, "Well."], "silence", {"think": THINK}),
    Case("forced each time", [CANNOT, "I cannot."], "cannot", {"force": "always"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_exit(case):
    settings = {"think": THINK_CANNOT, "force": "never", "silence": "accept", **case.settings}
    outcome = Agent(ScriptedModel(case.replies), [look], **settings).run("Send a mail.")
    assert outcome.exit == case.exit
    assert outcome.checks == () or case.exit != "cannot"


def test_what_is_missing_is_no_part_of_the_thought():
    agent = Agent(ScriptedModel([CANNOT, "I cannot."]), [look], think=THINK_CANNOT, force="never")
    outcome = agent.run("Send a mail.")
    assert outcome.thoughts == ("I have no tool for it.",)
    assert outcome.answer == "I cannot."


def test_without_it_the_value_is_unreadable_and_the_model_reads_that():
    agent = Agent(ScriptedModel([CANNOT, "Well."]), [look], force="never", silence="accept")
    outcome = agent.run("Send a mail.")
    [result] = [m for m in outcome.transcript if getattr(m, "name", "") == "think"]
    assert "should_continue was missing or unreadable" in result.content
