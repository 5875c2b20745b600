"""The formulas give the results of scipy, of counting, and of models with known rates."""

import itertools
import math
import random
from statistics import NormalDist

import numpy
import pytest
from scipy.stats import binomtest, permutation_test

from think_agent.evaluation.intervals import (
    detectable,
    find_paired_interval,
    holm,
    sign_flip,
    wilson,
)

RUNS = 400


@pytest.mark.parametrize("n", [1, 2, 7, 60, 1000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 1.0])
def test_wilson_intervals_are_scipys(n, share):
    right = round(share * n)
    theirs = binomtest(right, n).proportion_ci(method="wilson")
    assert wilson(right, n) == pytest.approx((theirs.low, theirs.high))


def test_without_cases_nothing_is_known():
    assert wilson(0, 0) == (0.0, 1.0)
    assert find_paired_interval([], 1) == (-1.0, 1.0)
    assert sign_flip([]) == 1.0
    assert holm([]) == []


@pytest.mark.parametrize(
    ("better", "worse"), [(1, 0), (5, 1), (40, 6), (0, 44), (5, 5), (40, 44), (1, 6)]
)
def test_with_one_trial_a_sign_flip_is_mcnemars_exact_test(better, worse):
    differences = [1] * better + [-1] * worse + [0] * 7
    assert sign_flip(differences) == pytest.approx(binomtest(better, better + worse).pvalue)


@pytest.mark.parametrize("seed", range(5))
def test_a_sign_flip_is_scipys_exact_permutation_test(seed):
    differences = random.Random(seed).choices(range(-3, 5), k=9)
    sample = (numpy.array(differences),)
    theirs = permutation_test(sample, numpy.sum, permutation_type="samples", n_resamples=numpy.inf)
    assert sign_flip(differences) == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(
    ("better", "worse", "n"), [(0, 0, 10), (3, 1, 20), (30, 10, 60), (9, 9, 18)]
)
def test_with_one_trial_a_paired_interval_is_that_of_bonett_and_price(better, worse, n):
    first = (better + 1) / (n + 2)
    second = (worse + 1) / (n + 2)
    error = math.sqrt((first + second - (first - second) ** 2) / (n + 2))
    half = NormalDist().inv_cdf(0.975) * error
    differences = [1] * better + [-1] * worse + [0] * (n - better - worse)
    low, high = find_paired_interval(differences, 1)
    assert (low, high) == pytest.approx((first - second - half, first - second + half))


def test_a_paired_interval_stays_within_its_bounds():
    assert find_paired_interval([1], 1)[1] == 1.0
    assert find_paired_interval([-1], 1)[0] == -1.0


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_closed_test(seed):
    """The definition: reject one if Bonferroni rejects each intersection that contains it."""
    rng = random.Random(seed)
    ps = [rng.random() ** 3 for _ in range(5)]
    ps[3] = ps[1]
    expected = [0.0] * 5
    for size in range(1, 6):
        for chosen in itertools.combinations(range(5), size):
            bonferroni = min(1.0, size * min(ps[index] for index in chosen))
            for index in chosen:
                expected[index] = max(expected[index], bonferroni)
    assert holm(ps) == pytest.approx(expected)


def rates(kind: str, gain: float, cases: int, rng) -> tuple[numpy.ndarray, numpy.ndarray]:
    """How often two settings are right in each case. The second one is better by `gain`."""
    is_solved = rng.random(cases) < gain
    match kind:
        case "a coin for each":
            first = numpy.full(cases, 0.5 - gain / 2)
            return first, first + gain
        case "easy and hard":
            first = rng.uniform(0, 1 - gain, cases)
            return first, first + gain
        case "steady, some solved":
            first = numpy.where(is_solved | (rng.random(cases) < 0.5), 0.02, 0.98)
            return first, numpy.where(is_solved, 0.98, first)
        case "coins, some solved":
            return numpy.where(is_solved, 0.0, 0.5), numpy.where(is_solved, 1.0, 0.5)
    raise ValueError(kind)


KINDS = ("a coin for each", "easy and hard", "steady, some solved", "coins, some solved")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("cases", "trials", "comparisons"), [(60, 1, 5), (60, 8, 5), (24, 4, 1)])
def test_a_gain_of_the_stated_size_is_found_two_times_in_three_or_oftener(
    kind, cases, trials, comparisons
):
    """Whatever the model, if no case gets worse. In the last kind it is not much oftener."""
    rng = numpy.random.default_rng(cases + trials)
    gain = detectable(cases, trials, comparisons)
    found = 0
    for _ in range(RUNS):
        first, second = rates(kind, gain, cases, rng)
        differences = rng.binomial(trials, second) - rng.binomial(trials, first)
        found += sign_flip(differences.tolist()) * comparisons < 0.05
    assert binomtest(found, RUNS, 2 / 3, alternative="less").pvalue > 0.001
    if kind == KINDS[-1]:
        assert found / RUNS <= 0.9


def test_the_mean_square_of_the_power_is_the_largest_there_is():
    """By trying rates at random: none with the same gain varies more."""
    rng = numpy.random.default_rng(1)
    for _ in range(RUNS):
        trials = int(rng.integers(1, 9))
        first, second = numpy.sort(rng.random((2, 5)), axis=0)  # no case gets worse
        gain = numpy.mean(second - first)
        chance = first * (1 - first) + second * (1 - second)
        square = numpy.mean((second - first) ** 2 + chance / trials)
        assert square <= gain + (1 - gain) / (2 * trials) + 1e-12


def test_the_stated_power_by_numbers():
    """With 60 cases and five comparisons. More trials help; beyond that, only more cases do."""
    points = [100 * detectable(60, trials, 5) for trials in (1, 4, 8, 100, math.inf)]
    assert points == pytest.approx([33.1, 23.5, 20.7, 17.1, 16.7], abs=0.1)
    more_cases = [100 * detectable(cases, math.inf, 5) for cases in (60, 120, 240)]
    assert more_cases == pytest.approx([16.7, 8.4, 4.2], abs=0.1)


@pytest.mark.parametrize(("cases", "comparisons"), [(5, 1), (6, 2), (7, 5)])
def test_with_so_few_cases_not_even_the_same_sign_in_all_of_them_is_clear(cases, comparisons):
    assert detectable(cases, 100, comparisons) == math.inf
    assert comparisons * sign_flip([1] * cases) >= 0.05
    assert comparisons * sign_flip([1] * (cases + 1)) < 0.05
    assert detectable(cases + 1, 100, comparisons) <= 1


@pytest.mark.parametrize("trials", [2, 4, 8, 100])
@pytest.mark.parametrize(("better", "worse", "n"), [(0, 0, 60), (3, 0, 60), (8, 2, 24), (1, 1, 3)])
def test_trials_that_only_repeat_a_case_do_not_shrink_an_interval(better, worse, n, trials):
    """Nor does a test find more."""
    differences = [1] * better + [-1] * worse + [0] * (n - better - worse)
    assert find_paired_interval(differences, 1 / trials) == find_paired_interval(differences, 1)
    assert sign_flip([trials * each for each in differences]) == sign_flip(differences)


@pytest.mark.parametrize(("share", "harm"), [(0.05, 0), (0.1, 0.05), (0.15, 0), (0.25, 0.1)])
@pytest.mark.parametrize("trials", [1, 4, 8])
@pytest.mark.parametrize("steadiness", [0.98, 1.0])
def test_an_interval_holds_the_truth_where_few_cases_make_the_difference(
    steadiness, trials, share, harm
):
    """The model is steady in each case; a remedy turns some of all cases right and some wrong."""
    rng = numpy.random.default_rng(trials)
    turned = rng.random((2000, 60))
    was_right = rng.random((2000, 60)) < 0.5
    was_right = numpy.where(turned < share + harm, turned >= share, was_right)
    is_right = numpy.where(turned < share + harm, turned < share, was_right)
    right = rng.binomial(trials, numpy.where(is_right, steadiness, 1 - steadiness))
    before = rng.binomial(trials, numpy.where(was_right, steadiness, 1 - steadiness))
    truth = (share - harm) * (2 * steadiness - 1)
    held = 0
    for differences in (right - before) / trials:
        low, high = find_paired_interval(differences.tolist(), 1 / trials)
        held += low <= truth <= high
    assert 0.93 <= held / 2000 <= 0.98


@pytest.mark.parametrize("trials", [1, 4, 8])
def test_a_paired_interval_holds_the_known_difference_as_often_as_it_says(trials):
    """Each case is easy or hard for both settings; one setting is better by 13 points."""
    rng = numpy.random.default_rng(5)
    held = 0
    for _ in range(4 * RUNS):
        rate = rng.choice([0.7, 0.2], 80, p=[0.6, 0.4])
        differences = rng.binomial(trials, rate + 0.13) - rng.binomial(trials, rate)
        low, high = find_paired_interval((differences / trials).tolist(), 1 / trials)
        held += low <= 0.13 <= high
    assert binomtest(held, 4 * RUNS, 0.95).pvalue > 0.001  # no farther from 95 % than by chance
