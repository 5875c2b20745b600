"""A digest of the code that affects a number: a suite, and the user's code that it imports.

Rule 1: the code is read, never run. So the digest is the same before and after the suite is
        imported, on every machine with the same files.
Rule 2: the standard library, installed packages and this kit are left out, since they have
        versions. A suite names the versions that matter to it (`Suite.VERSION`).

Limitations: non-Python files and modules imported by a computed name aren't covered. What the model
reads is in the digest of the prompts, wherever it comes from.
"""

import ast
import hashlib
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from ..text import canonical

KIT = __name__.partition(".")[0]
STANDARD_LIBRARY = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]


def digest_json(value: object) -> str:
    """A short digest of any JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def source_digest(module: str) -> str:
    """The digest of an importable module, by name."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name in found or path is None:
            continue
        code = path.read_bytes().replace(b"\r\n", b"\n")
        found[name] = hashlib.sha256(code).hexdigest()
        waiting += _packages_of(name)
        if path.suffix == ".py":
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            waiting += _find_imported(code, package)
    return digest_json(found)


def _packages_of(name: str) -> Iterator[str]:
    """The packages that Python imports before a module."""
    parts = name.split(".")
    for length in range(1, len(parts)):
        yield ".".join(parts[:length])


def _find_imported(code: bytes, package: str) -> Iterator[str]:
    """The names that may be modules, of all imports in a module of this package."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # written for another Python, so it can't be imported here
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = [module] if module else []
                if level:  # a relative import: one dot is the package itself
                    parts = package.split(".")
                    start = [*parts[: len(parts) - level + 1], *start]
                whole = ".".join(start)
                yield whole
                yield from (f"{whole}.{each.name}" for each in names)


def _file_of(name: str) -> Path | None:
    """The file of one of the user's modules; None if there is none."""
    first, *rest = name.split(".")
    spec = _spec_of(first)
    if spec is None or first == KIT:
        return None
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    path = None
    if spec.origin and Path(spec.origin).is_file():
        path = Path(spec.origin)
    for part in rest:
        path = None
        for place in places:
            inside = [place / part / "__init__.py", place / f"{part}.py"]
            path = path or next((file for file in inside if file.is_file()), None)
        places = [place / part for place in places]
    if path is None or _is_installed(path):
        return None
    return path


def _spec_of(top: str) -> ModuleSpec | None:
    """The location of a top-level module. Finding it doesn't run its code."""
    try:
        return find_spec(top)
    except (ImportError, ValueError):  # created by a program, without a file
        return None


def _is_installed(path: Path) -> bool:
    whole = path.resolve()
    if {"site-packages", "dist-packages"} & {*whole.parts}:
        return True
    return any(whole.is_relative_to(place) for place in STANDARD_LIBRARY)
