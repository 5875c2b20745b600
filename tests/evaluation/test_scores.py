"""The arithmetic of the evaluation, by values: against scipy, against counting, against models of
known rates; and its tables.
"""

import io
import itertools
import math
import random
import re

import pytest
from rich.cells import cell_len
from rich.console import Console
from scipy.stats import binomtest

from think_agent import Usage
from think_agent.evaluation.intervals import mcnemar, pass_hat_k, wilson
from think_agent.evaluation.scores import FOUR_ROWS, Result, Score, Setting, compare, named
from think_agent.evaluation.tables import markdown, report, show
from think_agent.policies import Price

# Statistics, against scipy and against counting.


@pytest.mark.parametrize("n", [1, 2, 7, 60, 1000])
def test_wilson_intervals_are_scipys(n):
    for right in {0, 1, n // 3, n // 2, n - 1, n}:
        theirs = binomtest(right, n).proportion_ci(method="wilson")
        assert wilson(right, n) == pytest.approx((theirs.low, theirs.high))


def test_nothing_is_known_of_no_cases():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("first", [0, 1, 5, 40, 900])
@pytest.mark.parametrize("second", [0, 1, 6, 44, 1000])
def test_mcnemar_is_scipys_exact_test(first, second):
    theirs = binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(theirs)
    assert mcnemar(first, second, 3) == pytest.approx(min(1.0, 3 * theirs))


@pytest.mark.parametrize(("right", "trials"), [(0, 4), (3, 4), (4, 4), (2, 5)])
def test_pass_hat_k_is_the_share_of_draws_that_are_all_right(right, trials):
    outcomes = [True] * right + [False] * (trials - right)
    for k in range(1, trials + 1):
        draws = list(itertools.combinations(outcomes, k))
        assert pass_hat_k(right, trials, k) == pytest.approx(sum(map(all, draws)) / len(draws))


# Scores, by values.


def result(case, right, *, setting=None, trial=1, **figures):
    setting = setting or Setting("p")
    return Result(setting=setting, case=case, trial=trial, right=right, **figures)


def test_trials_of_a_case_are_no_further_cases():
    once = Score([result(case, case != "a") for case in "abcd"])
    thrice = Score([result(case, case != "a", trial=n) for case in "abcd" for n in (1, 2, 3)])
    assert once.pass_k[0] == thrice.pass_k[0] == (0.75, wilson(3, 4))


def test_a_model_that_is_right_now_and_then_has_a_low_pass_k():
    shaky = Score([result(case, n == 1, trial=n) for case in "abcd" for n in (1, 2)])
    assert shaky.pass_k == [(0.5, wilson(2, 4)), (0.0, wilson(0, 4))]


def test_an_error_on_the_way_counts_as_wrong_and_not_in_the_averages():
    fine = result("a", True, model_calls=4, seconds=2.0, exit="signal", usage=Usage(1000, 100, 400))
    figures = Score([fine, result("b", False, error="busy")], Price(input=2, output=10))
    assert (figures.pass_k[0][0], len(figures.ran)) == (0.5, 1)
    assert (figures.total("model_calls"), figures.total("seconds")) == (4, 2.0)
    assert figures.exits == {"signal": 1, "error": 1}
    assert figures.cost == pytest.approx(1000 * 2e-6 + 100 * 10e-6)


def test_settings_are_compared_where_one_thing_differs():
    a, b = Setting("p"), Setting("p", force="never")
    c = Setting("q", force="never")
    right = {a: "123456789", b: "1", c: "12"}
    results = {s: [result(n, n in right[s], setting=s) for n in "1234567890"] for s in right}
    pairs = {(one.first, one.second): one for one in compare(results)}
    assert pairs.keys() == {(a, b), (b, c)}  # a and c differ in two
    assert (pairs[a, b].first_better, pairs[a, b].second_better) == (8, 0)
    assert pairs[a, b].p == pytest.approx(2 * binomtest(8, 8).pvalue)  # two comparisons: doubled
    assert pairs[b, c].p == 1.0


def test_markdown_rows_have_as_many_cells_as_their_header():
    odd = Setting("openai:a|b\nc\x1b[31m模型")
    found = {odd: [result("a", True, setting=odd)], Setting("p"): [result("a", False)]}
    text = markdown(report(found))
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
        assert len({cell_len(line) for line in table.splitlines()}) == 1
    assert "\x1b" not in text
    assert "No difference is shown" in text
    assert all(line == line.strip() for line in text.splitlines())


def sentences(right: dict[Setting, str], cases: str) -> list[str]:
    """The last lines of the report on settings that are right on these cases."""
    found = {s: [result(n, n in right[s], setting=s) for n in cases] for s in right}
    return report(found)[-1].remark.splitlines()


def test_the_report_ends_with_what_is_a_finding_and_how_little_n_is():
    good, bad = Setting("ollama:careful"), Setting("ollama:hasty")
    cases = "abcdefghijklmnopqrstuvwxyz"
    [verdict, little] = sentences({good: cases[1:], bad: cases[:3]}, cases)
    assert verdict == "careful beat hasty in 23 of the 24 cases that differ (p < 0.001)."
    low, high = wilson(13, 26)
    assert little == "n is 26 cases: a share near one half is known to ± 18 points."
    assert round((high - low) / 2 * 100) == 18
    [verdict, _] = sentences({good: "abc", bad: "abd"}, "abcd")
    assert verdict.startswith("No difference is shown between careful and hasty: ")
    [verdict, _] = sentences({good: "ab", bad: "ab"}, "abcd")
    assert verdict == "Equally well on every case: careful and hasty."


@pytest.mark.parametrize(("first", "second"), [("abcdefghi", "j"), ("abc", "abd")])
def test_between_scripts_alone_nothing_is_tested(first, second):
    """However clear it is, or however little: it would be the same the next time."""
    good, bad = Setting("offline:careful"), Setting("offline:hasty")
    [verdict, last] = sentences({good: first, bad: second}, "abcdefghij")
    assert re.fullmatch(r"careful beat hasty in \d of the \d+ cases that differ\.", verdict)
    assert last == "Nothing is tested for significance: chance has no part in what a script does."


def test_a_column_is_left_out_only_where_nothing_was_counted():
    a, b = Setting("p"), Setting("p", force="never")
    found = {a: [result("x", True, setting=a)], b: [result("x", False, setting=b)]}
    tables = {section.name: section.rows for section in report(found)}
    columns = set(tables["Decisions"][0])
    assert "right" in columns - {"cost", "wrong writes"} == columns


def test_settings_are_called_by_what_sets_them_apart():
    def names(*settings):
        return list(named(settings).values())

    assert names(Setting("openai:m")) == ["m"]
    assert names(Setting("openai:a"), Setting("openai:b")) == ["a", "b"]
    assert names(Setting("openai:a"), Setting("ollama:a")) == ["openai:a", "ollama:a"]
    assert names(Setting("p"), Setting("p", force="never")) == ["force=first", "force=never"]
    assert names(Setting("p"), Setting("p", instructions="plain", think="none")) == [
        "think=on, instructions=default",
        "think=none, instructions=plain",
    ]


FORCES = ("never", "first", "always")


def many_results(count):
    settings = [Setting(f"provider-{n}", force=force) for n in range(count) for force in FORCES]
    return {s: [result(case, True, setting=s, exit="signal") for case in "ab"] for s in settings}


@pytest.mark.parametrize("width", [40, 60, 100, 140])
@pytest.mark.parametrize("count", [1, 4])
def test_a_terminal_gets_all_of_the_tables_and_no_line_wider_than_itself(width, count):
    sections = report(many_results(count))
    out = io.StringIO()
    show(sections, Console(file=out, force_terminal=True, width=width, color_system=None))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).replace("|", " ").split())
    for section in sections:
        assert " ".join(section.name.split()) in words
        for cell in itertools.chain(*section.rows):
            assert all(word in words for word in cell.split()), cell


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "1", None])
def test_a_price_is_a_number_from_0(value):
    with pytest.raises(ValueError, match=r"price output=.*: use a number from 0"):
        Price(input=0, output=value)


# Models whose rates are known.


def drawn(rng: random.Random, setting: Setting, rate: float, cases: int, trials: int):
    """The results of a model that is right in a share `rate` of its trials, on any case."""
    return [
        result(str(case), rng.random() < rate, setting=setting, trial=trial)
        for case in range(cases)
        for trial in range(1, trials + 1)
    ]


def test_intervals_hold_the_known_rate_as_often_as_they_say():
    rng, held, steady, runs = random.Random(7), 0, 0, 400
    for _ in range(runs):
        one = Score(drawn(rng, Setting("p"), 0.8, 40, 1))
        [(_, (low, high))] = one.pass_k
        held += low <= 0.8 <= high
        share, (low, high) = Score(drawn(rng, Setting("p"), 0.8, 40, 3)).pass_k[-1]
        steady += low <= 0.8**3 <= high
        assert low <= share <= high
    for times in (held, steady):  # of 400, as far from 95 % as chance brings it
        assert binomtest(times, runs, 0.95).pvalue > 0.001


def test_models_of_one_rate_are_told_apart_no_oftener_than_by_chance_and_others_are():
    rng, runs = random.Random(11), 200
    same = different = 0
    for _ in range(runs):
        a, b = Setting("p"), Setting("p", force="never")
        (pair,) = compare({a: drawn(rng, a, 0.6, 40, 1), b: drawn(rng, b, 0.6, 40, 1)})
        same += pair.p < 0.05
        (pair,) = compare({a: drawn(rng, a, 0.9, 40, 1), b: drawn(rng, b, 0.3, 40, 1)})
        different += pair.p < 0.05
    assert same / runs <= 0.05
    assert different / runs > 0.95


def test_the_four_rows_are_called_as_in_the_article_and_paired_where_one_thing_differs():
    rows = [Setting("openai:m", **row) for row in FOUR_ROWS]
    results = {s: [result(n, True, setting=s) for n in "abc"] for s in rows}
    names = named(rows)
    assert [(names[p.first], names[p.second]) for p in compare(results)] == [
        ("baseline", "think"),
        ("baseline", "extended thinking"),
        ("think", "think + prompt"),
    ]
    two = [*rows, *(Setting("openai:n", **row) for row in FOUR_ROWS)]
    assert {"baseline, m", "think + prompt, n"} < set(named(two).values())
