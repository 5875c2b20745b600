"""Six scripted models of known quality. They are no language models, and their answers say so.

With them the evaluation itself can be tested: each is right on known cases, so its score is known.
Each is a plain function of the request and obeys every tool choice.

    careful    looks up, checks, and decides by the policy; ends by the exit signal if there is one.
               It never calls a failing tool again.
    hasty      approves every order in the text without a look-up, and says that it is done
    stubborn   looks up, then tries to approve again and again, whatever the shop says
    silent     says that all is done, and never calls a tool unless it is forced to
    narrator   looks one order up, announces the next step, and stops; if it is asked, it goes on
    boaster    does the first order, says that all are done, and repeats that if it is asked
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from demos.refund.offline import LABEL, calling, order_numbers
from demos.refund.offline import reply as by_the_policy
from think_agent import Assistant, Force, Request, ToolCall, ToolResult, Turn, User
from think_agent.dialects.base import wants_to_leave
from think_agent.messages import THINK_NAME, Spoken
from think_agent.scripted import Script
from think_agent.think import has_signal, should_continue, without

BOAST = "I worked on {}. I will say that all is done."


def careful(request: Request) -> Assistant:
    """The scripted model of the demo. Without an exit signal it ends by its answer."""
    said = by_the_policy(request)
    if _has_signal(request):
        return said
    if wants_to_leave(said) and request.tool_choice == "auto":
        return by_the_policy(replace(request, tool_choice="none"))
    return without_signal(said)


def without_signal(reply: Assistant) -> Assistant:
    """`reply` for a think tool that has no exit signal."""
    calls = []
    for call in reply.tool_calls:
        if call.name == THINK_NAME:
            call = without(call, "should_continue")
        calls.append(call)
    return replace(reply, tool_calls=tuple(calls))


def hasty(request: Request) -> Assistant:
    """Approves every order at once."""
    approvals = [_approval(o) for o in _orders(request) if not _answered(request, o)]
    return _act(request, approvals, done="Of course! Every refund is on its way.")


def stubborn(request: Request) -> Assistant:
    """Tries to approve until the shop accepts."""
    orders = _orders(request)
    if unseen := [o for o in orders if not _results(request, "lookup_order", o)]:
        calls = [ToolCall("", "lookup_order", {"order_id": order}) for order in unseen]
    else:
        calls = [_approval(o) for o in orders if not _approved(request, o)]
    return _act(request, calls, done="I insisted, and every refund is on its way.")


def silent(request: Request) -> Assistant:
    """Only talks."""
    return _act(request, [], done="I have taken care of everything.")


def narrator(request: Request) -> Assistant:
    """Stops once with a promise to go on. Otherwise it does what `careful` does."""
    said = careful(request)
    stopped = any(isinstance(m, Assistant) and not m.tool_calls for m in _turn(request))
    if stopped or not (orders := _orders(request)):
        return said
    if request.tool_choice == "auto" and _results(request, "lookup_order", orders[0]):
        next = f"look up {orders[1]}" if orders[1:] else "check the policy"
        return Assistant(text=f"Got {orders[0]}. Now let me {next}.")
    return replace(said, tool_calls=said.tool_calls[:1])  # one at a time


def boaster(request: Request) -> Assistant:
    """Does the first order like `careful`, and says that it did all of them."""
    customer, *since = _turn(request)
    orders = _orders(request)
    if len(orders) < 2 or not isinstance(customer, User):
        return careful(request)

    first = replace(customer, text=f"Refund {orders[0]}")
    reply = careful(replace(request, messages=[first, *since]))
    if not reply.tool_calls:
        return replace(reply, text=f"{LABEL} All done! I took care of {' and '.join(orders)}.")
    calls = []
    for call in reply.tool_calls:
        if should_continue(call) is False:
            notes = {"thought": BOAST.format(orders[0]), "should_continue": "false"}
            call = ToolCall("", "think", notes)
        calls.append(call)
    return replace(reply, tool_calls=tuple(calls))


STAND_INS: Mapping[str, Script] = {
    "careful": careful,
    "hasty": hasty,
    "stubborn": stubborn,
    "silent": silent,
    "narrator": narrator,
    "boaster": boaster,
}


def _act(request: Request, calls: Sequence[ToolCall], *, done: str) -> Assistant:
    """Make the calls, or say that all is done, as the tool choice allows."""
    match request.tool_choice:
        case Force(name="think"):
            return calling(_thought(request, leaving=not calls))
        case "required" if not calls:
            return calling(_thought(request, leaving=True))
        case "auto" | "required" if calls:
            return calling(*calls)
    return Assistant(text=f"{LABEL} {done}")


def _thought(request: Request, *, leaving: bool) -> ToolCall:
    notes = {"thought": f"{LABEL} Sure."}
    if _has_signal(request):
        notes["should_continue"] = "false" if leaving else "true"
    return ToolCall("", "think", notes)


def _approval(order: str) -> ToolCall:
    arguments = {"order_id": order, "decision": "approve", "reason": "the customer asked for it"}
    return ToolCall("", "process_refund", arguments)


def _orders(request: Request) -> list[str]:
    """The order numbers in the customer's message."""
    said = next(m.text for m in _turn(request) if isinstance(m, User))
    return order_numbers(said)


def _results(request: Request, tool: str, order: str) -> list[ToolResult]:
    """The results of a tool for an order in this turn, without refused calls."""
    made = Turn.of(request.messages).actions
    return [one.result for one in made if (one.call.name, _order(one.call)) == (tool, order)]


def _order(call: ToolCall) -> object:
    return call.arguments["order_id"] if isinstance(call.arguments, dict) else None


def _answered(request: Request, order: str) -> bool:
    return bool(_results(request, "process_refund", order))


def _approved(request: Request, order: str) -> bool:
    return any(not result.is_error for result in _results(request, "process_refund", order))


def _turn(request: Request) -> Sequence[Spoken]:
    return Turn.all(request.messages)[-1].history.spoken


def _has_signal(request: Request) -> bool:
    return any(tool.name == "think" and has_signal(tool) for tool in request.tools)
