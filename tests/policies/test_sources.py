"""With `Source` in its type, an answer names the results it is based on.

This is rule 5 of `policies/answer.py`. The model reads once that a source is wrong.
"""

import html
import json
from itertools import product

import pytest
from pydantic import BaseModel

from tests.audit.forms import steps, text_in, to_text
from tests.support.agents import agent, by_place, kit_said, results
from tests.support.providers import WAYS
from think_agent import Agent, Assistant, Outcome, Request, ScriptedModel, Source, tool
from think_agent.audit import report, to_html
from think_agent.dialects import in_dialect
from think_agent.policies.answer import NUMBERED, TypedAnswer
from think_agent.testing import call, think


class Claim(BaseModel):
    text: str
    sources: list[Source]


@tool(read_only=True)
def look(item: str) -> str:
    """Look an item up."""
    if item == "mate":
        raise LookupError("there is no mate")
    return f"3 of {item}"


@tool(think_first=True)
def pay(cents: int) -> str:
    """Pay."""
    raise AssertionError("it is refused")


DONE = think("All is known.", should_continue=False)
FIRST = [  # its results have the numbers 1 to 5, and only the first one succeeded
    (call("look", item="tea"), call("look", item="mate"), call("look", name="tea")),
    (call("pay", cents=1), call("fly")),
    DONE,
    "[]",
]
SECOND = [call("look", item="rum"), DONE]  # its result has the number 6
FORMS = ["{}", "[{}]", " {} ", "[ {} ]"]
NEVER_WERE = ["7", "99", "0", "-1", "1.0", "look"]
WRONG = [form.format(n) for form, n in product(FORMS, ["2", "3", "4", "5", *NEVER_WERE])]
RIGHT = [form.format(n) for form, n in product(FORMS, ["1", "6"])] + [1, 6]


def answer(*sources):
    return json.dumps([{"text": "There is tea.", "sources": list(sources)}])


def claiming(*replies, **settings):
    return agent(*replies, tools=[look, pay], answer=list[Claim], patience=9, **settings)


def second_turn(*answers, way=WAYS[0]) -> Outcome:
    replies = [*FIRST, *SECOND, *answers]
    first = claiming(*replies).run("Is there tea?")
    return way(claiming(*replies), "And rum?", first.transcript)


def test_the_results_of_a_conversation_are_counted():
    outcome = second_turn(answer())
    found = [result for result in results(outcome) if result.name != "think"]
    assert [result.number for result in found] == [1, 2, 3, 4, 5, 6]
    assert [result.is_error for result in found] == [False, True, True, True, True, False]
    assert [result.refused for result in found] == ["", "", "invalid", "gate", "invalid", ""]
    assert {r.number for r in results(outcome, "think")} == {0}
    assert results(outcome, "look")[0].content == "3 of tea", "the number is only shown"


def test_every_wrong_source_is_found_and_no_right_one():
    assert len({*WRONG}) == 40
    for wrong in WRONG:
        outcome = second_turn(answer("1", wrong), answer("[1]"))
        [told] = kit_said(outcome)
        assert "0.sources.1: " in told.text, wrong
        assert "0.sources.0: " not in told.text
        assert outcome.exit == "signal"
        assert outcome.data == [Claim(text="There is tea.", sources=[Source("1")])]
    for right in RIGHT:
        outcome = second_turn(answer(right))
        assert outcome.exit == "signal", right
        assert kit_said(outcome) == [], right
        assert outcome.data[0].sources == [str(right).strip("[] ")]


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_source_is_told_once_however_the_run_is_driven(way):
    stubborn = second_turn(answer("2"), answer("9"), way=way)
    assert stubborn.exit == "invalid_answer"
    assert stubborn.data is None
    whole = second_turn(answer("2"), answer("6"), way=way)
    replies = [*FIRST, *SECOND, answer("2"), answer("6")]
    began = [place for place, m in enumerate(whole.transcript) if m == whole.turn.request]
    for end in range(began[0] + 1, len(whole.transcript) + 1):
        assert claiming(*replies).resume(whole.transcript[:end]) == whole


def test_an_answer_that_a_check_finds_unmet_is_checked_too():
    """Its exit says that something is missing; its data has no source that never was."""
    for number, data in (("9", None), ("1", ["1"])):
        replies = [call("look", item="tea"), DONE, DONE, answer(number)]
        outcome = claiming(*replies, done_when=[lambda turn: "rum"]).run("And rum?")
        assert outcome.exit == "unmet"
        assert (outcome.data and outcome.data[0].sources) == data


def test_only_an_answer_with_sources_has_numbers():
    asked = []

    def watching(request: Request) -> Assistant:
        asked.append(request)
        return by_place(call("look", item="tea"), DONE, answer("1"), "Yes.")(request)

    def run(kind, transcript=()):
        made = Agent(ScriptedModel(watching), [look], answer=kind, force="never")
        return made.run("Tea?", transcript=transcript)

    plain = run(list[str])
    assert {r.number for r in results(plain)} == {0}
    assert asked[-1].system == ""
    asked.clear()
    numbered = run(list[Claim])
    assert asked[-1].system == NUMBERED
    assert [r.content for r in results(asked[-1].messages, "look")] == ["[1] 3 of tea"]
    run(None, numbered.transcript)  # the bytes of what was sent stay the same
    assert [r.content for r in results(asked[-1].messages, "look")] == ["[1] 3 of tea"]


def test_the_type_may_hold_sources_anywhere_and_is_read_without_a_run_too():
    for kind in (Source, list[Source], dict[str, Source], Claim, Claim | None):
        assert TypedAnswer(kind).has_sources
    assert not TypedAnswer(list[str]).has_sources
    assert Claim(text="", sources=["[7]"]).sources == ["7"]
    with pytest.raises(ValueError, match=r"sources\.0"):
        Claim(text="", sources=[None])


PLAN = {"understanding": "", "reasoning": "Look.", "task_complete": False, "response": ""}
IN_DIALECT = {
    "json": (
        json.dumps({**PLAN, "actions": [{"tool": "look", "arguments": {"item": "tea"}}]}),
        json.dumps({**PLAN, "actions": [], "task_complete": True, "response": "3"}),
    ),
    "react": (
        'Thought: Look.\nAction: look\nAction Input: {"item": "tea"}',
        "Thought: All is known.\nFinal Answer: 3",
    ),
}


@pytest.mark.parametrize("dialect", IN_DIALECT)
def test_every_dialect_sees_the_numbers(dialect):
    heard = []

    def inner(request: Request) -> Assistant:
        heard.append(str(request.messages))
        return by_place(*IN_DIALECT[dialect], answer("2"), answer("1"))(request)

    model = in_dialect(ScriptedModel(inner), dialect)
    outcome = Agent(model, [look], answer=list[Claim], force="never").run("Tea?")
    assert outcome.exit == "signal"
    assert len(kit_said(outcome)) == 1
    assert outcome.data[0].sources == ["1"]
    assert "[1] 3 of tea" in heard[1]


def test_the_audit_links_each_claim_to_its_call_and_turn():
    outcome = second_turn(answer("[6]", "1"))
    made = report(outcome.transcript)
    wanted = [
        'answer.0.sources.0 [6]: look(item="rum"), done, in turn 2',
        'answer.0.sources.1 [1]: look(item="tea"), done, in turn 1',
    ]
    notes = [entry for entry in made.turns[1].entries if hasattr(entry, "text")]
    assert [note.text for note in notes] == wanted
    by_number = {step.number: step for step in steps(made)}
    behind = [by_number[note.source].calls[0].result for note in notes]
    assert behind == ["3 of rum", "3 of tea"]
    page = html.unescape(to_html(made))
    for note in notes:
        assert f'<a href="#step-{note.source}">{note.text}</a>' in page
        assert f'id="step-{note.source}"' in page
    for shown in (html.unescape(text_in(to_html(made))), " ".join(to_text(made).split())):
        assert all(line in shown for line in wanted)
