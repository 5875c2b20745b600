"""Which folder may import which."""

import ast
import graphlib
import sys
from collections import Counter

import pytest

from tests.readme import FIRST_HOUR
from tests.support.layers import PACKAGE, closure, imports_of, modules_of
from tests.support.sizes import files

CORE = {"root", "policies"}
MAY = {  # a folder: the folders that it may import, besides itself
    "root": {"policies"},
    "policies": {"root"},
    "testing": {"root", "wire"},
    "wire": {"root"},
    "providers": {"root", "wire", "testing"},
    "dialects": CORE | {"wire", "testing"},  # they translate, too, and share its readers
    "audit": CORE | {"wire"},  # it reads the logs of other programs
    "evaluation": CORE | {"providers", "dialects", "testing"},  # it compares dialects, too
    "probe": CORE | {"wire", "providers", "dialects"},
    "integrations": CORE,
}
EXCEPTIONS = {  # single files that may import more
    ("__init__.py", "providers"),  # `connect`
    ("__init__.py", "testing"),  # `ScriptedModel`
    ("__main__.py", "cli"),
    ("providers/__init__.py", "dialects"),  # `connect` reads calls in the text of local models
    ("audit/counts.py", "evaluation"),  # its intervals and tables
    ("audit/logs.py", "dialects"),  # how a call looks in text
    ("evaluation/page.py", "audit"),  # how it makes a page of its templates
    ("evaluation/report.py", "audit"),  # how it writes a number of things
    ("integrations/mcp.py", "providers"),  # what of an address may be shown
    ("integrations/mcp_transports.py", "providers"),  # certificates and proxies
}
LIBRARIES = {  # besides the standard library
    "root": {"pydantic", "pydantic_core", "typing_extensions", "jsonschema"},
    "policies": {"pydantic", "pydantic_core"},
    "wire": {"pydantic", "pydantic_core", "jiter"},  # no SDK and no client
    "dialects": {"pydantic", "pydantic_core", "jiter"},
}
FILES = [path for path in files("think_agent") if path.suffix == ".py"]


def folder_of(parts: tuple[str, ...]) -> str:
    """The folder of a module, by its path from the package: `("wire", "gemini")` is in `wire`."""
    return parts[0] if parts and (PACKAGE / parts[0]).is_dir() else "root"


def forbidden_imports() -> set[tuple[str, str]]:
    """Each file with each folder that it imports but may not."""
    found = set()
    for path in FILES:
        parts = path.relative_to(PACKAGE).parts
        room, name = folder_of(parts), "/".join(parts)
        for module in modules_of(path):
            if module[0] != "think_agent":
                continue
            other = folder_of(module[1:])
            allowed = room in (other, "cli") or other in MAY[room] or (name, other) in EXCEPTIONS
            if not allowed:
                found.add((name, other))
    return found


def test_every_folder_has_its_rule():
    rooms = {folder_of(path.relative_to(PACKAGE).parts) for path in FILES}
    assert rooms == {*MAY, "cli"}


def test_no_folder_imports_what_it_may_not():
    assert forbidden_imports() == set()


@pytest.mark.parametrize("room", LIBRARIES)
def test_each_folder_imports_only_its_libraries(room):
    """The core, the wire formats and the dialects need no SDK, no client and no terminal."""
    paths = [path for path in FILES if folder_of(path.relative_to(PACKAGE).parts) == room]
    modules = {module[0] for path in paths for module in modules_of(path)}
    assert modules - {"think_agent", *sys.stdlib_module_names} <= LIBRARIES[room]


def test_the_kernel_imports_no_policy():
    """What a step and a run are does not depend on any feature."""
    kernel = closure(f"think_agent.{name}" for name in FIRST_HOUR)
    assert {path.parent.name for path in kernel} == {"think_agent"}
    assert PACKAGE / "agent.py" not in kernel


def test_no_files_have_an_import_cycle():
    """Imports for types alone count, too."""
    imports = {path: imports_of(path) for path in FILES if path.name != "__init__.py"}
    order = graphlib.TopologicalSorter(imports)
    order.prepare()  # raises CycleError with the circle
    assert order.is_active()


def test_each_class_of_the_package_has_a_name_of_its_own():
    """Except `Fold`: each wire has one, as it has a `to_wire`."""
    names: Counter[str] = Counter()
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == ["Fold"]
