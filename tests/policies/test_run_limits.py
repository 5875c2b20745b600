"""A run may be given limits of its own: the smaller of these and the agent's counts."""

import asyncio
from dataclasses import dataclass

import pytest

from think_agent import Agent, Assistant, ModelError, Progress, ScriptedModel, Turn, User, tool
from think_agent.testing import call


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return f"found {n}"


def agent(**settings):
    def reply(request):
        if request.tool_choice == "none":
            return Assistant("I stop.")
        n = sum(isinstance(message, Assistant) for message in request.messages)
        return Assistant(tool_calls=(call("look", n=n),))

    return Agent(ScriptedModel(reply), [look], force="never", **settings)


@dataclass(frozen=True)
class Case:
    name: str
    of_agent: int
    of_run: int | None
    model_calls: int


CASES = [
    Case("the run's is smaller", of_agent=30, of_run=4, model_calls=4),
    Case("the agent's is smaller", of_agent=4, of_run=30, model_calls=4),
    Case("the run has none", of_agent=5, of_run=None, model_calls=5),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_smaller_limit_counts(case, saved):
    limited = agent(max_model_calls=case.of_agent)
    outcome = limited.run("Look.", transcript=saved, max_model_calls=case.of_run)
    assert outcome.model_calls == case.model_calls
    assert outcome.exit == "limit"


def test_every_way_of_running_takes_limits():
    made = agent()
    assert made.run("Look.", max_actions=2).exit == "limit"
    assert asyncio.run(made.arun("Look.", max_actions=2)).exit == "limit"
    assert list(made.stream("Look.", max_actions=2))[-1].exit == "limit"


def test_the_limits_of_a_run_are_recorded_and_hold_after_a_resume(saved):
    stops = iter([False, False, True])

    def reply(request):
        if next(stops, False):
            raise ModelError("gone")
        return Assistant(tool_calls=(call("look", n=len(request.messages)),))

    broken = Agent(ScriptedModel(reply), [look], force="never")
    with pytest.raises(ModelError) as stop:
        broken.run("Look.", transcript=saved, max_model_calls=4)
    outcome = agent().resume(saved or stop.value.transcript)
    assert outcome.transcript[0] == User("Look.", limits={"max_model_calls": 4})
    assert outcome.model_calls == 4


def test_a_resume_may_have_smaller_limits(saved):
    outcome = agent(max_model_calls=3).run("Look.", transcript=saved)
    later = agent().run("Again.", transcript=saved or outcome.transcript, max_model_calls=9)
    assert later.model_calls == 9
    open_turn = [*later.transcript, User("Once more.", limits={"max_model_calls": 9})]
    assert agent().resume(open_turn, max_model_calls=2).model_calls == 2


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"max_turns": 3}, TypeError, "not a limit of a run; use max_model_calls"),
        ({"max_seconds": "60"}, TypeError, "use a number"),
        ({"max_actions": 0}, ValueError, "above 0"),
        ({"max_cost": 1}, ValueError, "no price for the model"),
    ],
)
def test_a_limit_that_cannot_work_is_refused_before_anything_is_recorded(
    given, error, says, tmp_path
):
    path = tmp_path / "run.jsonl"
    with pytest.raises(error, match=says):
        agent().run("Look.", transcript=path, **given)
    assert not path.exists()


def test_progress_events_say_which_model_call_it_is():
    events = []
    agent(name="desk").run("Look.", on_event=events.append, max_model_calls=3)
    found = [event for event in events if isinstance(event, Progress)]
    assert found == [Progress(1, 3, "desk"), Progress(2, 3, "desk"), Progress(3, 3, "desk")]


def test_the_name_of_an_agent_is_in_the_header():
    assert agent(name="refund desk").made_of()["name"] == "refund desk"
    assert "name" not in agent().made_of()
    assert isinstance(Turn.of([]), Turn)
