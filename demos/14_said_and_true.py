"""Said and true: one task, four ways to decide that it is done, on a model that boasts.

    silence           no tool was called: the model's word
    the flag          should_continue "false": its word, too, but stated on purpose
    a second opinion  a model reads the request and the actions; it may believe the first model
    the books         a function looks into the books, where every refund has to be

Rule 1: a flag is not set by mistake, but it can still be false.
Rule 2: a check is a function of the turn. It says what is missing, or None. All checks have to
        agree, so a second opinion can add a doubt but cannot remove one.
Rule 3: the model is told what is missing: do it, or say why not. If it does neither, the run ends
        as "unmet".

At OpenAI's own host the opinion is a probability, from `client.decisions` of the official SDK.
Elsewhere the same model gives a typed answer. The scripted model believes itself. A real model may
find the gap, or not.
"""

from typing import Any

from demos.common import call, play
from think_agent import Agent, Assistant, Force, Model, Request, ToolResult, Turn, User, tool
from think_agent.outcome import report
from think_agent.policies.done_when import CheckFunction
from think_agent.testing import think

ORDERS = ("ORD-001", "ORD-003")
JUDGE = "You judge the work of an agent: was everything done that was asked for?"
books: set[str] = set()


@tool
def refund(order_id: str) -> str:
    """Refund an order in full."""
    books.add(order_id)
    return f"{order_id} is refunded."


def every_refund_in_the_books(turn: Turn) -> str | None:
    """Looks into the books."""
    missing = [order for order in ORDERS if order not in books]
    return f"{', '.join(missing)}: not in the books" if missing else None


def opinion_of(model: Model) -> CheckFunction:
    """A check that asks a model."""

    def second_opinion(turn: Turn) -> str | None:
        asked = turn.request.text if turn.request else ""
        story = f"Asked: {asked}\nDone:\n{report(turn)}\nThe agent says that this is all."
        at_openai = getattr(model, "host", "") == "api.openai.com"
        ask = by_decision if at_openai else by_question
        return None if ask(model, story) else "a second look doubts that everything was done"

    return second_opinion


def by_decision(model: Any, story: str) -> bool:
    """Ask OpenAI for a probability; if the model refuses to answer, that is a doubt."""
    question = {"type": "predicate", "instructions": "Everything was done that was asked for."}
    ask = model.client.decisions.create
    [answer] = ask(model="gpt-6-luna", input=story, questions=[question]).answers
    return bool(answer.type == "predicate" and answer.probability > 0.5)


def by_question(model: Model, story: str) -> bool:
    """Ask the same model for a typed answer; if there is none, that is a doubt."""
    return Agent(model, instructions=JUDGE, think=None, answer=bool).run(story).data is True


def stand_in(request: Request) -> Assistant:
    """Does one refund for each message of a user, and says that it did all."""
    if JUDGE in request.system:
        return Assistant('{"answer": true}')
    times_asked = sum(isinstance(message, User) for message in request.messages)
    results = [m for m in request.messages if isinstance(m, ToolResult) and m.name == "refund"]
    is_next = len(results) < min(times_asked, len(ORDERS))
    if request.tool_choice == Force("think"):
        return Assistant(tool_calls=(think("One refund after the other.", True),))
    if is_next and request.tool_choice != "none":
        return Assistant(tool_calls=(call("refund", order_id=ORDERS[len(results)]),))
    can_think = any(tool.name == "think" for tool in request.tools)
    if can_think and request.tool_choice != "none":
        return Assistant(tool_calls=(think("I will say that all is done.", False),))
    return Assistant("All done: both orders are refunded.")


def lesson(model: Model) -> None:
    """Said and true."""
    opinion = opinion_of(model)
    ways = {
        "silence": Agent(model, [refund], think=None),
        "the flag": Agent(model, [refund]),
        "a second opinion": Agent(model, [refund], done_when=[opinion]),
        "the books": Agent(model, [refund], done_when=[opinion, every_refund_in_the_books]),
    }
    for name, agent in ways.items():
        books.clear()
        outcome = agent.run("Refund ORD-001 and ORD-003, please.")
        print(f"\n{name}: exit {outcome.exit}, {len(books)} of 2 refunds. {outcome.answer}")
        for check in outcome.checks:
            print(f"  {check.name}: {check.missing or 'nothing is missing'}")
    print("\nwhat to notice: all four said the same; only the books could tell whether it is true.")


if __name__ == "__main__":
    play(lesson, stand_in)
