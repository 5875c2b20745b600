"""The cost of a step does not grow with its turn. Nothing is timed: what the package's functions
execute is counted.
"""

import tempfile
from contextlib import closing
from itertools import islice

import pytest

from tests.support.busy import CYCLE, LIMITS, busy_agent, look, replied, written
from tests.support.counting import counted, grows_evenly
from think_agent import Agent, Assistant, Outcome, ScriptedModel, ToolCall, Turn, User
from think_agent.messages import MESSAGES
from think_agent.policies.answer import Sources
from think_agent.policies.doubt import Doubts
from think_agent.testing import call, think
from think_agent.transcript import TranscriptFile


@pytest.mark.parametrize("force", ["first", "always"])
def test_a_step_costs_the_same_at_20_and_at_1000_messages(force):
    """Planned, carried out and recorded, with all limits set and guarded tools."""
    events = busy_agent(force=force)._open_run(None, User("Pay them all.")).events()
    messages = len(replied(events, 6))
    assert 15 <= messages <= 30
    with counted() as early:
        messages += len(replied(events, CYCLE))
    while messages < 1000:
        messages += len(replied(events, CYCLE))
    with counted() as late:
        replied(events, CYCLE)
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
    events = busy_agent()._open_run(None, User("Pay.")).events()
    events = (event for event in events if isinstance(event, MESSAGES))
    messages = list(islice(events, 1000))
    assert grows_evenly(lambda size: Turn.of(messages[:size]), 100, 1000)


def test_many_calls_in_one_reply_are_linear():
    def run(size: int) -> None:
        calls = [call("look", order=n) for n in range(size)]
        outcome = Agent(ScriptedModel([calls, "Done."]), [look], **LIMITS).run("Look.")
        assert len(outcome.actions) == size

    assert grows_evenly(run, 100, 1000)


def test_opening_a_file_is_linear_and_a_run_in_a_long_file_costs_no_more(tmp_path):
    opened, went_on = {}, {}
    for turns in (20, 200):
        path = tmp_path / f"{turns}.jsonl"
        assert written(path, turns) == 7 * turns
        agent = busy_agent()
        agent.model = ScriptedModel([(think("due", False), call("pay", order=1)), "Done."])
        with (
            counted() as found,
            closing(TranscriptFile(path, agent.made_of(), now=agent.now())) as file,
        ):
            assert len(file.turn.history.spoken) == 5 * turns
        opened[turns] = found.total()
        with agent.open(path) as held:
            for kind in (Doubts, Sources):  # facts of the whole conversation: read once for a file
                held.turn.history.read(kind)
            events = agent.stream("And ORD-003?", transcript=held)
            with counted() as found:
                assert isinstance([*events][-1], Outcome)
        went_on[turns] = found.total()
    assert opened[200] < 1.1 * 10 * opened[20], opened
    assert went_on[200] < 1.1 * went_on[20], went_on


def test_the_turns_of_a_file_that_is_held_open_cost_the_same_however_many_came_before():
    def talk(turns: int) -> None:
        agent = busy_agent()
        agent.model = ScriptedModel(lambda request: Assistant("Fine."))
        with tempfile.TemporaryDirectory() as folder, agent.open(f"{folder}/run.jsonl") as held:
            for number in range(turns):
                agent.run(f"And order {number}?", transcript=held)
            assert len(held.turn.history.starts) == turns

    assert grows_evenly(talk, 20, 200)
