"""Mistakes: where the developer's own tool or check raised an error.

The model reads a tool's error and may correct its own mistake. The tool's author needs the file and
the line. So a watcher gets a Notice with them, and the log `think_agent` gets the traceback.
(`RunView` in `cli/console.py` shows Notices, and keeps the log off the screen.)
"""

import os
import sys

from .checking import show_error


def note_mistake(what: str, error: BaseException) -> str:
    """One line about a mistake: what raised which error, and where. The traceback is logged."""
    import logging  # late, like the imports below: slow, and mistakes are rare

    logging.getLogger("think_agent").error("%s raised", what, exc_info=error)
    return f"{what} raised {place_error(error)}"


def place_error(error: BaseException) -> str:
    """An error on one line, with its place: `KeyError: 'cents' (shop.py, line 31)`."""
    return f"{show_error(error)}{place_of(error)}"


def place_of(error: BaseException) -> str:
    """The last line of the user's own code in an error's traceback: ` (shop.py, line 31)`. Empty if
    there is none.
    """
    import sysconfig
    import traceback

    paths = sysconfig.get_paths()
    not_theirs = os.path.dirname(__file__), paths["stdlib"], paths["purelib"], paths["platlib"]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(not_theirs):
            return f" ({frame.filename}, line {frame.lineno})"
    return ""


def warn(text: str) -> None:
    """Warn at the line that called the kit, from any depth."""
    import warnings

    level = 1
    frame = sys._getframe()
    while frame.f_back and frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        frame = frame.f_back
        level += 1
    warnings.warn(text, stacklevel=level)
