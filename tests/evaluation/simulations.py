"""500 evaluations of models with a known effect, by hand: `python -m tests.evaluation.simulations`.

Each has the rows of Anthropic's article. The effect is that of everything but the baseline.
(`test_simulated.py` does the same end to end, over HTTP, with fewer runs.) There are three kinds of
models. Of two, a case is nearly always right or nearly always wrong, so trials add little:

    chance   each case has a rate of its own; the effect raises all of them
    steady   the effect solves some of the cases, and changes no other
    mixed    the same, and it spoils a third as many

Measured 2026-11-29: a true difference is held in 94.7 to 97.5 % of the comparisons of each model,
effect and number of trials, and in 94.8 to 96.7 % over all effects; without an effect at most 3.2 %
of the evaluations find anything.

It exits with an error unless

- without an effect, at most 5 % of the evaluations find anything, whatever one looks at;
- the 95 % intervals hold a true difference in at least 93 % of the comparisons of each effect, and
  in at most 97 % of all with this model and so many trials. (Where there is none, they may hold it
  more often: they allow for kinds of cases that were not drawn.)
- at most 1 % of the evaluations say of a worse setting that it is the better one. (Of a difference
  far smaller than what can be found, chance alone says so now and then.)
"""

import sys
from dataclasses import dataclass

import numpy
from scipy.stats import binomtest

from tests.evaluation.values import ROWS, result, scores_of
from think_agent.evaluation.comparisons import ComparisonResult, compare
from think_agent.evaluation.scores import Result, Setting

RUNS = 500
CASES = 60
EFFECTS = (0, 5, 10, 20)  # points
TRIALS = (1, 4, 8)
STEADY = 0.98  # how often a case is right that a steady model can do; wrong, if it cannot


@dataclass
class Counts:
    """What was found in the evaluations of one effect."""

    with_any: int = 0  # evaluations with a clear finding
    wrong: int = 0  # evaluations that say the opposite of what is true
    different: int = 0  # comparisons of settings that differ
    held: int = 0  # and their intervals that hold the true difference
    same: int = 0  # comparisons of settings that do not
    same_held: int = 0

    def add(self, found: list[ComparisonResult], effect: float) -> None:
        is_wrong = False
        for finding in found:
            comparison = finding.comparison
            truth = _gain(comparison.setting, effect) - _gain(comparison.against, effect)
            low, high = finding.interval
            if truth:
                self.different += 1
                self.held += low <= truth <= high
            else:
                self.same += 1
                self.same_held += low <= truth <= high
            is_wrong = is_wrong or (finding.is_clear and finding.difference * truth < 0)
        self.wrong += is_wrong
        self.with_any += any(finding.is_clear for finding in found)


def _gain(setting: Setting, effect: float) -> float:
    """How much oftener than the baseline it is right."""
    return 0.0 if setting is ROWS[0] else effect


def rates(model: str, effect: float, rng: numpy.random.Generator) -> tuple[list, list]:
    """How often the baseline is right in each case, and how often the others are."""
    if model == "chance":
        baseline = rng.uniform(0.1, 0.7, CASES)
        return baseline.tolist(), (baseline + effect).tolist()
    solved = effect / (2 * STEADY - 1)
    spoiled = 0.0
    if model == "mixed":
        spoiled = solved / 2
        solved += spoiled
    drawn = rng.random(CASES)
    before = rng.random(CASES) < 0.5
    before = numpy.where(drawn < solved + spoiled, drawn >= solved, before)
    after = numpy.where(drawn < solved + spoiled, drawn < solved, before)
    right = [1 - STEADY, STEADY]
    return [right[int(is_right)] for is_right in before], [right[int(r)] for r in after]


def evaluated(model: str, effect: float, trials: int, seed: int) -> dict[Setting, list[Result]]:
    """The results of one evaluation."""
    rng = numpy.random.default_rng(seed)
    baseline, better = rates(model, effect, rng)
    results: dict[Setting, list[Result]] = {}
    for setting in ROWS:
        its_rates = baseline if setting is ROWS[0] else better
        own = results[setting] = []
        for case, rate in enumerate(its_rates):
            for trial, draw in enumerate(rng.random(trials), 1):
                own.append(result(str(case), bool(draw < rate), setting=setting, trial=trial))
    return results


def simulate(model: str, trials: int, points: int) -> Counts:
    """So many evaluations; prints what was found."""
    effect = points / 100
    counts = Counts()
    for seed in range(RUNS):
        counts.add(compare(scores_of(evaluated(model, effect, trials, seed))), effect)
    said = [f"a finding in {counts.with_any / RUNS:.1%}, {counts.wrong} the wrong way"]
    if counts.different:
        said.append(f"intervals hold {counts.held / counts.different:.1%}")
    said.append(f"without a difference {counts.same_held / counts.same:.1%}")
    print(f"{model}, {trials} trials, {points:2} points: {', '.join(said)}", flush=True)

    by_chance = binomtest(counts.with_any, RUNS, 0.05, alternative="greater").pvalue
    if not points and by_chance < 0.01:
        sys.exit("without an effect, there are too many findings")
    if counts.wrong > RUNS / 100:
        sys.exit("too many findings say the opposite of what is true")
    too_few = counts.different and counts.held < 0.93 * counts.different
    if too_few or counts.same_held < 0.93 * counts.same:
        sys.exit("the intervals are too narrow")
    return counts


def main() -> None:
    for model in ("chance", "steady", "mixed"):
        for trials in TRIALS:
            counts = [simulate(model, trials, points) for points in EFFECTS]
            held = sum(each.held for each in counts) / sum(each.different for each in counts)
            print(f"{model}, {trials} trials: of all intervals {held:.1%}", flush=True)
            if held > 0.97:
                sys.exit("the intervals are too wide")


if __name__ == "__main__":
    main()
