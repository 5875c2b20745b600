"""Builds the report of an evaluation from its results: tables, and sentences below them.

Rule 1: a setting is named by its differences from the others. What they have in common is listed
        once. A column without counts is left out.
Rule 2: the floors are in every table, below the settings.
Rule 3: the last lines are sentences: one per planned comparison, with its size, interval and
        p-value; then problems with the results, and how small n is.
Rule 4: results of other plans have their own table and aren't compared.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import ceil, inf

from ..outcome import pluralize
from ..policies import Price
from ..text import shorten
from .comparisons import ComparisonResult, compare
from .intervals import detectable, wilson
from .results import EvaluationPlan
from .scores import Results, Score, Setting, find_varying, name_settings, without_floors
from .tables import Section

DECISIONS = (
    "right: what was done is what the case expects, of the runs without an error; easy: the same, "
    "where a script without a thought may be right, so that nothing is compared there; "
    "pass^k: all of k trials are right, with 95\u00a0% Wilson intervals; said done: it was not; "
    "calls, tokens and cost: averages; -: none"
)
ENDS = (
    "a tool that they need is missing; timely: the model said that it cannot be done, before it "
    "wrote anything wrong; late: it went on; unsaid: it ended as if all were done; false: it said "
    "so of a case that can be done"
)
APART = "of another plan: shown separately, not compared and not tested"
NOTHING_COMPARED = "Nothing is compared"
ALL_EASY = "a script without a thought may be right in each of these cases"
MOST_NAMED = 5  # trials in a sentence
Scores = Mapping[Setting, Score]
Names = Mapping[Setting, str]
Cells = dict[str, str | int]  # a row's cells by column; empty or 0 if nothing was counted


def report_results(
    results: Results,
    prices: Mapping[Setting, Price] = {},
    waits_for: EvaluationPlan | None = None,
    others: Mapping[str, Results] = {},
) -> list[Section]:
    """The sections: decisions and their cost; how they were made; kinds of cases; ends, if some
    cases can't be done; the results of `others`, by the name of their plan; and sentences. Nothing
    is tested if the plan in the file `waits_for` more results or has others.
    """
    names = name_settings(results)
    scores = {setting: Score(own, prices.get(setting)) for setting, own in results.items()}
    findings = compare(scores, waits_for is None)
    tested = [finding for finding in findings if finding.p is not None]
    sentences = [_of_finding(finding, names) for finding in findings]
    for finding in findings:
        sentences += _of_closed(finding, names)
    sentences += _of_causes(tested, names)
    sentences += _of_problems(scores, names)
    sentences += _of_common(results)
    sentences.append(_of_size(findings, waits_for))
    sections = [
        Section("Decisions", DECISIONS, _make_rows(scores, names, _decisions)),
        Section("How", "", _make_rows(scores, names, _how)),
        Section("Kinds of cases", "right of all", _make_rows(scores, names, _kinds)),
    ]
    ends = _make_rows(scores, names, _ends)
    if len(ends[0]) > 1:
        sections.append(Section("Cases that cannot be done", ENDS, ends))
    for name, own in others.items():
        sections.append(Section(name, APART, _of_another_plan(own)))
    return [*sections, Section("", "\n".join(sentences))]


def power(cases: int, trials: int, comparisons: int) -> str:
    """A sentence about what a run of this size can show, to read before paying for it."""
    size = f"With {pluralize(cases, 'case')} and {pluralize(trials, 'trial')} of each"
    with_these = f"with {pluralize(comparisons, 'comparison')}"
    if not cases:
        return f"{NOTHING_COMPARED}: {ALL_EASY}."
    at_best = detectable(cases, inf, comparisons)
    if at_best == inf:
        return f"{size} nothing can be found, {with_these}: only more cases help."
    gain = pluralize(ceil(100 * detectable(cases, trials, comparisons)), "point")
    least = pluralize(ceil(100 * at_best), "point")
    return (
        f"{size}, a remedy that makes no case worse is found at least two times in three if it "
        f"gains {gain}, {with_these}. More trials bring that to {least} at best; for less than "
        "that, only more cases help."
    )


# The tables.


def _make_rows(scores: Scores, names: Names, cells_of: Callable[[Score], Cells]) -> list[list[str]]:
    """A row for each setting, with the columns that have counts."""
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
    """The decisions and their cost."""
    cells: Cells = {"right": _right(score)}
    for k, share in enumerate(score.pass_k, 1):
        cells[f"pass^{k}"] = str(share)
    cells["easy"] = _right(Score(score.results, easy=True))
    cells["said done"] = score.total("false_success")
    cells["wrong writes"] = score.total("wrong_writes")
    runs = max(1, score.finished)
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
    """How the decisions were made."""
    cells: Cells = {
        "actions after a thought": _show_percent(
            score.total("behind_a_thought"), score.total("actions")
        ),
        "forced calls honored": _show_percent(score.total("honored"), score.total("forced")),
    }
    exits = Counter(result.exit for result in score.results)
    cells["exits"] = ", ".join(f"{exit} {count}" for exit, count in sorted(exits.items()))
    if score.usage.cached_tokens:
        cells["cached"] = f"{score.usage.cached_tokens / score.finished:,.0f}"
    return cells


def _kinds(score: Score) -> Cells:
    """The right results by kind of case."""
    runs = Counter(result.kind for result in score.ran)
    right = Counter(result.kind for result in score.ran if result.right)
    return {"right": ", ".join(f"{kind} {right[kind]}/{runs[kind]}" for kind in sorted(runs))}


def _ends(score: Score) -> Cells:
    """How runs ended if the case can't be done or the model said so."""
    ended = [result for result in score.ran if not result.is_closed]
    cannot = sum(result.cannot for result in ended)
    ends = Counter(result.end for result in ended)
    cells: Cells = {}
    if cannot:
        for end in ("timely", "late", "unsaid"):
            cells[end] = _show_percent(ends[end], cannot)
    if ends["false"] or cannot:
        cells["false"] = _show_percent(ends["false"], len(ended) - cannot)
    return cells


def _of_another_plan(results: Results) -> list[list[str]]:
    """The decisions under another plan."""
    scores = {setting: Score(own) for setting, own in results.items()}
    return _make_rows(scores, name_settings(results), _decisions)


def _right(score: Score) -> str:
    """Right results, of those compared."""
    if not score.compared:
        return ""
    return f"{score.right}/{len(score.compared)}"


def _show_percent(part: int, whole: int) -> str:
    """A part of a whole, with the percentage."""
    if not whole:
        return ""
    return f"{part}/{whole} ({part / whole:.0%})"


# The sentences.


def _of_finding(finding: ComparisonResult, names: Names) -> str:
    """The sentence about a comparison."""
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


def _of_closed(finding: ComparisonResult, names: Names) -> Iterator[str]:
    """How far closed trials could move a comparison."""
    if_right = finding.if_right
    if if_right is None:
        return
    comparison = finding.comparison
    closed = pluralize(finding.closed, "trial")
    low, high = finding.bounds
    p = "" if if_right.p is None else f" (p = {if_right.p:.2g})"
    yield (
        f"{names[comparison.setting]} against {names[comparison.against]}: {closed} without an "
        f"outcome count as not right. If all such trials were right: "
        f"{100 * if_right.difference:+.0f} points{p}; whatever they would have been: from "
        f"{100 * low:+.0f} to {100 * high:+.0f} points."
    )


def _of_causes(tested: list[ComparisonResult], names: Names) -> Iterator[str]:
    """The cause of the difference, for each model whose rows were tested."""
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
    """Errors of a setting, and whether several models answered for it."""
    for setting, score in scores.items():
        errors = [result.error for result in score.results if result.error]
        if errors:
            runs = pluralize(len(score.results), "run")
            yield (
                f"{names[setting]}: {len(errors)} of {runs} ended in an error, not counted: "
                f"{shorten(errors[0])}"
            )
        yield from _of_closed_trials(names[setting], score)
        served = {model for result in score.results for model in result.served}
        if len(served) > 1:
            models = ", ".join(sorted(served))
            yield f"{names[setting]}: answered by several models: {models}."


def _of_closed_trials(name: str, score: Score) -> Iterator[str]:
    """A setting's closed trials: how many, which, and what they could change."""
    closed = [result for result in score.ran if result.is_closed]
    if not closed:
        return
    which = [f"{result.case}, trial {result.trial}" for result in closed[:MOST_NAMED]]
    if len(closed) > MOST_NAMED:
        which.append(f"and {len(closed) - MOST_NAMED} more")
    yield (
        f"{name}: {len(closed)} of {pluralize(len(score.results), 'run')} have no outcome, because "
        f"each try failed, and count as not right ({'; '.join(which)}): "
        f"{shorten(closed[0].found[0])}"
    )
    if score.closed:
        yield (
            f"{name}: right in {_right(score)}; if all trials without an outcome were right, in "
            f"{_right(score.if_closed_were_right())}."
        )


def _of_common(results: Results) -> Iterator[str]:
    """Fields that are the same in all settings and aren't the default."""
    first, *others = without_floors(results)
    common = find_varying(first, Setting("")) - find_varying(first, *others)
    if common:
        values = [f"{name}={getattr(first, name)}" for name in sorted(common)]
        yield f"The same for all: {', '.join(values)}."


def _of_size(findings: list[ComparisonResult], plan: EvaluationPlan | None) -> str:
    """How small n is, or why nothing is tested. `plan`: the incomplete plan, if any."""
    tested = [finding.cases for finding in findings if finding.p is not None]
    n = min(tested, default=0)
    if n:
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
    if tested:
        return f"{NOTHING_COMPARED}: no case that is not easy has a trial of both settings."
    return (
        "Nothing is tested for significance: that takes two settings of a model, and chance has no "
        "part in what a script does."
    )
