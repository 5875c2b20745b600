"""What a step costs does not depend on how long its turn is. No clock: what the kit's functions
execute is counted.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from tests.support.counting import counted
from think_agent import (
    Agent,
    Assistant,
    Outcome,
    Request,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    User,
    tool,
)
from think_agent.messages import MESSAGES
from think_agent.policies import Price
from think_agent.testing import call, think
from think_agent.transcript import Transcript

HUGE = 10**9
LIMITS = {
    "max_model_calls": HUGE,
    "max_actions": HUGE,
    "max_tokens": HUGE,
    "max_seconds": HUGE,
    "max_cost": HUGE,
    "prices": {"script": Price(input=1, output=2)},
}


@tool(think_first=True)
def pay(order: int) -> str:
    """Pay an order back."""
    if order % 7 == 0:
        raise ValueError("the bank is closed")
    return f"paid {order}"


@tool(idempotent=True)
def look(order: int) -> str:
    """Look an order up."""
    return f"order {order}"


def busy_agent(**settings) -> Agent:
    """It looks, thinks and pays, and sometimes pays without a thought. For ever."""
    numbers, seconds = count(1), count()

    def reply(request: Request) -> Assistant:
        n = next(numbers)
        pays, looks, thinks = call("pay", order=n), call("look", order=n), think(f"it is {n}")
        cycle = [looks], [thinks, pays, pays], [pays], [thinks], [pays, looks]
        calls = tuple(cycle[n % 5])
        return Assistant(tool_calls=calls, stop_reason="tool_use", usage=Usage(10, 2, 1, 1))

    def clock() -> str:
        return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))).isoformat()

    return Agent(ScriptedModel(reply), [pay, look], now=clock, **LIMITS, **settings)


CYCLE = 5 * 7  # replies until the calls and the bank are as they were


def replied(events: Iterator[object], times: int = CYCLE) -> int:
    """Goes on by so many replies; the messages that there were."""
    messages = 0
    while times:
        event = next(events)
        messages += isinstance(event, MESSAGES)
        times -= isinstance(event, Assistant)
    return messages


@pytest.mark.parametrize("force", ["first", "always"])
def test_a_step_costs_the_same_at_20_and_at_1000_messages(force):
    """Planned, carried out and recorded, with all limits set and guarded tools."""
    events = busy_agent(force=force)._events("Pay them all.", None, False)
    messages = replied(events, 6)
    assert 15 <= messages <= 30
    with counted() as early:
        messages += replied(events)
    while messages < 1000:
        messages += replied(events)
    with counted() as late:
        replied(events)
    events.close()
    assert late.total() < 1.1 * early.total(), (late - early).most_common(5)


def test_planning_costs_the_same_in_the_first_and_in_the_hundredth_turn():
    agent = busy_agent()
    costs, reading = [], Turn()
    for number in range(100):
        reading.add(User(f"And order {number}?", at=agent.now()))
        with counted() as found:
            agent.next_step(reading)
        costs.append(found.total())
        reading.add(Assistant(tool_calls=(ToolCall(f"c{number}", "look"),)))
        reading.add(Assistant("Done."))
    assert max(costs) <= 1.1 * min(costs)


def test_reading_a_transcript_is_linear():
    messages = []
    for event in busy_agent()._events("Pay them all.", None, False):
        messages.append(event)
        if len(messages) == 1000:
            break
    messages = [message for message in messages if isinstance(message, MESSAGES)]
    with counted() as few:
        Turn.of(messages[: len(messages) // 10])
    with counted() as many:
        Turn.of(messages)
    assert many.total() < 1.1 * 10 * few.total()


def test_many_calls_in_one_reply_are_linear():
    costs = {}
    for size in (100, 1000):
        calls = [call("look", order=n) for n in range(size)]
        agent = Agent(ScriptedModel([calls, "Done."]), [look], **LIMITS)
        with counted() as found:
            outcome = agent.run("Look.")
        assert len(outcome.actions) == size
        costs[size] = found.total()
    assert costs[1000] < 1.1 * 10 * costs[100], costs


def test_opening_a_file_and_going_on_in_it(tmp_path):
    """Opening is linear, and a run in a long file costs what it costs in a short one."""
    opened, went_on = {}, {}
    for turns in (20, 200):
        path = tmp_path / f"{turns}.jsonl"
        calls = (replace(think("due", False), id="t"), ToolCall("p", "pay", {"order": 1}))
        acts = Assistant(tool_calls=calls, stop_reason="tool_use", model="script")
        agent = Agent(ScriptedModel([acts, "Done."]), [pay, look], **LIMITS)
        with Transcript(path, agent.made_of(), now=agent.now()) as file:
            for number in range(turns):
                file.append(User(f"Order {number}", at=agent.now()))
                file.append(acts)
                file.append(ToolResult("t", "think", "Thought recorded."))
                file.append(Started("p", "pay", f"key {number}"))
                file.append(ToolResult("p", "pay", "paid", at=agent.now()))
                file.append(Assistant("Done.", model="script"))
        with counted() as found, Transcript(path, agent.made_of(), now=agent.now()) as file:
            assert len(Turn.of(file).spoken) == 5 * turns
        opened[turns] = found.total()
        events = agent._events("And ORD-003?", path, False)
        next(events)  # opened and read
        with counted() as found:
            assert isinstance([*events][-1], Outcome)
        went_on[turns] = found.total()
    assert opened[200] < 1.1 * 10 * opened[20], opened
    assert went_on[200] < 1.1 * went_on[20], went_on
