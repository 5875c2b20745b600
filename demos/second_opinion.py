"""A second opinion, for lesson 14: a check that asks a model whether everything was done.

Rule 1: at OpenAI's own host the opinion is a probability, from `client.decisions` of the official
        SDK. Elsewhere the same model gives a typed answer.
Rule 2: a model that refuses to answer, or answers something else, counts as a doubt.
"""

from typing import Any

from think_agent import Agent, Model, Turn
from think_agent.outcome import report_actions
from think_agent.policies.done_when import CheckFunction

JUDGE = "You judge the work of an agent: was everything done that was asked for?"


def make_opinion_check(model: Model) -> CheckFunction:
    """A check that asks `model`."""

    def second_opinion(turn: Turn) -> str | None:
        assert turn.request  # a check runs in a turn
        done = report_actions(turn)
        story = f"Asked: {turn.request.text}\nDone:\n{done}\nThe agent says that this is all."
        if getattr(model, "host", "") == "api.openai.com":
            is_content = ask_for_decision(model, story)
        else:
            is_content = ask_for_answer(model, story)
        if is_content:
            return None
        return "a second look doubts that everything was done"

    return second_opinion


def ask_for_decision(model: Any, story: str) -> bool:
    """Ask OpenAI for a probability."""
    question = {"type": "predicate", "instructions": "Everything was done that was asked for."}
    ask = model.client.decisions.create
    [answer] = ask(model="gpt-6-luna", input=story, questions=[question]).answers
    return bool(answer.type == "predicate" and answer.probability > 0.5)


def ask_for_answer(model: Model, story: str) -> bool:
    """Ask the same model for a typed answer."""
    return Agent(model, instructions=JUDGE, think=None, answer=bool).run(story).data is True
