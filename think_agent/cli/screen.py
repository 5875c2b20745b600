"""The terminal, or whatever else the output goes to.

Rule 1: no output ends a run. What its encoding cannot write is escaped (`\\u2713`).
Rule 2: nothing of a model or a tool reaches the terminal raw: control characters are shown, not
        sent.
Rule 3: a pipe gets plain, complete lines; NO_COLOR is honored (by rich).
Rule 4: keys that are typed while something is shown wait for the next prompt. They do not answer a
        question that was not on the screen yet.
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
    """A console that takes any text, and any width that the environment claims."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr)
        accept_any_text(self.file)
        if self.width < 1:  # COLUMNS=0
            self.width = 80


def accept_any_text(stream: object) -> None:
    """From now on, what the stream cannot encode or decode is escaped instead of raising."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def write(console: Console, text: str, style: str = "") -> None:
    """Text that a terminal wraps at words, and a pipe does not wrap at all."""
    console.print(Text(sanitize(text), style), soft_wrap=not console.is_terminal)


def write_block(console: Console, icon: str, style: str, text: str) -> None:
    """An icon or a name, and a text that a terminal wraps beside it. No line for a blank text."""
    text = text.strip()
    if not text:
        return
    if console.is_terminal:
        console.print(block(icon, style, text))
    else:
        write(console, f"{icon} {text}", style)


def block(icon: str, style: str, text: str) -> Table:
    """An icon or a name, and a text that wraps beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    indent = " " * (2 - cell_len(icon))
    shown = sanitize(text).replace(',"', ', "')  # JSON without a space could not be wrapped
    grid.add_row(Text(indent + icon), Text(shown, style))
    return grid


def say(line: str) -> None:
    """A line on stderr for the person: a terminal wraps it at words, a pipe gets it whole."""
    write(Screen(stderr=True), line)


def read_line(prompt: str, present: str = "") -> str:
    """A line from stdin, a terminal or not. `present` stands there to be edited where it can be;
    an empty line keeps it. Raises EOFError where the input is over.
    """
    with suppress(ImportError):  # there is none on Windows
        import readline  # with it, prompts have a history, too

        readline.set_startup_hook(lambda: readline.insert_text(present))
    return input(prompt) or present


def half_typed() -> str:
    """What stands on the line that Ctrl-C ended."""
    with suppress(ImportError):
        import readline

        return readline.get_line_buffer()
    return ""


def show_typing(is_shown: bool, *, forget: bool = False) -> None:
    """Keep typed keys out of a preview, or show them again. They wait for the next prompt;
    `forget` drops those that were typed before a question was on the screen.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        return
    import termios

    with suppress(OSError):  # it is not the terminal of this session
        if os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            return  # a background job that changes it would be stopped
        mode = termios.tcgetattr(sys.stdin)
        mode[3] &= ~termios.ECHO
        if is_shown:
            mode[3] |= termios.ECHO
        when = termios.TCSANOW
        if forget:
            when = termios.TCSAFLUSH
        termios.tcsetattr(sys.stdin, when, mode)
