"""The words for what happened: tables by values."""

from typing import get_args

import pytest

from think_agent.audit import words
from think_agent.messages import (
    Assistant,
    Checked,
    Exit,
    Force,
    ToolCall,
    ToolResult,
    Usage,
    Verdict,
)
from think_agent.turn import Action


def test_every_exit_has_words():
    assert words.EXITS.keys() == set(get_args(Exit))
    assert words.ended("unmet") == "✗ NOT MET"
    assert (words.ended(None), words.ended("odd")) == ("… not ended", "odd")
    assert words.why_ended("truncated", "the server stopped").endswith("cause: the server stopped.")
    assert words.why_ended("odd") == ""


def acted(thought=None, failed=False):
    return Action(ToolCall("c", "pay"), ToolResult("c", "pay", "", is_error=failed), thought)


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ([], "no action"),
        ([acted("hm")], "1 action, behind a thought"),
        ([acted()], "1 action, none of them behind a thought"),
        ([acted("a"), acted("b")], "2 actions, each behind a thought"),
        ([acted("a"), acted()], "2 actions, 1 of them behind a thought"),
        ([acted("a", failed=True), acted("b")], "2 actions, 1 failed, each behind a thought"),
    ],
)
def test_how_many_actions_stand_behind_a_thought(actions, said):
    assert words.thought_of(actions) == said


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict("yes"), "approved"),
        (Verdict("no", reason="too much", by="Ada"), "denied by Ada: too much"),
        (Verdict("yes", arguments={}), "approved with other arguments"),
        (Verdict("quit", by="Bob"), "stopped by Bob"),
    ],
)
def test_a_decision_with_who_and_why(verdict, said):
    assert words.decided(verdict) == said


def test_checks_and_refusals():
    assert words.checked(Checked("mailed")) == "✓ mailed"
    assert words.checked(Checked("mailed", "no mail")) == "✗ mailed: no mail"
    assert words.refusal("gate") == "refused: no thought stood behind it"
    assert words.refusal("odd") == "refused: odd"


def test_what_was_asked_of_the_model():
    choices = ["auto", "required", "none", Force("think")]
    said = [words.asked(Assistant(tool_choice=choice)) for choice in choices]
    assert said == [
        "free to choose",
        "told to call a tool",
        "asked for closing words, without tools",
        "told to call think",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, ""), (0.004, "4 ms"), (0.05, "0.1 s"), (59.9, "59.9 s"), (60, "1 min 00 s")],
)
def test_a_time_span(seconds, said):
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (Usage(), ""),
        (Usage(1200, 34), "1,200 tokens in, 34 out"),
        (Usage(1200, 34, 1000), "1,200 tokens in (1,000 cached), 34 out"),
        (Usage(5, 0, estimated=True), "about 5 tokens in, 0 out"),
    ],
)
def test_tokens(usage, said):
    assert words.tokens(usage) == said


@pytest.mark.parametrize(
    ("result", "arguments", "said"),
    [
        ("plain words", None, "plain words"),
        (
            '{"id": "A", "days": 13, "ok": true, "late": false}',
            {"x": "A"},
            "13 days · ok · late: no",
        ),
        ('{"lines": [{"sku": "A", "price": {"cents": 5}}]}', None, "lines: A · price: 5 cents"),
        ('{"note": "", "none": null}', None, '{"note": "", "none": null}'),
        ('[1, {"id": 2}, []]', None, "1, id: 2, []"),
    ],
)
def test_what_matters_of_a_result(result, arguments, said):
    assert words.gave(result, arguments) == said
