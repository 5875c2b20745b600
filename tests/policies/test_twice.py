"""The same call again in one reply is refused if the first one succeeded (`policies/twice.py`)."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.agents import results
from think_agent import Agent, NothingDone, Notice, ScriptedModel, tool
from think_agent.testing import call, think


@dataclass
class Case:
    """The calls of the replies, and how often the tool ran."""

    name: str
    replies: list[Any]
    ran: int
    refused: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    fails: int = 0  # so many calls do nothing, at first


PAY = call("pay", order="A", note="")
OTHER = call("pay", order="B")
REWORDED = call("pay", order="A", note="It wobbles.")
ORDER = {"same": ("order",)}

CASES = [
    Case("twice in one reply", [(PAY, PAY)], 1, ["repeat"]),
    Case("nine times in one reply", [(PAY,) * 9], 1, ["repeat"] * 8),
    Case("again in the next reply", [PAY, PAY], 2),
    Case("another order", [(PAY, OTHER)], 2),
    Case("another order in between", [(PAY, OTHER, PAY)], 2, ["repeat"]),
    Case("a thought in between", [(PAY, think("once more"), PAY)], 1, ["repeat"]),
    Case("other words", [(PAY, REWORDED)], 2),
    Case("other words, compared by the order", [(PAY, REWORDED)], 1, ["repeat"], ORDER),
    Case("a default spelled out", [(call("pay", order="A"), PAY)], 1, ["repeat"]),
    Case("the first did nothing", [(PAY, PAY)], 2, fails=1),
    Case("the first two did nothing", [(PAY, PAY, PAY, PAY)], 3, ["repeat"], fails=2),
    Case("a read", [(PAY, PAY)], 2, options={"read_only": True}),
    Case("idempotent", [(PAY, PAY)], 2, options={"idempotent": True}),
    Case("meant", [(PAY, PAY)], 2, options={"repeats": True}),
    Case("with a key", [(PAY, PAY)], 1, ["repeat"], {"key": True}),
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
def test_the_same_call_twice_in_one_reply(case, saved):
    ran = []
    pay = make_tool(case, ran, **case.options)
    model = ScriptedModel([*case.replies, "So."])
    outcome = Agent(model, [pay], force="never", silence="accept").run("Pay.", transcript=saved)
    assert len(ran) == case.ran
    assert [r.refused for r in results(outcome, "pay") if r.refused] == case.refused


def test_no_person_is_asked_about_the_second():
    asked, ran = [], []
    pay = make_tool(CASES[0], ran, needs_approval=True)

    def approve(question):
        asked.append(question)
        return True

    model = ScriptedModel([(PAY, PAY), "So."])
    Agent(model, [pay], force="never", silence="accept", approve=approve).run("Pay.")
    assert len(asked) == 1
    assert ran == ["A"]


def test_the_model_reads_what_was_compared_and_the_author_how_to_allow_it():
    events, ran = [], []
    pay = make_tool(CASES[0], ran, same=("order",))
    model = ScriptedModel([(PAY, PAY), "So."])
    agent = Agent(model, [pay], force="never", silence="accept")
    outcome = agent.run("Pay.", on_event=events.append)
    assert "(compared: order)" in results(outcome, "pay")[1].content
    assert "call it again in your next reply" in results(outcome, "pay")[1].content
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("@tool(repeats=True)" in notice for notice in notices)
