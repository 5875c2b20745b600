"""The arithmetic of the evaluation, by values: against scipy, against counting, against models of
known rates; and its report.
"""

import io
import itertools
import math
import random
import re
from statistics import NormalDist

import numpy
import pytest
from rich.cells import cell_len
from rich.console import Console
from scipy.stats import binomtest, permutation_test

from think_agent import Usage
from think_agent.evaluation.comparisons import QUESTIONS, compare, planned
from think_agent.evaluation.intervals import (
    detectable,
    holm,
    paired_interval,
    pass_hat_k,
    sign_flip,
    trials_for,
    wilson,
)
from think_agent.evaluation.report import power, report
from think_agent.evaluation.scores import FOUR_ROWS, PLAIN, Result, Score, Setting, named, varying
from think_agent.evaluation.tables import markdown, show
from think_agent.policies import Price

# Statistics, against scipy and against counting.


@pytest.mark.parametrize("n", [1, 2, 7, 60, 1000])
def test_wilson_intervals_are_scipys(n):
    for right in {0, 1, n // 3, n // 2, n - 1, n}:
        theirs = binomtest(right, n).proportion_ci(method="wilson")
        assert wilson(right, n) == pytest.approx((theirs.low, theirs.high))


def test_nothing_is_known_of_no_cases():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("first", [0, 1, 5, 40])
@pytest.mark.parametrize("second", [0, 1, 6, 44])
@pytest.mark.parametrize("same", [0, 7])
def test_with_one_trial_a_sign_flip_is_mcnemars_exact_test(first, second, same):
    theirs = binomtest(first, first + second).pvalue if first + second else 1.0
    assert sign_flip([1] * first + [-1] * second + [0] * same) == pytest.approx(theirs)


@pytest.mark.parametrize("seed", range(5))
def test_a_sign_flip_is_scipys_exact_permutation_test(seed):
    rng = random.Random(seed)
    differences = [rng.randint(-3, 4) for _ in range(9)]
    theirs = permutation_test(
        (numpy.array(differences),), numpy.sum, permutation_type="samples", n_resamples=numpy.inf
    )
    assert sign_flip(differences) == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(
    ("better", "worse", "n"), [(0, 0, 10), (3, 1, 20), (30, 10, 60), (9, 9, 18)]
)
def test_with_one_trial_a_paired_interval_is_that_of_bonett_and_price(better, worse, n):
    first, second = (better + 1) / (n + 2), (worse + 1) / (n + 2)
    error = math.sqrt((first + second - (first - second) ** 2) / (n + 2))
    half = NormalDist().inv_cdf(0.975) * error
    differences = [1] * better + [-1] * worse + [0] * (n - better - worse)
    low, high = paired_interval(differences, 1)
    assert (low, high) == pytest.approx((first - second - half, first - second + half))


def test_a_paired_interval_stays_within_its_bounds():
    assert paired_interval([1], 1)[1] == 1.0
    assert paired_interval([-1], 1)[0] == -1.0


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_closed_test(seed):
    """The definition: one falls when each intersection that it is in falls, by Bonferroni."""
    rng = random.Random(seed)
    ps = [rng.random() ** 3 for _ in range(5)]
    ps[3] = ps[1]
    for index, raised in enumerate(holm(ps)):
        worst = 0.0
        for size in range(1, 6):
            for chosen in itertools.combinations(range(5), size):
                if index in chosen:
                    worst = max(worst, min(1.0, size * min(ps[i] for i in chosen)))
        assert raised == pytest.approx(worst)
    assert holm([]) == []


@pytest.mark.parametrize(("cases", "trials", "comparisons"), [(73, 1, 1), (120, 1, 5), (60, 4, 3)])
def test_a_difference_of_the_stated_size_is_found_two_times_in_three(cases, trials, comparisons):
    """With shares near one half, and all that Holm's first step asks."""
    seen = detectable(cases, trials, comparisons)
    rng, runs, found = random.Random(cases), 400, 0
    for _ in range(runs):
        differences = []
        for _ in range(cases):
            first = sum(rng.random() < 0.5 + seen / 2 for _ in range(trials))
            second = sum(rng.random() < 0.5 - seen / 2 for _ in range(trials))
            differences.append(first - second)
        found += sign_flip(differences) * comparisons < 0.05
    assert 0.58 <= found / runs <= 0.78


def test_the_stated_power_in_figures():
    """73 cases were said to show 20 points with one trial, and the article's 7 with eight."""
    assert detectable(73, 1) == pytest.approx(0.21, abs=0.01)
    assert trials_for(0.07, 73) in (8, 9)
    assert detectable(73, trials_for(0.07, 73)) <= 0.07
    assert detectable(1, 1) == 1.0


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


def test_an_error_on_the_way_is_in_no_share_and_no_average():
    fine = result("a", True, model_calls=4, seconds=2.0, exit="signal", usage=Usage(1000, 100, 400))
    score = Score([fine, result("b", False, error="busy")], Price(input=2, output=10))
    assert (score.pass_k[0][0], len(score.ran), score.cases) == (1.0, 1, 1)
    assert (score.total("model_calls"), score.total("seconds")) == (4, 2.0)
    assert score.exits == {"signal": 1, "error": 1}
    assert score.cost == pytest.approx(1000 * 2e-6 + 100 * 10e-6)
    assert Score([result("b", False, error="busy")]).pass_k == []


def test_a_false_success_is_an_end_that_the_model_chose_while_the_world_says_no():
    ends = {"signal": True, "silence": True, "unmet": False, "limit": False, "gave_up": False}
    for exit, said_done in ends.items():
        assert result("a", False, exit=exit).false_success == said_done
        assert not result("a", True, exit=exit).false_success


# Comparisons: which, and what they say.


def test_settings_are_compared_where_one_thing_differs_and_one_has_its_first_value():
    settings = [Setting("p", force=f, silence=s) for s in ("confirm", "accept") for f in FORCES]
    found = [(c.setting, c.against) for c in planned(settings)]
    for setting, against in found:
        [name] = varying((setting, against))
        assert getattr(against, name) == getattr(settings[0], name)
    # For each kind of silence two forces against the first; for each force, one silence.
    assert len(found) == len(set(found)) == 2 * 2 + 3
    floor = Setting("offline:f", is_floor=True, row="f")
    assert planned([*settings, floor]) == planned(settings)


def results_of(right: dict[Setting, str], cases: str) -> dict[Setting, list[Result]]:
    return {s: [result(n, n in right[s], setting=s) for n in cases] for s in right}


def test_a_comparison_has_a_size_an_interval_and_a_p_value_raised_by_holm():
    a, b, c = (Setting("p", force=force) for force in FORCES)
    results = results_of({a: "123456789", b: "1", c: "12345678"}, "1234567890")
    first, second = compare(results, planned([a, b, c]))
    assert (first.comparison.setting, first.comparison.against) == (b, a)
    assert (first.cases, first.difference) == (10, pytest.approx(-0.8))
    assert first.interval == paired_interval([-1] * 8 + [0] * 2, 1)
    assert first.p == pytest.approx(2 * binomtest(8, 8).pvalue)  # two comparisons: doubled
    assert (first.is_clear, second.is_clear) == (True, False)
    assert second.p == 1.0


def test_a_comparison_counts_the_trials_that_both_have_without_an_error():
    a, b = Setting("p"), Setting("p", force="never")
    results = {
        a: [
            *[result(case, True, setting=a, trial=trial) for case in "vwxy" for trial in (1, 2)],
            result("z", False, setting=a, trial=1, error="busy"),
        ],
        b: [
            result("z", True, setting=b, trial=1),
            result("v", False, setting=b, trial=1),
            result("v", True, setting=b, trial=2),
            result("w", False, setting=b, trial=1, error="busy"),
            result("w", False, setting=b, trial=2),
            result("x", False, setting=b, trial=1, error="busy"),
            result("q", False, setting=b, trial=1),
        ],
    }
    [finding] = compare(results, planned([a, b]))
    assert finding.cases == 2  # v and w
    assert finding.difference == pytest.approx(-(0.5 + 1) / 2)
    assert finding.interval == paired_interval([-0.5, -1], 0.5)
    assert finding.p == sign_flip([-1, -1])


def test_errors_alone_make_no_finding():
    good, busy = Setting("p", reasoning="off"), Setting("p", reasoning="medium")
    cases = [str(number) for number in range(73)]
    errors = {str(number) for number in range(12)}
    results = {
        good: [result(case, True, setting=good) for case in cases],
        busy: [
            result(c, c not in errors, setting=busy, error="429" * (c in errors)) for c in cases
        ],
    }
    [finding] = compare(results, planned([good, busy]))
    assert (finding.cases, finding.difference, finding.p) == (61, 0.0, 1.0)
    said = report(results)[-1].remark
    assert "No difference is shown" in said
    assert "reasoning=medium: 12 of 73 runs ended in an error, not counted: 429" in said


def test_what_a_script_does_is_never_tested_and_not_counted_among_the_tests():
    a, b, c = Setting("openai:m"), Setting("openai:n"), Setting("offline:careful")
    results = results_of({a: "123456789", b: "1", c: "1"}, "1234567890")
    ps = {f.comparison.setting: f.p for f in compare(results, planned([a, c, b]))}
    assert ps == {b: pytest.approx(binomtest(8, 8).pvalue), c: None}


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
    return report(results_of(right, cases))[-1].remark.splitlines()


def test_the_report_ends_with_what_is_a_finding_and_how_little_n_is():
    hasty, careful = Setting("ollama:hasty"), Setting("ollama:careful")
    cases = "abcdefghijklmnopqrstuvwxyz"
    [verdict, little] = sentences({hasty: cases[:3], careful: cases[1:]}, cases)
    low, high = paired_interval([-1] + [1] * 23 + [0] * 2, 1)
    assert verdict == (
        "careful is better than hasty: +85 points on 26 cases "
        f"(95\u00a0% interval {100 * low:+.0f} to {100 * high:+.0f}; p < 0.001)."
    )
    assert (round(100 * low), round(100 * high)) == (58, 99)
    low, high = wilson(13, 26)
    assert little == "n is 26 cases: a share near one half is known to ± 18 points."
    assert round((high - low) / 2 * 100) == 18
    [verdict, _] = sentences({careful: cases[1:], hasty: cases[:3]}, cases)
    assert verdict.startswith("hasty is worse than careful: -85 points on 26 cases (")
    [verdict, _] = sentences({hasty: "abd", careful: "abc"}, "abcd")
    assert verdict.startswith("No difference is shown between careful and hasty: +0 points on 4")
    assert "; p = 1)." in verdict


@pytest.mark.parametrize(
    ("first", "second", "points"), [("abcdefghi", "j", -80), ("abc", "abd", 0)]
)
def test_between_scripts_alone_nothing_is_tested(first, second, points):
    """However clear it is, or however little: it would be the same the next time."""
    good, bad = Setting("offline:careful"), Setting("offline:hasty")
    [verdict, last] = sentences({good: first, bad: second}, "abcdefghij")
    assert verdict == f"hasty against careful: {points:+} points on 10 cases, not tested."
    assert last == "Nothing is tested for significance: chance has no part in what a script does."


def test_what_is_wrong_with_the_results_is_said():
    a, b = Setting("p"), Setting("p", force="never")
    results = {
        a: [result(case, True, setting=a, served=("m-1",)) for case in "abc"],
        b: [
            result("a", True, setting=b, served=("m-1",)),
            result("b", True, setting=b, served=("m-2",)),
        ],
    }
    said = report(results)[-1].remark.splitlines()
    assert "force=never: there are results of 2 of 3 cases only." in said
    assert "force=never: answered by several models: m-1, m-2." in said
    assert not any(line.startswith("force=first: ") for line in said)


def test_the_power_is_said_in_a_sentence():
    assert power(120, 1, 5) == (
        "With 120 cases and 1 trial of each, a difference of "
        f"{100 * detectable(120, 1, 5):.0f} points is found two times in three (there are 5 "
        f"comparisons); one of 7 points takes {trials_for(0.07, 120, 5)} trials."
    )
    assert power(1000, 8, 1) == (
        "With 1,000 cases and 8 trials of each, a difference of 2 points is found two times in "
        "three."
    )


# The tables.


COLUMNS = {
    "right": "3/4",
    "pass^1": "75.0% (30.1 to 95.4)",
    "said done": "1",
    "wrong writes": "2",
    "calls": "5.0",
    "tokens": "1,100 + 50",
    "cost": "$0.0016",
    "actions behind a thought": "6/8 (75%)",
    "forced calls honored": "3/4 (75%)",
    "exits": "signal 3, silence 1",
    "cached": "600",
    "seconds": "1.50",
    "kinds": "k 1/2, l 2/2",
}


def test_every_cell_of_every_table_is_what_was_counted():
    setting = Setting("openai:m")
    how = {"actions": 2, "forced": 1, "model_calls": 5, "seconds": 1.5, "setting": setting}
    usage = Usage(1100, 50, 600)
    good = {"exit": "signal", "behind_a_thought": 2, "honored": 1, "usage": usage, **how}
    own = [
        result("a", True, kind="k", **good),
        result("b", False, kind="k", exit="silence", wrong_writes=2, usage=usage, **how),
        result("c", True, kind="l", **good),
        result("d", True, kind="l", **good),
    ]
    price = Price(input=1, output=10)
    decisions, effort, kinds, _ = report({setting: own}, {setting: price})
    cells = {}
    for section in (decisions, effort):
        header, row = section.rows
        cells |= dict(zip(header[1:], row[1:], strict=True))
    assert kinds.rows[0] == ["setting", "right"]
    cells["kinds"] = kinds.rows[1][1]
    assert cells == COLUMNS


def test_a_column_is_left_out_only_where_nothing_was_counted():
    a, b = Setting("p"), Setting("p", force="never")
    found = {a: [result("x", True, setting=a)], b: [result("x", False, setting=b)]}
    [header, *_] = report(found)[0].rows
    assert header == ["setting", "right", "pass^1"]
    found[b] = [result("x", False, setting=b, wrong_writes=1)]
    [header, *rows] = report(found)[0].rows
    assert header == ["setting", "right", "pass^1", "wrong writes"]
    assert [row[-1] for row in rows] == ["0", "1"]


def test_settings_are_called_by_what_sets_them_apart():
    def names(*settings):
        return list(named(settings).values())

    assert names(Setting("openai:m")) == ["m"]
    assert names(Setting("openai:a"), Setting("openai:b")) == ["a", "b"]
    assert names(Setting("openai:a"), Setting("ollama:a")) == ["openai:a", "ollama:a"]
    assert names(Setting("p"), Setting("p", force="never")) == ["force=first", "force=never"]
    assert names(Setting("p"), Setting("p", advice="on", think="none")) == [
        "think=on, advice=off",
        "think=none, advice=on",
    ]
    floor = Setting("offline:f", row="f", is_floor=True)
    assert names(Setting("openai:m"), floor) == ["m", "floor: f"]


def test_what_is_the_same_for_all_is_said_once():
    usual, other = Setting("p", think="minimal"), Setting("p", think="minimal", force="never")
    floor = Setting("offline:f", row="f", is_floor=True, think="none")
    results = results_of({usual: "a", other: "", floor: ""}, "ab")
    assert report(results)[0].remark.endswith("; the same for all: provider=p, think=minimal")


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


def test_a_paired_interval_holds_the_known_difference_as_often_as_it_says():
    """Cases are easy or hard, the same for both; one setting is better by 13 points."""
    rng, runs = random.Random(5), 400
    for trials in (1, 4):
        held = 0
        for _ in range(runs):
            results = {}
            rates = [0.7 if rng.random() < 0.6 else 0.2 for _ in range(80)]
            for setting, more in ((Setting("p"), 0.0), (Setting("p", force="never"), 0.13)):
                results[setting] = [
                    result(str(n), rng.random() < rate + more, setting=setting, trial=trial)
                    for n, rate in enumerate(rates)
                    for trial in range(trials)
                ]
            [finding] = compare(results, planned(list(results)))
            low, high = finding.interval
            held += low <= 0.13 <= high
        assert binomtest(held, runs, 0.95).pvalue > 0.001


def test_models_of_one_rate_are_told_apart_no_oftener_than_by_chance_and_others_are():
    rng, runs = random.Random(11), 200
    same = different = 0
    settings = [Setting("p", force=force) for force in FORCES]
    comparisons = planned(settings)
    for _ in range(runs):
        equal = {setting: drawn(rng, setting, 0.6, 40, 1) for setting in settings}
        same += any(finding.is_clear for finding in compare(equal, comparisons))
        equal[settings[0]] = drawn(rng, settings[0], 0.95, 40, 1)
        different += compare(equal, comparisons)[0].is_clear
    assert same / runs <= 0.05
    assert different / runs > 0.9


# The rows of the article.

ROWS = [Setting("openai:m", **row) for row in FOUR_ROWS]
ROW = {setting.row: setting for setting in ROWS}


def test_the_rows_differ_from_each_other_in_one_thing():
    for name, (against, thing) in {
        "prompt": ("baseline", "advice"),
        "think": ("baseline", "think"),
        "extended thinking": ("baseline", "reasoning"),
    }.items():
        assert varying((ROW[name], ROW[against])) == [thing]
    assert varying((ROW["think + prompt"], ROW["prompt"])) == ["think"]
    assert varying((ROW["think + prompt"], ROW["think"])) == ["advice"]
    assert all(row.keys() - {"row"} == PLAIN.keys() for row in FOUR_ROWS)


def test_the_comparisons_of_the_rows_are_those_that_a_reader_of_the_article_wants():
    found = [(c.setting.row, c.against.row, c.question) for c in planned(ROWS)]
    assert found == list(QUESTIONS)
    assert [pair[:2] for pair in found[:2]] == [
        ("think + prompt", "baseline"),
        ("think + prompt", "extended thinking"),
    ]
    assert len(planned(ROWS[:-1])) == 4  # a model that does not reason
    two = [*ROWS, *(Setting("openai:n", **row) for row in FOUR_ROWS)]
    assert {"baseline, m", "think + prompt, n"} < set(named(two).values())
    assert len(planned(two)) == 10
    assert all(c.setting.provider == c.against.provider for c in planned(two))


CASES = [str(number) for number in range(40)]


@pytest.mark.parametrize(
    ("right", "cause"),
    [
        ((20, 20, 20, 20, 20), "neither tool nor prompt, as far as this run can show"),
        ((20, 20, 36, 36, 20), "the tool"),
        ((20, 20, 20, 36, 20), "the tool"),
        ((20, 36, 20, 36, 20), "the prompt"),
        ((10, 24, 24, 38, 10), "the tool and the prompt"),
        ((20, 26, 26, 32, 20), "tool and prompt together; which of them, is not shown"),
    ],
)
def test_the_cause_is_named(right, cause):
    """Nested: whoever is right on more cases is right on those of the others, too."""
    results = {}
    for setting, count in zip(ROWS, right, strict=True):
        results[setting] = [result(c, int(c) < count, setting=setting) for c in CASES]
    said = report(results)[-1].remark.splitlines()
    assert said[-2] == f"What made a difference: {cause}."
    for line, (_, _, question) in zip(said, QUESTIONS, strict=False):
        assert line.startswith(f"{question} ")
    if cause == "the prompt":
        assert said[2].startswith("What does the tool add to the prompt? No difference is shown")
        assert "prompt is better than baseline: +40 points on 40 cases" in said[4]


def test_each_model_has_a_cause_of_its_own():
    results = {}
    for provider, count in (("openai:m", 36), ("openai:n", 20)):
        for row in FOUR_ROWS:
            setting = Setting(provider, **row)
            more = count if row["think"] == "minimal" else 20
            results[setting] = [result(c, int(c) < more, setting=setting) for c in CASES]
    said = report(results)[-1].remark.splitlines()
    assert said[-3:-1] == [
        "What made a difference: the tool.",
        "What made a difference: neither tool nor prompt, as far as this run can show.",
    ]
