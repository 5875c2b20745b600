"""Which settings are compared, and what the comparison says.

Rule 1: comparisons are named before the run, from the settings alone. For the rows of Anthropic's
        article they are what its reader wants to know (QUESTIONS). Otherwise, two settings are
        compared where one thing differs between them, and one of the two has its first value.
Rule 2: a comparison is paired: it counts the trials that both have, without an error. It has a
        size with an interval, and a p-value that Holm's method raised for how many were named.
Rule 3: what a script does is never tested, for chance has no part in it.

Limitations: intervals are those of each comparison by itself.
"""

from dataclasses import dataclass
from itertools import permutations
from statistics import fmean
from typing import NamedTuple

from .intervals import CLEAR, holm, paired_interval, sign_flip
from .scores import PLAIN, Score, Setting, varying, without_floors

# A row and the one that it is held against: the question, and what a clear difference is put down
# to.
QUESTIONS = {
    ("prompt", "baseline"): ("What does the prompt do without the tool?", "prompt"),
    ("think", "baseline"): ("What does the tool do without the prompt?", "tool"),
    ("think + prompt", "baseline"): ("Does the article's remedy help?", "both"),
    ("think + prompt", "prompt"): ("What does the tool add to the prompt?", "tool"),
    ("think + prompt", "extended thinking"): ("Is it better than the model's own reasoning?", ""),
}


class Comparison(NamedTuple):
    """A setting, and the one that it is held against."""

    setting: Setting
    against: Setting
    question: str = ""
    cause: str = ""

    @property
    def is_tested(self) -> bool:
        """Has chance a part in it?"""
        return not (self.setting.is_scripted or self.against.is_scripted)


@dataclass
class Finding:
    """What a comparison says: `difference` between the shares of right trials, with its 95 %
    `interval`, on the `cases` that both have. `p` is 1 where nothing is tested.
    """

    comparison: Comparison
    cases: int
    difference: float
    interval: tuple[float, float]
    p: float = 1.0

    @property
    def is_clear(self) -> bool:
        """Is it more than chance?"""
        return self.p < CLEAR


def planned(settings: list[Setting]) -> list[Comparison]:
    """The comparisons between these settings, of which the first is the usual one."""
    compared = without_floors(settings)
    found = []
    for setting, against in permutations(compared, 2):
        differing = varying(setting, against)
        asked = QUESTIONS.get((setting.row, against.row))
        if asked and differing <= PLAIN.keys():
            found.append(Comparison(setting, against, *asked))
        is_usual = differing.isdisjoint(varying(against, compared[0]))
        if is_usual and len(differing) == 1 and not setting.row:
            found.append(Comparison(setting, against))
    return found


def compare(scores: dict[Setting, Score], comparisons: list[Comparison]) -> list[Finding]:
    """What the comparisons say, in their order. Holm's method counts each that is tested."""
    findings = []
    tested = []
    for comparison in comparisons:
        pairs = _pairs(scores[comparison.setting], scores[comparison.against])
        means = [fmean(trials) for trials in pairs]
        most = max((len(trials) for trials in pairs), default=1)
        difference = sum(means) / max(1, len(means))
        interval = paired_interval(means, 1 / most)
        finding = Finding(comparison, len(pairs), difference, interval)
        findings.append(finding)
        if comparison.is_tested:
            finding.p = sign_flip([sum(trials) for trials in pairs])
            tested.append(finding)

    for finding, p in zip(tested, holm([finding.p for finding in tested]), strict=True):
        finding.p = p
    return findings


def _pairs(first: Score, second: Score) -> list[list[int]]:
    """For each case, its trials that both have: 1 where only the first is right, -1 where only the
    second is.
    """
    pairs = []
    for case, trials in first.by_case.items():
        others = second.by_case.get(case, {})
        both = trials.keys() & others.keys()
        if both:
            pairs.append([trials[trial] - others[trial] for trial in both])
    return pairs
