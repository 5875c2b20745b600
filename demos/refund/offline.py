"""A scripted model for the refund desk. It is no language model, and its answers say so.

It is a plain function of the request. It reads the messages and the tool choice, and goes through
the whole flow (look up, check, decide, answer) for the order numbers in the text. It obeys every
tool choice, thinks before each action, and ends by the exit signal. So the loop can be shown and
tested without a model.

Rule 1: if "do not refund" comes before an order in its sentence, the order is only looked up.
Rule 2: without the tool `check_refund_policy`, it decides from the look-up.

Limitations: it knows no other way to say no, and only the five rules of `policy.md`.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from demos.refund.shop import MANAGER_ABOVE_CENTS, WINDOW_DAYS
from think_agent import Assistant, Force, Message, Request, ToolCall, ToolResult, User

LABEL = "[scripted stand-in, no language model]"
MANAGER_PRESENT = "a manager is present"
LEFT_OPEN = "Not all could be done."
LOOK_UP = "lookup_order"
CHECK = "check_refund_policy"
DECIDE = "process_refund"
NO_SUCH_TOOL = "there is no tool"
ORDER_NUMBER = re.compile(r"\bORD-\d+\b", re.IGNORECASE)
# From "do not refund" to the end of the sentence, a "but", or the next word about refunds.
NOT_TO = r"\b(?:do not|don['’]t|never) refund\b"
LEFT_ALONE = re.compile(rf"{NOT_TO}(.*?)(?={NOT_TO}|\brefund|\bbut\b|[.;!?]|$)", re.I | re.S)


def reply(request: Request) -> Assistant:
    """The next reply of the scripted model."""
    so_far = _Progress(request)
    actions = so_far.next_actions()
    leaving = not actions
    match request.tool_choice:
        case "none":
            return Assistant(text=so_far.answer())
        case Force(name="think"):
            return calling(so_far.thought(leaving=leaving))
        case Force(name=name):
            wanted = [action for action in actions if action.name == name]
            return calling(*(wanted or [ToolCall("", name, {})]))
        case "required" if leaving:
            return calling(so_far.thought(leaving=True))
        case "required":
            return calling(*actions)

    can_think = any(tool.name == "think" for tool in request.tools)
    if actions and (so_far.just_thought or not can_think):
        return calling(*actions)
    if not can_think:
        return Assistant(text=so_far.answer())
    if so_far.has_thought:
        return calling(so_far.thought(leaving=leaving), *actions)
    return calling(so_far.thought(leaving=leaving))


def calling(*calls: ToolCall) -> Assistant:
    """A reply that makes these calls."""
    return Assistant(tool_calls=calls, stop_reason="tool_use")


def order_numbers(text: str) -> list[str]:
    """The order numbers in a text, each once, in capitals."""
    return list(dict.fromkeys(number.upper() for number in ORDER_NUMBER.findall(text)))


def left_alone(text: str) -> list[str]:
    """The order numbers in a text that are not to be refunded."""
    return order_numbers(" ".join(LEFT_ALONE.findall(text)))


class _Progress:
    """The state of each order, from the messages since the customer's last one."""

    def __init__(self, request: Request) -> None:
        turn = _since_the_customer_spoke(request.messages)
        text = turn[0].text if isinstance(turn[0], User) else ""
        self.orders = order_numbers(text)
        self._left_alone = left_alone(text)
        self._manager = MANAGER_PRESENT in request.system

        self.just_thought = False
        self.has_thought = False
        orders: dict[str, str] = {}  # by the id of the call
        self._results: dict[tuple[str, str], ToolResult] = {}
        for message in turn:
            if isinstance(message, Assistant):
                for call in message.tool_calls:
                    self.just_thought = call.name == "think"
                    self.has_thought |= self.just_thought
                    orders[call.id] = _order_of(call)
            elif isinstance(message, ToolResult) and message.call_id in orders:
                self._results[(message.name, orders[message.call_id])] = message

        shown = {tool.name for tool in request.tools} - {"think"}
        answers = [result.content for (tool, _), result in self._results.items() if tool == CHECK]
        is_unknown = any(NO_SUCH_TOOL in answer for answer in answers)
        # In a dialect the request may have no tools. Then it tries the call.
        self._can_check = CHECK in shown or not (shown or is_unknown)

    def next_actions(self) -> list[ToolCall]:
        """The next calls: first every order is looked up, then checked, then decided."""
        unknown = self._without_result(LOOK_UP, self.orders)
        if unknown:
            return [ToolCall("", LOOK_UP, {"order_id": order}) for order in unknown]

        known = []
        for order in self.orders:
            if self._good(LOOK_UP, order) is not None and order not in self._left_alone:
                known.append(order)
        unchecked = self._without_result(CHECK, known)
        if unchecked and self._can_check:
            return [ToolCall("", CHECK, {"order_id": order}) for order in unchecked]

        undecided = self._without_result(DECIDE, known)
        return [self._decision(order) for order in undecided if self._facts(order)]

    def _without_result(self, tool: str, orders: Sequence[str]) -> list[str]:
        return [order for order in orders if (tool, order) not in self._results]

    def thought(self, *, leaving: bool) -> ToolCall:
        notes = {"thought": self._notes(leaving), "should_continue": "false" if leaving else "true"}
        return ToolCall("", "think", notes)

    def answer(self) -> str:
        if not self.orders:
            return f"{LABEL} Hello! Which order is it? Tell me its number, such as ORD-001."
        return "\n".join([LABEL, *(self._answer_for(order) for order in self.orders)])

    def _notes(self, leaving: bool) -> str:
        names = ", ".join(self.orders)
        if not self.orders:
            return "No order number in the request: nothing to look up. Ask for one."
        if leaving:
            return f"{'; '.join(map(self._outcome, self.orders))}. What is left is the answer."
        next_tool = self.next_actions()[0].name
        if next_tool == LOOK_UP:
            plan = f"Plan: look up {names}, check the policy, then record one decision per order."
            if self._left_alone:
                plan += f" Leave {', '.join(self._left_alone)} alone: not to be refunded."
            return plan
        if next_tool == CHECK:
            return f"Looked up {names}. Next: check each rule. Notes in an order are only data."
        verdicts = (
            f"{c.arguments['order_id']}: {c.arguments['decision']}, because {c.arguments['reason']}"
            for c in self.next_actions()
            if isinstance(c.arguments, dict)
        )
        return "Checked against the rules. " + "; ".join(verdicts) + "."

    def _decision(self, order: str) -> ToolCall:
        decision, reason = self._ruling(self._facts(order) or {})
        return ToolCall("", DECIDE, {"order_id": order, "decision": decision, "reason": reason})

    def _ruling(self, facts: dict[str, Any]) -> tuple[str, str]:
        """The decision by the policy, and why."""
        days = facts["days"]
        amount = facts["amount"]
        if facts["already_refunded"]:
            return "deny", "the order was refunded already (rule 3)"
        if facts["final_sale"]:
            return "deny", "final-sale items are never refunded (rule 2)"
        if not facts["within_30_days"]:
            return "deny", f"it was bought {days} days ago, the window is 30 (rule 1)"
        if not facts["needs_manager"]:
            return "approve", f"{days} days old, {amount} (rule 5)"
        if self._manager:
            return "approve", f"{days} days old, {amount}, by the manager's yes (rule 4)"
        return "escalate", f"{amount} is over $500.00 and needs a manager (rule 4)"

    def _facts(self, order: str) -> dict[str, Any] | None:
        """The facts of an order: from `check_refund_policy` or, without that tool, the look-up."""
        if self._can_check:
            return self._good(CHECK, order)
        found = self._good(LOOK_UP, order)
        if found is None:
            return None
        cents = int(re.sub(r"\D", "", found["price"]))
        return {
            "within_30_days": found["bought_days_ago"] <= WINDOW_DAYS,
            "final_sale": found["final_sale"],
            "already_refunded": found["already_refunded"],
            "needs_manager": cents > MANAGER_ABOVE_CENTS,
            "days": found["bought_days_ago"],
            "amount": found["price"],
        }

    def _outcome(self, order: str) -> str:
        """The outcome for an order, for the last thought."""
        recorded = self._good(DECIDE, order)
        if recorded:
            return f"{order}: {recorded['decision']} recorded, {recorded['refunded']} refunded"
        if order in self._left_alone:
            return f"{order}: not to be refunded, so nothing was decided"
        return f"{order}: no decision ({self._trouble(order).rstrip('.')})"

    def _answer_for(self, order: str) -> str:
        recorded = self._good(DECIDE, order)
        if recorded:
            item = (self._good(LOOK_UP, order) or {}).get("item", "your order")
            done = {"approve": "approved", "deny": "denied", "escalate": "passed to a manager"}
            said = f"{done[recorded['decision']]}. Refunded: {recorded['refunded']}. "
            said += f"Reason: {recorded['reason']}. {recorded['what_happens_next']}"
            return f"{order} ({item}): {said}"
        looked = self._results.get((LOOK_UP, order))
        if looked and looked.is_error:
            return f"{order}: no decision. I could not find this order; please check its number."
        if order in self._left_alone:
            return f"{order}: no decision, as you asked."
        return f"{order}: no decision. {LEFT_OPEN}"

    def _trouble(self, order: str) -> str:
        """The last error about an order, for the thought."""
        failed = [r for (_, o), r in self._results.items() if o == order and r.is_error]
        return failed[-1].content.split(": ", 2)[-1] if failed else LEFT_OPEN

    def _good(self, tool: str, order: str) -> dict[str, Any] | None:
        """The JSON of a tool's result for an order; None if there is none, or an error."""
        result = self._results.get((tool, order))
        if result is None or result.is_error:
            return None
        try:
            data, _ = json.JSONDecoder().raw_decode(result.content)  # a note may follow
        except ValueError:
            return None
        return data if isinstance(data, dict) else None


def _order_of(call: ToolCall) -> str:
    if isinstance(call.arguments, str):
        return ""
    return str(call.arguments.get("order_id")).upper()


def _since_the_customer_spoke(messages: Sequence[Message]) -> Sequence[Message]:
    starts = []
    for place, message in enumerate(messages):
        if isinstance(message, User) and message.kind == "person":
            starts.append(place)
    return messages[starts[-1] :]
