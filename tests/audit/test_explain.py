"""How `explain` shows each step of a run."""

from hypothesis import given, settings

from tests.support.agents import look, pay
from tests.support.turns import transcripts
from think_agent import Agent, ScriptedModel, User
from think_agent.audit import explain, words
from think_agent.cli.why import explain_steps
from think_agent.testing import call, think

ASK = User("Refund it.")


def agent(*replies, **more) -> Agent:
    return Agent(ScriptedModel(replies), [pay, look], **more)


def test_explain_shows_what_was_known_who_planned_who_changed_it_and_what_came():
    replies = call("pay", cents=1), think("It is due."), call("pay", cents=1), "Paid."
    desk = agent(*replies, silence="accept")
    found = explain(desk, desk.run(ASK.text).transcript)
    assert [step.remark for step in found] == [""] * len(found)
    opening, refused, forced, _, _, paid, _, last = found
    who = [
        ("next_step", "A message waits for a reply."),
        ("force_first", "Forcing: when the model is forced to think."),
    ]
    assert [(name, why) for name, _, why in opening.planned] == who
    assert opening.planned[1][1] == "the model is asked to call think"
    assert opening.facts[0] == ("the person asked", ASK.text)
    assert [name for name, _, _ in refused.planned] == ["next_step", "think_first"]
    assert refused.planned[1][1].startswith("refuse pay (gate): ")
    assert ("the person asked", ASK.text) in refused.facts
    assert refused.came[0].startswith("pay gave: error: not run")
    assert forced.planned[-1][:2] == ("think_first", "the model is asked to call think")
    assert ("its thought, gated", "It is due.") in paid.facts
    assert "think_first" in paid.passed
    assert last.planned == [("next_step", "end (silence)", words.why_ended("silence"))]


def test_explain_shows_where_another_agent_would_act_differently():
    another = agent(call("look", item="tea"), "89 $", force="never", silence="accept")
    said = another.run("Tea?").transcript
    opening, *rest = explain(agent(silence="accept"), said)
    assert opening.planned[-1][0] == "force_first"
    assert "now another step is planned" in opening.remark
    assert not any(step.remark for step in [*rest, *explain(None, said)])
    marks = [mark.strip() for mark, _ in explain_steps([opening, *rest])]
    assert marks.count("!!") == 1


@settings(max_examples=60, deadline=None)
@given(transcripts)
def test_every_message_of_every_transcript_is_explained(messages):
    steps = explain(agent(), [ASK, *messages])
    persons = [m for m in messages if isinstance(m, User) and m.kind == "person"]
    others = [m for m in messages if m not in persons]
    lines = [line for message in others for line in words.say_lines(message)]
    assert [line for step in steps for line in step.came] == lines
