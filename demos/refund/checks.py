"""Checks the work of the refund desk before a run may end: `Agent(..., done_when=…)`.

Rule 1: a check looks into the books, not at what the model says. It does not matter which process
        wrote them, because another process may have gone on with the run.

Limitations: it does not know what the customer wants. "Do not refund ORD-001" is met if that order
was looked up, even if it was then refunded. It finds a missing decision, never a wrong one.
"""

from demos.refund.offline import order_numbers
from demos.refund.shop import Shop
from think_agent import Turn
from think_agent.policies.done_when import CheckFunction


def checks(shop: Shop) -> list[CheckFunction]:
    """The checks for a desk of this shop."""

    def every_order_decided(turn: Turn) -> str | None:
        """Every order that the customer names was looked up, and every order whose rules were
        checked has a decision in the books.
        """
        request = turn.request.text if turn.request else ""
        looked_up = _orders_of("lookup_order", turn)
        decided = shop.decided()
        missing = []
        for order in order_numbers(request):
            if order not in looked_up:
                missing.append(f"{order}: it was not looked up")
        for order in _orders_of("check_refund_policy", turn):
            if order not in decided:
                missing.append(f"{order}: no decision is recorded")
        return "; ".join(missing) or None

    return [every_order_decided]


def _orders_of(tool: str, turn: Turn) -> list[str]:
    """The orders in the calls of a tool in this turn, each once."""
    orders: list[str] = []
    for action in turn.actions:
        arguments = action.call.arguments
        if action.call.name != tool or not isinstance(arguments, dict):
            continue
        order = str(arguments.get("order_id")).strip().upper()
        if order not in orders:
            orders.append(order)
    return orders
