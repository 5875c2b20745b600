"""Silence is not a signal: the same model stops too early if silence means "done".

Since lesson 01: the loop is the kit's, `Agent`. What was one file there is a line here.

Rule 1: Some models announce their next step and call no tool. A loop that takes silence as the end
        returns that text as the answer.
Rule 2: With a typed exit signal, every reply can be required to call a tool, because the signal is
        the way out. So the model can't fall silent by mistake.

Limitations: Ollama ignores `required`. (A schema can force a thought there, but not "some tool".)
So the second way may fall silent, too. Then `exit` shows the difference.
"""

from demos.common import call, follow_steps, play, promise_and_stop
from think_agent import THINK, THINK_MINIMAL, Agent, Model, tool

ORDERS = {"ORD-001": "Laptop Stand, 13 days old", "ORD-002": "Keyboard, 44 days old"}
QUESTION = "How old are ORD-001 and ORD-002? Look up one at a time."


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: {ORDERS[order_id]}."


diligent = follow_steps(
    ("Two orders: begin with ORD-001.", call("lookup_order", order_id="ORD-001")),
    ("ORD-002 is still open.", call("lookup_order", order_id="ORD-002")),
)
# After the first result it announces the next step, and stops.
stand_in = promise_and_stop(diligent)


def lesson(model: Model) -> None:
    """Silence is not a signal."""
    without = Agent(model, [lookup_order], think=THINK_MINIMAL, force="never")
    with_signal = Agent(model, [lookup_order], think=THINK, force="always")
    for name, agent in [
        ("without the signal", without),
        ("with it, a call required each time", with_signal),
    ]:
        outcome = agent.run(QUESTION)
        print(f"\n{name}: exit {outcome.exit}, orders looked up: {len(outcome.actions)}")
        print(f"  answer: {outcome.answer}")
    print(
        "\nremember: a promise to continue looks like an answer; "
        'should_continue "false" cannot be mistaken.'
    )


if __name__ == "__main__":
    play(lesson, stand_in)
