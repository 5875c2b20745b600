"""A real benchmark as a test of the loop: 200 recorded runs of tau-bench, played again."""

import pytest

from tests.servers import serve
from tests.support.providers import SPEAKS, model_of
from tests.support.traces import END, lines, needs_traces, runs, writes
from think_agent import ToolResult

pytestmark = needs_traces
ENDED = lines([END])


def play(run, agent, asked=None):
    """Play the person's messages, or the first `asked` of them. Returns the last outcome."""
    transcript = ()
    for text in run.asked[:asked]:
        outcome = agent.run(text, transcript=transcript)
        transcript = outcome.transcript
    return outcome


def assert_as_recorded(run, outcome):
    assert lines(outcome.transcript) == run.lines + ENDED
    assert run.heard == [run.lines[: len(history)] for history in run.heard]
    replies = sum(line[0] == "assistant" for line in run.lines)
    assert len(run.heard) == replies + 1  # each was asked for once, and then there was none


def test_every_replayed_transcript_is_as_recorded():
    every = runs()
    assert len(every) == 200
    for run in every:
        assert_as_recorded(run, play(run, run.agent()))


@pytest.mark.parametrize("provider", SPEAKS)
def test_every_replayed_transcript_is_as_recorded_on_the_wire(provider):
    for run in runs(slice(0, None, 40)):
        with serve(SPEAKS[provider][0](), run.brain) as server:
            assert_as_recorded(run, play(run, run.agent(model_of(provider, server))))


def test_the_gate_refuses_the_first_write_without_a_thought_and_nothing_before():
    for run in runs():
        place = run.first_uncovered()
        if place is None:
            assert_as_recorded(run, play(run, run.agent(gate=True)))
            continue
        asked = sum(line[0] == "user" for line in run.lines[:place])
        outcome = play(run, run.agent(gate=True), asked)
        [refused] = [m for m in outcome.transcript if isinstance(m, ToolResult) and m.refused]
        assert refused.refused == "gate"
        assert writes(refused.name)
        assert lines(outcome.transcript) == run.lines[: place + 1] + lines([refused]) + ENDED
