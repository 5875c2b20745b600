"""A console of a known width, without colors, that writes into a text."""

import io

from rich.console import Console


def console_into(out: io.StringIO, terminal: bool = False, width: int = 60) -> Console:
    return Console(file=out, force_terminal=terminal, width=width, color_system=None)
