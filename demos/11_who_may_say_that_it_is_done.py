"""Who may say that it is done: seven answers, on one model that promises to go on and stops.

Since lesson 10: seven ways to end, on one task, in place of the kit's two. Each way is an Agent.

    silence            the loop: a reply without a call is the end, as in most loops
    heartbeat          the loop, unless a call asks to go on (MemGPT)
    edge               your code: a function of the state names the next node (LangGraph)
    phase              the provider: it marks text before the end, so a promise is no answer
    stop tool          the model, by a call that is the only way out
    task_completed     the model, in a field of every reply (Schema-Guided Reasoning)
    should_continue    the model, with its thought; if it then falls silent too early, it is asked

Rule 1: for the first two, silence is the end, and they lose the second order.
Rule 2: for the others, the end has to be stated. The price differs: code that knows this task, a
        provider that marks phases, a required tool, a schema, or one question to a model that
        contradicts itself.

LangGraph's ready-made edge, `tools_condition`, is the first way again: no call, the end.
"""

from demos.common import Phased, call, follows, play, promising
from demos.refund.dialects import speaking
from think_agent import Agent, Assistant, CallModel, Done, Model, Request, Step, Turn, tool
from think_agent.dialects.json_plan import json_plan


@tool(read_only=True)
def lookup_order(order_id: str, request_heartbeat: bool = False) -> str:
    """Look up an order by its number. `request_heartbeat`: more is to be done after it."""
    return f"{order_id} is {13 if order_id == 'ORD-001' else 44} days old."


@tool
def finish(answer: str) -> str:
    """Say that all is done, with the answer for the user."""
    return answer


def heartbeat(step: Step, turn: Turn) -> Step:
    """A call that does not ask to go on is the last one."""
    if turn.actions and "request_heartbeat" not in turn.actions[-1].call.arguments:
        return Done("silence", turn.actions[-1].result.content)
    return step


def should_continue(turn: Turn) -> str:
    """The node after the model: a conditional edge. This one knows that there are two orders."""
    if turn.pending:
        return "tools"
    return "model" if len(turn.actions) < 2 else "end"


def edge(step: Step, turn: Turn) -> Step:
    """Where the loop would end, the edge may lead back to the model, which then has to act."""
    if isinstance(step, Done) and should_continue(turn) == "model":
        return CallModel("required")
    return step


def stop_tool(step: Step, turn: Turn) -> Step:
    """A text does not end the run: a call is required, and `finish` is the only way out."""
    if turn.actions and turn.actions[-1].call.name == "finish":
        return Done("signal", turn.actions[-1].result.content)
    if step == Done("silence", turn.last_words):
        return CallModel("required")
    return step


def stand_in(request: Request) -> Assistant:
    """Looks one order up, promises the other and stops; in JSON it has to fill in the field."""
    steps = [("One by one.", call("lookup_order", order_id=f"ORD-00{n}")) for n in (1, 2)]
    if finish.name in [tool.name for tool in request.tools]:
        steps.append(("Both are known.", call("finish", answer="They are 13 and 44 days old.")))
    return promising(speaking(follows(*steps), "json"))(request)


def lesson(model: Model) -> None:
    """Who may say that it is done."""
    for name, agent in {
        "silence": Agent(model, [lookup_order], silence="accept"),
        "heartbeat": Agent(model, [lookup_order], policies=[heartbeat]),
        "edge": Agent(model, [lookup_order], silence="accept", policies=[edge]),
        "phase": Agent(Phased(model), [lookup_order]),
        "stop tool": Agent(model, [lookup_order, finish], policies=[stop_tool]),
        "task_completed": Agent(json_plan(model), [lookup_order]),
        "should_continue": Agent(model, [lookup_order]),
    }.items():
        outcome = agent.run("How old are ORD-001 and ORD-002? Look up one at a time.")
        looked = sum(action.call.name == "lookup_order" for action in outcome.actions)
        print(f"{name:16}{looked} of 2 orders, exit {outcome.exit + ':':9}{outcome.answer}")
    print("\nremember: where the end is said, a promise is not mistaken for it.")


if __name__ == "__main__":
    play(lesson, stand_in)
