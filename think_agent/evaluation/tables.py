"""The report of an evaluation: the figures of `scores.py` as tables, for a file or for a terminal.

Rule 1: what is in the tables is decided once (`report`); only their layout depends on who reads.
Rule 2: settings are called by what sets them apart, what they have in common is said once, and a
        column in which nothing was counted is left out.
Rule 3: the last lines are sentences: what is a finding, what is not, and how little n is.
Rule 4: a pipe or a file gets Markdown, however wide. A terminal gets no line that is wider than
        itself: a table that does not fit is turned, with a line for each figure and a column for
        each setting, as many beside each other as fit.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import count

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..policies import Price
from ..text import sanitize
from .intervals import mcnemar, wilson
from .scores import VARIED, Comparison, Result, Score, Setting, compare, named, score, varying

CLEAR = 0.05  # a p-value below it is called a difference
NOTHING = {"-", "0", "0.0", "0 / 0"}  # cells of a column that says nothing
WIDE = 100_000  # columns: no line is broken
FRAME = 3  # characters that a cell takes on top of its text: "| " and " "

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A table, its name, and a remark on how to read it. `rows[0]` is the header; without rows the
    remark stands alone.
    """

    name: str
    remark: str
    rows: Rows = ()


def report(
    results: Mapping[Setting, Sequence[Result]], prices: Mapping[Setting, Price] | None = None
) -> list[Section]:
    """Decisions, what they took, kinds of cases, steadiness, comparisons, and how little n is."""
    if not results:
        return [Section("", "There are no results yet.")]
    settings = list(results)
    scores = {one: score(own, (prices or {}).get(one)) for one, own in results.items()}
    names = {one: sanitize(" ".join(name.split())) for one, name in named(settings).items()}
    pairs = compare(results)
    sections = [
        Section(
            "Decisions",
            "right: what was done is what the case expects; 95\u00a0% Wilson intervals; calls, "
            f"tokens, cost and seconds are averages of a run{_in_common(settings)}",
            _table(names, scores, _decisions),
        ),
        Section("How", "", _table(names, scores, _effort)),
        Section("Right, by kind of case", "", [["kind", *names.values()], *_kinds(results)]),
    ]
    if any(len(it.pass_k) > 1 for it in scores.values()):
        remark = "pass^k: how likely k trials of a case are all right"
        rows = _table(names, scores, _steadiness)
        sections.append(Section("Steadiness", remark, rows))
    if any(setting.trust_model for setting in results):
        remark = "The world's own enforcement was switched off: this is the models' judgment."
        sections.insert(0, Section("", remark))
    if pairs:
        remark = "one thing differs between the two; exact McNemar test, p adjusted by Holm"
        sections.append(Section("Paired comparisons", remark))
    sentences = [*(_verdict(names, pair) for pair in pairs), _how_little(scores, len(pairs))]
    return [*sections, Section("", "\n".join(sentences))]


def markdown(sections: Sequence[Section]) -> str:
    """For a file: each table whole, with columns that line up."""
    out = StringIO()
    show(sections, Console(file=out, width=WIDE, color_system=None), mark="**")
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def show(sections: Sequence[Section], console: Console, mark: str = "") -> None:
    """For a terminal: nothing is wider than it. `mark` stands around the names."""
    for section in sections:
        name, remark = section.name, section.remark
        aside = f" ({remark})" if name and remark else remark
        console.print(Text.assemble((f"{mark}{name}{mark}" if name else "", "bold"), aside))
        for rows in fitting(section.rows, console.width):
            console.print(_grid(rows))  # with an empty line before and after
        if not section.rows:
            console.print()


def fitting(rows: Rows, width: int) -> Iterator[Rows]:
    """The table as it is where it fits into `width`; else turned, in as many parts as it takes."""
    if sum(map(_width, zip(*rows, strict=True))) + 1 <= width:
        yield from [rows] if rows else []
        return
    header, *others = rows
    beside = max(1, (width - 1 - _width(header)) // max(map(_width, others)))
    for first in range(0, len(others), beside):
        yield list(zip(header, *others[first : first + beside], strict=True))


def _width(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells)) + FRAME


def _grid(rows: Rows) -> Table:
    """A table as Markdown draws it; cells that are too wide even so are wrapped at words."""
    grid = Table(box=box.MARKDOWN, header_style="bold")
    header, *others = [[Text(_in_a_cell(cell)) for cell in row] for row in rows]
    for cell in header:
        grid.add_column(cell, overflow="fold")
    for row in others:
        grid.add_row(*row)
    return grid


def _in_a_cell(text: str) -> str:
    return sanitize(" ".join(text.split())).replace("|", "\\|")


# The rows: each a mapping from column to cell.


def _table(
    names: Mapping[Setting, str],
    scores: Mapping[Setting, Score],
    figures: Callable[[Score], Mapping[str, str]],
) -> Rows:
    """A row a setting, without the columns that say nothing."""
    found = {names[one]: figures(it) for one, it in scores.items()}
    columns = dict.fromkeys(name for own in found.values() for name in own)
    kept = [c for c in columns if not {own.get(c, "-") for own in found.values()} <= NOTHING]
    rows = [[name, *(own.get(c, "-") for c in kept)] for name, own in found.items()]
    return [["setting", *kept], *rows]


def _decisions(one: Score) -> dict[str, str]:
    return {
        "right": f"{one.right}/{one.trials}",
        "accuracy": f"{one.accuracy:.1%}",
        "95 % interval": _interval(*one.interval),
        "wrong writes": f"{one.totals['wrong_writes']}",
        "calls": f"{one.mean('model_calls'):.1f}",
        "tokens in": f"{one.mean('input_tokens'):,.0f}",
        "cached": f"{one.mean('cached_tokens'):,.0f}",
        "out": f"{one.mean('output_tokens'):,.0f}",
        "cost": "-" if one.cost is None else f"${one.cost:.4f}",
        "seconds": f"{one.mean('seconds'):.2f}",
    }


def _effort(one: Score) -> dict[str, str]:
    def of(part: str, whole: str) -> str:
        some, all = one.totals[part], one.totals[whole]
        return f"{some}/{all} ({some / all:.0%})" if all else "-"

    return {
        "actions behind a thought": of("behind_a_thought", "actions"),
        "forced calls honored": of("honored", "forced"),
        "exits": ", ".join(f"{exit} {count}" for exit, count in one.exits.most_common()),
    }


def _steadiness(one: Score) -> dict[str, str]:
    return {
        f"pass^{k}": f"{share:.1%} ({_interval(*interval)})"
        for k, (share, interval) in enumerate(one.pass_k, 1)
    }


def _kinds(results: Mapping[Setting, Sequence[Result]]) -> Iterator[list[str]]:
    for kind in dict.fromkeys(one.kind for own in results.values() for one in own):
        columns = [[one.right for one in own if one.kind == kind] for own in results.values()]
        yield [kind, *(f"{sum(column)}/{len(column)}" for column in columns)]


def _interval(low: float, high: float) -> str:
    return f"{low:.1%} to {high:.1%}"


# The sentences.


def _in_common(settings: Sequence[Setting]) -> str:
    """What is the same for all settings, as far as it is not the usual."""
    usual, one = Setting(""), settings[0]
    same = [n for n in VARIED if n not in (*varying(settings), "trust_model")]
    unusual = [f"{n}={getattr(one, n)}" for n in same if getattr(one, n) != getattr(usual, n)]
    return f"; the same for all: {sanitize(', '.join(unusual))}" if unusual else ""


def _verdict(names: Mapping[Setting, str], pair: Comparison) -> str:
    """`careful beat hasty in 43 of the 44 cases that differ (p < 0.001).`"""
    sides = [(pair.first_better, names[pair.first]), (pair.second_better, names[pair.second])]
    (won, winner), (lost, loser) = sorted(sides, key=lambda side: -side[0])
    p = f"= {pair.p:.2g}" if pair.p >= 0.001 else "< 0.001"
    if not won:
        return f"{winner} and {loser} did equally well on every case."
    cases = f"{won} of the {won + lost} cases that differ (p {p})"
    if pair.p < CLEAR:
        return f"{winner} beat {loser} in {cases}."
    return f"No difference is shown between {winner} and {loser}: {winner} was better in {cases}."


def _how_little(scores: Mapping[Setting, Score], pairs: int) -> str:
    """What so few cases cannot show."""
    n = min(one.cases for one in scores.values())
    low, high = wilson(n / 2, n)
    words = f"n is {n} case{'s' * (n > 1)}: a share near one half is known to "
    words += f"± {100 * (high - low) / 2:.0f} points."
    if pairs:
        least = next(k for k in count(1) if mcnemar(k, 0) * pairs < CLEAR)
        words += f" A difference takes at least {least} cases that differ, all in one direction."
    return words
