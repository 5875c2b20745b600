"""A source (after lesson 15): a claim names the result that supports it.

Task: only the number of a result that succeeded may fill the field `source`.
Hint: the type is `Source`. The rest is done by the run.
"""

from typing import Any

from pydantic import BaseModel, create_model

from think_agent import Agent, ScriptedModel, Source, tool
from think_agent.testing import call, think


@tool(read_only=True)
def stock(item: str) -> str:
    """How many packets are left."""
    return f"3 packets of {item}"


def make_claim_type() -> type[BaseModel]:
    """The type of the answer: a sentence, and the result that says so."""

    kind: Any = str  # of the field `source`
    # Your code begins.
    # Your code ends.
    return create_model("Claim", says=(str, ...), source=(kind, ...))


def write_answer(source: str) -> str:
    return f'{{"says": "Three are left.", "source": "{source}"}}'


def test_the_model_is_told_once_about_a_wrong_source() -> None:
    leave = think("All is known.", should_continue=False)
    script = [call("stock", item="tea"), leave, write_answer("7"), write_answer("1")]
    model = ScriptedModel(script)
    outcome: Any = Agent(model, [stock], answer=make_claim_type(), force="never").run("Tea?")
    assert outcome.data.source == "1"
    assert outcome.turn.asked["answer"] == 1
