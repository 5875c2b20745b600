"""For and against: what a person reads before saying yes.

Since lesson 19: a person decides, as in lesson 07. The card also shows what speaks against it.

Rule 1: A think tool of your own may have several texts. Together they are the thought, and a
        guarded call needs each of those that are required.
Rule 2: A thought on a card is a claim, not evidence. In a study, explanations made people accept
        answers whether these were right or wrong. Only arguments for and against helped them to
        tell the two apart (arXiv 2605.10930, 2026-05, the abstract).
"""

from dataclasses import replace

from demos.common import call, play
from think_agent import THINK, Agent, AskHuman, Assistant, Model, Request, ToolResult, Verdict, tool
from think_agent.messages import ToolCall

SIGNAL = THINK.parameters["properties"]["should_continue"]
FOR = {"type": "string", "description": "What speaks for the next call."}
AGAINST = {"type": "string", "description": "What speaks against it: the strongest objection."}
ARGUE = replace(
    THINK,
    description="Weigh the next call: what speaks for it, and what against. It changes nothing.",
    parameters={
        "type": "object",
        "properties": {"for": FOR, "against": AGAINST, "should_continue": SIGNAL},
        "required": ["for", "against", "should_continue"],
    },
)


@tool(think_first=True, needs_approval=True)
def refund(order_id: str, dollars: int) -> str:
    """Pay a refund, at once and for good."""
    return f"${dollars} paid for {order_id}."


def stand_in(request: Request) -> Assistant:
    """Weighs the refund, asks for it, and reports the result."""
    last = request.messages[-1]
    if isinstance(last, ToolResult) and last.name == "refund":
        return Assistant(last.content)
    both = {"for": "The arm is broken.", "against": "No photo was sent.", "should_continue": "true"}
    calls = [ToolCall("", "think", both), call("refund", order_id="ORD-004", dollars=580)]
    return Assistant(tool_calls=tuple(calls), stop_reason="tool_use")


def ask(question: AskHuman) -> Verdict:
    """A person who reads both sides."""
    print(f"  {question.question}")
    for line in question.thought.splitlines():
        print(f"    {line}")
    return question.no("ask for a photo first", by="Ada")


def lesson(model: Model) -> None:
    """A card with both sides."""
    agent = Agent(model, [refund], think=ARGUE, silence="accept", approve=ask)
    outcome = agent.run("My monitor arm (ORD-004) is broken. Refund the $580.")
    print(f"  exit {outcome.exit}: {outcome.answer}")
    print("\nremember: a reason alone persuades; ask for what speaks against it, too.")


if __name__ == "__main__":
    play(lesson, stand_in)
