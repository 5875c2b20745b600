"""The package stays readable: the limits of `tests/readable.py`, and what it counts."""

import ast
import sys

import pytest

from tests.readable import (
    AT_MOST,
    TESTS,
    WORDS,
    count,
    exceeded,
    measure,
    parts,
    words_in_templates,
)
from tests.support.sizes import files, tokens_and_lines

# Later Pythons count the tokens of an f-string apart.
ON_3_11 = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="tokens as 3.11 counts them")


@ON_3_11
def test_each_part_is_within_its_limits():
    for name in AT_MOST:
        assert exceeded(name) == {}, name
    code = measure(files("think_agent", "demos")).tokens
    assert measure(files("tests")).tokens <= TESTS * code


def test_what_moves_into_templates_is_not_gone():
    assert 0 < words_in_templates() <= WORDS


@pytest.mark.parametrize("path", [*parts()["the package"], *parts()["the demos"]], ids=str)
def test_a_contract_has_at_most_15_lines(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert len(docstring.splitlines()) <= 15


def test_each_part_has_its_files():
    found = parts()
    core = found["the core"]
    assert found["the package"] == [p for p in files("think_agent") if p.suffix == ".py"]
    assert {path.parent.name for path in core} == {"think_agent", "policies"}
    assert set(found["the first hour"]) < set(core) < set(found["the package"])


def test_docstrings_comments_and_layout_do_not_count():
    source = '"""A docstring\n\nof three lines."""\n\n# why\nx = [\n    1,  # one\n\n]\n"no code"\n'
    assert tokens_and_lines(source) == (6, 3)


@pytest.mark.parametrize(
    ("kind", "number", "source"),
    [
        ("plain", 2, "def f(x):\n    if x:\n        return 1\n    for y in x:\n        pass\n"),
        ("plain", 1, "def f():\n  try:\n    x\n  except E:\n    y\n"),
        ("plain", 2, "def f():\n  match x:\n    case 1: y\n    case 2: z\n"),
        ("hidden", 2, "def f(x):\n    return x and y or z\n"),
        ("hidden", 1, "def f(x):\n    return 1 if x else 2\n"),
        ("hidden", 2, "def f(x):\n    return [y for y in x if y]\n"),
        ("hidden", 1, "def f(x):\n    def g():\n        return x or y\n    return g\n"),
        ("hidden", 2, "def f(x):\n    return all([x, y, z])\n"),
        ("if_else", 2, "x = 1 if a else 2 if b else 3\n"),
        ("big", 0, "def f(x):\n    return x" + " or x" * 9 + "\n"),
        ("big", 1, "def f(x):\n    return x" + " or x" * 10 + "\n"),
        ("crowded", 0, "if x and y:\n    z = a or b\n"),
        ("crowded", 1, "while x and y or z:\n    pass\n"),
        ("crowded", 1, "with x or y and z:\n    pass\n"),
        ("tricks", 4, "if x := 1: pass\nmap(f, x)\nfilter(f, x)\na, b = c, d\n"),
        ("tricks", 0, "a, b = c\nx = a, b\nx.map(f)\n"),
        ("statements", 2, '"""A docstring."""\nimport a\nx = 1\nprint(x)\n'),
    ],
)  # fmt: skip
def test_each_kind_of_decision_is_counted(kind, number, source):
    assert count(source)[kind] == number


def test_a_file_is_measured(tmp_path):
    lines = ["def f(x):", "    if x:", "        return 1 if x else 2", "    return x"]
    (tmp_path / "f.py").write_text("\n".join([*lines, ""]))
    (tmp_path / "page.css").write_text("no Python")
    found = measure(tmp_path.iterdir())
    assert (found.files, found.lines, found.longest) == (1, 4, 4)
    assert (found.hidden, found.if_else, found.crowded) == (50, 250, 0)
    assert measure([]).hidden == 0
