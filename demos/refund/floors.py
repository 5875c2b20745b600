"""Scripts that do not think. Each table lists them as floors, for comparison.

    do-nothing          says that all is done, and calls no tool
    never-think         looks every order up, and approves each that exists
    follow-the-refusal  approves without a look-up; if refused, does what the refusal allows
    always-deny         denies every order without a look-up
    five-rules          looks up, calls check_refund_policy if it is there, and applies five ifs

Rule 1: none of them reads further rules or keeps a state: each is a function of the request.
Rule 2: each is right on some cases, because these need nothing else. A model that is not better has
        shown nothing. `five-rules` is right on nearly all easy cases, so only the others compare.
"""

import re
from collections.abc import Iterator, Mapping

from think_agent import Assistant, Request, ToolCall, ToolResult, Turn
from think_agent.testing.scripted import Script
from think_agent.turn import Action

from .offline import Progress, calling, order_numbers

ALLOWED = re.compile(r"Allowed: (\w+)\.")


def do_nothing(request: Request) -> Assistant:
    """Only talks."""
    return Assistant("I have taken care of everything.")


def never_think(request: Request) -> Assistant:
    """Looks every order up, and approves it."""
    calls = []
    for order in _asked_for(request):
        looked_up = _results(request, "lookup_order", order)
        if not looked_up:
            calls.append(ToolCall("", "lookup_order", {"order_id": order}))
        elif not looked_up[-1].is_error and not _results(request, "process_refund", order):
            calls.append(_decision(order, "approve"))
    return _calling(calls)


def follow_the_refusal(request: Request) -> Assistant:
    """Does what the refusal says is allowed."""
    calls = []
    for order in _asked_for(request):
        results = _results(request, "process_refund", order)
        if not results:
            calls.append(_decision(order, "approve"))
        elif allowed := ALLOWED.search(results[-1].content):
            calls.append(_decision(order, allowed[1]))
    return _calling(calls)


def always_deny(request: Request) -> Assistant:
    """Is right on every order that has to be denied."""
    calls = []
    for order in _asked_for(request):
        if not _results(request, "process_refund", order):
            calls.append(_decision(order, "deny"))
    return _calling(calls)


def five_rules(request: Request) -> Assistant:
    """Decides as the demo's scripted model does, and never thinks."""
    return _calling(Progress(request).next_actions())


FLOORS: Mapping[str, Script] = {
    "do-nothing": do_nothing,
    "never-think": never_think,
    "follow-the-refusal": follow_the_refusal,
    "always-deny": always_deny,
    "five-rules": five_rules,
}


def _calling(calls: list[ToolCall]) -> Assistant:
    if not calls:
        return Assistant("That is done.")
    return calling(*calls)


def _decision(order: str, decision: str) -> ToolCall:
    arguments = {"order_id": order, "decision": decision, "reason": "because"}
    return ToolCall("", "process_refund", arguments)


def _asked_for(request: Request) -> list[str]:
    """The order numbers in what the customer said last."""
    turn = Turn.of(request.messages)
    if turn.request is None:
        return []
    return order_numbers(turn.request.text)


def _results(request: Request, tool: str, order: str) -> list[ToolResult]:
    """What a tool answered about an order, in the whole conversation."""
    return [action.result for action in _actions(request) if _is_about(action, tool, order)]


def _actions(request: Request) -> Iterator[Action]:
    for turn in Turn.all(request.messages):
        yield from turn.actions


def _is_about(action: Action, tool: str, order: str) -> bool:
    arguments = action.call.arguments
    if action.call.name != tool or not isinstance(arguments, dict):
        return False
    return arguments.get("order_id") == order
