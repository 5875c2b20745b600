"""Where the demo is: in the clone, or in the package `think_agent_demos` of the wheel.

The demo is another package, so it is imported only where somebody asks for it.
"""

import importlib
from pathlib import Path
from types import ModuleType

CLONE = Path(__file__).parents[2]  # if this is one


def demo_module(name: str) -> ModuleType:
    """A module of the refund desk: of the clone, or else the copy that the wheel has. An editable
    installation has that copy, too, but it is as old as the installation.
    """
    package = "think_agent_demos"
    if (CLONE / "demos" / "refund").is_dir():
        package = "demos"
    return importlib.import_module(f"{package}.refund.{name}")
