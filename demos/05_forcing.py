"""Forcing a thought: when it's asked for, and the trap of always forcing the same tool.

Since lesson 04: how to make the provider obey, call by call.

Rule 1: `force` is a policy that decides for each model call. `"first"` forces a thought after a
        person's message, `"always"` also after every action.
Rule 2: The trap: a tool choice that is set *once* forces `think` on every call. The model can't
        act, so it never finishes. Only a limit ends that run.

The left column is the tool choice of a model call: `auto` (free), `required` (some tool), `force
think`, or `none` (no tool).

Limitations: Ollama has no tool choice; there a schema forces the thought. Some servers ignore both.
The gate (`think_first`) works everywhere.
"""

from demos.common import call, follow_steps, play
from think_agent import Agent, CallModel, Force, Model, Outcome, Turn, tool
from think_agent.loop import Step
from think_agent.policies import Forcing


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, 13 days old."


def think_on_every_call(step: Step, turn: Turn) -> Step:
    """The trap."""
    if step == CallModel():
        return CallModel(Force("think"))
    return step


def show(name: str, outcome: Outcome) -> None:
    print(f"\n{name}: exit {outcome.exit}, {len(outcome.actions)} action(s)")
    for reply in outcome.turn.replies:
        choice = reply.tool_choice
        asked = f"force {choice.name}" if isinstance(choice, Force) else choice
        names = [call.name for call in reply.tool_calls]
        print(f"  {asked:11} -> {', '.join(names) if names else 'the answer'}")


stand_in = follow_steps(("Look it up first.", call("lookup_order", order_id="ORD-001")))


def lesson(model: Model) -> None:
    """Forcing, and the trap of always forcing the same tool."""
    question = "What is ORD-001?"
    whens: tuple[Forcing, ...] = ("never", "first", "always")
    for when in whens:
        show(f'force="{when}"', Agent(model, [lookup_order], force=when).run(question))
    trap = Agent(
        model, [lookup_order], force="never", policies=[think_on_every_call], max_model_calls=6
    )
    show("the trap", trap.run(question))
    print("\nremember: a model that must always think can never act. Decide call by call.")


if __name__ == "__main__":
    play(lesson, stand_in)
