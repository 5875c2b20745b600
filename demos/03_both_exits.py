"""Both ways out, and why the loop took each step.

Since lesson 02: both ways out in one agent, and the reason for each step.

Rule 1: Signal: a thought says should_continue "false". Then comes one last call without tools.
Rule 2: Silence: the reply calls no tool, and its text is the answer. Small talk needs no thought.
Rule 3: Planning is pure, so a finished run can be explained. `explain(agent, transcript)` plans
        every step again. It shows what `next_step` planned and how each policy changed it.
"""

from demos.common import call, follow_steps, play
from think_agent import Agent, Assistant, Force, Model, Request, Turn, tool
from think_agent.audit import explain
from think_agent.cli.why import explain_steps


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, 13 days old."


def stand_in(request: Request) -> Assistant:
    """Looks up what is asked for, and answers thanks with a word."""
    asked = Turn.of(request.messages).request
    if asked and "ORD-" in asked.text:
        script = follow_steps(("Look it up first.", call("lookup_order", order_id="ORD-001")))
        return script(request)
    if request.tool_choice == Force("think"):  # without a signal: after "true", it would be asked
        return Assistant(tool_calls=(call("think", thought="Small talk: nothing to look up."),))
    return Assistant(text="You are welcome!")


def lesson(model: Model) -> None:
    """Both ways out, and why."""
    agent = Agent(model, [lookup_order])
    for text in ("What is ORD-001?", "Thank you!"):
        outcome = agent.run(text)
        print(f"\n{text}  (it ended by: {outcome.exit})")
        for mark, line in explain_steps(explain(agent, outcome.transcript)):
            print(mark, line)
    print(
        "\nremember: the run is over, and each step still has its reason. next_step leaves "
        "the model free; force_first is the policy that made the first call a thought."
    )


if __name__ == "__main__":
    play(lesson, stand_in)
