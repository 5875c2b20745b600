"""The few formulas that keep an evaluation from reading noise as a finding.

Rule 1: they are textbook formulas, each with its source, on the standard library alone. The tests
        hold them against scipy, which is too large to depend on.
Rule 2: nothing here knows what was counted.

Limitations: an interval or a p-value covers chance alone, not whether the cases are like your
users'. A power is an approximation, on the cautious side.
"""

from collections import Counter
from math import sqrt
from statistics import NormalDist, fmean, pvariance

CLEAR = 0.05  # a p-value below it is called a difference
quantile = NormalDist().inv_cdf
Z = quantile(0.975)  # 1.96: 95 % lie within so many standard errors


def wilson(right: float, n: int) -> tuple[float, float]:
    """The 95 % interval in which the true share lies, when `right` of `n` were right.

    It stays within 0 and 1 and holds for small `n` and for 0 or `n` of `n`, where the usual
    ± 1.96 standard errors gives no width at all. `right` need not be whole: it may be a sum of
    shares. Source: Wilson, JASA 22 (1927), 209-212.
    """
    if n == 0:
        return 0.0, 1.0
    share = right / n
    z2 = Z**2 / n
    center = (share + z2 / 2) / (1 + z2)
    half = sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return max(0.0, center - half), min(1.0, center + half)


def paired_interval(differences: list[float], step: float) -> tuple[float, float]:
    """The 95 % interval of a mean difference between two settings on the same cases.

    `differences` has one number a case, from -1 to 1; `step` is the smallest difference that a case
    can show (1 with one trial, 1/k with k). One case is added for each side, so that few cases, or
    none that differ, do not look like certainty. With one trial a case this is the interval of
    Bonett and Price, J. Educ. Behav. Stat. 37 (2012), 479-488.
    """
    values = [*differences, step, -step]
    center = fmean(values)
    half = Z * sqrt(pvariance(values) / len(values))
    return max(-1.0, center - half), min(1.0, center + half)


def sign_flip(differences: list[int]) -> float:
    """How likely chance alone brings the sum of the differences at least this far from zero.

    `differences` has one whole number a case: on how many trials the first setting was right and
    the second wrong, less the other way round. Without a real difference each might as well have
    the other sign; all these possibilities are counted, so the p-value is exact, two-sided. Source:
    Fisher, The Design of Experiments (1935), §21. With one trial a case it is McNemar's exact test.
    """
    ways = Counter({0: 1})  # how many choices of signs give a sum
    for difference in differences:
        longer: Counter[int] = Counter()
        for total, count in ways.items():
            longer[total + difference] += count
            longer[total - difference] += count
        ways = longer
    found = abs(sum(differences))
    as_far = sum(count for total, count in ways.items() if abs(total) >= found)
    return as_far / (1 << len(differences))  # of 2 ** n choices


def holm(p_values: list[float]) -> list[float]:
    """The p-values, raised for how many there are: among twenty comparisons of equal things, one is
    below 0.05 by chance. Source: Holm, Scand. J. Stat. 6 (1979), 65-70.
    """
    left = len(p_values)
    raised = [1.0] * left
    largest = 0.0
    for p, index in sorted((p, index) for index, p in enumerate(p_values)):
        largest = max(largest, min(1.0, left * p))
        raised[index] = largest
        left -= 1
    return raised


def detectable(cases: int, trials: int, comparisons: int) -> float:
    """The difference between two shares that is found two times in three, with so many cases and
    trials, by the first step of Holm's method.

    For shares near one half and cases of equal difficulty, where chance is greatest. The last term
    is for the steps in which an exact test moves.
    """
    errors = quantile(1 - CLEAR / (2 * comparisons)) + quantile(2 / 3)
    runs = cases * trials
    return min(1.0, errors * sqrt(0.5 / runs) + 1 / runs)


def trials_for(difference: float, cases: int, comparisons: int) -> int:
    """How many trials a case it takes to find a difference two times in three."""
    trials = 1
    while detectable(cases, trials, comparisons) > difference:
        trials += 1
    return trials
