"""The report of an evaluation: the figures of `scores.py` as tables, for a file or for a terminal.

Rule 1: what is in the tables is decided once (`report`); only their layout depends on who reads.
Rule 2: settings are called by what sets them apart, what they have in common is said once, and a
        column in which nothing was counted is left out.
Rule 3: the last lines are sentences: what is a finding, what is not, and how little n is. Between
        scripts alone nothing is tested: chance has no part in what they do.
Rule 4: a pipe or a file gets Markdown, however wide. A terminal gets no line that is wider than
        itself: cells are wrapped, so no table has more columns than 60 characters can hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..policies import Price
from ..text import sanitize, shorten
from .intervals import wilson
from .scores import VARIED, Comparison, Result, Score, Setting, compare, named, varying

CLEAR = 0.05  # a p-value below it is called a difference
NOTHING = {"-", "0", "0.0", "0 + 0"}  # cells of a column that says nothing
SCRIPTED = "Nothing is tested for significance: chance has no part in what a script does."
WIDE = 100_000  # columns: no line is broken


@dataclass(frozen=True, slots=True)
class Section:
    """A table, its name, and a remark on how to read it. `rows[0]` is the header; without rows the
    remark stands alone.
    """

    name: str
    remark: str
    rows: Sequence[Sequence[str]] = ()


def report(
    results: Mapping[Setting, Sequence[Result]], prices: Mapping[Setting, Price] = {}
) -> list[Section]:
    """Decisions and what they took, how they came about, and sentences."""
    if not results:
        return [Section("", "There are no results yet.")]
    names = named(list(results))
    scores = {names[one]: Score(own, prices.get(one)) for one, own in results.items()}
    pairs = compare(results)
    remark = "right: what was done is what the case expects; 95\u00a0% Wilson intervals; pass^k: "
    remark += f"all of k are right; calls, tokens and cost: averages{_in_common(list(results))}"
    is_tested = not all(setting.is_scripted for setting in results)
    sentences = [_verdict(names, pair, is_tested) for pair in pairs]
    for one, own in results.items():
        if failed := [result.error for result in own if result.error]:
            words = f"{len(failed)} of {len(own)} runs ended in an error: {shorten(failed[0])}"
            sentences.append(f"{names[one]}: {words}")
    n = min(score.cases for score in scores.values())
    sentences.append(_how_little(n) if is_tested else SCRIPTED)
    return [
        Section("Decisions", remark, _table({one: _decisions(own) for one, own in scores.items()})),
        Section("How", "", _table({one: _effort(own) for one, own in scores.items()})),
        Section("", "\n".join(sentences)),
    ]


def markdown(sections: Sequence[Section]) -> str:
    """For a file: each table whole, with columns that line up."""
    out = StringIO()
    _print(sections, Console(file=out, width=WIDE, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip()


def show(sections: Sequence[Section], console: Console) -> None:
    """For a terminal: nothing is wider than it. Where the console is none, as Markdown."""
    if console.is_terminal:
        _print(sections, console)
    else:
        console.print(Text(markdown(sections)), soft_wrap=True)


def _print(sections: Sequence[Section], console: Console) -> None:
    for section in sections:
        aside = f" ({section.remark})" if section.name and section.remark else section.remark
        console.print(Text.assemble((section.name, "bold"), sanitize(aside)))
        if section.rows:
            header, *others = [[_cell(text) for text in row] for row in section.rows]
            columns = [Column(cell, overflow="fold") for cell in header]
            grid = Table(*columns, box=box.MARKDOWN, header_style="bold")  # empty lines around it
            for row in others:
                grid.add_row(*row)
            console.print(grid)


def _cell(text: str) -> Text:
    return Text(sanitize(" ".join(text.split())).replace("|", "\\|"))


# The rows: each a mapping from column to cell.


def _table(found: Mapping[str, Mapping[str, str]]) -> Sequence[Sequence[str]]:
    """A row a setting, without the columns that say nothing."""
    columns = dict.fromkeys(name for own in found.values() for name in own)
    kept = [c for c in columns if not {own.get(c, "-") for own in found.values()} <= NOTHING]
    rows = [[name, *(own.get(c, "-") for c in kept)] for name, own in found.items()]
    return [["setting", *kept], *rows]


def _decisions(one: Score) -> dict[str, str]:
    (share, interval), *more = one.pass_k
    return {
        "right": f"{one.right}/{one.trials}",
        "share": _with_interval(share, interval),
        **{f"pass^{k}": _with_interval(*own) for k, own in enumerate(more, 2)},
        "wrong writes": f"{one.total('wrong_writes')}",
        "calls": f"{one.mean('model_calls'):.1f}",
        "tokens": f"{one.mean('input_tokens'):,.0f} + {one.mean('output_tokens'):,.0f}",
        "cost": "-" if one.cost is None else f"${one.cost:.4f}",
    }


def _effort(one: Score) -> dict[str, str]:
    def of(part: str, whole: str) -> str:
        some, all = one.total(part), one.total(whole)
        return f"{some}/{all} ({some / all:.0%})" if all else "-"

    return {
        "actions behind a thought": of("behind_a_thought", "actions"),
        "forced calls honored": of("honored", "forced"),
        "exits": ", ".join(f"{exit} {count}" for exit, count in one.exits.most_common()),
        "cached": f"{one.mean('cached_tokens'):,.0f}",
        "seconds": f"{one.mean('seconds'):.2f}",
    }


def _with_interval(share: float, interval: tuple[float, float]) -> str:
    return "{:.1%} ({:.1f} to {:.1f})".format(share, *(100 * end for end in interval))


# The sentences.


def _in_common(settings: Sequence[Setting]) -> str:
    """What is the same for all settings, as far as it is not the usual."""
    usual, one = Setting(""), settings[0]
    same = [n for n in VARIED if n not in varying(settings)]
    unusual = [f"{n}={getattr(one, n)}" for n in same if getattr(one, n) != getattr(usual, n)]
    return f"; the same for all: {', '.join(unusual)}" if unusual else ""


def _verdict(names: Mapping[Setting, str], pair: Comparison, is_tested: bool) -> str:
    """`careful beat hasty in 43 of the 44 cases that differ (p < 0.001).`"""
    if not pair.first_better + pair.second_better:
        return f"Equally well on every case: {names[pair.first]} and {names[pair.second]}."
    sides = [(pair.first_better, names[pair.first]), (pair.second_better, names[pair.second])]
    (won, winner), (lost, loser) = sorted(sides, key=lambda side: -side[0])
    p = f" (p {f'= {pair.p:.2g}' if pair.p >= 0.001 else '< 0.001'})" if is_tested else ""
    cases = f"{won} of the {won + lost} cases that differ{p}"
    if pair.p < CLEAR or not is_tested:
        return f"{winner} beat {loser} in {cases}."
    return f"No difference is shown between {winner} and {loser}: {winner} was better in {cases}."


def _how_little(n: int) -> str:
    """What so few cases cannot show."""
    low, high = wilson(n / 2, n)
    known = f"a share near one half is known to ± {100 * (high - low) / 2:.0f} points"
    return f"n is {n} case{'s' * (n > 1)}: {known}."
