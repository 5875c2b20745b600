"""An agent that never ends by itself, with all limits set and guarded tools. Tests and benchmarks
use it to see whether the cost of a step grows.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.agents import clock
from think_agent import Agent, Request, ScriptedModel, ToolCall, Usage, tool
from think_agent.messages import MESSAGES, Assistant, Ended, Message, Started, ToolResult, User
from think_agent.policies import Price
from think_agent.testing import call, think
from think_agent.transcript import TranscriptFile

CYCLE = 5 * 7  # replies until the calls and the bank are as they were
LIMITED = ("max_model_calls", "max_actions", "max_tokens", "max_seconds", "max_cost")
LIMITS = {**dict.fromkeys(LIMITED, 10**9), "prices": {"script": Price(input=1, output=2)}}


@tool(think_first=True)
def pay(order: int) -> str:
    """Pay an order back."""
    if order % 7 == 0:
        raise ValueError("the bank is closed")
    return "paid"


@tool(idempotent=True)
def look(order: int) -> str:
    """Look an order up."""
    return f"order {order}"


def mixed(n: int) -> tuple[ToolCall, ...]:
    """It looks, thinks and pays, and sometimes pays without a thought."""
    pays, looks, thinks = call("pay", order=n), call("look", order=n), think(f"it is {n}")
    cycle = (looks,), (thinks, pays, pays), (pays,), (thinks,), (pays, looks)
    return cycle[n % 5]


def by_turns(n: int) -> tuple[ToolCall, ...]:
    """It thinks and pays by turns, with the same result each time."""
    return (call("pay", order=7 * n + 1) if n % 2 else think("within 30 days"),)


def busy_agent(plays: Callable[[int], tuple[ToolCall, ...]] = mixed, **settings: Any) -> Agent:
    """An agent whose model makes the calls `plays(1)`, `plays(2)` and so on, without end."""
    numbers = count(1)

    def reply(request: Request) -> Assistant:
        calls = plays(next(numbers))
        return Assistant(tool_calls=calls, stop_reason="tool_use", usage=Usage(10, 2, 1, 1))

    settings = {"approve": lambda question: True, **settings}  # a call in doubt is asked about
    return Agent(ScriptedModel(reply), [pay, look], now=clock(), **LIMITS, **settings)


def replied(events: Iterator[object], times: int) -> list[Message]:
    """Go on until so many replies came. Returns the messages on the way."""
    messages: list[Message] = []
    while times:
        event = next(events)
        times -= isinstance(event, Assistant)
        if isinstance(event, MESSAGES):
            messages.append(event)
    return messages


def written(path: Path, turns: int) -> int:
    """Write a file of so many turns. Returns the number of its messages."""
    agent = busy_agent()
    with closing(TranscriptFile(path, agent.made_of(), now=agent.now())) as file:
        for number in range(turns):
            thinks = ToolCall(f"t{number}", "think", think("it is due", False).arguments)
            pays = ToolCall(f"p{number}", "pay", {"order": number})
            calls = (thinks, pays)
            for message in (
                User(f"Please refund order {number}", at=agent.now()),
                Assistant(tool_calls=calls, usage=Usage(10, 5), model="script"),
                ToolResult(thinks.id, "think", "Thought recorded.", at=agent.now()),
                Started(pays.id, "pay", f"{number:032x}", at=agent.now()),
                ToolResult(pays.id, "pay", "paid", at=agent.now()),
                Assistant("Order refunded.", usage=Usage(20, 9), model="script"),
                Ended("signal"),
            ):
                file.append(message)
        return len(file.messages)
