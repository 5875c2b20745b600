"""The wording for what happened, by values."""

from typing import get_args

import pytest

from think_agent.audit import words
from think_agent.messages import (
    Checked,
    Exit,
    Force,
    ToolCall,
    ToolResult,
    Usage,
    Verdict,
)
from think_agent.outcome import describe_actions
from think_agent.turn import Action


def test_every_exit_has_a_text():
    assert words.EXITS.keys() == set(get_args(Exit))
    assert words.say_end("unmet") == "✗ NOT MET"
    assert words.say_end(None) == "… not ended"
    assert words.say_end("odd") == "odd"
    assert words.why_ended("truncated", "the server stopped").endswith("cause: the server stopped.")
    assert words.why_ended("odd") == ""


def acted(thought=None, failed=False, in_doubt=False):
    result = ToolResult("c", "pay", "", is_error=failed or in_doubt, in_doubt=in_doubt)
    return Action(ToolCall("c", "pay"), result, thought)


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        ([], "no action"),
        ([acted("hm")], "1 action, after a thought"),
        ([acted()], "1 action, none of them after a thought"),
        ([acted("a"), acted("b")], "2 actions, each after a thought"),
        ([acted("a"), acted()], "2 actions, 1 of them after a thought"),
        ([acted("a", failed=True), acted("b")], "2 actions, 1 failed, each after a thought"),
        ([acted("a", in_doubt=True)], "1 action, 1 may have happened, after a thought"),
    ],
)
def test_how_many_actions_stand_behind_a_thought(actions, text):
    assert describe_actions(actions) == text


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Verdict("yes"), "approved"),
        (Verdict("no", reason="too much", by="Ada"), "denied by Ada: too much"),
        (Verdict("yes", arguments={}, edited=True), "approved with other arguments"),
        (Verdict("quit", by="Bob"), "stopped by Bob"),
    ],
)
def test_a_decision_with_who_and_why(verdict, text):
    assert words.say_decision(verdict) == text


def test_checks_and_refusals():
    assert words.say_check(Checked("mailed")) == "mailed"
    assert words.say_check(Checked("by_mail", "no mail")) == "by mail: no mail"
    assert words.refusal("gate") == "refused: no thought justified it"
    assert words.refusal("odd") == "refused: odd"


def test_the_tool_choice_as_text():
    choices = ["auto", "required", "none", Force("think")]
    text = [words.say_choice(choice) for choice in choices]
    assert text == [
        "free to choose",
        "asked to call a tool",
        "asked for closing words, without tools",
        "asked to call think",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, ""), (0.004, "4 ms"), (0.05, "0.1 s"), (59.9, "59.9 s"), (60, "1 min 00 s")],
)
def test_a_time_span(seconds, text):
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), ""),
        (Usage(1200, 34), "1,200 tokens in, 34 out"),
        (Usage(1200, 34, 1000), "1,200 tokens in (1,000 cached), 34 out"),
        (Usage(5, 0, estimated=True), "about 5 tokens in, 0 out"),
    ],
)
def test_tokens(usage, text):
    assert words.tokens(usage) == text


@pytest.mark.parametrize(
    ("result", "arguments", "text"),
    [
        ("plain words", None, "plain words"),
        ("x" * 200, None, "x" * 200),
        ("x" * 201, None, "x" * 199 + "…"),
        (
            '{"id": "A", "days": 13, "ok": true, "late": false}',
            {"x": "A"},
            "13 days · ok: yes · late: no",
        ),
        ('{"lines": [{"sku": "A", "price": {"cents": 5}}]}', None, "lines: A · price: 5 cents"),
        ('{"note": "", "none": null}', None, '{"note": "", "none": null}'),
        ('[1, {"id": 2}, []]', None, "1, id: 2, []"),
    ],
)
def test_a_result_on_one_line(result, arguments, text):
    assert words.gave(result, arguments) == text
