"""Small faults on purpose, by hand: `python -m tests.mutants [ROOM] [--seed N] [--count N]`.
A room is a folder of the package, or `core`: its own files. Without one, each room in turn. 20
mutants of a room take ten minutes on two cores.

A mutant is the package with one fault: a comparison, a condition, a number, a sign, a returned
value or a call is changed at one place. It is caught when a test fails or does not end. Nothing is
changed here: a mutant stands in a temporary copy.

Rule 1: the tests of the room are asked first, and if these pass, the tests of `WIDE`.
Rule 2: the test that compares the READMEs sees every change, so it is not asked (`MADE`).
Rule 3: the same seed makes the same mutants, as long as the room's files are the same.

Prints a line for each mutant, with the first test that fails, and exits with 1 when one survived.
A survivor is a missing test, or a change that makes no difference: that is for a person to say.

Limitation: on a very busy machine, tests that are slow may look like tests that do not end. The
line says "no end".
"""

import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import click

from tests.support.sizes import ROOT
from think_agent.cli.main import run
from think_agent.cli.options import Command, whole
from think_agent.text import shorten

PACKAGE = ROOT / "think_agent"
ROOMS = ["core", *sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))]
WIDE = ["core", "policies", "demos", "cli"]  # the tests that are asked after those of the room
MADE = "tests/demos/test_readme.py::test_the_made_parts_are_current"
LEFT_OUT = [".git", ".venv", "*_cache", "__pycache__"]  # of the copy
SECONDS = 240  # for the tests of a folder

SWAPPED: dict[type, Any] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.And: ast.Or(),
    ast.Or: ast.And(),
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    path: Path
    line: int
    before: str  # what stands there
    after: str
    source: str  # of the whole file, with the fault

    def __str__(self) -> str:
        place = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{place}  {shorten(self.before, 60)}  ->  {shorten(self.after, 60)}"


def faults(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What can be changed at a node: the part that is replaced, and what replaces it."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=right) if type(operator) in SWAPPED:
            yield node, ast.unparse(ast.Compare(left, [SWAPPED[type(operator)]], right))
        case ast.BoolOp(op=operator, values=values):
            yield node, ast.unparse(ast.BoolOp(SWAPPED[type(operator)], values))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            yield node, ast.unparse(ast.BinOp(left, SWAPPED[type(operator)], right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, ast.unparse(operand)
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield node, str(value + 1)
        case ast.If(test=test):
            yield test, f"not ({ast.unparse(test)})"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield value, "None"
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            yield node, "pass"


def changing(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that do something: no types, and no f-strings (3.11 does not say where their parts
    are).
    """
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns") or isinstance(tree, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from changing(child)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    source = path.read_bytes()
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for node in changing(ast.parse(source)):
        for part, after in faults(node):
            start = starts[part.lineno - 1] + part.col_offset
            end = starts[(part.end_lineno or part.lineno) - 1] + (part.end_col_offset or 0)
            if isinstance(part, ast.expr):
                after = f"({after})"
            mutated = source[:start] + after.encode() + source[end:]
            before = source[start:end].decode()
            yield Mutant(path, part.lineno, before, after, mutated.decode())


def chosen(room: str, seed: int, count: int) -> list[Mutant]:
    """Some mutants of a room, in the order of its files."""
    paths = PACKAGE.glob("*.py") if room == "core" else (PACKAGE / room).rglob("*.py")
    every = [mutant for path in sorted(paths) for mutant in mutants(path)]
    found = list({mutant.source: mutant for mutant in every}.values())
    places = random.Random(seed).sample(range(len(found)), min(count, len(found)))
    return [found[place] for place in sorted(places)]


def seen_by(mutant: Mutant, room: str, copy: Path) -> str:
    """The test that sees a mutant, or "" when none does."""
    path = copy / mutant.path.relative_to(ROOT)
    path.write_text(mutant.source, encoding="utf-8")
    try:
        for folder in dict.fromkeys([room, *WIDE]):
            test = failing(folder, copy, path.stem)
            if test:
                return test
        return ""
    finally:
        shutil.copyfile(mutant.path, path)


def failing(folder: str, copy: Path, name: str) -> str:
    """The first test of a folder that fails, those of the file `name` before others; "" when all
    pass.
    """
    paths = list((copy / "tests" / folder).glob("test_*.py"))
    if not paths:
        return ""
    paths.sort(key=lambda path: (path.stem != f"test_{name}", path))
    words = ["-q", "-x", "-n", "2", "--deselect", MADE, *map(str, paths)]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *words],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return f"no end in {SECONDS} seconds"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # its workers, too
                process.wait()
        output.seek(0)
        found = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", output.read(), re.MULTILINE)
    if process.returncode == 0:
        return ""
    return found[1] if found else f"pytest, which exits with {process.returncode}"


def survivors(room: str, seed: int, count: int, copy: Path) -> int:
    """Print what becomes of each mutant of a room; how many survived?"""
    selected = chosen(room, seed, count)
    survived = 0
    for mutant in selected:
        test = seen_by(mutant, room, copy)
        survived += not test
        print(f"{mutant}  {'caught by ' + test if test else 'SURVIVED'}", flush=True)
    print(f"{room}: {len(selected) - survived} of {len(selected)} caught", flush=True)
    return survived


@click.command(cls=Command, help=__doc__)
@click.argument("room", type=click.Choice(ROOMS), required=False, metavar="[ROOM]")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--count", type=whole, default=20, show_default=True)
def command(room: str | None, seed: int, count: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "think-agent"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        survived = [survivors(name, seed, count, copy) for name in ([room] if room else ROOMS)]
    return int(any(survived))


if __name__ == "__main__":
    sys.exit(run(command, "python -m tests.mutants"))
