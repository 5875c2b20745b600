"""The same call again in one reply is refused if the first one succeeded (`policies/twice.py`)."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.agents import results
from think_agent import Agent, NothingDone, Notice, ScriptedModel, tool
from think_agent.testing import call, think


@dataclass
class Case:
    name: str
    replies: list[Any]  # the calls of each reply
    ran: int  # how often the tool ran
    refused: list[str] = field(default_factory=list)  # the codes of the refusals
    options: dict[str, Any] = field(default_factory=dict)  # of the tool
    fails: int = 0  # how many of its first runs do nothing


PAY = call("pay", order="A", note="")
OTHER = call("pay", order="B")
REWORDED = call("pay", order="A", note="It wobbles.")
ORDER = {"same": ("order",)}

CASES = [
    Case("twice in one reply", [(PAY, PAY)], ran=1, refused=["repeat"]),
    Case("nine times in one reply", [(PAY,) * 9], ran=1, refused=["repeat"] * 8),
    Case("again in the next reply", [PAY, PAY], ran=2),
    Case("another order", [(PAY, OTHER)], ran=2),
    Case("another order in between", [(PAY, OTHER, PAY)], ran=2, refused=["repeat"]),
    Case("a thought in between", [(PAY, think("once more"), PAY)], ran=1, refused=["repeat"]),
    Case("other words", [(PAY, REWORDED)], ran=2),
    Case(
        "other words, compared by the order",
        [(PAY, REWORDED)],
        ran=1,
        refused=["repeat"],
        options=ORDER,
    ),
    Case("a default spelled out", [(call("pay", order="A"), PAY)], ran=1, refused=["repeat"]),
    Case("the first did nothing", [(PAY, PAY)], ran=2, fails=1),
    Case("the first two did nothing", [(PAY, PAY, PAY, PAY)], ran=3, refused=["repeat"], fails=2),
    Case("a read", [(PAY, PAY)], ran=2, options={"read_only": True}),
    Case("idempotent", [(PAY, PAY)], ran=2, options={"idempotent": True}),
    Case("meant", [(PAY, PAY)], ran=2, options={"repeats": True}),
    Case("with a key", [(PAY, PAY)], ran=1, refused=["repeat"], options={"key": True}),
]


def make_tool(case, ran, key=False, **options):
    def act(order):
        ran.append(order)
        if len(ran) <= case.fails:
            raise NothingDone("the bank is closed")
        return "paid"

    if key:

        def pay(order: str, note: str = "", idempotency_key: str = "") -> str:
            """Pay."""
            return act(order)
    else:

        def pay(order: str, note: str = "") -> str:
            """Pay."""
            return act(order)

    return tool(pay, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_call_that_succeeded_does_not_run_again_in_its_reply(case, saved):
    ran = []
    pay = make_tool(case, ran, **case.options)
    model = ScriptedModel([*case.replies, "So."])
    outcome = Agent(model, [pay], force="never", silence="accept").run("Pay.", transcript=saved)
    assert len(ran) == case.ran
    assert [r.refused for r in results(outcome, "pay") if r.refused] == case.refused


def test_no_person_is_asked_about_the_second_call():
    asked, ran = [], []
    pay = make_tool(CASES[0], ran, needs_approval=True)

    def approve(question):
        asked.append(question)
        return True

    model = ScriptedModel([(PAY, PAY), "So."])
    Agent(model, [pay], force="never", silence="accept", approve=approve).run("Pay.")
    assert len(asked) == 1
    assert ran == ["A"]


def test_the_refusal_says_what_was_compared_and_a_notice_how_to_allow_it():
    events, ran = [], []
    pay = make_tool(CASES[0], ran, same=("order",))
    model = ScriptedModel([(PAY, PAY), "So."])
    agent = Agent(model, [pay], force="never", silence="accept")
    outcome = agent.run("Pay.", on_event=events.append)
    assert "(compared: order)" in results(outcome, "pay")[1].content
    assert "call it again in your next reply" in results(outcome, "pay")[1].content
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("@tool(repeats=True)" in notice for notice in notices)
