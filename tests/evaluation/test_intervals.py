"""The formulas give the results of scipy, of counting, and of models with known rates."""

import itertools
import math
import random
from statistics import NormalDist, fmean

import numpy
import pytest
from scipy.stats import binomtest, permutation_test

from think_agent.evaluation.intervals import (
    detectable,
    holm,
    paired_interval,
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
    assert paired_interval([], 1) == (-1.0, 1.0)
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
    low, high = paired_interval(differences, 1)
    assert (low, high) == pytest.approx((first - second - half, first - second + half))


def test_a_paired_interval_stays_within_its_bounds():
    assert paired_interval([1], 1)[1] == 1.0
    assert paired_interval([-1], 1)[0] == -1.0


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


def drawn(rng: random.Random, rate: float, cases: int) -> list[bool]:
    return [rng.random() < rate for _ in range(cases)]


@pytest.mark.parametrize(("cases", "trials", "comparisons"), [(73, 1, 1), (120, 1, 5), (60, 4, 3)])
def test_a_difference_of_the_stated_size_is_found_two_times_in_three(cases, trials, comparisons):
    """For shares near one half, in the first step of Holm's method."""
    half = detectable(cases, trials, comparisons) / 2
    rng = random.Random(cases)
    found = 0
    for _ in range(RUNS):
        differences = []
        for _ in range(cases):
            first = drawn(rng, 0.5 + half, trials)
            second = drawn(rng, 0.5 - half, trials)
            differences.append(sum(first) - sum(second))
        found += sign_flip(differences) * comparisons < 0.05
    assert 0.58 <= found / RUNS <= 0.78


def test_the_stated_power_by_numbers():
    """73 cases show 20 points with one trial, and the 7 points of the article with nine."""
    assert detectable(73, 1, 1) == pytest.approx(0.21, abs=0.01)
    assert detectable(1, 1, 1) == 1.0
    assert detectable(73, 9, 1) <= 0.07 < detectable(73, 7, 1)


@pytest.mark.parametrize("trials", [1, 4])
def test_a_paired_interval_holds_the_known_difference_as_often_as_it_says(trials):
    """Each case is easy or hard for both settings; one setting is better by 13 points."""
    rng = random.Random(5)
    held = 0
    for _ in range(RUNS):
        differences = []
        for rate in rng.choices([0.7, 0.2], [0.6, 0.4], k=80):
            better = fmean(drawn(rng, rate + 0.13, trials))
            differences.append(better - fmean(drawn(rng, rate, trials)))
        low, high = paired_interval(differences, 1 / trials)
        held += low <= 0.13 <= high
    assert binomtest(held, RUNS, 0.95).pvalue > 0.001  # no farther from 95 % than by chance
