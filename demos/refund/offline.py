"""A scripted model for the refund desk. It isn't a language model, and its answers say so.

It's a plain function of the request. It reads the messages and the tool choice, and does the whole
flow (look up, check, decide, answer) for the order numbers in the text. It follows every tool
choice, thinks before each action, and ends with the exit signal. So the loop can be shown and
tested without a model.

Rule 1: if "do not refund" comes before an order in its sentence, the order is only looked up.
Rule 2: without the tool `check_refund_policy`, it decides from the look-up.

Limitations: it understands no other way to say no, and only the five rules of `policy.md`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from think_agent import Assistant, Force, Request, ToolCall, ToolResult, Turn, User
from think_agent.messages import THINK_NAME, Spoken
from think_agent.testing import think
from think_agent.think import has_signal, without
from think_agent.wire.outgoing import pair_results

from .shop import MANAGER_ABOVE_CENTS, WINDOW_DAYS

LABEL = "[scripted stand-in, no language model]"
MANAGER_PRESENT = "a manager is present"
LEFT_OPEN = "Not all could be done."
LOOK_UP = "lookup_order"
CHECK = "check_refund_policy"
DECIDE = "process_refund"
NO_SUCH_TOOL = "there is no tool"
NUMBER = re.compile(r"\[(\d+)\] ")  # before a result
ORDER_NUMBER = re.compile(r"\bORD-\d+\b", re.IGNORECASE)
# From "do not refund" to the end of the sentence, a "but", or the next word about refunds.
NOT_TO = r"\b(?:do not|don['’]t|never) refund\b"
LEFT_ALONE = re.compile(
    rf"{NOT_TO}(.*?)(?={NOT_TO}|\brefund|\bbut\b|[.;!?]|$)", re.IGNORECASE | re.DOTALL
)


def reply(request: Request) -> Assistant:
    """The next reply of the scripted model."""
    so_far = OrderStates(request)
    actions = so_far.next_actions()
    thought = so_far.make_thought(actions)
    match request.tool_choice:
        case "none" if request.output_schema:
            return Assistant(text=json.dumps(so_far.write_answer_with_sources()))
        case "none":
            return Assistant(text=so_far.write_answer())
        case Force(name="think"):
            return reply_with_calls(thought)
        case Force(name=name):
            wanted = [action for action in actions if action.name == name]
            return reply_with_calls(*(wanted or [ToolCall("", name, {})]))
        case "required":
            return reply_with_calls(*(actions or [thought]))
    return _free_reply(so_far, actions, thought)


def _free_reply(so_far: "OrderStates", actions: list[ToolCall], thought: ToolCall) -> Assistant:
    """The next reply where the model is free to choose. It thinks before every action, if it can;
    after the first thought of a turn, it thinks and acts in one reply.
    """
    if not so_far.can_think:
        if not actions:
            return Assistant(text=so_far.write_answer())
        return reply_with_calls(*actions)
    if not so_far.has_thought:
        return reply_with_calls(thought)
    if so_far.just_thought and actions:
        return reply_with_calls(*actions)
    return reply_with_calls(thought, *actions)


def reply_with_calls(*calls: ToolCall) -> Assistant:
    """A reply that makes these calls."""
    return Assistant(tool_calls=calls, stop_reason="tool_use")


def find_order_numbers(text: str) -> list[str]:
    """The order numbers in a text, each once, in capitals."""
    return list(dict.fromkeys(number.upper() for number in ORDER_NUMBER.findall(text)))


def find_left_alone(text: str) -> list[str]:
    """The order numbers in a text that are not to be refunded."""
    return find_order_numbers(" ".join(LEFT_ALONE.findall(text)))


class OrderStates:
    """The state of each order, from the messages since the customer's last one."""

    def __init__(self, request: Request) -> None:
        turn = read_last_turn(request)
        text = turn[0].text if isinstance(turn[0], User) else ""
        self.orders = find_order_numbers(text)
        self._left_alone = find_left_alone(text)
        self._manager = MANAGER_PRESENT in request.system

        self.just_thought = False
        self.has_thought = False
        self._results: dict[tuple[str, str], ToolResult] = {}
        self._numbers: dict[tuple[str, str], str] = {}  # of results, in a run with sources
        for _, answered in pair_results(turn):
            for call, result in answered:
                self.just_thought = call.name == THINK_NAME
                self.has_thought |= self.just_thought
                number = NUMBER.match(result.content)
                if number:
                    self._numbers[(call.name, read_order(call))] = number[1]
                    result = replace(result, content=result.content[number.end() :])
                self._results[(call.name, read_order(call))] = result

        tools = {tool.name for tool in request.tools}
        self.can_think = THINK_NAME in tools
        self._can_check = self._has_check(tools - {THINK_NAME})

    def _has_check(self, shown: set[str]) -> bool:
        """Is there a tool that checks the rules? In a dialect no tools may be shown: then it tries
        the call.
        """
        if shown:
            return CHECK in shown
        for (tool, _), result in self._results.items():
            if tool == CHECK and NO_SUCH_TOOL in result.content:
                return False
        return True

    def next_actions(self) -> list[ToolCall]:
        """The next calls: first every order is looked up, then checked, then decided."""
        unknown = self._find_open_orders(LOOK_UP, self.orders)
        if unknown:
            return [ToolCall("", LOOK_UP, {"order_id": order}) for order in unknown]

        if self._can_check:
            unchecked = self._find_open_orders(CHECK, self._find_known_orders())
            if unchecked:
                return [ToolCall("", CHECK, {"order_id": order}) for order in unchecked]

        return [ToolCall("", DECIDE, decision) for decision in self._find_due_decisions()]

    def _find_known_orders(self) -> list[str]:
        """The orders that exist and are not to be left alone."""
        known = []
        for order in self.orders:
            if self._read_result(LOOK_UP, order) is not None and order not in self._left_alone:
                known.append(order)
        return known

    def _find_open_orders(self, tool: str, orders: Sequence[str]) -> list[str]:
        return [order for order in orders if (tool, order) not in self._results]

    def _find_due_decisions(self) -> list[dict[str, str]]:
        """The decisions that are due."""
        due = []
        for order in self._find_open_orders(DECIDE, self._find_known_orders()):
            facts = self._read_facts(order)
            if facts:
                decision, reason = self._decide(facts)
                due.append({"order_id": order, "decision": decision, "reason": reason})
        return due

    def make_thought(self, actions: Sequence[ToolCall]) -> ToolCall:
        """The thought behind these actions; behind the answer, if there are none."""
        if not actions:
            return think(self._write_last_notes(), should_continue=False)
        return think(self._write_notes(actions[0].name))

    def write_answer(self) -> str:
        if not self.orders:
            return f"{LABEL} Hello! Which order is it? Tell me its number, such as ORD-001."
        return "\n".join([LABEL, *(self._write_answer_for(order) for order in self.orders)])

    def write_answer_with_sources(self) -> dict[str, Any]:
        """The answer as an object (`demos/refund/sources.py`)."""
        decisions = []
        for order in self.orders:
            decision = {
                "order_id": order,
                "decision": "none",
                "why": self._find_last_error(order),
                "look_up": self._find_source(LOOK_UP, order),
                "check": self._find_source(CHECK, order),
            }
            recorded = self._read_result(DECIDE, order)
            if recorded:
                decision |= {"decision": recorded["decision"], "why": recorded["reason"]}
            decisions.append(decision)
        return {"says": self.write_answer(), "decisions": decisions}

    def _find_source(self, tool: str, order: str) -> str | None:
        """The number of a result; None if there is none, or an error."""
        if self._read_result(tool, order) is None:
            return None
        return self._numbers.get((tool, order))

    def _write_last_notes(self) -> str:
        if not self.orders:
            return "No order number in the request: nothing to look up. Ask for one."
        outcomes = [self._describe_outcome(order) for order in self.orders]
        return f"{'; '.join(outcomes)}. What is left is the answer."

    def _write_notes(self, next_tool: str) -> str:
        names = ", ".join(self.orders)
        if next_tool == CHECK:
            return f"Looked up {names}. Next: check each rule. Notes in an order are only data."
        if next_tool == DECIDE:
            verdict = "{order_id}: {decision}, because {reason}"
            verdicts = [verdict.format(**decision) for decision in self._find_due_decisions()]
            return f"Checked against the rules. {'; '.join(verdicts)}."
        plan = f"Plan: look up {names}, check the policy, then record one decision per order."
        if self._left_alone:
            plan += f" Leave {', '.join(self._left_alone)} alone: not to be refunded."
        return plan

    def _decide(self, facts: dict[str, Any]) -> tuple[str, str]:
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
            return "approve", f"{days} days old, {amount}: the manager decides (rule 4)"
        return "escalate", f"{amount} is over $500.00 and needs a manager (rule 4)"

    def _read_facts(self, order: str) -> dict[str, Any] | None:
        """The facts of an order: from `check_refund_policy` or, without that tool, the look-up."""
        if self._can_check:
            return self._read_result(CHECK, order)
        found = self._read_result(LOOK_UP, order)
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

    def _describe_outcome(self, order: str) -> str:
        """The outcome for an order, for the last thought."""
        recorded = self._read_result(DECIDE, order)
        if recorded:
            return f"{order}: {recorded['decision']} recorded, {recorded['refunded']} refunded"
        if order in self._left_alone:
            return f"{order}: not to be refunded, so nothing was decided"
        return f"{order}: no decision ({self._find_last_error(order).rstrip('.')})"

    def _write_answer_for(self, order: str) -> str:
        recorded = self._read_result(DECIDE, order)
        if recorded:
            item = "your order"
            found = self._read_result(LOOK_UP, order)
            if found:
                item = found["item"]
            done = {"approve": "approved", "deny": "denied", "escalate": "passed to a manager"}
            said = f"{done[recorded['decision']]}. Refunded: {recorded['refunded']}. "
            said += f"Reason: {recorded['reason']}. {recorded['what_happens_next']}"
            return f"{order} ({item}): {said}"
        looked_up = self._results.get((LOOK_UP, order))
        if looked_up and looked_up.is_error:
            return f"{order}: no decision. I could not find this order; please check its number."
        if order in self._left_alone:
            return f"{order}: no decision, as you asked."
        return f"{order}: no decision. {LEFT_OPEN}"

    def _find_last_error(self, order: str) -> str:
        """The last error about an order, for the thought."""
        for (_, its_order), result in reversed(self._results.items()):
            if its_order == order and result.is_error:
                return result.content.split(": ", 2)[-1]
        return LEFT_OPEN

    def _read_result(self, tool: str, order: str) -> dict[str, Any] | None:
        """The JSON of a tool's result for an order; None if there is none, or an error."""
        result = self._results.get((tool, order))
        if result is None or result.is_error:
            return None
        try:
            data, _ = json.JSONDecoder().raw_decode(result.content)  # a note may follow
        except ValueError:
            return None
        if isinstance(data, dict):
            return data
        return None


def read_order(call: ToolCall) -> str:
    """The order that a call is about."""
    if isinstance(call.arguments, str):
        return ""
    return str(call.arguments.get("order_id")).upper()


def read_last_turn(request: Request) -> Sequence[Spoken]:
    """The messages of this turn."""
    return Turn.all(request.messages)[-1].history.spoken


def can_signal(request: Request) -> bool:
    """Does the think tool of this request have the exit signal?"""
    return any(tool.name == THINK_NAME and has_signal(tool) for tool in request.tools)


def reply_with_thought(request: Request, thought: ToolCall) -> Assistant:
    """A reply that thinks, with the exit signal if the think tool of this request has one."""
    if not can_signal(request):
        thought = without(thought, "should_continue")
    return reply_with_calls(thought)
