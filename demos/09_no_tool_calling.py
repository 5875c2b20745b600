"""No tool calling at all: the same agent on a model that can only write text.

Since lesson 08: the model cannot call tools at all.

Rule 1: a dialect wraps a model and is a model. It changes how tools are called, not the loop.
Rule 2: `json`: each reply is one JSON object that follows a schema. If the server enforces the
        schema, forcing always works.
Rule 3: `react`: Thought, Action, Action Input and Final Answer in plain text, for models without
        tool calling and schemas. Forcing is only a request here; the gate works as always.
Rule 4: plain text never runs a tool, so the form is strict: a plan is the whole reply, and an
        Action ends it. If there is other text, no call that changes something is run.

In json, a plan has a field for a thought beside the action. The scripted model has thought before,
so it writes "As planned." there. --provider runs both dialects on a real model, whether it can call
tools or not.
"""

from demos.common import call, follows, play
from demos.refund.dialects import speaking
from think_agent import Agent, Assistant, Model, Request, tool
from think_agent.dialects.json_plan import json_plan
from think_agent.dialects.react import react
from think_agent.tools import signature

STEP = ("Look it up first.", call("lookup_order", order_id="ORD-001"))


@tool(think_first=True, read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, 13 days old."


def stand_in(request: Request) -> Assistant:
    """Reads text and writes text, in the dialect of the request."""
    dialect = "json" if request.output_schema else "react"
    return speaking(follows(STEP), dialect)(request)


def show(reply: Assistant) -> None:
    (own,) = reply.native.values()  # the message as the model wrote it
    wrote = own.get("text", "(nothing: it was not asked again)")
    calls = [signature(call) for call in reply.tool_calls]
    read = ", ".join(calls) if calls else "the answer"
    print("  the model writes  " + wrote.replace("\n", "\n" + 20 * " "))
    print("  the loop reads    " + read)


def lesson(model: Model) -> None:
    """No tool calling at all: the same agent in two dialects."""
    for name, dialect in (("json", json_plan(model)), ("react", react(model))):
        outcome = Agent(dialect, [lookup_order]).run("What is ORD-001?")
        print(f"\n{name}")
        for message in outcome.transcript:
            if isinstance(message, Assistant):
                show(message)
        print(f"  exit {outcome.exit}: {outcome.answer}")
    print("\nremember: the loop cannot tell. A dialect is a translator, and nothing more.")


if __name__ == "__main__":
    play(lesson, stand_in)
