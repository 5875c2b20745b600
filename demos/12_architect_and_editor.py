"""The architect and the editor: one model thinks, another one acts, in one transcript.

Since lesson 11: two models in one run.

Rule 1: `split(thinker=…, actor=…)` is a model. A forced thought comes from the thinker, everything
        else from the actor, also the final answer. The loop can't tell the difference.
Rule 2: `force` says how often the thinker is asked. With `"first"` it makes the plan, and the actor
        thinks for itself after that. With `"always"` the thinker is asked before every action.
Rule 3: Each model sees the whole transcript, but signatures only in its own replies.

Coding tools pair a large model, which says what to do, with a small one, which does it. A lesson
has only one model, so here both are the same.
"""

from demos.common import call, follow_steps, play
from think_agent import Agent, Assistant, Model, Request, tool
from think_agent.dialects.base import Wrapper
from think_agent.dialects.split import split


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, $89, 13 days old."


@tool(think_first=True)
def refund(order_id: str, dollars: int) -> str:
    """Pay a refund. Orders of the last 30 days are refunded in full."""
    return f"${dollars} paid for {order_id}."


class PrintingModel(Wrapper):
    """A model that prints when it is asked, and what it does."""

    def __init__(self, inner: Model, role: str) -> None:
        super().__init__(inner)
        self.role = role

    def complete(self, request: Request) -> Assistant:
        reply = self.inner.complete(request)
        names = [call.name for call in reply.tool_calls]
        print(f"  {self.role:9} -> {', '.join(names) if names else 'the answer'}")
        return reply


stand_in = follow_steps(
    ("Look it up: what was paid, and when?", call("lookup_order", order_id="ORD-001")),
    ("13 days old, so it is refunded in full.", call("refund", order_id="ORD-001", dollars=89)),
)


def lesson(model: Model) -> None:
    """The architect and the editor."""
    architect = PrintingModel(model, "architect")
    editor = PrintingModel(model, "editor")
    pair = split(thinker=architect, actor=editor)
    for force in ("first", "always"):
        print(f'\nforce="{force}"')
        outcome = Agent(pair, [lookup_order, refund], force=force).run("Refund ORD-001, please.")
        print(f"  exit {outcome.exit}: {outcome.answer}")
    print("\nremember: the architect is only asked for thoughts, and the editor acts on them.")


if __name__ == "__main__":
    play(lesson, stand_in)
