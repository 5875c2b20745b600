"""Checks the work of the refund desk before a run may end: `Agent(..., done_when=…)`.

Rule 1: a check looks at the books, not at what the model says. Any process may have written them,
        because a run can be resumed in another one.
Rule 2: its name says exactly what it checks, because people read the name after the ✓.

Limitations: it doesn't know what the customer wants. "Do not refund ORD-001" counts as done if that
order was looked up, even if it was then refunded. It finds missing decisions, not wrong ones.
"""

from contextlib import suppress

from think_agent import Assistant, Turn
from think_agent.policies.done_when import CheckFunction

from .offline import find_left_alone, find_order_numbers
from .shop import Shop, ShopError


def make_checks(shop: Shop) -> list[CheckFunction]:
    """The checks for a desk of this shop."""

    def no_order_left_open(turn: Turn) -> str | None:
        """An order that the customer names, or whose rules were checked, was looked up. If it
        exists, it has a decision in the books, unless the customer wants none.
        """
        looked_up: set[str] = set()
        named: list[str] = []
        to_decide: list[str] = []
        for part in _find_unanswered_turns(turn):
            looked_up.update(_list_orders("lookup_order", part))
            request = part.request.text if part.request else ""
            orders = find_order_numbers(request)
            named += orders
            to_decide += _list_orders("check_refund_policy", part)
            to_decide += [order for order in orders if order not in find_left_alone(request)]

        decided = shop.list_decided()
        missing = {}
        for order in to_decide:
            if order not in decided and _order_exists(order, shop):
                missing[order] = f"{order}: no decision is recorded"
        for order in named:
            if order not in looked_up:
                missing[order] = f"{order}: it was not looked up"
        return "; ".join(missing.values()) or None

    return [no_order_left_open]


def _find_unanswered_turns(turn: Turn) -> list[Turn]:
    """This turn, and before it the stopped turns that were never answered."""
    *before, last = Turn.all(turn.history.spoken)
    unanswered = [last]
    for earlier in reversed(before):
        if isinstance(earlier.last, Assistant) and not earlier.pending:
            break
        unanswered.insert(0, earlier)
    return unanswered


def _order_exists(order: str, shop: Shop) -> bool:
    with suppress(ShopError):
        shop.order(order)
        return True
    return False


def _list_orders(tool: str, turn: Turn) -> list[str]:
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
