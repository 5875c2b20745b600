"""The conversation that is measured: one refund in eight model calls, as plain data.

Nothing is imported but the standard library, so that the loop by hand starts as light as it can.
"""

import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

REQUEST = "I want a refund on order ORD-001"
ANSWER = "ORD-001 is approved: $89.00 is back on your card within 5 working days."
INSTRUCTIONS = (Path(__file__).parents[2] / "demos/refund/policy.md").read_text(encoding="utf-8")
MODEL = "gpt-5.6-luna"  # one name for all: only an SDK looks at it
KEY = "AIza-good+key"

ORDER = {"order_id": "ORD-001"}
CALLS: list[tuple[str, dict[str, str]]] = [
    ("think", {"thought": "Plan: look the order up, check the policy.", "should_continue": "true"}),
    ("lookup_order", ORDER),
    ("think", {"thought": "Found. Next: check each rule.", "should_continue": "true"}),
    ("check_refund_policy", ORDER),
    ("think", {"thought": "13 days, $89.00, not final: rule 5.", "should_continue": "true"}),
    ("process_refund", {**ORDER, "decision": "approve", "reason": "13 days old, $89.00 (rule 5)"}),
    ("think", {"thought": "Decided. What is left is the answer.", "should_continue": "false"}),
]
"""One call per reply; the eighth reply is ANSWER."""


def lookup_order(order_id: str) -> dict[str, object]:
    """Look up one order: item, price, age in days, and notes."""
    return {"order_id": order_id, "item": "Laptop Stand", "price": "$89.00", "bought_days_ago": 13}


def check_refund_policy(order_id: str) -> dict[str, object]:
    """Check one order against each rule of the refund policy. Decides nothing."""
    return {"order_id": order_id, "within_30_days": True, "final_sale": False, "amount": "$89.00"}


def process_refund(order_id: str, decision: str, reason: str) -> dict[str, object]:
    """Record the decision on one order."""
    today = date.today().isoformat()
    return {"order_id": order_id, "decision": decision, "reason": reason, "decided_on": today}


FUNCTIONS = {f.__name__: f for f in (lookup_order, check_refund_policy, process_refund)}


def declared(name: str, description: str, *fields: str) -> dict[str, Any]:
    """A tool as one writes it down by hand."""
    properties = {field: {"type": "string"} for field in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    parameters = {**schema, "additionalProperties": False}
    return {"name": name, "description": description, "parameters": parameters}


ACTIONS = [
    declared("lookup_order", str(lookup_order.__doc__), "order_id"),
    declared("check_refund_policy", str(check_refund_policy.__doc__), "order_id"),
    declared("process_refund", str(process_refund.__doc__), "order_id", "decision", "reason"),
]
THINK: dict[str, Any] = {  # the full pattern, in as many words as one writes by hand
    "name": "think",
    "description": "Write down working notes: which rules apply, what is still unknown, which step "
    "comes next, whether a result fits the rules. It fetches nothing and changes nothing. Call it "
    "before you act and after a result. A few short sentences are enough. Set should_continue to "
    '"false" only when all is done and what is left is to tell the user.',
    "parameters": {
        "type": "object",
        "properties": {
            "thought": {"type": "string", "description": "Short working notes."},
            "should_continue": {
                "type": "string",
                "enum": ["true", "false"],
                "description": '"true" while there is more to do, "false" when all is done.',
            },
        },
        "required": ["thought", "should_continue"],
        "additionalProperties": False,
    },
}
TOOLS = [THINK, *ACTIONS]


def hold(talker: Callable[..., Any], async_talker: Callable[..., Any]) -> None:
    """The command line of a side: SIDE PROVIDER URL COUNT. Prints the seconds that its imports and
    its client take. Several conversations are held on one event loop with new clients: connecting
    is a part of it.
    """
    *which, count = sys.argv[1:]
    start = time.perf_counter()
    talk = talker(*which)
    print(time.perf_counter() - start)
    if count == "1":
        talk()
        return
    import asyncio

    async def talk_at_once() -> None:
        talk = async_talker(*which)
        answers = await asyncio.gather(*(talk() for _ in range(int(count))))
        assert set(answers) == {ANSWER}

    asyncio.run(talk_at_once())
