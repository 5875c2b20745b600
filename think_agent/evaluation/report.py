"""Makes the report of an evaluation from its results. The wording is in `report.j2`.

Rule 1: a setting is named by its differences from the others. What all have in common is said once.
        A column without counts is left out.
Rule 2: the floors are in every table, below the settings.
Rule 3: the last lines are sentences: one for each comparison that was named before the run, with
        its size, interval and p-value; then problems of the results, and how small n is.
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
    """Four sections: decisions and their cost, how they came about, kinds of cases, sentences."""
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
    """What a run of this size can show: a sentence to read before paying for the run."""
    seen = 100 * detectable(cases, trials, comparisons)
    needed = trials_for(SMALL, cases, comparisons)
    return (
        f"With {counted(cases, 'case')} and {counted(trials, 'trial')} of each, "
        f"a difference of {seen:.0f} points is found two times in three, "
        f"with {counted(comparisons, 'comparison')}; "
        f"one of {100 * SMALL:.0f} points takes {counted(needed, 'trial')}."
    )


def _table(text: str) -> list[list[str]]:
    """A row for each paragraph, with the columns of all paragraphs."""
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
