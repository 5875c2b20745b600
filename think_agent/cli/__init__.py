"""The commands, with their flags and config file, the console, and approval at the terminal.

The names of this package are imported when they are used: `think-agent --help` needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .approval import at_the_terminal
    from .console import RunView, watch
    from .conversation import chat

__all__ = ["RunView", "at_the_terminal", "chat", "watch"]
MODULES = {  # none is named as what it holds: once imported, the module would take its place
    "RunView": "console",
    "at_the_terminal": "approval",
    "chat": "conversation",
    "watch": "console",
}


def __getattr__(name: str) -> object:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)
