"""Rules for the tests themselves, so that a reader finds them and understands why one fails.

Rule 1: the tests of a policy are in the file of the same name.
Rule 2: an assertion is about one thing. `assert (a, b) == (1, "x")` is two in one: write two lines,
        or a row with named fields.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.support.sizes import ROOT

POLICIES = sorted(path.stem for path in (ROOT / "think_agent/policies").glob("[!_]*.py"))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_tests_of_a_policy_are_in_the_file_of_the_same_name(policy):
    assert (ROOT / f"tests/policies/test_{policy}.py").is_file()


def packed(source: str) -> Iterator[int]:
    """The lines with an assertion that compares two tuples, part by part."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Tuple(elts=[_, _, *_]),
                    ops=[ast.Eq()],
                    comparators=[ast.Tuple(elts=[_, _, *_])],
                )
            ):
                yield node.lineno


def test_no_assertion_compares_several_things_at_once():
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for line in packed(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(ROOT)}:{line}")
    assert found == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        pytest.param("assert (a, b) == (1, 'x')", [1], id="two things"),
        pytest.param("x = 1\nassert (a, b, c) == (1, 'x', True), why", [2], id="three things"),
        pytest.param("assert a == 1", [], id="one thing"),
        pytest.param("assert interval == (0.0, 1.0)", [], id="a value that is a pair"),
        pytest.param("assert shares == ()", [], id="an empty tuple"),
    ],
)
def test_such_an_assertion_is_found(source, lines):
    assert list(packed(source)) == lines
