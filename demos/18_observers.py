"""Observers: the events of one run, in a list, on the console, and as OpenTelemetry spans.

Since lesson 17: nothing in the loop is changed. The run is watched.

Rule 1: an observer is a function of an event, for `run(…, on_event=…)` or, as here, for the items
        of `stream`. Events come as they happen: pieces of a reply (Delta), notices, what a server
        is doing meanwhile (Progress), each message as it is recorded, and at the end the Outcome.
Rule 2: an observer only listens. A run with it is the same run, so several can watch it.
Rule 3: spans have names, times and counts, and no content. The content is in the transcript.

The four events of a graph node are among them: the node begins with the message from the person,
and ends with the Outcome; a reply names its tool calls, and a result its tool.
"""

from demos.common import call, follows, play, spans_in_memory
from think_agent import Agent, Assistant, Delta, Event, Model, Outcome, ToolResult, User, tool


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, 13 days old."


stand_in = follows(("Look it up first.", call("lookup_order", order_id="ORD-001")))


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
    spans, finished = spans_in_memory()  # `Spans()` of think_agent.integrations.otel
    with spans:
        print("\nconsole")
        for event in Agent(model, [lookup_order]).stream("What is ORD-001?"):
            for observe in (seen.append, show, spans):
                observe(event)

    whole = [type(event).__name__ for event in seen if not isinstance(event, Delta)]
    print("\nlist\n ", " ".join(whole))
    print("\nspans\n ", ", ".join(span.name for span in finished()))
    print("\nremember: one run, three observers; none of them is known to the loop.")


if __name__ == "__main__":
    play(lesson, stand_in)
