"""Writes to the terminal, a pipe or a file, and reads lines from the terminal.

Rule 1: no text makes a run fail. A character that the encoding lacks is escaped (`\\u2713`).
Rule 2: text from a model or a tool can't control the terminal: control characters are escaped.
Rule 3: a pipe gets plain, complete lines. Rich honors NO_COLOR. A text's later lines are indented,
        so none of them can imitate a line of the run.
Rule 4: keys typed during a run wait for the next prompt. They don't answer a question that wasn't
        on the screen yet.
"""

import io
import os
import sys
from contextlib import suppress

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..text import sanitize


class Screen(Console):
    """A console that accepts any text, and any width in the environment."""

    def __init__(self, *, stderr: bool = False) -> None:
        open_missing_streams()
        super().__init__(stderr=stderr)
        accept_any_text(self.file)
        if self.width < 1:  # COLUMNS=0
            self.width = 80


def open_missing_streams() -> None:
    """Open the null device for each standard stream that the caller has closed (`<&-`, `>&-`,
    `2>&-`). Python has None there. And the next file that is opened would get the stream's number,
    so what another library prints would end up in it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            device = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(device, mode, encoding="utf-8"))


def accept_any_text(stream: object) -> None:
    """Make the stream escape what it can't encode or decode, instead of raising."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def write(console: Console, text: str, style: str = "") -> None:
    """Write text. A terminal wraps it at words; a pipe doesn't."""
    console.print(Text(sanitize(text), style), soft_wrap=not console.is_terminal)


def write_block(console: Console, icon: str, style: str, text: str) -> None:
    """Write an icon or a name and a text that wraps next to it; nothing for a blank text."""
    text = text.strip()
    if not text:
        return
    if console.is_terminal:
        console.print(block(icon, style, text))
    else:
        indent = " " * (cell_len(icon) + 1)
        write(console, f"{icon} {text}".replace("\n", f"\n{indent}"), style)  # rule 3


def block(icon: str, style: str, text: str) -> Table:
    """An icon or a name, and a text that wraps next to it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    indent = " " * (2 - cell_len(icon))
    shown = sanitize(text).replace(',"', ', "')  # rich can't wrap JSON without spaces
    grid.add_row(Text(indent + icon), Text(shown, style))
    return grid


def say(line: str) -> None:
    """Write a line to stderr. A terminal wraps it at words; a pipe doesn't."""
    write(Screen(stderr=True), line)


def read_line(prompt: str, present: str = "") -> str:
    """Read a line from stdin, a terminal or not. Where possible, `present` is on the line for
    editing; an empty line keeps it. Raises EOFError at the end of the input.
    """
    open_missing_streams()  # where stdin is closed, the input has ended
    if sys.platform != "win32":
        with suppress(ImportError):  # some Pythons lack it
            import readline  # it also gives prompts a history

            readline.set_startup_hook(lambda: readline.insert_text(present))
    if not _is_open():
        raise EOFError
    return input(prompt) or present


def can_type() -> bool:
    """Is stdin a terminal, at which a person can type?"""
    return _is_open() and sys.stdin.isatty()


def read_piped() -> str:
    """The text that another program pipes in; empty at a terminal, or if stdin is closed."""
    if not _is_open() or sys.stdin.isatty():
        return ""
    return sys.stdin.read()


def _is_open() -> bool:
    return sys.stdin is not None and not sys.stdin.closed  # None: it was closed before (`<&-`)


def show_typing(is_shown: bool, *, forget: bool = False) -> None:
    """Hide typed keys during a preview, or show them again. They wait for the next prompt; `forget`
    drops those that were typed before the question appeared.
    """
    if sys.platform == "win32" or not can_type():
        return
    import termios

    with suppress(OSError):  # not this session's terminal
        if os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            return  # changing it would stop a background job
        mode = termios.tcgetattr(sys.stdin)
        mode[3] &= ~termios.ECHO
        if is_shown:
            mode[3] |= termios.ECHO
        when = termios.TCSANOW
        if forget:
            when = termios.TCSAFLUSH
        termios.tcsetattr(sys.stdin, when, mode)
