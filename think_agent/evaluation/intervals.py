"""The formulas that keep an evaluation from reporting noise as a finding.

Rule 1: they're textbook formulas, each with its source, and use only the standard library. The
        tests compare them with scipy, which is too large to depend on.
Rule 2: nothing here depends on what was counted.

Limitations: an interval or a p-value covers only chance, not whether the cases resemble your
users'. The power is a conservative approximation. `tests/evaluation/simulations.py` counts how
often each of them is right.
"""

from collections import Counter
from collections.abc import Sequence
from math import inf, sqrt
from statistics import NormalDist

CLEAR = 0.05  # below this p-value a difference is called clear
Interval = tuple[float, float]  # its low end and its high end
quantile = NormalDist().inv_cdf
Z = quantile(0.975)  # 1.96: 95 % lie within this many standard errors


def wilson(right: float, n: int) -> Interval:
    """The 95 % interval for the true share when `right` of `n` were right.

    It stays within 0 and 1. It works for small `n` and for 0 or `n` of `n`, where the usual ± 1.96
    standard errors have no width at all. `right` may be a fraction, as a sum of shares. Source:
    Wilson, JASA 22 (1927), 209-212.
    """
    if n == 0:
        return 0.0, 1.0
    z2 = Z**2
    total = n + z2
    center = (right + z2 / 2) / total
    half = Z * sqrt(right * (n - right) / n + z2 / 4) / total
    return max(0.0, center - half), min(1.0, center + half)


def find_paired_interval(differences: Sequence[float], step: float) -> Interval:
    """The 95 % interval of a mean difference between two settings on the same cases.

    `differences` has one number for each case, from -1 to 1: the case is the unit, however many
    trials it has. `step` is the smallest difference that a case can show: 1 with one trial, 1/k
    with k.

    Two cases are added, one for each side, so that few cases, or cases without a difference, do
    not look certain. They are as large as the differences that make up most of the spread. With
    one trial for each case they are whole cases, and this is the interval of Bonett and Price, J.
    Educ. Behav. Stat. 37 (2012), 479-488. The spread is never less than that of two whole cases: a
    kind of case that this sample doesn't have may be decided the other way, and no number of
    trials shows that. (If 60 cases show no difference at all, one case in 22 may still have one.)
    """
    squares = [difference**2 for difference in differences]
    spread = sum(squares)
    added = step**2
    if spread:
        added = sum(square**2 for square in squares) / spread
    spread = max(spread + 2 * added, 2.0)

    n = len(differences) + 2
    center = sum(differences) / n
    half = Z * sqrt((spread / n - center**2) / n)
    return max(-1.0, center - half), min(1.0, center + half)


def sign_flip(differences: list[int]) -> float:
    """How likely it is that chance alone brings the sum of the differences this far from zero.

    `differences` has one whole number for each case: the trials that only the first setting got
    right, minus those that only the second did. Without a real difference each sign is as likely as
    the other. All choices of signs are counted, so the p-value is exact (two-sided). Source:
    Fisher, The Design of Experiments (1935), §21. With one trial it is McNemar's exact test.
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
    return as_far / ways.total()


def holm(p_values: list[float]) -> list[float]:
    """The p-values, raised by their number: among twenty comparisons of equal things, one is below
    0.05 by chance. Source: Holm, Scand. J. Stat. 6 (1979), 65-70.
    """
    left = len(p_values)
    raised = [1.0] * left
    largest = 0.0
    for p, index in sorted((p, index) for index, p in enumerate(p_values)):
        largest = max(largest, min(1.0, left * p))
        raised[index] = largest
        left -= 1
    return raised


def detectable(cases: int, trials: float, comparisons: int) -> float:
    """The difference between two shares that is found two times in three or oftener, if no case
    gets worse, in the first step of Holm's method. It is 1.0 if nothing smaller can be found, and
    infinite if nothing can: then even the same sign in every case wouldn't be clear.

    It is computed for the cases that hide a difference best: the better setting turns some from
    always wrong into always right, and chance alone decides the others, at even odds. Then a
    case's difference has the mean `d` and the mean square `d + (1 - d) * noise`, where `noise` is
    what `trials` leave of chance. No other choice of rates with this mean has a larger one.
    `trials=inf` is what the cases alone allow. The last term is one case, because an exact test
    moves in steps.
    """
    if comparisons * 2.0 ** (1 - cases) >= CLEAR:
        return inf
    noise = 1 / (2 * trials)
    errors = quantile(1 - CLEAR / (2 * comparisons)) + quantile(2 / 3)
    per_case = errors**2 / cases
    # The solution of d**2 = per_case * (d + (1 - d) * noise).
    linear = per_case * (1 - noise)
    difference = (linear + sqrt(linear**2 + 4 * per_case * noise)) / 2
    return min(1.0, difference + 1 / cases)
