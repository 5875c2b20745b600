"""A call in the text of a reply runs only if its tool is `read_only` (`policies/text.py`)."""

from dataclasses import replace

import pytest

from tests.support.agents import agent, results
from think_agent import tool
from think_agent.messages import Assistant
from think_agent.testing import call, think

PAY = replace(call("pay", order="A"), recovered=True)
LOOK = replace(call("look", order="A"), recovered=True)


class Desk:
    """A desk with a tool that pays and one that looks, and a log of what ran and was asked."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.asked: list[str] = []

        @tool(think_first=True)
        def pay(order: str) -> str:
            """Pay."""
            self.ran.append("pay")
            return "paid"

        @tool(read_only=True)
        def look(order: str) -> str:
            """Look it up."""
            self.ran.append("look")
            return "89 $"

        self.tools = [pay, look]

    def run(self, *replies, person: bool | None = None, **settings):
        def approve(question):
            self.asked.append(question.question)
            return person

        if person is not None:
            settings["approve"] = approve
        return agent(*replies, tools=self.tools, **settings).run("Please pay.")


def test_from_text_a_read_only_tool_runs_and_another_is_refused_with_what_to_do():
    desk = Desk()
    outcome = desk.run((think("It is due."), LOOK), (think("It is."), PAY), "Open.")
    assert desk.ran == ["look"]
    [refused] = results(outcome, "pay")
    assert refused.refused == "text"
    assert "Call the tool instead" in refused.content


def test_a_call_in_text_without_a_thought_is_refused_by_the_gate_first():
    [refused] = results(Desk().run(PAY, "Open."), "pay")
    assert refused.refused == "gate"


@pytest.mark.parametrize("says_yes", [True, False])
def test_if_a_person_can_be_asked_that_person_decides_about_a_call_in_text(says_yes):
    desk = Desk()
    desk.run((think("It is due."), PAY), "So.", person=says_yes)
    assert desk.ran == (["pay"] if says_yes else [])
    assert len(desk.asked) == 1
    assert "The model wrote this call as text." in desk.asked[0]


def test_one_yes_covers_text_and_approval():
    desk = Desk()
    desk.tools[0] = replace(desk.tools[0], needs_approval=True)
    desk.run((think("It is due."), PAY), "So.", person=True)
    assert desk.ran == ["pay"]
    assert len(desk.asked) == 1


def test_a_thought_in_text_counts_and_may_signal():
    leaves = replace(think("All is paid.", should_continue=False), recovered=True)
    outcome = Desk().run(leaves, "Paid.")
    assert outcome.exit == "signal"
    assert outcome.thoughts == ("All is paid.",)


def test_three_refusals_in_a_row_end_the_run_and_name_json():
    desk = Desk()
    outcome = desk.run(*[(think("It is due."), PAY)] * 5)
    assert outcome.exit == "gave_up"
    assert outcome.model_calls == 3
    assert desk.ran == []
    assert 'in_dialect(model, "json")' in outcome.answer


def test_a_proper_call_in_between_starts_the_count_again():
    in_text = think("It is due."), PAY
    outcome = Desk().run(*[in_text] * 2, call("look", order="A"), *[in_text] * 2, "Open.")
    assert outcome.exit == "silence"


def test_an_unknown_tool_is_refused_like_one_that_changes_something():
    unknown = replace(call("fly"), recovered=True)
    outcome = Desk().run(Assistant(tool_calls=(unknown,)), "Open.")
    [refused] = results(outcome, "fly")
    assert refused.refused == "text"
