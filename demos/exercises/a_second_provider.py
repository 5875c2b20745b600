"""A second provider (after lesson 04): another model continues the conversation.

Task: ask `second` the follow-up, in the same conversation.
Hint: a transcript belongs to no model. Two agents may share their tools.
"""

from think_agent import Agent, Assistant, Model, Outcome, Request, ScriptedModel, tool
from think_agent.testing import call


@tool(read_only=True)
def look_up(order_id: str) -> str:
    """The price of an order."""
    return f"{order_id} cost $89."


def ask_on(second: Model, before: Outcome) -> Outcome:
    """The answer of `second` to "And is that dear?", which is about what was said before."""
    # Your code begins.
    # Your code ends.
    return Agent(second, [look_up]).run("And is that dear?")


def answer_from_memory(request: Request) -> Assistant:
    """Answers from what it finds in the conversation."""
    if "$89" in str(request.messages):
        return Assistant("No, $89 is fair.")
    return Assistant("I know no price.")


def test_the_second_model_knows_what_the_first_found() -> None:
    first = ScriptedModel([call("look_up", order_id="ORD-001"), "It cost $89."])
    before = Agent(first, [look_up], force="never").run("What did ORD-001 cost?")
    after = ask_on(ScriptedModel(answer_from_memory), before)
    assert after.answer == "No, $89 is fair."
    assert after.transcript[: len(before.transcript)] == before.transcript
