"""A run that waits for a person is answered by `resume(transcript, verdict=…)`: in another process,
days later, by a web request.
"""

import asyncio

import pytest

from tests.support.agents import agent, results
from think_agent import Agent, Ended, Outcome, Paused, ScriptedModel, Verdict, tool
from think_agent.errors import TranscriptError
from think_agent.testing import call


class Desk:
    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(needs_approval=True)
        def pay(cents: int = 100) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"paid {cents}"

        self.pay = pay

    def agent(self, **settings) -> Agent:
        """Also in another process: the model knows its place in the script."""
        calls = call("pay", cents="5"), call("pay")
        return agent(calls, "Paid.", tools=[self.pay], **settings)


def resume_async(agent: Agent, saved, **options) -> Outcome:
    return asyncio.run(agent.aresume(saved, **options))


@pytest.mark.parametrize("resume", [Agent.resume, resume_async])
def test_a_paused_run_is_answered_question_by_question(saved, resume):
    desk = Desk()
    outcome = desk.agent().run("Pay both.", transcript=saved)
    assert outcome.exit == "needs_human"
    assert outcome.transcript[-1] == Paused('Run pay(cents="5")?', "call_0")
    assert outcome.question.received == {"cents": 5}

    yes = Verdict("yes", by="Ada", call_id="call_0")
    outcome = resume(desk.agent(), saved or outcome.transcript, verdict=yes)
    assert (desk.paid, outcome.exit) == ([5], "needs_human")
    assert outcome.question.received == {"cents": 100}  # the default, as it will run

    outcome = resume(desk.agent(), saved or outcome.transcript, verdict=False)
    assert (desk.paid, outcome.answer, outcome.question) == ([5], "Paid.", None)
    assert [result.refused for result in results(outcome, "pay")] == ["", "person"]
    assert isinstance(outcome.transcript[-1], Ended)
    assert [m.by for m in outcome.transcript if isinstance(m, Verdict)] == ["Ada", ""]


def test_a_page_that_posts_a_yes_twice_answers_one_question(saved):
    desk = Desk()
    outcome = desk.agent().run("Pay both.", transcript=saved)
    yes = Verdict("yes", call_id=outcome.transcript[-1].call_id)
    outcome = desk.agent().resume(saved or outcome.transcript, verdict=yes)
    with pytest.raises(TranscriptError, match="another question"):
        desk.agent().resume(saved or outcome.transcript, verdict=yes)
    assert desk.paid == [5]


def test_what_does_not_wait_cannot_be_answered(saved):
    desk = Desk()
    outcome = desk.agent(approve=lambda asked: True).run("Pay both.", transcript=saved)
    assert desk.paid == [5, 100]
    with pytest.raises(TranscriptError, match="no question waits"):
        desk.agent().resume(saved or outcome.transcript, verdict=True)
    with pytest.raises(TranscriptError, match="nothing to resume"):
        desk.agent().resume([], verdict=True)


def test_without_an_answer_nothing_is_written_and_no_model_is_asked(saved):
    desk = Desk()
    outcome = desk.agent().run("Pay both.", transcript=saved)
    before = saved and saved.read_bytes()
    silent = Agent(ScriptedModel([]), [desk.pay])
    again = silent.resume(saved or outcome.transcript)
    assert again.question == outcome.question
    assert again.transcript == outcome.transcript
    assert before == (saved and saved.read_bytes())


def test_an_answer_of_a_wrong_type_is_refused(saved):
    desk = Desk()
    outcome = desk.agent().run("Pay both.", transcript=saved)
    with pytest.raises(TypeError, match="Verdict"):
        desk.agent().resume(saved or outcome.transcript, verdict="yes")
