"""A shop behind HTTP whose answers may come too late: it has booked, but the client gave up. Then
the model of the refund desk makes the same call again.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import httpx

from demos.refund.offline import reply
from demos.refund.shop import INSTRUCTIONS, Shop, ShopError
from tests.servers import Protocol, Reply, serve
from think_agent import Agent, AskHuman, Assistant, Outcome, Request, ScriptedModel, Tool, tool
from think_agent.messages import ToolCall, ToolResult
from think_agent.testing import think

PATIENCE = 1  # seconds that the tool waits for an answer


class LateShop(Protocol):
    """A shop that books over HTTP. `is_late` says before each answer whether it comes too late."""

    def __init__(self, is_late: Callable[[], bool]) -> None:
        super().__init__()
        self.shop = Shop()
        self.is_late = is_late
        self.late_answers = 0
        self.keys: dict[str, set[str]] = defaultdict(set)  # of each order
        self.url = ""

    def other(self, method: str, path: str, body: Any) -> Reply:
        """The answer to a decision. Where it comes too late, nobody listens any more."""
        answer = self.book(body)
        if self.is_late():
            self.late_answers += 1
            time.sleep(2 * PATIENCE)
        return answer

    def book(self, decision: dict[str, str]) -> Reply:
        if "idempotency_key" in decision:
            self.keys[decision["order_id"]].add(decision["idempotency_key"])
        try:
            return Reply(200, self.shop.process_refund(**decision))  # type: ignore[arg-type]
        except ShopError as error:
            return Reply(409, {"error": str(error)})

    def send(self, **decision: str) -> Any:
        """The shop's client. A timeout is an exception of the HTTP library."""
        answer = httpx.post(self.url, json=decision, timeout=PATIENCE, verify=False)
        if answer.status_code == 409:
            return f"error: {answer.json()['error']}"
        return answer.json()

    def tools(self, *, with_key: bool) -> list[Tool]:
        """The shop's tools. The one that books uses HTTP, with or without a key."""

        def process_refund(
            order_id: str,
            decision: str,
            reason: str,
            notify: bool = True,
            idempotency_key: str = "",
        ) -> Any:
            """Record the decision on one order."""
            key = {"idempotency_key": idempotency_key} if with_key else {}
            return self.send(order_id=order_id, decision=decision, reason=reason, **key)

        *look_ups, _ = self.shop.tools()
        booking = tool(process_refund, think_first=True, same=("order_id",))
        return [*look_ups, replace(booking, takes_key=with_key)]

    def bookings(self, order: str) -> int:
        """How often an order was decided."""
        return sum(decision.order_id == order for decision in self.shop.decisions())

    def is_missing(self, question: AskHuman) -> bool:
        """The answer of a person, who looks into the books before a call is repeated. After many
        failures the person lets the desk go on.
        """
        if question.call is None:
            return True
        assert isinstance(question.call.arguments, dict)
        return self.bookings(question.call.arguments["order_id"]) == 0


@contextmanager
def late_shop(is_late: Callable[[], bool]) -> Iterator[LateShop]:
    """A LateShop on a free local port, stopped at the end of the block."""
    shop = LateShop(is_late)
    with serve(shop, reply) as server:
        shop.url = server.url
        yield shop


def insistent(request: Request, words: str = "as before") -> Assistant:
    """The offline model, but it repeats a call in doubt as if it had not been made: in the same
    words, in others, or with a default spelled out.
    """
    in_doubt = [m for m in request.messages if isinstance(m, ToolResult) and m.in_doubt]
    messages = [message for message in request.messages if message not in in_doubt]
    answer = reply(replace(request, messages=messages))
    calls = [reworded(call, words, len(in_doubt)) for call in answer.tool_calls]
    if in_doubt and calls and calls[0].name == "process_refund":
        calls.insert(0, think("No answer came. Once more."))
    return replace(answer, tool_calls=tuple(calls))


def reworded(call: ToolCall, words: str, tries: int) -> ToolCall:
    if call.name != "process_refund" or not tries or not isinstance(call.arguments, dict):
        return call
    arguments = dict(call.arguments)
    if words == "reworded":
        arguments["reason"] = f"{arguments['reason']} Once more ({tries})."
    if words == "defaults":
        arguments["notify"] = "true"
    return replace(call, arguments=arguments)


def work(
    shop: LateShop, text: str, *, with_key: bool, with_person: bool, words: str = "as before"
) -> Outcome:
    """One run of the refund desk against this shop. `words`: those in which it repeats a call."""
    agent = Agent(
        ScriptedModel(partial(insistent, words=words), name="offline"),
        shop.tools(with_key=with_key),
        instructions=INSTRUCTIONS.read_text(encoding="utf-8"),
        approve=shop.is_missing if with_person else None,
    )
    return agent.run(text)
