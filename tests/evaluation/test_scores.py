"""Scores and comparisons, by values."""

import math

import pytest
from scipy.stats import binomtest

from tests.evaluation.values import (
    ALWAYS,
    FIRST,
    FLOOR,
    NEVER,
    ROWS,
    failed,
    result,
    results_of,
    scores_of,
)
from think_agent import Usage
from think_agent.evaluation.comparisons import QUESTIONS, compare, plan_comparisons
from think_agent.evaluation.intervals import find_paired_interval, sign_flip, wilson
from think_agent.evaluation.report import report_results
from think_agent.evaluation.scores import (
    FOUR_ROWS,
    PLAIN,
    Score,
    Setting,
    find_varying,
    name_settings,
)
from think_agent.policies import Price

# Scores.


@pytest.mark.parametrize(
    ("right", "shares"),
    [
        ({"a": "RR", "b": "RR"}, [1.0, 1.0]),
        ({"a": "R-", "b": "-R"}, [0.5, 0.0]),
        ({"a": "RR", "b": "R-"}, [0.75, 0.5]),
        ({"a": "RR--", "b": "RRRR"}, [0.75, 7 / 12, 0.5, 0.5]),  # by all draws of k of 4
        ({"a": "RRR", "b": "R"}, [1.0]),  # for as many trials as every case has
    ],
)
def test_pass_k_by_hand(right, shares):
    results = []
    for case, trials in right.items():
        for number, outcome in enumerate(trials):
            results.append(result(case, outcome == "R", trial=number))
    assert Score(results).pass_k == [(share, *wilson(2 * share, 2)) for share in shares]


def test_an_error_is_in_no_share_and_no_average():
    fine = result("a", True, model_calls=4, exit="signal", usage=Usage(1000, 100, 400))
    found = {FIRST: [fine, failed("b")]}
    [row] = report_results(found, {FIRST: Price(input=2, output=10)})[0].rows[1:]
    assert row == ["p", "1/1", "100.0% (20.7 to 100.0)", "4.0", "1,000 + 100", "$0.0030"]
    assert Score([failed("b")]).pass_k == []


@pytest.mark.parametrize("exit", ["signal", "silence", "unmet", "limit", "gave_up"])
def test_a_false_success_is_an_end_that_the_model_chose_while_the_world_says_no(exit):
    assert result("a", False, exit=exit).false_success == (exit in ("signal", "silence"))
    assert not result("a", True, exit=exit).false_success


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_a_price_is_a_number_from_0(value):
    with pytest.raises(ValueError, match=r"price output=.*: use a number from 0"):
        Price(input=0, output=value)


# Names.


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([Setting("openai:m")], ["openai:m"]),
        ([Setting("openai:a"), Setting("ollama:a")], ["openai:a", "ollama:a"]),
        ([FIRST, NEVER], ["force=first", "force=never"]),
        (
            [FIRST, Setting("p", advice="on", think="none")],
            ["advice=off, think=on", "advice=on, think=none"],
        ),
        ([Setting("openai:m"), FLOOR], ["openai:m", "floor:f"]),
        (ROWS, [row["row"] for row in FOUR_ROWS]),
        (
            [Setting("a", row="think", think="minimal"), Setting("b", row="prompt")],
            ["think, provider=a", "prompt, provider=b"],
        ),
    ],
)
def test_settings_are_called_by_what_sets_them_apart(settings, names):
    assert list(name_settings(settings).values()) == names


# Which comparisons.


def compared(settings) -> list[tuple[Setting, Setting]]:
    return [(one.setting, one.against) for one in plan_comparisons(settings)]


def test_settings_are_compared_where_one_thing_differs_and_one_has_its_first_value():
    accept = Setting("p", silence="accept")
    never = Setting("p", silence="accept", force="never")
    assert compared([FIRST, NEVER, ALWAYS]) == [(NEVER, FIRST), (ALWAYS, FIRST)]
    assert compared([FIRST, NEVER, accept, never]) == [
        (NEVER, FIRST),
        (accept, FIRST),
        (never, NEVER),
        (never, accept),
    ]
    assert compared([FIRST, NEVER, FLOOR]) == [(NEVER, FIRST)]


@pytest.mark.parametrize(
    ("row", "against", "thing"),
    [
        ("prompt", "baseline", "advice"),
        ("think", "baseline", "think"),
        ("extended thinking", "baseline", "reasoning"),
        ("think + prompt", "prompt", "think"),
        ("think + prompt", "think", "advice"),
    ],
)
def test_the_rows_differ_from_each_other_in_one_thing(row, against, thing):
    by_row = {setting.row: setting for setting in ROWS}
    assert find_varying(by_row[row], by_row[against]) == {thing}
    assert all(fields.keys() - {"row"} == PLAIN.keys() for fields in FOUR_ROWS)


def test_the_comparisons_of_the_rows_are_those_that_a_reader_of_the_article_wants():
    asked = {(one.setting.row, one.against.row): one.question for one in plan_comparisons(ROWS)}
    assert asked == {
        ("think + prompt", "baseline"): "Does the article's remedy help?",
        ("think + prompt", "extended thinking"): "Is it better than the model's own reasoning?",
        ("think + prompt", "prompt"): "What does the tool add to the prompt?",
        ("think", "baseline"): "What does the tool do without the prompt?",
        ("prompt", "baseline"): "What does the prompt do without the tool?",
    }
    without = [setting for setting in ROWS if setting.row != "extended thinking"]
    assert len(plan_comparisons(without)) == 4  # a model that does not reason


def test_rows_of_two_models_are_compared_each_with_its_own():
    both = [*ROWS, *(Setting("openai:n", **row) for row in FOUR_ROWS)]
    found = plan_comparisons(both)
    assert len(found) == 2 * len(QUESTIONS)
    assert all(one.setting.provider == one.against.provider for one in found)


# What they say.


def findings(results):
    return compare(scores_of(results))


def test_a_comparison_has_a_size_an_interval_and_a_p_value_raised_by_holm():
    right = {FIRST: "123456789", NEVER: "1", ALWAYS: "12345678"}
    first, second = findings(results_of(right, "1234567890"))
    assert first.comparison.setting == NEVER
    assert first.comparison.against == FIRST
    assert first.cases == 10
    assert first.difference == pytest.approx(-0.8)
    assert first.interval == find_paired_interval([-1] * 8 + [0] * 2, 1)
    assert first.p == pytest.approx(2 * binomtest(8, 8).pvalue)  # two comparisons: doubled
    assert first.is_clear
    assert not second.is_clear
    assert second.p == 1.0


def test_a_comparison_counts_the_trials_that_both_have_without_an_error():
    right = [result(case, True, trial=trial) for case in "vwxy" for trial in (1, 2)]
    other = [
        result("z", True, setting=NEVER),
        result("v", False, setting=NEVER),
        result("v", True, setting=NEVER, trial=2),
        failed("w", setting=NEVER),
        result("w", False, setting=NEVER, trial=2),
        failed("x", setting=NEVER),
        result("q", False, setting=NEVER),
    ]
    [finding] = findings({FIRST: [*right, failed("z")], NEVER: other})
    assert finding.cases == 2  # v and w
    assert finding.difference == pytest.approx(-(0.5 + 1) / 2)
    assert finding.interval == find_paired_interval([-0.5, -1], 0.5)
    assert finding.p == sign_flip([-1, -1])


def test_errors_alone_make_no_finding():
    [finding] = findings({FIRST: [result("a", True)], NEVER: [failed("a", setting=NEVER)]})
    assert finding.cases == 0
    assert finding.difference == 0.0
    assert finding.p == 1.0
    assert finding.interval == (-1.0, 1.0)


def test_a_script_is_never_tested_and_does_not_count_for_holm():
    model, other, script = Setting("openai:m"), Setting("openai:n"), Setting("offline:careful")
    results = results_of({model: "123456789", script: "1", other: "1"}, "1234567890")
    scripted, tested = findings(results)
    assert scripted.comparison.setting == script
    assert not scripted.is_clear
    assert tested.p == pytest.approx(binomtest(8, 8).pvalue)
    assert tested.is_clear
