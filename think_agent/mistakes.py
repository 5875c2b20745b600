"""Mistakes of the developer: where a tool or a check of one's own raised.

The model reads what a tool raised, and may correct its own mistake by that. Whoever wrote the tool
needs the file and the line. So a watcher gets a Notice with them, and the log `think_agent` gets
the traceback. (`RunView` in `cli/console.py` shows its Notices, and keeps the log off the screen.)
"""

import os
import sys

from .checking import show_error


def note_mistake(what: str, error: BaseException) -> str:
    """One line about a mistake: what raised which error, and where. The traceback is logged."""
    import logging  # late, as those below: they are slow, and mistakes are rare

    logging.getLogger("think_agent").error("%s raised", what, exc_info=error)
    return f"{what} raised {place_error(error)}"


def place_error(error: BaseException) -> str:
    """An error on one line, with its place: `KeyError: 'cents' (shop.py, line 31)`."""
    return f"{show_error(error)}{place_of(error)}"


def place_of(error: BaseException) -> str:
    """The last line of the user's own code that an error passed: ` (shop.py, line 31)`. Empty if it
    passed none.
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
    """Warn at the line that called the kit, however deep in the kit this is."""
    import warnings

    level = 1
    frame = sys._getframe()
    while frame.f_back and frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        frame = frame.f_back
        level += 1
    warnings.warn(text, stacklevel=level)
