"""Lays tables out for a file or for a terminal.

Rule 1: the content of tables is decided in `report.py`. Only the layout is here.
Rule 2: a pipe or a file gets Markdown of any width. In a terminal, no line is wider than the
        screen: cells wrap, and no table has more columns than fit in 60 characters.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..text import sanitize


class Section(NamedTuple):
    """A table, its name, and a remark on how to read it. `rows[0]` is the header. Without rows
    there's only the remark.
    """

    name: str
    remark: str
    rows: Sequence[Sequence[str]] = ()


def markdown(sections: Sequence[Section]) -> str:
    """For a file: whole tables with aligned columns."""
    wide = Console(force_terminal=True, width=100_000, color_system=None)
    with wide.capture() as shown:
        show_sections(sections, wide)  # wide enough that no line wraps
    return re.sub(r" +\n", "\n", shown.get()).strip()


def show_sections(sections: Sequence[Section], console: Console) -> None:
    """For a terminal: no line is wider than the screen. Otherwise Markdown."""
    if not console.is_terminal:
        print(markdown(sections), file=console.file)
        return
    for section in sections:
        remark = section.remark
        if section.name and remark:
            remark = f" ({remark})"
        console.print(Text.assemble((section.name, "bold"), sanitize(remark)))
        if section.rows:
            header, *rows = section.rows
            table = Table(box=box.MARKDOWN, header_style="bold")
            for text in header:
                table.add_column(_cell(text), overflow="fold")
            for row in rows:
                table.add_row(*(_cell(text) for text in row))
            console.print(table)  # rich puts empty lines around it


def _cell(text: str) -> Text:
    return Text(sanitize(text, keep="").replace("|", "\\|"))
