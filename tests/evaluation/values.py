"""Results by hand, for the tests of scores, comparisons and reports."""

from think_agent.evaluation.scores import FOUR_ROWS, NO_OUTCOME, Result, Score, Setting

FIRST = Setting("p")
NEVER = Setting("p", force="never")
ALWAYS = Setting("p", force="always")
FLOOR = Setting("floor:f", think="none", cover="none")
ROWS = [Setting("openai:m", **row) for row in FOUR_ROWS]


def result(case, right, *, setting=FIRST, trial=1, **fields) -> Result:
    return Result(setting=setting, case=case, trial=trial, right=right, **fields)


def failed(case, *, setting=FIRST, error="busy") -> Result:
    return result(case, False, setting=setting, error=error)


def closed(case, *, setting=FIRST, error="busy") -> Result:
    """A trial of which each try failed."""
    return result(case, False, setting=setting, exit=NO_OUTCOME, found=(error,))


def results_of(right: dict[Setting, str], cases: str) -> dict[Setting, list[Result]]:
    """One result for each letter in `cases`; it is right if the setting has that letter."""
    found = {}
    for setting, its in right.items():
        found[setting] = [result(case, case in its, setting=setting) for case in cases]
    return found


def scores_of(results: dict[Setting, list[Result]]) -> dict[Setting, Score]:
    return {setting: Score(own) for setting, own in results.items()}
