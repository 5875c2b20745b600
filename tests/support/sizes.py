"""The files of the project, and how many lines of code they have. Docstrings, comments and blank
lines do not count.
"""

import ast
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def files(*folders: str) -> list[Path]:
    """All files in and under folders of the project, in order."""
    found: set[Path] = set()
    for folder in folders:
        found.update(path for path in (ROOT / folder).rglob("*") if path.is_file())
    return sorted(found)


def is_docstring(node: ast.AST) -> bool:
    """Any text that is a statement of its own."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def lines_of_code(source: str) -> int:
    """How many lines of a Python file hold code."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and is_docstring(node):
            documentation.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))

    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in LAYOUT or token.start[0] in documentation:
            continue
        lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def count_lines(paths: Iterable[Path]) -> int:
    """How many lines of code the Python files among `paths` have, together."""
    sources = [path.read_text(encoding="utf-8") for path in paths if path.suffix == ".py"]
    return sum(lines_of_code(source) for source in sources)
