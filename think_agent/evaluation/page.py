"""Creates the HTML page of an evaluation: a picture, the comparisons, and the tables.

Rule 1: a dot in the picture is a share in the report, with the cell's text next to it.
Rule 2: hard and easy cases are separate, with one row per setting. Floors are lines.
Rule 3: the top of the page says which models ran, when, on how many cases, and by which command, so
        the page still makes sense in a year.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from ..audit.page import render_page
from ..outcome import pluralize
from .scores import Result, Results, Score, Share, name_settings
from .tables import Section

T = TypeVar("T")


class Mark(NamedTuple):
    """A setting's share in the picture."""

    name: str
    share: Share


class Panel(NamedTuple):
    """A part of the picture: a dot per setting and a line per floor, lowest first."""

    name: str
    dots: list[Mark]
    lines: list[Mark]


def results_to_html(
    results: Results, report: list[Section], origin: Mapping[str, str] | None = None
) -> str:
    """The page of these results and their `report`. `origin`: the command that made the page, and
    the time.
    """
    decisions, how, in_one_cell, *others, sentences = report
    by_kind = Section(in_one_cell.name, in_one_cell.remark, kinds(results))
    return render_page(
        "tables.html.j2",
        title="Evaluation",
        about=describe_results(results) | dict(origin or {}),
        panels=panels(results),
        sentences=sentences.remark.splitlines(),
        tables=[decisions, how, by_kind, *others],
    )


def describe_results(results: Results) -> dict[str, str]:
    """What ran, except floors, by name: models, size, time and version (rule 3)."""
    ran = [result for own in results.values() for result in own if not result.setting.is_floor]
    if not ran:
        return {}
    settings = _once(result.setting for result in ran)
    models = ", ".join(_once(setting.provider for setting in settings))
    if all(setting.is_scripted for setting in settings):
        models += " (scripted: no language model)"
    served = sorted({model for result in ran for model in result.served})
    cases = _once(result.case for result in ran)
    size = [
        pluralize(len(settings), "setting"),
        pluralize(len(cases), "case"),
        pluralize(len(ran), "run"),
    ]
    times = sorted(_minute(result) for result in ran)
    return {
        "models": models,
        "answered as": ", ".join(served) or "(unknown)",
        "size": ", ".join(size),
        "run": f"{' to '.join(_once([times[0], times[-1]]))} UTC",
        "by": f"think-agent {', '.join(_once(result.kit for result in ran))}",
    }


def _once(values: Iterable[T]) -> list[T]:
    """The values without duplicates, in order."""
    return list(dict.fromkeys(values))


def _minute(result: Result) -> str:
    return result.at[:16].replace("T", " ")


def kinds(results: Results) -> list[list[str]]:
    """The right results by kind of case: a row per kind, a column per setting. (The report has them
    in one cell, for a terminal.)
    """
    names = name_settings(results)
    columns = []
    for own in results.values():
        ran = Score(own).ran
        runs = Counter(result.kind for result in ran)
        right = Counter(result.kind for result in ran if result.right)
        columns.append({kind: f"{right[kind]}/{runs[kind]}" for kind in runs})
    rows = [["kind", *(names[setting] for setting in results)]]
    for kind in sorted({kind for column in columns for kind in column}):
        rows.append([kind or "no kind", *(column.get(kind, "-") for column in columns)])
    return rows


def panels(results: Results) -> Iterator[Panel]:
    """The hard cases, which are compared, and the easy ones, if there are any."""
    for kind in ("hard", "easy"):
        panel = Panel(f"Right, of the {kind} cases", [], [])
        for setting, name in name_settings(results).items():
            score = Score(results[setting], easy=kind == "easy")
            if score.compared:
                marks = panel.lines if setting.is_floor else panel.dots
                marks.append(Mark(name, score.pass_k[0]))
        panel.lines.sort(key=lambda mark: mark.share)
        if panel.dots:
            yield panel
