"""The refund desk as a suite for `think-agent eval`: how a case becomes a shop, and how the shop is
checked.

Rule 1: a case brings its own orders, so that each line of `cases.jsonl` can be judged by reading
        that line and the policy.
Rule 2: a case is right when the shop's rows are exactly the expected ones: no decision missing,
        none too many. What the model says to the customer is not looked at.
Rule 3: `tools` breaks a tool: `"gone"` (it is not offered), `"fails"` (always) or `"fails once"`.
        The errors say what a good agent does then, so that there is one right outcome.

`INSTRUCTIONS` has the policy alone, and with advice on how to work: what Anthropic's article on the
think tool calls an optimized prompt (rules listed, information checked, results verified).

The edge: without its orders' lookup an agent might still guess right. The expected rows say that it
must not.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pydantic

from demos.refund.dialects import speaking as speaking
from demos.refund.shop import INSTRUCTIONS as POLICY
from demos.refund.shop import Ruling, Shop, ShopError
from demos.refund.stand_ins import STAND_INS as STAND_INS
from think_agent import Tool
from think_agent.evaluation.trials import Check
from think_agent.messages import Json

ToolName: TypeAlias = Literal["lookup_order", "check_refund_policy", "process_refund"]
State: TypeAlias = Literal["gone", "fails", "fails once"]
ERRORS: dict[State, str] = {
    "fails": "the shop's system is down for today; record no decision until it is back",
    "fails once": "the connection was reset; call this tool once more",
}


def _instructions() -> dict[str, str]:
    """The policy alone, and with the part on how to work, which says what to think about when."""
    whole = POLICY.read_text(encoding="utf-8")
    policy, _, rest = whole.partition("# How to work")
    return {"plain": policy + rest[rest.index("# How to answer") :], "optimized": whole}


INSTRUCTIONS = _instructions()


class CaseOrder(pydantic.BaseModel, extra="forbid"):
    """An order as `orders.json` has it."""

    id: str
    item: str
    price_cents: int
    days_ago: int
    final_sale: bool = False
    refunded_days_ago: int | None = None
    note: str = ""


class RefundCase(pydantic.BaseModel, extra="forbid"):
    """A line of `cases.jsonl`. `expected` holds the decision rows: order number and decision."""

    id: str
    kind: str
    text: str
    orders: list[CaseOrder]
    expected: dict[str, Ruling]
    tools: dict[ToolName, State] = {}


class Outage(Exception):
    """A tool that is out of order. The text is written for the model."""


class CaseShop(Shop):
    """A shop with the orders of one case."""

    def __init__(self, orders: Sequence[CaseOrder], *, enforce: bool) -> None:
        self._orders = orders
        super().__init__(enforce=enforce)

    def _seed(self, db: sqlite3.Connection) -> None:
        for order in self._orders:
            self._insert(db, **order.model_dump())


class CaseWorld:
    """The world of one case: a shop of its own, and the tools as the case has them."""

    def __init__(self, case: RefundCase, *, trust_model: bool) -> None:
        self.instructions = INSTRUCTIONS["optimized"]
        self._expected = Counter(case.expected.items())
        self._shop = CaseShop(case.orders, enforce=not trust_model)
        self._refused = 0
        states: dict[str, State] = dict(case.tools.items())
        self.tools = [
            replace(tool, function=self._watched(tool, states.get(tool.name)))
            for tool in self._shop.tools()
            if states.get(tool.name) != "gone"
        ]

    def check(self) -> Check:
        """A wrong write is a proposal that the shop refused, or a row that should not be there."""
        rows: Counter[tuple[str, Ruling]] = Counter(
            (row.order_id, row.decision) for row in self._shop.decisions()
        )
        return Check(
            right=rows == self._expected,
            wrong_writes=self._refused + (rows - self._expected).total(),
            found=tuple(f"{order} {decision}" for order, decision in rows.elements()),
        )

    def _watched(self, tool: Tool, state: State | None) -> Callable[..., object]:
        """The tool's function, in the state it is in, with refused proposals counted."""
        broken = state is not None

        def function(**arguments: Any) -> object:
            nonlocal broken
            if state and broken:
                broken = state == "fails"
                raise Outage(ERRORS[state])
            try:
                return tool(**arguments)
            except ShopError:
                self._refused += tool.name == "process_refund"
                raise

        return function


def prepare(case: Json, *, trust_model: bool) -> CaseWorld:
    """The world of one line of the cases file. Raises ValueError for a line it cannot read."""
    return CaseWorld(RefundCase.model_validate(case), trust_model=trust_model)
