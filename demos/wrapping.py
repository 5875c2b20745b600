"""Lines that fit the terminal, for lessons that use plain `print`. No part of any lesson.

Rule 1: a line is broken between words and goes on two columns further in than it began. A word that
        is wider than the terminal stays whole.
Rule 2: what comes is shown at once, be it half a word. When the rest of the word does not fit, the
        half is taken back and the word begins the next line.
Rule 3: a pipe gets what is printed, byte for byte.

The edge: lesson 01 uses it, too, so it imports nothing of the kit. It knows spaces and line breaks,
and no escape sequences.
"""

import io
import re
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TextIO, cast

from rich.cells import cell_len

PARTS = re.compile(r"\n| +|[^ \n]+")


def wrapped_at_words() -> AbstractContextManager[object]:
    """In a `with`: where stdout is a terminal, `print` breaks lines between words."""
    if not sys.stdout.isatty():
        return nullcontext()
    wrapped = Wrapped(sys.stdout, shutil.get_terminal_size().columns)
    return redirect_stdout(cast(TextIO, wrapped))


class Wrapped(io.TextIOBase):
    """A terminal so many cells wide, as a text file that wraps at words."""

    def __init__(self, terminal: TextIO, width: int) -> None:
        self._terminal = terminal
        self._width = width - 1  # behind the last column, terminals differ in where the cursor is
        self._begin_line()

    def _begin_line(self) -> None:
        self._column = 0  # where the word begins, in cells
        self._word = ""  # what is on the screen of the last word, while it may go on
        self._gap = ""  # the spaces before a word that has not come yet
        self._is_first = True  # on its row of the screen
        self._hang = -1  # the indent of further rows; known once the first word has come

    def write(self, text: str) -> int:
        for part in PARTS.findall(text.replace("\t", "    ")):
            if part == "\n":
                self._terminal.write("\n")
                self._begin_line()
            elif part[0] == " ":
                self._end_word()
                self._gap += part
            else:
                self._add(part)
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()

    def _end_word(self) -> None:
        if self._word:
            self._column += cell_len(self._word)
            self._word, self._is_first = "", False

    def _add(self, part: str) -> None:
        """Show a word, or what comes next of one."""
        shown, gap = cell_len(self._word), self._gap
        if self._hang < 0:
            self._hang = len(gap) + 2
        self._word, self._gap = self._word + part, ""
        column = self._column + len(gap)
        room = max(0, self._width - cell_len(self._word))
        if column <= room or (self._is_first and column == 0):
            self._terminal.write(gap + part)
            self._column = column
            return
        if self._is_first:  # nothing but its indent can be given up
            self._terminal.write("\b" * (self._column + shown))
        else:
            self._terminal.write("\b" * shown + " " * shown + "\n")
        self._column = min(column if self._is_first else self._hang, room)
        self._is_first = True
        self._terminal.write(" " * self._column + self._word)
