"""The commands, with their flags and config file, the console, and approval at the terminal.

Its names are imported when they're used, because `think-agent --help` needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .approval import at_the_terminal
    from .console import RunView, watch
    from .conversation import chat

__all__ = ["RunView", "at_the_terminal", "chat", "watch"]
MODULES = {  # no module has the name of what it defines: on import, the module would replace that
    "RunView": "console",
    "at_the_terminal": "approval",
    "chat": "conversation",
    "watch": "console",
}


def __getattr__(name: str) -> object:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)
