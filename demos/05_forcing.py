"""Forcing a thought: when it is asked for, and the trap of forcing the same tool always.

Since lesson 04: how the provider is made to obey, call by call.

Rule 1: `force` is a policy that decides for each model call, from the transcript. `"first"` forces
        a thought after a person's message; `"always"` also forces one after every action.
Rule 2: the trap: a tool choice that is set *once* forces `think` on every call. The model can never
        act, so it never finishes. Only a limit ends that run.
Rule 3: on Ollama, which has no tool choice, a schema forces the thought: the tools stay, and the
        reply can only be the arguments of `think`; the last reply can only be a text.

The left column shows the tool choice of each model call: `auto` leaves it free, `required` asks for
some tool, `force think` for that one, and with `none` it may call none.

Limitations: some servers ignore a tool choice and a schema. The gate (`think_first`) works on all.
"""

from demos.common import call, follows, play
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
        did = ", ".join(call.name for call in reply.tool_calls) or "the answer"
        print(f"  {asked:11} -> {did}")


stand_in = follows(("Look it up first.", call("lookup_order", order_id="ORD-001")))


def lesson(model: Model) -> None:
    """Forcing, and the trap of forcing always the same tool."""
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
