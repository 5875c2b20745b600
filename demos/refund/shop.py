"""The shop: orders and decisions in SQLite, and the three tools for the model.

Rule 1: the model proposes, the shop decides. `process_refund` refuses every decision that the
        policy does not allow; a refused proposal leaves no row and comes back as a tool error that
        the model can read.
Rule 2: nothing is refunded twice: a unique index allows only one `approve` for each order.
Rule 3: nothing is recorded twice: a decision has its call's key. If the call is repeated with that
        key after a crash, it gets the first result. A different call with that key is refused.
Rule 4: money is in cents. Ages are counted from `today`, an argument.

`enforce=False` turns rule 1 off, so that an evaluation can see what a model does by itself.
`manager=True` means that a manager approves each refund over the limit before the call, so such a
refund may be approved instead of escalated.

`policy.md` is the policy as text; `find_allowed_decision` is the same in code.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

from think_agent import Tool, tool
from think_agent.errors import FileError
from think_agent.tools import NothingDone

HERE = Path(__file__).parent
INSTRUCTIONS = HERE / "policy.md"
ORDERS = HERE / "orders.json"
DESK_NAME = "refund desk"  # of its agents

WINDOW_DAYS = 30
MANAGER_ABOVE_CENTS = 500_00

Ruling = Literal["approve", "deny", "escalate"]
NEXT_STEP: dict[Ruling, str] = {
    "approve": "The money is back on the original means of payment within 5 working days.",
    "deny": "Nothing is paid. The customer may write to support@shop.example for a review.",
    "escalate": "Nothing is paid yet. A manager decides within 2 working days and writes back.",
}

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY,
    item TEXT NOT NULL,
    price_cents INTEGER NOT NULL,
    bought_on TEXT NOT NULL,
    final_sale INTEGER NOT NULL DEFAULT 0,
    refunded_on TEXT,
    note TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id TEXT NOT NULL REFERENCES orders (id),
    decision TEXT NOT NULL CHECK (decision IN ('approve', 'deny', 'escalate')),
    amount_cents INTEGER NOT NULL,
    reason TEXT NOT NULL,
    decided_on TEXT NOT NULL,
    idempotency_key TEXT UNIQUE
);
CREATE UNIQUE INDEX IF NOT EXISTS one_refund_per_order
    ON decisions (order_id) WHERE decision = 'approve';
"""


class ShopError(NothingDone):
    """The shop refused or failed, and nothing was done. The text is written for the model."""


@dataclass(frozen=True)
class Order:
    """One order as the shop knows it today. `age_days`: days since it was bought."""

    id: str
    item: str
    price_cents: int
    age_days: int
    final_sale: bool
    refunded: bool
    note: str


@dataclass(frozen=True)
class Decision:
    """A row of the table `decisions`. `amount_cents` is what it pays: 0 unless it approves."""

    id: int
    order_id: str
    decision: Ruling
    amount_cents: int
    reason: str
    decided_on: str


def find_allowed_decision(order: Order) -> tuple[Ruling, str]:
    """The decision that the policy allows for this order, and why."""
    if order.refunded:
        return "deny", "it was refunded already"
    if order.final_sale:
        return "deny", "it is a final-sale item"
    bought, price = f"it was bought {order.age_days} days ago", dollars(order.price_cents)
    if order.age_days > WINDOW_DAYS:
        return "deny", f"{bought} and the window is {WINDOW_DAYS} days"
    if order.price_cents > MANAGER_ABOVE_CENTS:
        return "escalate", f"{price} is more than {dollars(MANAGER_ABOVE_CENTS)}"
    return "approve", f"{bought} and costs {price}"


class Shop:
    """The shop's database. `path` is a file, or `":memory:"`; a new database is filled from
    `orders.json`.

    Raises FileError when the file cannot be opened or is no shop. Safe to use from several threads.
    """

    def __init__(
        self,
        path: str = ":memory:",
        *,
        today: date | None = None,
        enforce: bool = True,
        manager: bool = False,
    ) -> None:
        self.today = today or date.today()
        self.enforce = enforce
        self.manager = manager
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            with self._transaction() as db:
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                self._seed(db)
        except sqlite3.Error as error:
            raise FileError(
                f"cannot open the shop's database {path}: {error}; choose another --db"
            ) from error
        self._first_new = self._last_decision() + 1

    def tools(self) -> list[Tool]:
        """The tools for the model."""
        return [
            tool(self.lookup_order, read_only=True),
            tool(self.check_refund_policy, read_only=True),
            tool(
                self.process_refund,
                think_first=True,
                same=("order_id",),  # another reason is no other refund
                needs_approval=self.needs_manager,
            ),
        ]

    def needs_manager(self, arguments: dict[str, object]) -> bool:
        """Is this a refund that a manager has to approve?"""
        try:
            order = self.order(str(arguments["order_id"]))
        except ShopError:
            return False
        return self._is_the_managers(order, arguments["decision"])

    def lookup_order(self, order_id: str) -> dict[str, object]:
        """Look up one order: item, price, age in days, and notes.

        Args:
            order_id: the order's number, such as ORD-001
        """
        order = self.order(order_id)
        return {
            "order_id": order.id,
            "item": order.item,
            "price": dollars(order.price_cents),
            "bought_days_ago": order.age_days,
            "final_sale": order.final_sale,
            "already_refunded": order.refunded,
            "note": order.note,
        }

    def check_refund_policy(self, order_id: str) -> dict[str, object]:
        """Check one order against each rule of the refund policy. Decides nothing.

        Args:
            order_id: the order's number, such as ORD-001
        """
        order = self.order(order_id)
        return {
            "order_id": order.id,
            "within_30_days": order.age_days <= WINDOW_DAYS,
            "final_sale": order.final_sale,
            "already_refunded": order.refunded,
            "needs_manager": order.price_cents > MANAGER_ABOVE_CENTS,
            "days": order.age_days,
            "amount": dollars(order.price_cents),
        }

    def process_refund(
        self, order_id: str, decision: Ruling, reason: str, idempotency_key: str | None = None
    ) -> dict[str, object]:
        """Record the decision on one order. An approved refund is paid out at once and cannot be
        undone.

        Args:
            order_id: the order's number, such as ORD-001
            decision: approve, deny or escalate
            reason: the rule that led to the decision, in one sentence
        """
        with self._transaction() as db:
            order = self._order(db, order_id)
            if repeated := self._find_recorded(db, idempotency_key):
                if repeated != (order.id, decision, repeated[2], reason):
                    raise ShopError("this idempotency key was used for another decision")
                return _receipt(*repeated)
            allowed, because = self.find_allowed_decision(order)
            by_manager = self._is_the_managers(order, decision)
            if self.enforce and decision != allowed and not by_manager:
                refusal = f"{decision} is against the policy for {order.id}: {because}."
                raise ShopError(f"{refusal} Allowed: {allowed}.")
            amount = 0
            if decision == "approve":
                amount = order.price_cents
            try:
                db.execute(
                    "INSERT INTO decisions"
                    " (order_id, decision, amount_cents, reason, decided_on, idempotency_key)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (order.id, decision, amount, reason, self.today.isoformat(), idempotency_key),
                )
            except sqlite3.IntegrityError:  # the index: it holds also where the policy does not
                raise ShopError(f"{order.id} was refunded already") from None
        return _receipt(order.id, decision, amount, reason)

    def order(self, order_id: str) -> Order:
        """One order. Raises ShopError when there is none of that number."""
        with self._lock:
            return self._order(self._db, order_id)

    def find_allowed_decision(self, order: Order) -> tuple[Ruling, str]:
        """The decision that this shop allows for an order, and why."""
        return find_allowed_decision(order)

    def decisions(self) -> list[Decision]:
        """The decisions recorded since this Shop was opened, in order."""
        columns = ", ".join(f.name for f in fields(Decision))
        query = f"SELECT {columns} FROM decisions WHERE id >= ? ORDER BY id"
        with self._lock:
            return [Decision(*row) for row in self._db.execute(query, (self._first_new,))]

    def list_decided(self) -> set[str]:
        """The orders with a decision in the books, also from other processes."""
        with self._lock:
            rows = self._db.execute("SELECT DISTINCT order_id FROM decisions")
            return {order for (order,) in rows}

    def _is_the_managers(self, order: Order, decision: object) -> bool:
        """Is this an approval that only a manager may give, and is there one?"""
        allowed, _ = self.find_allowed_decision(order)
        return self.manager and (allowed, decision) == ("escalate", "approve")

    def _order(self, db: sqlite3.Connection, order_id: str) -> Order:
        number = order_id.strip().upper()
        row = db.execute(
            "SELECT item, price_cents, bought_on, final_sale, note, refunded_on IS NOT NULL"
            " OR EXISTS (SELECT 1 FROM decisions WHERE decision = 'approve'"
            " AND order_id = orders.id)"
            " FROM orders WHERE id = ?",
            (number,),
        ).fetchone()
        if row is None:
            raise ShopError(f"there is no order {order_id!r}; ask for its number")
        item, price_cents, bought_on, final_sale, note, refunded = row
        age = (self.today - date.fromisoformat(bought_on)).days
        return Order(number, item, price_cents, age, bool(final_sale), bool(refunded), note)

    def _find_recorded(
        self, db: sqlite3.Connection, key: str | None
    ) -> tuple[str, Ruling, int, str] | None:
        """What an earlier call with this key recorded; None if there is none."""
        query = "SELECT order_id, decision, amount_cents, reason FROM decisions"
        row = db.execute(f"{query} WHERE idempotency_key = ?", (key,)).fetchone()
        if not row or not key:
            return None
        return tuple(row)

    def _last_decision(self) -> int:
        (last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM decisions").fetchone()
        return int(last)

    def _seed(self, db: sqlite3.Connection) -> None:
        if db.execute("SELECT 1 FROM orders LIMIT 1").fetchone():
            return
        for order in json.loads(ORDERS.read_text(encoding="utf-8")):
            self._insert(db, **order)

    def _insert(
        self,
        db: sqlite3.Connection,
        *,
        id: str,
        item: str,
        price_cents: int,
        days_ago: int,
        final_sale: bool = False,
        refunded_days_ago: int | None = None,
        note: str = "",
    ) -> None:
        bought_on = self._days_ago(days_ago)
        refunded_on = None
        if refunded_days_ago is not None:
            refunded_on = self._days_ago(refunded_days_ago)
        db.execute(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)",
            (id, item, price_cents, bought_on, final_sale, refunded_on, note),
        )

    def _days_ago(self, days: int) -> str:
        return (self.today - timedelta(days=days)).isoformat()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. BEGIN IMMEDIATE takes the write lock first, so what was read still holds
        when we write.
        """
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # Ctrl-C may come when COMMIT is done already
                    self._db.execute("ROLLBACK")
                raise


def _receipt(order_id: str, decision: Ruling, cents: int, reason: str) -> dict[str, object]:
    """A recorded decision, for the model to read."""
    return {
        "order_id": order_id,
        "decision": decision,
        "refunded": dollars(cents),
        "reason": reason,
        "what_happens_next": NEXT_STEP[decision],
    }


def dollars(cents: int) -> str:
    """Cents as dollars: 8900 -> "$89.00"."""
    return f"${cents // 100:,}.{cents % 100:02d}"
