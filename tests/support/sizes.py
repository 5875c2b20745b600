"""The files of the project and their sizes: tokens, and the lines that have tokens. Docstrings and
comments do not count.
"""

import ast
import io
import tokenize
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


def tokens_and_lines(source: str) -> tuple[int, int]:
    """The tokens of a Python file, and the lines on which they stand."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and is_docstring(node):
            documentation.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))

    tokens = 0
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in LAYOUT or token.start[0] in documentation:
            continue
        tokens += 1
        lines.update(range(token.start[0], token.end[0] + 1))
    return tokens, len(lines)


def lines_of_code(source: str) -> int:
    """How many lines of a Python file hold code."""
    _, lines = tokens_and_lines(source)
    return lines
