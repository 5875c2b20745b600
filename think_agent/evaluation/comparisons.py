"""Which settings are compared, and the results.

Rule 1: comparisons are chosen before the run, from the settings alone. For the rows of Anthropic's
        article they answer its readers' questions (QUESTIONS). Otherwise two settings are compared
        if they differ in one field, and one of them has its first value.
Rule 2: a comparison is paired by case and counts the trials that both settings finished. It has a
        size with an interval, and a p-value corrected by Holm's method. Easy cases are left out,
        because a script that doesn't think may get them right.
Rule 3: only the plan in the results file is tested, and only once it's complete.
Rule 4: scripts are never tested, because they don't vary by chance.
Rule 5: a closed trial counts as not right. So a finding also says what it would be if all of these
        were right, and how far they could move it at most.

Limitations: each interval is only for its own comparison.
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean
from typing import NamedTuple

from .intervals import CLEAR, Interval, find_paired_interval, holm, sign_flip
from .scores import PLAIN, Score, Setting, find_varying, without_floors

# A row and the row it's compared with: the question, and the cause of a clear difference.
QUESTIONS = {
    ("prompt", "baseline"): ("What does the prompt do without the tool?", "prompt"),
    ("think", "baseline"): ("What does the tool do without the prompt?", "tool"),
    ("think + prompt", "baseline"): ("Does the article's remedy help?", "both"),
    ("think + prompt", "prompt"): ("What does the tool add to the prompt?", "tool"),
    ("think + prompt", "extended thinking"): ("Is it better than the model's own reasoning?", ""),
}


class Comparison(NamedTuple):
    """A setting, and the setting it's compared with."""

    setting: Setting
    against: Setting
    question: str = ""
    cause: str = ""

    @property
    def is_tested(self) -> bool:
        """Do the results of both vary by chance?"""
        return not (self.setting.is_scripted or self.against.is_scripted)


@dataclass
class ComparisonResult:
    """The result of a comparison: the `difference` between the shares of right trials, with its 95
    % `interval`, on the `cases` that both have. `p` is None if it isn't tested.

    `closed`: how many of its trials were closed. `bounds`: the lowest and highest difference,
    whatever their results would have been. `if_right`: this finding if all closed trials, in all
    comparisons, were right; None if there are none.
    """

    comparison: Comparison
    cases: int
    difference: float
    interval: Interval
    p: float | None = None
    closed: int = 0
    bounds: Interval = (0.0, 0.0)
    if_right: "ComparisonResult | None" = None

    @property
    def is_clear(self) -> bool:
        """Is it more than chance?"""
        return self.p is not None and self.p < CLEAR


def plan_comparisons(settings: Collection[Setting]) -> list[Comparison]:
    """The comparisons between these settings. The first setting is the default one."""
    compared = without_floors(settings)
    found = []
    for setting, against in permutations(compared, 2):
        differing = find_varying(setting, against)
        asked = QUESTIONS.get((setting.row, against.row))
        if asked and differing <= PLAIN.keys():
            found.append(Comparison(setting, against, *asked))
        is_usual = differing.isdisjoint(find_varying(against, compared[0]))
        if is_usual and len(differing) == 1 and not setting.row:
            found.append(Comparison(setting, against))
    return found


def compare(scores: dict[Setting, Score], as_planned: bool = True) -> list[ComparisonResult]:
    """The findings of the comparisons between these settings. Holm's method counts the tested ones.
    None is tested if the results don't cover the whole plan (rule 3).
    """
    findings = _compare(scores, as_planned)
    if not any(finding.closed for finding in findings):
        return findings
    all_right = {setting: score.if_closed_were_right() for setting, score in scores.items()}
    for finding, if_right in zip(findings, _compare(all_right, as_planned), strict=True):
        if finding.closed:
            finding.if_right = if_right
    return findings


def _compare(scores: dict[Setting, Score], as_planned: bool) -> list[ComparisonResult]:
    findings = []
    tested = []
    p_values = []
    for comparison in plan_comparisons(scores):
        first, second = scores[comparison.setting], scores[comparison.against]
        pairs = _pairs(first, second)
        means = [fmean(trials) for trials in pairs]
        most = max((len(trials) for trials in pairs), default=1)
        finding = ComparisonResult(
            comparison, len(pairs), _mean(pairs), find_paired_interval(means, 1 / most)
        )
        finding.closed = len(first.closed) + len(second.closed)
        finding.bounds = (
            _mean(_pairs(first, second.if_closed_were_right())),
            _mean(_pairs(first.if_closed_were_right(), second)),
        )
        findings.append(finding)
        if as_planned and comparison.is_tested:
            p_values.append(sign_flip([sum(trials) for trials in pairs]))
            tested.append(finding)

    for finding, p in zip(tested, holm(p_values), strict=True):
        finding.p = p
    return findings


def _mean(pairs: list[list[int]]) -> float:
    """The mean difference over cases. Each case counts once."""
    return sum(fmean(trials) for trials in pairs) / max(1, len(pairs))


def _pairs(first: Score, second: Score) -> list[list[int]]:
    """For each case, the trials that both have: 1 if only the first is right, -1 if only the second
    is, else 0.
    """
    pairs = []
    for case, trials in first.by_case.items():
        others = second.by_case.get(case, {})
        both = trials.keys() & others.keys()
        if both:
            pairs.append([trials[trial] - others[trial] for trial in both])
    return pairs
