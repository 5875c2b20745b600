"""A veto (after lesson 11): a model that says "done" and has done nothing is not believed, once.

Task: if the closing reply is planned, but no action has run and the model wasn't asked yet, ask it.
Hint: the loop plans CallModel("none") after the signal. Plan CallModel("auto", say=User(…)) with a
message of the kind "policy". `turn.actions` and `turn.asked` have the facts.
"""

from think_agent import Agent, CallModel, ScriptedModel, Step, Turn, User, tool
from think_agent.testing import call, think

DONE = think("All is done.", should_continue=False)


@tool(read_only=True)
def look_up(item: str) -> str:
    """How many are left."""
    return f"3 packets of {item}"


def ask_if_nothing_was_done(step: Step, turn: Turn) -> Step:
    """Asks a model that did nothing."""
    # Your code begins.
    # Your code ends.
    return step


def test_it_is_asked_once_and_then_it_works() -> None:
    model = ScriptedModel([DONE, call("look_up", item="tea"), DONE, "3 packets."])
    outcome = Agent(model, [look_up], policies=[ask_if_nothing_was_done]).run("Is there tea?")
    assert [action.call.name for action in outcome.actions] == ["look_up"]
    assert outcome.exit == "signal"


def test_a_model_that_did_something_is_believed() -> None:
    model = ScriptedModel([call("look_up", item="tea"), DONE, "3 packets."])
    agent = Agent(model, [look_up], policies=[ask_if_nothing_was_done], force="never")
    outcome = agent.run("Is there tea?")
    assert (outcome.exit, outcome.turn.asked["policy"]) == ("signal", 0)


def test_a_model_that_insists_is_believed() -> None:
    model = ScriptedModel([DONE, DONE, "There was nothing to do."])
    outcome = Agent(model, [look_up], policies=[ask_if_nothing_was_done]).run("Thanks!")
    assert (outcome.exit, outcome.turn.asked["policy"]) == ("signal", 1)
