"""Finds the demo: in the clone, or in the wheel's package `think_agent_demos`.

The demo is a separate package, so it's imported only on request.
"""

import importlib
from pathlib import Path
from types import ModuleType

CLONE = Path(__file__).parents[2]  # if there is one


def demo_module(name: str) -> ModuleType:
    """A module of the refund desk: from the clone, or else from the wheel's copy. (An editable
    install has a copy as well, but it may be outdated.)
    """
    package = "think_agent_demos"
    if (CLONE / "demos" / "refund").is_dir():
        package = "demos"
    return importlib.import_module(f"{package}.refund.{name}")
