"""Quotes the words of a command for the shell of this system: POSIX, or PowerShell on Windows."""

import re
import shlex
import sys
from collections.abc import Sequence

PLAIN = re.compile(r"[\w.:/\\=-]+", re.ASCII)  # PowerShell takes such a word as it is


def quoted(word: str) -> str:
    """One word, in quotes if it needs them."""
    if sys.platform != "win32":
        return shlex.quote(word)
    if PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "''") + "'"


def on_lines(words: Sequence[str]) -> str:
    """A command that is too long for one line, so that it can be copied as a whole."""
    goes_on = "`" if sys.platform == "win32" else "\\"
    return f" {goes_on}\n  ".join(words)
