"""Said and true: one task, four ways to decide that it's done, on a model that boasts.

    silence           no tool was called: the model's word
    the flag          should_continue "false": its word, too, but stated on purpose
    a second opinion  a model reads the request and the actions (`second_opinion.py`)
    the books         a function looks into the books, where every refund has to be

Since lesson 13: the work is checked, not the thought. A flag isn't set by mistake, but it can still
be false.

Rule 1: A check is a function of the turn. It returns what is missing, or None. All checks have to
        agree, so a second opinion can add a doubt but can't remove one.
Rule 2: The model reads what is missing. If it does nothing about it, the exit is "unmet".
"""

from demos.common import call, play
from demos.second_opinion import JUDGE, make_opinion_check
from think_agent import Agent, Assistant, Force, Model, Request, ToolResult, Turn, User, tool
from think_agent.testing import think

ORDERS = ("ORD-001", "ORD-003")
books: set[str] = set()


@tool
def refund(order_id: str) -> str:
    """Refund an order in full."""
    books.add(order_id)
    return f"{order_id} is refunded."


def in_the_books(turn: Turn) -> str | None:
    """Looks into the books."""
    missing = [order for order in ORDERS if order not in books]
    if missing:
        return f"{', '.join(missing)}: not in the books"
    return None


def stand_in(request: Request) -> Assistant:
    """Makes one refund per message of a user, claims to have made all, and agrees with itself."""
    if JUDGE in request.system:
        return Assistant('{"answer": true}')
    if request.tool_choice == Force("think"):
        return Assistant(tool_calls=(think("One refund after the other."),))
    times_asked = len([m for m in request.messages if isinstance(m, User)])
    done = len([m for m in request.messages if isinstance(m, ToolResult) and m.name == "refund"])
    if request.tool_choice == "auto" and done < min(times_asked, len(ORDERS)):
        return Assistant(tool_calls=(call("refund", order_id=ORDERS[done]),))
    if request.tool_choice == "auto" and "think" in [tool.name for tool in request.tools]:
        return Assistant(tool_calls=(think("I will say that all is done.", should_continue=False),))
    return Assistant("All done: both orders are refunded.")


def lesson(model: Model) -> None:
    """Said and true."""
    agents = {
        "silence": Agent(model, [refund], think=None),
        "the flag": Agent(model, [refund]),
        "a second opinion": Agent(model, [refund], done_when=[make_opinion_check(model)]),
        "the books": Agent(model, [refund], done_when=[make_opinion_check(model), in_the_books]),
    }
    for name, agent in agents.items():
        books.clear()
        outcome = agent.run("Refund ORD-001 and ORD-003, please.")
        print(f"\n{name}: exit {outcome.exit}, {len(books)} of 2 refunds. {outcome.answer}")
        for check in outcome.checks:
            print(f"  {check.name}: {check.missing or 'nothing is missing'}")
    print("\nremember: all four said the same; only the books could tell whether it is true.")


if __name__ == "__main__":
    play(lesson, stand_in)
