"""The commands: flags, environment and config file, the console, a person at the terminal."""

from .console import RunView, watch

__all__ = ["RunView", "watch"]
