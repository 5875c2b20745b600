"""The refund desk as a suite for `think-agent eval`: builds a shop for each case, and checks it.

Rule 1: a case has its own orders and further rules, so a person can judge a line of `cases.jsonl`
        with only that line and the policy.
Rule 2: a case is right if the shop's rows are exactly the expected ones. The model's answer to the
        customer isn't checked.
Rule 3: the shop trusts the model, unless the evaluation asks it to enforce the policy. A shop that
        refuses gives the answer away: the model can simply try approve, deny and escalate in turn.
Rule 4: `tools` breaks a tool: `"gone"`, `"fails"` (always), `"fails once"` or `"fails twice"`. The
        errors say what to do then, so there is one right outcome. In the hard half
        `check_refund_policy` is gone, because it would do the model's work. Five ifs without a
        thought decide the easy half, so settings are not compared on it.

`ADVICE` is what Anthropic's article on the think tool calls an optimized prompt.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal, TypeAlias

import pydantic

from think_agent import Tool, Turn
from think_agent.evaluation.trials import WorldCheck
from think_agent.messages import Json, Message
from think_agent.tools import NothingDone

from .floors import FLOORS as FLOORS
from .shop import HERE, INSTRUCTIONS, Order, Ruling, Shop, ShopError
from .stand_ins import STAND_INS as STAND_INS

ToolName: TypeAlias = Literal["lookup_order", "check_refund_policy", "process_refund"]
State: TypeAlias = Literal["gone", "fails", "fails once", "fails twice"]
FAILURES: dict[str, int] = {"fails once": 1, "fails twice": 2}
DOWN = "the shop's system is down for today; record no decision until it is back"
RESET = "the connection was reset and nothing was done; call this tool once more"
LAST_RULE = "5. Everything else is approved, in full."
FURTHER = "Further rules. Where one of them and a rule above disagree, the further rule counts:"


def _read_task() -> str:
    """The policy, without its lines about the think tool."""
    lines = INSTRUCTIONS.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if "think" not in line.lower())


TASK = _read_task()
ADVICE = (HERE / "advice.md").read_text(encoding="utf-8")


class CaseOrder(pydantic.BaseModel, extra="forbid"):
    """An order, with the fields of `orders.json`."""

    id: str
    item: str
    price_cents: int
    days_ago: int
    final_sale: bool = False
    refunded_days_ago: int | None = None
    note: str = ""


class RefundCase(pydantic.BaseModel, extra="forbid"):
    """A line of a cases file. `expected` has the decision of each order. `rules` are added to the
    policy. `then` is what the customer says after the first answer. `because` is the reason for the
    decisions, for a person who judges the case; no model is shown it.
    """

    id: str
    kind: str
    easy: bool = False
    cannot: bool = False
    text: str
    then: list[str] = []
    orders: list[CaseOrder]
    rules: list[str] = []
    because: str = ""
    expected: dict[str, Ruling]
    tools: dict[ToolName, State] = {}


class ShopOutage(NothingDone):
    """A tool that is out of order. The text is written for the model."""


class CaseShop(Shop):
    """A shop with the orders of one case. With `enforce` it allows only what the case expects."""

    def __init__(self, case: RefundCase, *, enforce: bool) -> None:
        self._case = case
        super().__init__(enforce=enforce)

    def find_allowed_decision(self, order: Order) -> tuple[Ruling, str]:
        allowed, reason = super().find_allowed_decision(order)
        return self._case.expected.get(order.id, allowed), reason

    def _seed(self, db: sqlite3.Connection) -> None:
        for order in self._case.orders:
            self._insert(db, **order.model_dump())


class CaseWorld:
    """The world of one case: its own shop, and tools in the state that the case says."""

    def __init__(self, case: RefundCase, *, enforce: bool) -> None:
        self.instructions = write_instructions(case.rules)
        self.done_when = [self.every_order_is_decided]
        self._then = case.then
        self._expected = Counter(case.expected.items())
        self._shop = CaseShop(case, enforce=enforce)
        self._refused = 0
        self.tools = []
        for tool in describe_tools():
            state = _find_state(case.tools, tool.name)
            if state == "gone":
                continue
            own = replace(tool, function=self._watch(tool.name, state))
            if own.needs_approval:
                own = replace(own, needs_approval=self._shop.needs_manager)
            self.tools.append(own)

    def reply(self, transcript: Sequence[Message]) -> str | None:
        """What the customer says next: the lines of the case, in order."""
        asked = len(Turn.all(transcript))  # a person begins each turn
        if asked > len(self._then):
            return None
        return self._then[asked - 1]

    def check(self) -> WorldCheck:
        """A wrong write is a proposal that the shop refused, or a row that should not be there."""
        rows: Counter[tuple[str, Ruling]] = Counter()
        for decision in self._shop.decisions():
            rows[decision.order_id, decision.decision] += 1
        return WorldCheck(
            right=rows == self._expected,
            wrong_writes=self._refused + (rows - self._expected).total(),
            found=tuple(f"{order} {decision}" for order, decision in rows.elements()),
        )

    def every_order_is_decided(self, turn: Turn) -> str | None:
        """The check for `done_when`: each order that was looked up has a decision, if its rules
        were checked or there is no tool for that. It does not say which decision.
        """
        names = {tool.name for tool in self.tools}
        needed = names & {"lookup_order", "check_refund_policy"}
        seen = {name: self._find_answered_orders(turn, name) for name in needed}
        ready = set[str]()
        if seen:
            ready = set.intersection(*seen.values())
        decided = {decision.order_id for decision in self._shop.decisions()}
        missing = sorted(ready - decided)
        if not missing:
            return None
        return f"{', '.join(missing)}: no decision is recorded"

    def _find_answered_orders(self, turn: Turn, name: str) -> set[str]:
        """The orders for which a tool gave a result in this turn."""
        found = set()
        for action in turn.actions:
            answered = action.call.name == name and not action.result.is_error
            if answered and isinstance(action.call.arguments, dict):
                found.add(str(action.call.arguments["order_id"]).strip().upper())
        return found

    def _watch(self, name: str, state: State | None) -> Callable[..., object]:
        """The function of this tool, which fails as `state` says and counts refused proposals."""
        failures = FAILURES.get(state or "", 0)
        do = getattr(self._shop, name)

        def function(**arguments: Any) -> object:
            nonlocal failures
            if state == "fails":
                raise ShopOutage(DOWN)
            if failures:
                failures -= 1
                raise ShopOutage(RESET)
            try:
                return do(**arguments)
            except ShopError:
                self._refused += name == "process_refund"
                raise

        return function


@cache
def describe_tools() -> list[Tool]:
    """The tools of a shop. They are described once: an evaluation has thousands of shops."""
    return Shop().tools()


def prepare(case: Json, *, enforce: bool) -> CaseWorld:
    """The world of one line of the cases file. Raises ValueError for a line it cannot read."""
    return CaseWorld(RefundCase.model_validate(case), enforce=enforce)


def write_instructions(rules: list[str]) -> str:
    """The task, with further rules after the others."""
    if not rules:
        return TASK
    lines = [LAST_RULE, "", FURTHER, ""]
    for number, rule in enumerate(rules, 6):
        lines.append(f"{number}. {rule}")
    return TASK.replace(LAST_RULE, "\n".join(lines))


def _find_state(states: Mapping[ToolName, State], name: str) -> State | None:
    for known, state in states.items():
        if known == name:
            return state
    return None
