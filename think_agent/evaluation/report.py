"""Makes the report of an evaluation from its results: tables, and sentences below them.

Rule 1: a setting is named by its differences from the others. What all have in common is said once.
        A column without counts is left out.
Rule 2: the floors are in every table, below the settings.
Rule 3: the last lines are sentences: one for each comparison that was named before the run, with
        its size, interval and p-value; then problems of the results, and how small n is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from ..outcome import pluralize
from ..policies import Price
from ..text import shorten
from .comparisons import Finding, compare
from .intervals import detectable, wilson
from .results import Plan
from .scores import Results, Score, Setting, named, varying, without_floors
from .tables import Section

DECISIONS = (
    "right: what was done is what the case expects, of the runs without an error; easy: the same, "
    "where a script without a thought may be right, so that nothing is compared there; "
    "pass^k: all of k trials are right, with 95\u00a0% Wilson intervals; said done: it was not; "
    "calls, tokens and cost: averages; -: none"
)
Scores = Mapping[Setting, Score]
Names = Mapping[Setting, str]
Cells = dict[str, str | int]  # of a row, by column; empty or 0 if nothing was counted


def report(
    results: Results, prices: Mapping[Setting, Price] = {}, waits_for: Plan | None = None
) -> list[Section]:
    """Four sections: decisions and their cost, how they came about, kinds of cases, sentences.
    Nothing is tested if the plan in the file `waits_for` more results, or has others.
    """
    names = named(results)
    scores = {setting: Score(own, prices.get(setting)) for setting, own in results.items()}
    findings = compare(scores, waits_for is None)
    tested = [finding for finding in findings if finding.p is not None]
    sentences = [_of_finding(finding, names) for finding in findings]
    sentences += _of_causes(tested, names)
    sentences += _of_problems(scores, names)
    sentences += _of_common(results)
    sentences.append(_of_size(tested, waits_for))
    return [
        Section("Decisions", DECISIONS, _table(scores, names, _decisions)),
        Section("How", "", _table(scores, names, _how)),
        Section("Kinds of cases", "right of all", _table(scores, names, _kinds)),
        Section("", "\n".join(sentences)),
    ]


def power(cases: int, trials: int, comparisons: int) -> str:
    """What a run of this size can show: a sentence to read before paying for the run."""
    seen = 100 * detectable(cases, trials, comparisons)
    return (
        f"With {pluralize(cases, 'case')} and {pluralize(trials, 'trial')} of each, "
        f"a difference of {seen:.0f} points is found two times in three, "
        f"with {pluralize(comparisons, 'comparison')}."
    )


# The tables.


def _table(scores: Scores, names: Names, cells_of: Callable[[Score], Cells]) -> list[list[str]]:
    """A row for each setting, with each column in which something was counted."""
    rows = []
    columns: dict[str, None] = {}
    for setting, score in scores.items():
        cells = {"setting": names[setting]} | cells_of(score)
        columns |= dict.fromkeys(column for column, cell in cells.items() if cell)
        rows.append(cells)
    table = [[*columns]]
    for cells in rows:
        table.append([str(cells.get(column) or "-") for column in columns])
    return table


def _decisions(score: Score) -> Cells:
    """What was decided, and what it took."""
    cells: Cells = {"right": _right(score)}
    for k, share in enumerate(score.pass_k, 1):
        cells[f"pass^{k}"] = str(share)
    cells["easy"] = _right(Score(score.results, easy=True))
    cells["said done"] = score.total("false_success")
    cells["wrong writes"] = score.total("wrong_writes")
    runs = max(1, len(score.ran))
    calls = score.total("model_calls")
    if calls:
        cells["calls"] = f"{calls / runs:.1f}"
    usage = score.usage
    if usage.input_tokens:
        cells["tokens"] = f"{usage.input_tokens / runs:,.0f} + {usage.output_tokens / runs:,.0f}"
    if score.price:
        cells["cost"] = f"${score.price.of(usage) / runs:.4f}"
    return cells


def _how(score: Score) -> Cells:
    """How that came about."""
    cells: Cells = {
        "actions behind a thought": _percent(
            score.total("behind_a_thought"), score.total("actions")
        ),
        "forced calls honored": _percent(score.total("honored"), score.total("forced")),
    }
    exits = Counter(result.exit for result in score.results)
    cells["exits"] = ", ".join(f"{exit} {count}" for exit, count in sorted(exits.items()))
    if score.usage.cached_tokens:
        cells["cached"] = f"{score.usage.cached_tokens / len(score.ran):,.0f}"
    return cells


def _kinds(score: Score) -> Cells:
    """How many are right of each kind of case."""
    runs = Counter(result.kind for result in score.ran)
    right = Counter(result.kind for result in score.ran if result.right)
    return {"right": ", ".join(f"{kind} {right[kind]}/{runs[kind]}" for kind in sorted(runs))}


def _right(score: Score) -> str:
    """How many of the results are right that are compared."""
    if not score.compared:
        return ""
    return f"{score.right}/{len(score.compared)}"


def _percent(part: int, whole: int) -> str:
    """A part of a whole, also in percent."""
    if not whole:
        return ""
    return f"{part}/{whole} ({part / whole:.0%})"


# The sentences.


def _of_finding(finding: Finding, names: Names) -> str:
    """The verdict of a comparison."""
    comparison = finding.comparison
    setting = names[comparison.setting]
    against = names[comparison.against]
    size = f"{100 * finding.difference:+.0f} points on {pluralize(finding.cases, 'case')}"
    question = comparison.question
    if question:
        question += " "
    if finding.p is None:
        return f"{question}{setting} against {against}: {size}, not tested."

    low, high = finding.interval
    size += f" (95\u00a0% interval {100 * low:+.0f} to {100 * high:+.0f}; p = {finding.p:.2g})"
    if not finding.is_clear:
        return f"{question}No difference is shown between {setting} and {against}: {size}."
    verdict = "better" if finding.difference > 0 else "worse"
    return f"{question}{setting} is {verdict} than {against}: {size}."


def _of_causes(tested: list[Finding], names: Names) -> Iterator[str]:
    """What made a difference, for each model whose rows were tested."""
    clear: dict[str, set[str]] = {}
    for finding in tested:
        comparison = finding.comparison
        if comparison.question:
            _, _, apart = names[comparison.setting].partition(", ")  # its row comes first
            found = clear.setdefault(apart or comparison.setting.provider, set())
            if finding.is_clear:
                found.add(comparison.cause)
    for model, found in clear.items():
        parts = [f"the {part}" for part in ("tool", "prompt") if part in found]
        if parts:
            cause = " and ".join(parts)
        elif "both" in found:
            cause = "tool and prompt together; which of them, is not shown"
        else:
            cause = "neither tool nor prompt, as far as this run can show"
        yield f"What made a difference for {model}: {cause}."


def _of_problems(scores: Scores, names: Names) -> Iterator[str]:
    """Errors of a setting, and several models that answered for it."""
    for setting, score in scores.items():
        errors = [result.error for result in score.results if result.error]
        if errors:
            runs = pluralize(len(score.results), "run")
            yield (
                f"{names[setting]}: {len(errors)} of {runs} ended in an error, not counted: "
                f"{shorten(errors[0])}"
            )
        served = {model for result in score.results for model in result.served}
        if len(served) > 1:
            models = ", ".join(sorted(served))
            yield f"{names[setting]}: answered by several models: {models}."


def _of_common(results: Results) -> Iterator[str]:
    """What is the same in all settings, and not as usual."""
    first, *others = without_floors(results)
    common = varying(first, Setting("")) - varying(first, *others)
    if common:
        values = [f"{name}={getattr(first, name)}" for name in sorted(common)]
        yield f"The same for all: {', '.join(values)}."


def _of_size(tested: list[Finding], plan: Plan | None) -> str:
    """How small n is, or why nothing is tested. `plan` is what is not complete."""
    if tested:
        n = min(finding.cases for finding in tested)
        _, high = wilson(n / 2, n)
        points = 100 * high - 50
        return (
            f"n is {pluralize(n, 'case')}: a share near one half is known to ± {points:.0f} points."
        )
    if plan:
        return (
            "Nothing is tested before the plan in the first line of the results file is complete "
            f"({pluralize(len(plan.settings), 'setting')}, {pluralize(plan.trials, 'trial')} of "
            f"{pluralize(plan.cases, 'case')}), nor with other settings, trials or cases: for "
            "these choose another file."
        )
    return (
        "Nothing is tested for significance: that takes two settings of a model, and chance has no "
        "part in what a script does."
    )
