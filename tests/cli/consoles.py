"""A console of a known width, without colors, that writes into a text."""

import io
import re

from rich.console import Console


def console_into(out: io.StringIO, terminal: bool = False, width: int = 60) -> Console:
    return Console(file=out, force_terminal=terminal, width=width, color_system=None)


def lasting(written: str) -> str:
    """What stays on a terminal of what was written to it."""
    lines = [""]
    for piece in re.split(r"(\n|\x1b\[1A|\x1b\[2K)", written):
        if piece == "\n":
            lines.append("")
        elif piece == "\x1b[1A":  # up a line
            lines.pop()
        elif piece == "\x1b[2K":  # wipe it
            lines[-1] = ""
        else:
            lines[-1] += piece
    return "\n".join(lines)
