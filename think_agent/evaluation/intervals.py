"""The few formulas that keep an evaluation from reading noise as a finding.

Rule 1: they are textbook formulas, each with its source, on the standard library alone (scipy
        has two of them, at over a hundred megabytes; the tests use it as the oracle).
Rule 2: nothing here knows what was counted.

The edge: an interval or a p-value covers chance alone, not whether the cases are like your users'.
"""

from math import comb, sqrt
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)  # 1.96: 95 % lie within so many standard errors


def wilson(right: float, n: int) -> tuple[float, float]:
    """The 95 % interval in which the true share lies, when `right` of `n` were right.

    It stays within 0 and 1 and holds for small `n` and for 0 or `n` of `n`, where the usual
    ± 1.96 standard errors gives no width at all. `right` need not be whole: it may be a sum of
    shares. Source: Wilson, JASA 22 (1927), 209-212.
    """
    if n == 0:
        return 0.0, 1.0
    share = right / n
    center = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(0.0, center - half), min(1.0, center + half)


def mcnemar(only_first: int, only_second: int, comparisons: int = 1) -> float:
    """How likely chance alone makes a difference at least this large, two-sided, in one of so many
    comparisons: among twenty of equal things, one is below 0.05 by chance (Bonferroni).

    For two settings on the same cases: only the cases count on which one did better than the other,
    and without a real difference each of those is a coin toss. Exact, so also for few of them.
    Source: McNemar, Psychometrika 12 (1947), 153-157.
    """
    n = only_first + only_second
    tail = sum(comb(n, k) for k in range(min(only_first, only_second) + 1))
    return min(1.0, comparisons * 2 * tail / (1 << n))  # of as many outcomes of n tosses


def pass_hat_k(right: int, trials: int, k: int) -> float:
    """pass^k of one case: how likely `k` of its trials, drawn at random, are all right.

    An agent that does the right thing three times of four is no good at a refund desk, and pass^k
    says so. Source: Yao et al., tau-bench, arXiv 2406.12045 (2024).
    """
    return comb(right, k) / comb(trials, k)
