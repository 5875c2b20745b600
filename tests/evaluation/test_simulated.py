"""Models with known effects, end to end over HTTP: the report names the right cause.

The base suite runs each once, on few cases and with a large effect. All 50 runs of each, with the
effect of Anthropic's article (13 points):

    python -m tests.evaluation.test_simulated            # or only some: … tool advice
"""

import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import binomtest

from tests.servers import serve
from tests.servers.ollama import OllamaServer
from tests.support.simulated import brain, write_cases
from think_agent.evaluation.command import Evaluation
from think_agent.evaluation.inputs import settings_of
from think_agent.evaluation.report import report_results
from think_agent.evaluation.scores import Score

RUNS = 50
NO_CAUSE = "neither tool nor prompt"
CAUSES = {"nothing": NO_CAUSE, "tool": "the tool", "advice": "the prompt", "refusals": NO_CAUSE}


def evaluated(
    folder: Path, effect: str, seed: int, cases: Path, suite="demos.refund.suite", **options
) -> Evaluation:
    """The five rows of one such model."""
    settings = settings_of(four_rows=True, provider=["ollama"])
    with serve(OllamaServer(), brain(effect, seed, **options)) as server:
        evaluation = Evaluation(
            cases,
            settings,
            suite=suite,
            concurrency=4,
            base_url=server.url,
            out=folder / f"{effect}-{seed}.jsonl",
        )
        evaluation.try_models()
        evaluation.run()
    assert evaluation.impossible == {}
    assert evaluation.missing == 0
    return evaluation


def sentences(evaluation: Evaluation) -> list[str]:
    found = report_results(evaluation.select_results())
    return found[-1].remark.splitlines()


def cause(evaluation: Evaluation) -> str:
    [lines] = [line for line in sentences(evaluation) if line.startswith("What made a difference")]
    return re.sub(r"What made a difference for .*?: (.*?)(, as far .*)?\.", r"\1", lines)


@pytest.mark.slow
@pytest.mark.parametrize("effect", CAUSES)
def test_the_report_names_the_cause_that_is_there(tmp_path, effect):
    cases = write_cases(tmp_path / "cases.jsonl", 24)
    evaluation = evaluated(tmp_path, effect, 1, cases, share=0.5)
    assert cause(evaluation) == CAUSES[effect]
    better = "Does the article's remedy help? think + prompt is better than baseline: +"
    is_better = any(line.startswith(better) for line in sentences(evaluation))
    assert is_better == (effect in ("tool", "advice"))
    floors = [setting for setting in evaluation.models if setting.is_floor]
    assert len(floors) == 6
    right = {floor.provider: Score(evaluation.select_results()[floor]).right for floor in floors}
    assert right.pop("floor:five-rules") == 17  # most of these cases are from the easy half
    assert right.pop("floor:text-matcher") == 24
    assert max(right.values()) < 12


def main(chosen: list[str]) -> None:
    """Run each model 50 times, and exit with an error if the cause is found too seldom."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = write_cases(folder / "cases.jsonl")
        for effect in chosen or CAUSES:
            started = time.perf_counter()
            found = Counter()
            for seed in range(RUNS):
                found[cause(evaluated(folder, effect, seed, cases, "tests.support.simulated"))] += 1
            print(f"{effect:10} {dict(found)} ({time.perf_counter() - started:.0f} s)", flush=True)
            right = CAUSES[effect]
            wrong = sum(times for text, times in found.items() if text not in (right, NO_CAUSE))
            too_often = binomtest(wrong, RUNS, 0.05, alternative="greater").pvalue < 0.01
            if too_often or found[right] < 0.8 * RUNS:
                sys.exit(f"{effect}: the report names {dict(found)}, and the cause is {right}")


if __name__ == "__main__":
    main(sys.argv[1:])
