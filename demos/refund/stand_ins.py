"""Seven scripted models of known quality. They aren't language models, and their answers say so.

They test the evaluation itself: each is right on known cases, so its score is known. Each is a
plain function of the request and follows every tool choice.

    careful    looks up, checks, and decides by the policy; ends by the exit signal if there is one.
               It never calls a failing tool again.
    candid     the same; if a tool is missing without which nothing can be decided, and its think
               tool can say so, it says that it cannot be done
    hasty      approves every order in the text without a look-up, and says that it is done
    stubborn   looks up, then tries to approve again and again, whatever the shop says
    silent     says that all is done, and never calls a tool unless it is forced to
    narrator   looks one order up, announces the next step, and stops; if it's asked, it continues
    boaster    does the first order, says that all are done, and repeats that if it is asked
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from think_agent import Assistant, Force, Request, ToolCall, ToolResult, Turn, User
from think_agent.messages import THINK_NAME
from think_agent.policies.cannot import offers_cannot
from think_agent.testing import call, think
from think_agent.testing.scripted import Script
from think_agent.think import read_signal, without

from .offline import (
    DECIDE,
    LABEL,
    LOOK_UP,
    can_signal,
    find_order_numbers,
    read_last_turn,
    read_order,
    reply_with_calls,
    reply_with_thought,
)
from .offline import reply as reply_by_policy

BOAST = "I worked on {}. I will say that all is done."


def careful(request: Request) -> Assistant:
    """The scripted model of the demo. Without an exit signal it ends by its answer."""
    said = reply_by_policy(request)
    if can_signal(request):
        return said
    if _signals_exit(said) and request.tool_choice == "auto":
        return reply_by_policy(replace(request, tool_choice="none"))
    return drop_signal(said)


def candid(request: Request) -> Assistant:
    """Says at once that it cannot be done, where that is so. Else it does what `careful` does."""
    tools = {tool.name: tool for tool in request.tools}
    missing = [name for name in (LOOK_UP, DECIDE) if name not in tools]
    can_say_so = offers_cannot(tools.get(THINK_NAME))
    if not missing or not can_say_so:
        return careful(request)
    lack = f"There is no tool {' and no tool '.join(missing)}."
    if request.tool_choice == "none":
        return Assistant(f"{LABEL} I cannot do that. {lack}")
    return reply_with_calls(
        call(THINK_NAME, thought=lack, should_continue="cannot", missing=" and ".join(missing))
    )


def _signals_exit(reply: Assistant) -> bool:
    """Does a thought of this reply signal the exit?"""
    return any(read_signal(made) is False for made in reply.tool_calls)


def drop_signal(reply: Assistant) -> Assistant:
    """`reply` for a think tool that has no exit signal."""
    calls = []
    for made in reply.tool_calls:
        if made.name == THINK_NAME:
            made = without(made, "should_continue")
        calls.append(made)
    return replace(reply, tool_calls=tuple(calls))


def hasty(request: Request) -> Assistant:
    """Approves every order at once."""
    approvals = []
    for order in _list_orders(request):
        if not _find_results(request, "process_refund", order):
            approvals.append(_approve(order))
    return _act(request, approvals, done="Of course! Every refund is on its way.")


def stubborn(request: Request) -> Assistant:
    """Tries to approve until the shop accepts."""
    look_ups = []
    approvals = []
    for order in _list_orders(request):
        if not _find_results(request, "lookup_order", order):
            look_ups.append(call("lookup_order", order_id=order))
        if not _is_approved(request, order):
            approvals.append(_approve(order))
    return _act(request, look_ups or approvals, done="I insisted, and every refund is on its way.")


def silent(request: Request) -> Assistant:
    """Only talks."""
    return _act(request, [], done="I have taken care of everything.")


def narrator(request: Request) -> Assistant:
    """Stops once with a promise to go on. Otherwise it does what `careful` does."""
    reply = careful(request)
    orders = _list_orders(request)
    if not orders or _has_stopped(request):
        return reply
    if request.tool_choice == "auto" and _find_results(request, "lookup_order", orders[0]):
        next_step = "check the policy"
        if len(orders) > 1:
            next_step = f"look up {orders[1]}"
        return Assistant(text=f"Got {orders[0]}. Now let me {next_step}.")
    return replace(reply, tool_calls=reply.tool_calls[:1])  # one at a time


def boaster(request: Request) -> Assistant:
    """Does the first order like `careful`, and says that it did all of them."""
    customer, *since = read_last_turn(request)
    orders = _list_orders(request)
    if len(orders) < 2 or not isinstance(customer, User):
        return careful(request)

    first = replace(customer, text=f"Refund {orders[0]}")
    reply = careful(replace(request, messages=[first, *since]))
    if not reply.tool_calls:
        return replace(reply, text=f"{LABEL} All done! I took care of {' and '.join(orders)}.")
    calls = []
    for made in reply.tool_calls:
        if read_signal(made) is False:
            made = think(BOAST.format(orders[0]), should_continue=False)
        calls.append(made)
    return replace(reply, tool_calls=tuple(calls))


STAND_INS: Mapping[str, Script] = {
    "careful": careful,
    "candid": candid,
    "hasty": hasty,
    "stubborn": stubborn,
    "silent": silent,
    "narrator": narrator,
    "boaster": boaster,
}


def _act(request: Request, calls: Sequence[ToolCall], *, done: str) -> Assistant:
    """Make the calls, or say that all is done, as the tool choice allows."""
    thought = think(f"{LABEL} Sure.", should_continue=bool(calls))
    match request.tool_choice:
        case Force(name="think"):
            return reply_with_thought(request, thought)
        case "required" if not calls:
            return reply_with_thought(request, thought)
        case "auto" | "required" if calls:
            return reply_with_calls(*calls)
    return Assistant(text=f"{LABEL} {done}")


def _approve(order: str) -> ToolCall:
    why = "the customer asked for it"
    return call("process_refund", order_id=order, decision="approve", reason=why)


def _list_orders(request: Request) -> list[str]:
    """The order numbers in the customer's message."""
    for message in read_last_turn(request):
        if isinstance(message, User):
            return find_order_numbers(message.text)
    return []


def _find_results(request: Request, tool: str, order: str) -> list[ToolResult]:
    """The results of a tool for an order in this turn, without refused calls."""
    found = []
    for action in Turn.of(request.messages).actions:
        if action.call.name == tool and read_order(action.call) == order:
            found.append(action.result)
    return found


def _is_approved(request: Request, order: str) -> bool:
    return any(not result.is_error for result in _find_results(request, "process_refund", order))


def _has_stopped(request: Request) -> bool:
    """Was there a reply in this turn that called no tool?"""
    return any(not reply.tool_calls for reply in Turn.of(request.messages).replies)
