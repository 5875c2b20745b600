"""What each file of the package imports, read from its source. Lazy imports count, and so do
imports for types alone.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.support.sizes import ROOT

PACKAGE = ROOT / "think_agent"


def modules_of(path: Path) -> set[tuple[str, ...]]:
    """The modules that a file imports: absolute, by their parts."""
    here = ("think_agent", *path.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) + 1 - node.level] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            found |= {(*module, alias.name) for alias in node.names}
    return found


def imports_of(path: Path) -> set[Path]:
    """The files of the package that a file imports."""
    found = set()
    for module in modules_of(path):
        if module[0] != "think_agent":
            continue
        for end in (len(module), len(module) - 1):  # a module, or a name in it
            file = PACKAGE.joinpath(*module[1:end]).with_suffix(".py")
            if file.is_file():
                found.add(file)
    return found


def closure(modules: Iterable[str]) -> set[Path]:
    """The files of these modules, and all files of the package that they import."""
    found: set[Path] = set()
    waiting = [PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py") for name in modules]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imports_of(path))
    return found
