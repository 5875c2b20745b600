"""Makes the HTML page of an evaluation: a picture, the comparisons, and the tables.

Rule 1: a dot of the picture is a share of the report, with the text of its cell beside it.
Rule 2: hard and easy cases are apart, each with one row for a setting. Floors are lines.
Rule 3: the page says at its top which models ran, when, on how much, and by which command. A page
        that is found again in a year must still say what it is of.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ..audit.page import rendered
from .scores import Results, Score, Share, named
from .tables import Section


class Mark(NamedTuple):
    """The share of a setting in the picture."""

    name: str
    share: Share


class Panel(NamedTuple):
    """A part of the picture: a dot for each setting, and a line for each floor, lowest first."""

    name: str
    dots: list[Mark]
    lines: list[Mark]


def to_html(results: Results, report: list[Section], command: str = "") -> str:
    """The page of these results; `report` is the report of them, `command` what made them."""
    *tables, sentences = report
    return rendered(
        "tables.html.j2",
        title="Evaluation",
        results=results,
        command=command,
        panels=panels(results),
        sentences=sentences.remark.splitlines(),
        tables=tables,
    )


def panels(results: Results) -> Iterator[Panel]:
    """The hard cases, which are compared, and the easy ones, if there are any."""
    for kind in ("hard", "easy"):
        panel = Panel(f"Right, of the {kind} cases", [], [])
        for setting, name in named(results).items():
            score = Score(results[setting], easy=kind == "easy")
            if score.compared:
                marks = panel.lines if setting.is_floor else panel.dots
                marks.append(Mark(name, score.pass_k[0]))
        panel.lines.sort(key=lambda mark: mark.share)
        if panel.dots:
            yield panel
