"""See it think: thoughts, calls and the answer as they arrive.

Since lesson 05: `stream` instead of `run`. The run is the same.

Rule 1: `agent.stream` yields the events of a whole run: Deltas while a reply arrives, then each
        message, and at the end the Outcome. There's no second loop for streaming.
Rule 2: A Delta has a kind: `thought` is for developers and auditors, `answer` is for the user. A
        thought is read from a call while its JSON is still incomplete.
Rule 3: Deltas are only for display. The Assistant message counts, and it's the same as without
        streaming. The text of a reply that calls a tool is a remark, not an answer.

A bar marks the border between two pieces. `think_agent.streaming.join_answer` joins an answer.
"""

from demos.common import call, follow_steps, play
from think_agent import Agent, Delta, Model, Outcome, ToolResult, tool


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, 13 days old."


stand_in = follow_steps(("Look it up first.", call("lookup_order", order_id="ORD-001")))


def lesson(model: Model) -> None:
    """Streaming thoughts."""
    channel = ""
    pieces = 0
    for event in Agent(model, [lookup_order]).stream("What is ORD-001?"):
        match event:
            case Delta(kind=kind, text=text):
                start = "|" if kind == channel else f"\n{kind}: "
                print(start + text, end="", flush=True)
                channel = kind
                pieces += 1
            case ToolResult(name="lookup_order", content=content):
                print(f"\nresult: {content}", end="")
                channel = ""
            case Outcome(answer=answer):
                print(f"\n\n{pieces} pieces in all. The answer as one text: {answer}")
    print("\nremember: the thought is on the screen before its call has run; in time to stop it.")


if __name__ == "__main__":
    play(lesson, stand_in)
