"""A copy of the package without one of its policies.

The policy's file goes, and with it each line elsewhere that names something from it: an import, an
entry of a list, an argument, a statement. What is left has to work without the policy.
"""

import ast
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.sizes import ROOT

PACKAGE = ROOT / "think_agent"


def copy_without(policy: str, folder: Path) -> Path:
    """Copy the package into `folder`, without the policy of this name. Returns the copy."""
    copy = folder / "think_agent"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "README.md"))
    (copy / "policies" / f"{policy}.py").unlink()
    gone = Gone({("policies", policy)})
    has_changed = True
    while has_changed:  # a name that was cut may have been exported further
        has_changed = False
        for path in sorted(copy.rglob("*.py")):
            if _cut(path, copy, gone):
                has_changed = True
    return copy


@dataclass
class Gone:
    """What no longer exists: modules, by their path from the package, and names in modules."""

    modules: set[tuple[str, ...]]
    names: set[tuple[tuple[str, ...], str]] = field(default_factory=set)

    def has(self, module: tuple[str, ...], name: str) -> bool:
        """Is the import of `name` from `module` an import of something that is gone?"""
        return (
            module in self.modules
            or (*module, name) in self.modules
            or (module, name) in self.names
        )


def _cut(path: Path, copy: Path, gone: Gone) -> bool:
    """Cut from one file what is gone. Returns whether a name of the file is newly gone with it."""
    module = path.relative_to(copy).with_suffix("").parts
    if module[-1] == "__init__":
        module = module[:-1]
        package = module
    else:
        package = module[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = _cut_imports(tree, package, gone)
    if not names:
        return False
    while True:
        cutter = Cutter(names)
        cutter.visit(tree)
        newly = {name for name in cutter.unassigned if not _is_assigned(tree, name)} - names
        if not newly:
            break
        names |= newly
    path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
    before = len(gone.names)
    gone.names |= {(module, name) for name in names if "." not in name}
    return len(gone.names) > before


def _cut_imports(tree: ast.Module, package: tuple[str, ...], gone: Gone) -> set[str]:
    """Remove imports of what is gone. Returns the names that they bound."""
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package[: len(package) - node.level + 1]
        module = (*base, *(node.module or "").split(".")) if node.module else base
        left = []
        for alias in node.names:
            if gone.has(module, alias.name):
                names.add(alias.asname or alias.name)
            else:
                left.append(alias)
        node.names = left
    return names


def _is_assigned(tree: ast.AST, name: str) -> bool:
    """Is there still an assignment to a name, or to an attribute (`self.limits`)?"""
    for node in ast.walk(tree):
        is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_stored and ast.unparse(node) == name:
            return True
        if isinstance(node, ast.arg) and node.arg == name:
            return True
    return False


class Cutter(ast.NodeTransformer):
    """Removes the smallest part of a tree that names something that is gone."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.unassigned: set[str] = set()  # what removed statements would have assigned

    def is_about(self, node: ast.AST) -> bool:
        """Does this expression name something that is gone?"""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name | ast.Attribute) and ast.unparse(inner) in self.names:
                return True
        return False

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return node if node.names else None

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        arguments = [arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)]
        for argument in arguments:
            if argument.annotation and self.is_about(argument.annotation):
                argument.annotation = ast.Name("object", ast.Load())
        everywhere = self.names
        self.names = everywhere - {argument.arg for argument in arguments}  # they hide a module
        self._visit_body(node)
        self.names = everywhere
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if self.is_about(node.annotation):
            node.annotation = ast.Name("object", ast.Load())
        return self._visit_statement(node)

    def visit(self, node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.stmt) and not hasattr(self, f"visit_{type(node).__name__}"):
            return self._visit_statement(node)
        result: ast.AST | None = super().visit(node)
        return result

    def _visit_statement(self, node: ast.stmt) -> ast.AST | None:
        if hasattr(node, "body"):
            head = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
            if any(self.is_about(child) for child in head):
                return self._remove(node)
            self._visit_body(node)
            return node
        for child in ast.walk(node):
            self._cut_parts(child)
        if isinstance(node, ast.expr | ast.stmt) and self.is_about(node):
            return self._remove(node)
        return node

    def _visit_body(self, node: ast.AST) -> None:
        for part in ("body", "orelse", "finalbody"):
            statements = getattr(node, part, None)
            if isinstance(statements, list) and statements:
                left = [self.visit(statement) for statement in statements]
                kept = [statement for statement in left if statement is not None]
                setattr(node, part, kept or ([ast.Pass()] if part == "body" else []))
        for case in getattr(node, "cases", []) + getattr(node, "handlers", []):
            self._visit_body(case)

    def _cut_parts(self, node: ast.AST) -> None:
        """Remove entries of lists, and arguments, that name something that is gone."""
        match node:
            case ast.List(elts=entries) | ast.Tuple(elts=entries) | ast.Set(elts=entries):
                node.elts = [entry for entry in entries if not self._is_entry_gone(entry)]
            case ast.Call(keywords=keywords):
                node.keywords = [word for word in keywords if not self.is_about(word.value)]

    def _is_entry_gone(self, entry: ast.expr) -> bool:
        if isinstance(entry, ast.Constant):  # in `__all__`
            return entry.value in self.names
        return self.is_about(entry)

    def _remove(self, node: ast.stmt) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
                self.unassigned.add(ast.unparse(inner))
