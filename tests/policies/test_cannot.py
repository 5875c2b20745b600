"""A model may say that it cannot do what it was asked for (`policies/cannot.py`)."""

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
    replies: list[Any]  # the model's, in order
    exit: str
    settings: dict[str, Any] = field(default_factory=dict)


def not_sent(turn):
    return "no mail was sent"


CASES = [
    Case("cannot", [CANNOT, "I cannot send mail."], exit="cannot"),
    Case("in capitals", [think("CANNOT"), "I cannot."], exit="cannot"),
    Case(
        "checks are not run",
        [CANNOT, "I cannot."],
        exit="cannot",
        settings={"done_when": [not_sent]},
    ),
    Case(
        "no typed answer is asked for",
        [CANNOT, "I cannot."],
        exit="cannot",
        settings={"answer": Sent},
    ),
    Case("an action in the same reply", [(CANNOT, call("look", n=1)), "I cannot."], exit="cannot"),
    Case("an action after it", [(CANNOT, call("fly")), call("look", n=1), "So."], exit="silence"),
    Case("it thinks again", [CANNOT, think("true"), "Well."], exit="cannot"),
    Case("done after all", [think("true"), think("false"), "Sent."], exit="signal"),
    Case("it is not offered", [CANNOT, "Well."], exit="silence", settings={"think": THINK}),
    Case("forced each time", [CANNOT, "I cannot."], exit="cannot", settings={"force": "always"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_after_cannot_the_closing_reply_is_asked_for_and_the_exit_is_cannot(case):
    settings = {"think": THINK_CANNOT, "force": "never", "silence": "accept", **case.settings}
    outcome = Agent(ScriptedModel(case.replies), [look], **settings).run("Send a mail.")
    assert outcome.exit == case.exit
    assert outcome.checks == () or case.exit != "cannot"


def test_what_is_missing_is_no_part_of_the_thought():
    agent = Agent(ScriptedModel([CANNOT, "I cannot."]), [look], think=THINK_CANNOT, force="never")
    outcome = agent.run("Send a mail.")
    assert outcome.thoughts == ("I have no tool for it.",)
    assert outcome.answer == "I cannot."


def test_if_cannot_is_not_offered_it_is_an_unreadable_signal_and_the_model_reads_that():
    agent = Agent(ScriptedModel([CANNOT, "Well."]), [look], force="never", silence="accept")
    outcome = agent.run("Send a mail.")
    [result] = [m for m in outcome.transcript if getattr(m, "name", "") == "think"]
    assert "should_continue was missing or unreadable" in result.content
