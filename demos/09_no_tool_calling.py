"""No tool calling at all: the same agent on a model that can only write text.

Since lesson 08: the model can't call tools at all.

Rule 1: A dialect wraps a model and is a model. It changes how tools are called, not the loop.
Rule 2: `json`: each reply is one JSON object that follows a schema. If the server enforces the
        schema, forcing always works.
Rule 3: `react`: Thought, Action, Action Input and Final Answer in plain text, for models without
        tool calling and schemas. Forcing is only a request here, but the gate works as always.
Rule 4: The form is strict: a plan is the whole reply, and an Action ends it. If there's other text,
        no call that changes something runs.

In json, a plan has a field for the thought. The scripted model has already thought before it acts,
so it writes "As planned." there.
"""

from demos.common import call, follow_steps, play
from demos.refund.dialects import speak_dialect
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
    script = speak_dialect(follow_steps(STEP), dialect)
    return script(request)


def show(reply: Assistant) -> None:
    [message] = reply.native.values()  # as the model wrote it
    written = message.get("text", "(nothing: it was not asked again)")
    indent = "\n" + " " * 20
    print("  the model writes  " + written.replace("\n", indent))
    calls = [signature(call) for call in reply.tool_calls]
    print("  the loop reads    " + (", ".join(calls) if calls else "the answer"))


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
