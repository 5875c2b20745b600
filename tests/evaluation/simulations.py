"""500 evaluations of models with a known effect, by hand: `python -m tests.evaluation.simulations`.

Each has the rows of Anthropic's article on cases of which some are easy and some are hard. The
effect is that of everything but the baseline. (`test_simulated.py` does the same end to end, over
HTTP, with fewer runs.) It exits with an error unless

- without an effect, at most 5 % of the evaluations find anything, whatever one looks at;
- the 95 % intervals hold the true difference in 93 to 97 % of all comparisons;
- at most 1 % of the evaluations say of a worse setting that it is the better one. (Of a difference
  far smaller than what can be found, chance alone says so now and then.)
"""

import random
import sys
from dataclasses import dataclass

from scipy.stats import binomtest

from tests.evaluation.values import ROWS, result, scores_of
from think_agent.evaluation.comparisons import Finding, compare
from think_agent.evaluation.scores import Result, Setting

RUNS = 500
CASES = 80
EFFECTS = (0, 5, 10, 20)  # points
TRIALS = (1, 3)


@dataclass
class Counts:
    """What was found in the evaluations of one effect."""

    findings: int = 0
    held: int = 0  # intervals that hold the true difference
    with_any: int = 0  # evaluations with a clear finding
    wrong: int = 0  # evaluations that say the opposite of what is true

    def add(self, found: list[Finding], effect: float) -> None:
        is_wrong = False
        for finding in found:
            comparison = finding.comparison
            truth = _rate(comparison.setting, effect) - _rate(comparison.against, effect)
            low, high = finding.interval
            self.findings += 1
            self.held += low <= truth <= high
            is_wrong = is_wrong or (finding.is_clear and finding.difference * truth < 0)
        self.wrong += is_wrong
        self.with_any += any(finding.is_clear for finding in found)


def _rate(setting: Setting, effect: float) -> float:
    """How much oftener than the baseline it is right."""
    return 0.0 if setting is ROWS[0] else effect


def drawn(rng: random.Random, effect: float, trials: int) -> dict[Setting, list[Result]]:
    """The results of one evaluation."""
    results: dict[Setting, list[Result]] = {setting: [] for setting in ROWS}
    for case in range(CASES):
        baseline = rng.uniform(0.1, 0.7)  # easy and hard cases, for all settings
        for setting in ROWS:
            for trial in range(1, trials + 1):
                right = rng.random() < baseline + _rate(setting, effect)
                results[setting].append(result(str(case), right, setting=setting, trial=trial))
    return results


def main() -> None:
    for trials in TRIALS:
        for points in EFFECTS:
            effect = points / 100
            counts = Counts()
            for seed in range(RUNS):
                results = drawn(random.Random(seed), effect, trials)
                counts.add(compare(scores_of(results)), effect)
            held = counts.held / counts.findings
            print(
                f"{points:2} points, {trials} trials: a finding in {counts.with_any / RUNS:.1%} of "
                f"the evaluations, {counts.wrong} the wrong way, intervals hold {held:.1%}",
                flush=True,
            )
            by_chance = binomtest(counts.with_any, RUNS, 0.05, alternative="greater").pvalue
            if not points and by_chance < 0.01:
                sys.exit("without an effect, there are too many findings")
            if not 0.93 <= held <= 0.97 or counts.wrong > RUNS / 100:
                sys.exit("the intervals or the findings do not say what is true")


if __name__ == "__main__":
    main()
