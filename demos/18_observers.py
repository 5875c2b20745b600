"""Observers: the events of one run, in a list, on the console, and as OpenTelemetry spans.

Since lesson 17: nothing in the loop changes. The run is watched.

Rule 1: An observer is a function of an event, for `run(…, on_event=…)` or, as here, for the items
        of `stream`: pieces of a reply (Delta), notices, what a server is doing (Progress), each
        message as it's recorded, and at the end the Outcome.
Rule 2: An observer only listens. A run with it is the same run, so several can watch it.
Rule 3: Spans have names, times and counts, but no content. The content is in the transcript.

A graph node has four events, and they're among these: it begins with the person's message and ends
with the Outcome; a reply names its tool calls, and a result its tool.
"""

from demos.common import call, follow_steps, play, record_spans
from think_agent import Agent, Assistant, Delta, Event, Model, Outcome, ToolResult, User, tool


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, 13 days old."


stand_in = follow_steps(("Look it up first.", call("lookup_order", order_id="ORD-001")))


def show(event: Event) -> None:
    """An observer for the console."""
    match event:
        case User(text=text):
            print(f"  node begins: {text}")
        case Assistant(tool_calls=calls) if calls:
            print(f"  tool calls: {', '.join(call.name for call in calls)}")
        case ToolResult(name=name, content=content):
            print(f"  tool result: {name}: {content}")
        case Outcome(exit=exit):
            print(f"  node ends: {exit}")


def lesson(model: Model) -> None:
    """Watch one run in three ways."""
    seen: list[Event] = []
    spans, finished = record_spans()  # `Spans()` of think_agent.integrations.otel
    with spans:
        print("\nconsole")
        for event in Agent(model, [lookup_order]).stream("What is ORD-001?"):
            for observe in (seen.append, show, spans):
                observe(event)

    names = [type(event).__name__ for event in seen if not isinstance(event, Delta)]
    print("\nlist\n ", " ".join(names))
    print("\nspans\n ", ", ".join(span.name for span in finished()))
    print("\nremember: one run, three observers; the loop knows none of them.")


if __name__ == "__main__":
    play(lesson, stand_in)
