"""Builds commands that a person can copy from the screen and run.

Rule 1: words are quoted for this system's shell: POSIX, or PowerShell on Windows.
Rule 2: a command begins with this program's name only if the person's shell would find this program
        by that name, and otherwise with its path.

Limitations: a command works in the folder where it was printed, as long as this installation
exists.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence

from click import Context

PLAIN = re.compile(r"[\w.:/\\=-]+", re.ASCII)  # PowerShell needs no quotes for such a word


def quote(word: str) -> str:
    """A word, in quotes if it needs them."""
    if sys.platform != "win32":
        return shlex.quote(word)
    if PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "''") + "'"


def on_lines(words: Sequence[str]) -> str:
    """A long command on several lines, which can be copied as a whole."""
    goes_on = "`" if sys.platform == "win32" else "\\"
    return f" {goes_on}\n  ".join(words)


def command_line(ctx: Context) -> str:
    """The command of `ctx` without its arguments, such as `think-agent demo`."""
    names = ctx.command_path.removeprefix(ctx.find_root().command_path)
    return find_start() + names


def find_start() -> str:
    """How to start this program again: `think-agent`, `python -m demos.refund`, or a path."""
    module = sys.modules["__main__"].__spec__
    if module is None:
        return _program(sys.argv[0])
    python = sys.orig_argv[0]
    if not os.path.dirname(python):  # typed without a path
        python = sys.executable
    return f"{_program(python)} -m {module.name.removesuffix('.__main__')}"


def _program(path: str) -> str:
    """The first word of a command that runs the program at `path` (rule 2)."""
    name = os.path.basename(path)
    if sys.platform == "win32":
        name = os.path.splitext(name)[0]
    # `uvx` and `uv run` change PATH only for this process, and set UV.
    if "UV" not in os.environ and _same_file(shutil.which(name), path):
        return name
    word = quote(path)
    if sys.platform == "win32" and word != path:
        return f"& {word}"  # otherwise PowerShell prints the text
    return word


def _same_file(found: str | None, path: str) -> bool:
    """Are these the same path? (A link counts as another program, such as a venv's Python.)"""
    if found is None:
        return False
    paths = [os.path.normcase(os.path.abspath(item)) for item in (found, path)]
    if sys.platform == "win32":  # `which` adds .EXE
        paths = [os.path.splitext(item)[0] for item in paths]
    return paths[0] == paths[1]
