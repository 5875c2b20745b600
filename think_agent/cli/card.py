"""The card: a call as a person sees it before a yes or a no.

Rule 1: what is on the card is what runs: every argument as the function will get it, with the
        defaults, one on a line.
Rule 2: a long argument is cut to its line, which says how long it is. So nothing that a model wrote
        can move another argument, or the question, off the screen.
Rule 3: a value is shown as JSON, and invisible characters in it are written out. So no value can
        look like another line of the card.
Rule 4: the name of the tool comes last, directly above the keys.
"""

import re

from rich.cells import cell_len, set_cell_size

from ..loop import AskHuman
from ..messages import Json
from ..text import JOINERS, json_text, sanitize, shorten
from .console import RunView

MOST_ROWS = 12  # of arguments; `v` shows the rest
LONGEST_NAME = 24  # of an argument, in characters
# Printable, but nothing to see: Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties,
# and the empty Braille pattern.
UNSEEN = re.compile(
    f"[{JOINERS}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def show_card(view: RunView, asked: AskHuman, arguments: Json) -> None:
    """Print the question about a call that would run with these arguments."""
    assert asked.call
    if asked.thought and asked.call != view.on_screen:
        view.print(f"The thought behind it: {one_line(asked.thought)}", "cyan")
    view.print("")
    _show_rows(view, arguments)
    if asked.as_new and isinstance(asked.as_new.arguments, dict):
        view.print("As a new one it would be:", "dim")
        _show_rows(view, asked.as_new.arguments)
    if asked.remark:
        view.print(one_line(asked.remark), "magenta")
    view.print(f"Run {one_line(asked.call.name)}?", "bold magenta")


def show_whole(view: RunView, asked: AskHuman, arguments: Json) -> None:
    """Print the thought and every argument in full, each beside its name."""
    texts = {"the thought": asked.thought, **arguments}
    for name, value in texts.items():
        view.table({f"{one_line(name)}:": written_out(as_text(value))})


def as_text(value: object) -> str:
    """Text as it is, any other value as JSON."""
    if isinstance(value, str):
        return value
    return json_text(value)


def one_line(text: str) -> str:
    """A text of a few lines at most, as one: with what cannot be seen written out."""
    return written_out(shorten(text, 300))


def written_out(text: str) -> str:
    """`text` with every character that cannot be seen written out (`\\u3164`)."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), sanitize(text))


def _show_rows(view: RunView, arguments: Json) -> None:
    width = view.console.width
    for name, value in list(arguments.items())[:MOST_ROWS]:
        label = shorten(written_out(name), LONGEST_NAME)
        text = written_out(json_text(value))
        row = f"  {label}: {text}"
        if cell_len(row) > width:
            note = f"… ({len(text):,} characters; v shows it)"
            row = set_cell_size(row, width - cell_len(note)) + note
        view.print(row)
    left = len(arguments) - MOST_ROWS
    if left > 0:
        view.print(f"  ({left} more arguments; v shows them)", "magenta")
