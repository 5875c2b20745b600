"""Scripts that don't think. Each table lists them as floors, for comparison.

    do-nothing          says that it's done, and calls no tool
    never-think         looks every order up, and approves each that exists
    follow-the-refusal  approves without a look-up; if refused, does what the refusal allows
    always-deny         denies every order without a look-up
    five-rules          looks up, calls check_refund_policy if it is there, and applies five ifs
    text-matcher        also knows the six further rules of the hard half, by a word of each

Rule 1: none of them keeps a state: each is a function of the request.
Rule 2: each is right on some cases, because these need nothing else. A model that is not better has
        shown nothing. `five-rules` is right on nearly all easy cases, so only the others compare.
        The author of `text-matcher` had read the hard half, and it decides all of it. So a case
        there needs no thought: it shows whether a *model* applies the rules that it reads.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from think_agent import Assistant, Request, ToolCall, ToolResult, Turn
from think_agent.testing.scripted import Script
from think_agent.turn import Action

from .offline import OrderStates, find_order_numbers, reply_with_calls
from .shop import MANAGER_ABOVE_CENTS, WINDOW_DAYS

ALLOWED = re.compile(r"Allowed: (\w+)\.")
TRY_AGAIN = "once more"  # so ends the error of a tool that works when it is called again


def do_nothing(request: Request) -> Assistant:
    """Only talks."""
    return Assistant("I have taken care of everything.")


def never_think(request: Request) -> Assistant:
    """Looks every order up, and approves it."""
    calls = []
    for order in _find_asked_orders(request):
        looked_up = _find_results(request, "lookup_order", order)
        if not looked_up:
            calls.append(ToolCall("", "lookup_order", {"order_id": order}))
        elif not looked_up[-1].is_error and not _find_results(request, "process_refund", order):
            calls.append(_make_decision(order, "approve"))
    return _reply(calls)


def follow_the_refusal(request: Request) -> Assistant:
    """Does what the refusal says is allowed."""
    calls = []
    for order in _find_asked_orders(request):
        results = _find_results(request, "process_refund", order)
        if not results:
            calls.append(_make_decision(order, "approve"))
        elif allowed := ALLOWED.search(results[-1].content):
            calls.append(_make_decision(order, allowed[1]))
    return _reply(calls)


def always_deny(request: Request) -> Assistant:
    """Is right on every order that has to be denied."""
    calls = []
    for order in _find_asked_orders(request):
        if not _find_results(request, "process_refund", order):
            calls.append(_make_decision(order, "deny"))
    return _reply(calls)


def five_rules(request: Request) -> Assistant:
    """Decides as the demo's scripted model does, and never thinks."""
    return _reply(OrderStates(request).next_actions())


def text_matcher(request: Request) -> Assistant:
    """Looks every order up, as often as it takes, and decides by the rules whose words it knows."""
    asked = _find_asked_orders(request)
    calls = []
    for order in asked:
        if _is_to_do(_find_results(request, "lookup_order", order)):
            calls.append(ToolCall("", "lookup_order", {"order_id": order}))
    if calls:
        return _reply(calls)

    known = {}
    for order in asked:
        result = _find_results(request, "lookup_order", order)[-1]
        if not result.is_error:
            known[order] = json.loads(result.content)
    for order, decision in _decide_by_rules(known, request.system).items():
        if _is_to_do(_find_results(request, "process_refund", order)):
            calls.append(_make_decision(order, decision))
    return _reply(calls)


def _is_to_do(results: list[ToolResult]) -> bool:
    """Was a tool not called yet, or is it worth another try?"""
    return not results or (results[-1].is_error and TRY_AGAIN in results[-1].content)


def _decide_by_rules(orders: dict[str, dict[str, Any]], rules: str) -> dict[str, str]:
    """The decisions on the orders of one request."""
    decisions = {}
    for number, order in orders.items():
        decisions[number] = _decide_one(order, rules)

    if "sold as one set" in rules:
        denied: Counter[str] = Counter()
        for number, order in orders.items():
            denied.update(_find_set(order) * (decisions[number] == "deny"))
        for number, order in orders.items():
            if any(denied[name] for name in _find_set(order)):
                decisions[number] = "deny"

    left = [number for number, decision in decisions.items() if decision != "deny"]
    total = sum(_read_cents(orders[number]) for number in left)
    if "added up" in rules and total > MANAGER_ABOVE_CENTS:
        decisions |= dict.fromkeys(left, "escalate")
    return decisions


def _decide_one(order: dict[str, Any], rules: str) -> str:
    """The decision on one order by itself: five ifs, and three words in its note."""
    note = order["note"]
    days = WINDOW_DAYS
    is_final = order["final_sale"]
    if "45 days" in rules and "gold member" in note:
        days = 45
    if "within 7 days" in rules and re.search("food|cosmetics", note):
        days = 7
    if "workshop has confirmed" in rules and "fault confirmed" in note:
        days = 60
        is_final = False
    if order["already_refunded"] or is_final or order["bought_days_ago"] > days:
        return "deny"
    return "escalate" if _read_cents(order) > MANAGER_ABOVE_CENTS else "approve"


def _find_set(order: dict[str, Any]) -> list[str]:
    """The set of an order, if its note names one."""
    return re.findall(r"set \d+", order["note"])


def _read_cents(order: dict[str, Any]) -> int:
    return int(re.sub(r"\D", "", order["price"]))


FLOORS: Mapping[str, Script] = {
    "do-nothing": do_nothing,
    "never-think": never_think,
    "follow-the-refusal": follow_the_refusal,
    "always-deny": always_deny,
    "five-rules": five_rules,
    "text-matcher": text_matcher,
}


def _reply(calls: list[ToolCall]) -> Assistant:
    if not calls:
        return Assistant("That is done.")
    return reply_with_calls(*calls)


def _make_decision(order: str, decision: str) -> ToolCall:
    arguments = {"order_id": order, "decision": decision, "reason": "because"}
    return ToolCall("", "process_refund", arguments)


def _find_asked_orders(request: Request) -> list[str]:
    """The order numbers in what the customer said last."""
    turn = Turn.of(request.messages)
    if turn.request is None:
        return []
    return find_order_numbers(turn.request.text)


def _find_results(request: Request, tool: str, order: str) -> list[ToolResult]:
    """What a tool answered about an order, in the whole conversation."""
    return [action.result for action in _list_actions(request) if _is_about(action, tool, order)]


def _list_actions(request: Request) -> Iterator[Action]:
    for turn in Turn.all(request.messages):
        yield from turn.actions


def _is_about(action: Action, tool: str, order: str) -> bool:
    arguments = action.call.arguments
    if action.call.name != tool or not isinstance(arguments, dict):
        return False
    return arguments.get("order_id") == order
