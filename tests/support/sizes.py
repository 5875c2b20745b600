"""How much code there is to read: lines that hold a token which is no comment and no docstring. Of
a template, which is read by its shape, a third of the lines that are not blank.
"""

import ast
import io
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEMPLATES = {".html", ".j2", ".jinja", ".css", ".js"}
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def lines_of_code(source: str) -> int:
    """How many lines of a Python file hold code."""
    strings: set[int] = set()  # lines of strings that are statements: docstrings
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - strings)


@cache
def size(path: Path) -> float:
    """The size of one file, Python or template; of any other, 0."""
    if path.suffix == ".py":
        return lines_of_code(path.read_text(encoding="utf-8"))
    if path.suffix in TEMPLATES:
        return sum(map(bool, map(str.strip, path.read_text(encoding="utf-8").splitlines()))) / 3
    return 0


def files(*folders: str) -> list[Path]:
    """All files in and under folders of the project, or a pattern's, in order."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return sorted(found)


def total(paths: Iterable[Path]) -> int:
    return round(sum(map(size, paths)))


PACKAGE = files("think_agent")
ROOM = [path for path in PACKAGE if path.parent == ROOT / "think_agent"]
POLICIES = files("think_agent/policies")
FIRST = [ROOT / f"think_agent/{name}.py" for name in ["messages", "think", "turn", "loop", "model"]]

BUDGETS = {
    "the root": (ROOM, 1_950),
    "the core: the root and the policies": (ROOM + POLICIES, 2_350),
    "the first hour: messages, think, turn, loop, model": (FIRST, 600),
    "the package": (PACKAGE, 7_700),
}
