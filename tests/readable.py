"""How readable the package is, in numbers that cannot be met by packing.

    python -m tests.readable            the package and its limits (exit 1 where one is exceeded)
    python -m tests.readable PATH …     the same numbers for folders and files

Rule 1: size is counted in tokens, for lines can be saved by longer lines.
Rule 2: a decision is a branch, a loop, an `except`, a `case`, an `and` or `or`, an if-else
        expression, a comprehension or its condition. One inside an expression is easily overlooked;
        so is a second one in the same statement.
Rule 3: docstrings and comments do not count: they may be as long as they have to be.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.sizes import ROOT, is_docstring, tokens_and_lines

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)
DECISIONS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
BIG = 10  # decisions in one function
LONGEST = 350  # lines of code in a file
COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
FIRST_HOUR = ("messages", "think", "turn", "loop", "running")
WORDS = 3_600  # in templates and prompts of the package: what moves there is not gone
TESTS = 2.2  # tokens of the tests for one of the package and the demos


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured of some files."""

    files: int
    tokens: int
    lines: int
    longest: int  # lines of the longest file
    hidden: float  # percent of all decisions that stand inside expressions
    big: int  # functions with ten decisions or more
    crowded: float  # percent of the statements that hold two decisions or more in an expression
    if_else: float  # expressions per 1,000 lines
    tricks: float  # walrus, `map`, `filter` and `a, b = x, y` per 1,000 lines


NAMES = {
    "tokens": "tokens",
    "hidden": "decisions inside expressions, %",
    "big": f"functions with {BIG} decisions or more",
    "crowded": "statements with two decisions in an expression, %",
    "if_else": "if-else expressions per 1,000 lines",
    "tricks": "walrus, map, filter, a, b = x, y per 1,000 lines",
    "longest": "lines of the longest file",
}


# By the names of Measures.
AT_MOST: dict[str, dict[str, float]] = {
    "the package": {
        "tokens": 84_500,
        "hidden": 35,
        "big": 12,
        "crowded": 1.2,
        "if_else": 8,
        "tricks": 4,
        "longest": LONGEST,
    },
    "the core": {
        "tokens": 25_900,
        "hidden": 34,
        "big": 7,
        "crowded": 1.0,
        "if_else": 8,
        "tricks": 4,
        "longest": LONGEST,
    },
    "the first hour": {
        "tokens": 7_200,
        "hidden": 31,
        "big": 1,
        "crowded": 1.0,
        "if_else": 6,
        "tricks": 4,
        "longest": LONGEST,
    },
    "the demos": {
        "hidden": 40,
        "big": 3,
        "crowded": 1.5,
        "if_else": 10,
        "tricks": 4,
        "longest": LONGEST,
    },
    "the tests": {"hidden": 66, "big": 38, "crowded": 3.2, "if_else": 13, "tricks": 8},
}


def parts() -> dict[str, list[Path]]:
    """The files of each part that has limits, by its name in AT_MOST."""
    package = ROOT / "think_agent"
    return {
        "the package": sorted(package.rglob("*.py")),
        "the core": sorted([*package.glob("*.py"), *package.glob("policies/*.py")]),
        "the first hour": [package / f"{name}.py" for name in FIRST_HOUR],
        "the demos": sorted((ROOT / "demos").rglob("*.py")),
        "the tests": sorted((ROOT / "tests").rglob("*.py")),
    }


def words_in_templates() -> int:
    """The words in the templates and prompts of the package, without their comments."""
    found = 0
    package = ROOT / "think_agent"
    for path in [*package.rglob("*.j2"), *package.rglob("*.md")]:
        if path.name != "README.md":
            found += len(COMMENT.sub("", path.read_text(encoding="utf-8")).split())
    return found


def below(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and all below it but inner functions: each of these counts by itself."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, FUNCTIONS):
            yield from below(child)


def hidden(node: ast.AST) -> int:
    """The decisions inside an expression that `node` itself is."""
    match node:
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.Call(func=ast.Name(id="all" | "any"), args=[ast.List() | ast.Tuple() as several]):
            return len(several.elts) - 1
        case ast.IfExp():
            return 1
        case ast.comprehension(ifs=conditions):
            return 1 + len(conditions)
    return 0


def own_expressions(statement: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement, without those of the statements inside it."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=over) | ast.AsyncFor(iter=over):
            return [over]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return [item.context_expr for item in items]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Try() | ast.Match():
            return []
    return [statement]


def is_trick(node: ast.AST) -> bool:
    """A walrus, `map` or `filter`, or `a, b = x, y`."""
    match node:
        case ast.NamedExpr():
            return True
        case ast.Call(func=ast.Name(id="map" | "filter")):
            return True
        case ast.Assign(targets=[ast.Tuple(), *_], value=ast.Tuple()):
            return True
    return False


def count(source: str) -> Counter[str]:
    """What a Python file has, by kind."""
    found: Counter[str] = Counter()
    found["tokens"], found["lines"] = tokens_and_lines(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, FUNCTIONS):
            own = list(below(node))
            plain = sum(isinstance(inner, DECISIONS) for inner in own)
            inside = sum(map(hidden, own))
            found["plain"] += plain
            found["hidden"] += inside
            found["big"] += plain + inside >= BIG

        if isinstance(node, ast.stmt) and not isinstance(node, IMPORTS) and not is_docstring(node):
            inside = sum(hidden(inner) for part in own_expressions(node) for inner in below(part))
            found["statements"] += 1
            found["crowded"] += inside >= 2

        found["if_else"] += isinstance(node, ast.IfExp)
        found["tricks"] += is_trick(node)
    return found


@cache
def count_file(path: Path) -> Counter[str]:
    return count(path.read_text(encoding="utf-8"))


def measure(paths: Iterable[Path]) -> Measures:
    """What the Python files among `paths` have."""
    counts = [count_file(path) for path in paths if path.suffix == ".py"]
    total: Counter[str] = Counter()
    for found in counts:
        total.update(found)

    lines = max(1, total["lines"])
    decisions = max(1, total["plain"] + total["hidden"])
    statements = max(1, total["statements"])
    return Measures(
        files=len(counts),
        tokens=total["tokens"],
        lines=total["lines"],
        longest=max((found["lines"] for found in counts), default=0),
        hidden=round(100 * total["hidden"] / decisions),
        big=total["big"],
        crowded=round(100 * total["crowded"] / statements, 1),
        if_else=round(1000 * total["if_else"] / lines),
        tricks=round(1000 * total["tricks"] / lines),
    )


def exceeded(name: str) -> dict[str, str]:
    """What a part of the package has too much of, and how much."""
    found = measure(parts()[name])
    over: dict[str, str] = {}
    for kind, most in AT_MOST[name].items():
        value = getattr(found, kind)
        if value > most:
            over[kind] = f"{value:,}, at most {most:,}"
    return over


def show(name: str, found: Measures, at_most: Mapping[str, float]) -> None:
    print(f"{name}: {found.files} files, {found.lines:,} lines")
    for kind, title in NAMES.items():
        value = getattr(found, kind)
        row = f"  {title:50}{value:>8,}"
        if kind in at_most:
            row += f"  at most {at_most[kind]:,}"
            if value > at_most[kind]:
                row += "  exceeded"
        print(row)


def main(words: list[str]) -> int:
    if words:
        for word in words:
            path = Path(word)
            show(word, measure(path.rglob("*.py") if path.is_dir() else [path]), {})
        return 0

    for name, paths in parts().items():
        show(name, measure(paths), AT_MOST[name])
    found = words_in_templates()
    print(f"words in templates and prompts: {found:,}, at most {WORDS:,}")
    return int(found > WORDS or any(exceeded(name) for name in AT_MOST))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
