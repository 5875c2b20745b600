"""The report of an evaluation: the figures of `scores.py` as tables, for a file or for a terminal.

Rule 1: what is in the tables is decided once (`report`); only their layout depends on who reads.
Rule 2: a pipe or a file gets Markdown, however wide.
Rule 3: a terminal gets no line that is wider than itself: a table that does not fit is turned, with
        a line for each figure and a column for each setting, as many beside each other as fit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..cli.console import printable
from ..policies import Price
from .scores import Comparison, Result, Score, Setting, compare, score

CLEAR = 0.05  # a p-value below it is called a difference
DECISIONS = ("#", "provider", "dialect", "force", "flag", "right", "accuracy", "95 % interval")
EFFORT = (
    *("#", "actions behind a thought", "forced calls honored", "exits"),
    *("calls", "tokens in", "out", "cached", "cost", "seconds"),
)
PAIRS = ("pair", "what differs", "first better", "second better", "p", "difference")
FRAME = 3  # characters that a cell takes on top of its text: "| " and " "

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A table, its name, and a remark on how to read it. `rows[0]` is the header; without rows the
    remark stands alone.
    """

    name: str
    remark: str
    rows: Rows


def report(
    results: Mapping[Setting, Sequence[Result]], prices: Mapping[Setting, Price] | None = None
) -> list[Section]:
    """Decisions, what they took, kinds of cases, comparisons."""
    scores = [score(own, (prices or {}).get(setting)) for setting, own in results.items()]
    number = {setting: f"#{n}" for n, setting in enumerate(results, 1)}
    k = max(result.trial for own in results.values() for result in own)
    sections = [
        Section(
            "Decisions",
            "right: what was done is what the case expects; 95\u00a0% Wilson interval",
            [
                [*DECISIONS, f"pass^{k}", "wrong writes"],
                *(_decisions(number[one.setting], one) for one in scores),
            ],
        ),
        Section(
            "What it took",
            "calls, tokens, cost and seconds are averages of a run",
            [EFFORT, *(_effort(number[one.setting], one) for one in scores)],
        ),
        Section("Right, by kind of case", "", [["kind", *number.values()], *_kinds(results)]),
    ]
    if pairs := compare(results):
        remark = "one thing differs; on how many cases either did better; exact McNemar test, "
        remark += "p adjusted by Holm"
        rows = [PAIRS, *(_comparison(number, pair) for pair in pairs)]
        sections.append(Section("Paired comparisons", remark, rows))
    if any(setting.trust_model for setting in results):
        remark = "The world's own enforcement was switched off: this is the models' judgment."
        sections.insert(0, Section("", remark, []))
    return sections


def markdown(sections: Sequence[Section]) -> str:
    """For a file: each table whole, with columns that line up."""
    parts = []
    for section in sections:
        remark = f" ({section.remark})" if section.remark else ""
        parts.append(f"**{section.name}**{remark}" if section.name else section.remark)
        if section.rows:
            parts.append(_lined_up(section.rows))
    return "\n\n".join(parts)


def show(sections: Sequence[Section], console: Console) -> None:
    """For a terminal: nothing is wider than it."""
    for section in sections:
        name, remark = section.name, section.remark
        aside = f" ({remark})" if name and remark else remark
        console.print(Text.assemble((name, "bold"), aside))
        for rows in fitting(section.rows, console.width):
            console.print(_grid(rows))
        console.print()


def fitting(rows: Rows, width: int) -> Iterator[Rows]:
    """The table as it is where it fits into `width`; else turned, in as many parts as it takes."""
    if sum(map(_width, zip(*rows, strict=True))) + 1 <= width:
        if rows:
            yield rows
        return
    header, *left = rows
    while left:
        room, beside = width - 1 - _width(header) - _width(left[0]), 1
        while beside < len(left) and (room := room - _width(left[beside])) >= 0:
            beside += 1
        yield list(zip(header, *left[:beside], strict=True))
        left = left[beside:]


def _width(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells)) + FRAME


def _grid(rows: Rows) -> Table:
    """A table as Markdown draws it; cells that are too wide even so are wrapped at words."""
    grid = Table(box=box.MARKDOWN, header_style="bold")
    for cell in rows[0]:
        grid.add_column(Text(printable(cell)), overflow="fold")
    for row in rows[1:]:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    return grid


def _lined_up(rows: Rows) -> str:
    lines = [[_in_a_cell(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    padded = (
        [set_cell_size(cell, width) for cell, width in zip(line, widths, strict=True)]
        for line in lines
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def _in_a_cell(text: str) -> str:
    return printable(" ".join(text.split())).replace("|", "\\|")


# The rows.


def _decisions(number: str, one: Score) -> list[str]:
    setting = one.setting
    low, high = one.interval
    return [
        *(number, setting.provider, setting.dialect, setting.force, setting.flag),
        f"{one.right}/{one.trials}",
        f"{one.accuracy:.1%}",
        f"{low:.1%} to {high:.1%}",
        f"{one.pass_k:.1%}",
        f"{one.wrong_writes}",
    ]


def _effort(number: str, one: Score) -> list[str]:
    return [
        number,
        _of(one.behind_a_thought, one.actions),
        _of(one.honored, one.forced),
        ", ".join(f"{name} {count}" for name, count in one.exits.most_common()),
        f"{one.calls:.1f}",
        *(f"{n:,.0f}" for n in (one.input_tokens, one.output_tokens, one.cached_tokens)),
        "-" if one.cost is None else f"${one.cost:.4f}",
        f"{one.seconds:.2f}",
    ]


def _kinds(results: Mapping[Setting, Sequence[Result]]) -> Iterator[list[str]]:
    kinds = dict.fromkeys(result.kind for own in results.values() for result in own)
    for kind in kinds:
        columns = [
            [result.right for result in own if result.kind == kind] for own in results.values()
        ]
        yield [kind, *(f"{sum(column)}/{len(column)}" for column in columns)]


def _comparison(number: Mapping[Setting, str], pair: Comparison) -> list[str]:
    changed = [
        f"{f.name}: {getattr(pair.first, f.name)} / {getattr(pair.second, f.name)}"
        for f in fields(Setting)
        if getattr(pair.first, f.name) != getattr(pair.second, f.name)
    ]
    return [
        f"{number[pair.first]}, {number[pair.second]}",
        *changed,
        f"{pair.first_better}",
        f"{pair.second_better}",
        f"{pair.p:.2g}" if pair.p >= 0.001 else "< 0.001",
        "yes" if pair.p < CLEAR else "not shown",
    ]


def _of(part: int, whole: int) -> str:
    return f"{part}/{whole} ({part / whole:.0%})" if whole else "-"
