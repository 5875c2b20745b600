"""The commands, with their flags and config file, the console, and approval at the terminal."""

from .approval import at_the_terminal
from .chat import chat
from .console import RunView, watch

__all__ = ["RunView", "at_the_terminal", "chat", "watch"]
