"""Who may say that it's done? Seven answers, on a model that promises the next step and stops.

Since lesson 10: seven ways to end, on one task. Each way is an Agent.

    silence            the loop: a reply without a call is the end, as in most loops
    heartbeat          the loop, unless a call asks to continue (MemGPT)
    edge               your code: a function of the state picks the next node (LangGraph)
    phase              the provider: it marks text before the end, so a promise isn't an answer
    stop tool          the model, by a call that is the only way out
    task_completed     the model, in a field of every reply (Schema-Guided Reasoning)
    should_continue    the model, with its thought; if it then stops too early, it's asked

Rule 1: In the first two, silence is the end, and they lose the second order. In the others, the end
        has to be stated. (LangGraph's own edge, `tools_condition`, is like the first.)
"""

from demos.common import PhasedModel, call, follow_steps, play, promise_and_stop
from demos.refund.dialects import speak_dialect
from think_agent import Agent, Assistant, CallModel, Done, Model, Request, Step, Turn, tool
from think_agent.dialects.json_plan import json_plan

AGES = {"ORD-001": 13, "ORD-002": 44}


@tool(read_only=True)
def lookup_order(order_id: str, request_heartbeat: bool = False) -> str:
    """Look up an order by its number. `request_heartbeat`: more is to be done after it."""
    return f"{order_id} is {AGES[order_id]} days old."


@tool
def finish(answer: str) -> str:
    """Say that all is done, with the answer for the user."""
    return answer


def heartbeat(step: Step, turn: Turn) -> Step:
    """A call that doesn't ask to continue is the last one."""
    if turn.actions and "request_heartbeat" not in turn.actions[-1].call.arguments:
        return Done("silence", turn.actions[-1].result.content)
    return step


def should_continue(turn: Turn) -> str:
    """The node after the model: a conditional edge. This one knows that there are two orders."""
    if turn.pending:
        return "tools"
    if len(turn.actions) < 2:
        return "model"
    return "end"


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
    """Looks one order up, promises the other and stops. In JSON it has to fill in the field."""
    steps = [("One by one.", call("lookup_order", order_id=order)) for order in AGES]
    if finish.name in [tool.name for tool in request.tools]:
        steps.append(("Both are known.", call("finish", answer="They are 13 and 44 days old.")))
    script = speak_dialect(follow_steps(*steps), "json")
    return promise_and_stop(script)(request)


def lesson(model: Model) -> None:
    """Who may say that it is done."""
    agents = {
        "silence": Agent(model, [lookup_order], silence="accept"),
        "heartbeat": Agent(model, [lookup_order], policies=[heartbeat]),
        "edge": Agent(model, [lookup_order], silence="accept", policies=[edge]),
        "phase": Agent(PhasedModel(model), [lookup_order]),
        "stop tool": Agent(model, [lookup_order, finish], policies=[stop_tool]),
        "task_completed": Agent(json_plan(model), [lookup_order]),
        "should_continue": Agent(model, [lookup_order]),
    }
    for name, agent in agents.items():
        outcome = agent.run("How old are ORD-001 and ORD-002? Look up one at a time.")
        look_ups = [action for action in outcome.actions if action.call.name == "lookup_order"]
        end = f"exit {outcome.exit}:"
        print(f"{name:16}{len(look_ups)} of 2 orders, {end:14}{outcome.answer}")
    print("\nremember: where the end has to be stated, a promise isn't mistaken for it.")


if __name__ == "__main__":
    play(lesson, stand_in)
