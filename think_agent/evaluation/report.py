"""The report of an evaluation, from its results. How it is worded: `report.j2`.

Rule 1: settings are called by what sets them apart, what they have in common is said once, and a
        column in which nothing was counted is left out.
Rule 2: the floors stand in every table, below the settings.
Rule 3: the last lines are sentences: one for each comparison that was named before the run, with
        its size, its interval and its p-value; what is wrong with the results; and how little n is.
"""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import Template

from ..audit.words import counted
from ..policies import Price
from .comparisons import compare, planned
from .intervals import detectable, trials_for, wilson
from .scores import Result, Score, Setting, named, varying, without_floors
from .tables import Section

WORDS = Path(__file__).with_name("report.j2").read_text(encoding="utf-8")
DECISIONS = (
    "right: what was done is what the case expects, of the runs without an error; "
    "pass^k: all of k trials are right, with 95\u00a0% Wilson intervals; said done: it was not; "
    "calls, tokens and cost: averages; -: none"
)
SMALL = 0.07  # what the tool alone did in Anthropic's article (airline): .332 to .404


def report(
    results: Mapping[Setting, list[Result]],
    prices: Mapping[Setting, Price] = {},
) -> list[Section]:
    """Decisions and what they took, how they came about, kinds of cases, and sentences."""
    settings = list(results)
    scores = {setting: Score(own, prices.get(setting)) for setting, own in results.items()}
    usual, *others = without_floors(settings)
    common = varying(usual, Setting("")) - varying(usual, *others)
    words = Template(WORDS, trim_blocks=True, lstrip_blocks=True).make_module(
        {
            "scores": scores,
            "names": named(settings),
            "findings": compare(scores, planned(settings)),
            "usual": usual,
            "common": sorted(common),
            "count": counted,
            "wilson": wilson,
        }
    )
    return [
        Section("Decisions", DECISIONS, _table(words.decisions())),
        Section("How", "", _table(words.how())),
        Section("Kinds of cases", "right of all", _table(words.kinds())),
        Section("", str(words).strip()),
    ]


def power(cases: int, trials: int, comparisons: int) -> str:
    """What a run of this size can show, to be said before it is paid."""
    seen = 100 * detectable(cases, trials, comparisons)
    needed = trials_for(SMALL, cases, comparisons)
    return (
        f"With {counted(cases, 'case')} and {counted(trials, 'trial')} of each, "
        f"a difference of {seen:.0f} points is found two times in three, "
        f"with {counted(comparisons, 'comparison')}; "
        f"one of {100 * SMALL:.0f} points takes {counted(needed, 'trial')}."
    )


def _table(text: str) -> list[list[str]]:
    """A row for each paragraph, with the columns that any of them has."""
    rows = []
    header: dict[str, None] = {}
    for paragraph in text.strip().split("\n\n"):
        cells = dict(line.split(" | ", 1) for line in paragraph.splitlines())
        header |= dict.fromkeys(cells)
        rows.append(cells)
    table = [[*header]]
    for cells in rows:
        table.append([cells.get(column, "-") for column in header])
    return table
