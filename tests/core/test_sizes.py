"""The budgets of `tests/support/sizes.py`: the root is what you read, and it stays readable."""

import pytest

from tests.support.sizes import BUDGETS, PACKAGE, ROOM, ROOT, files, lines_of_code, size, total

DEMOS, TESTS = files("demos"), files("tests")  # servers and benchmarks among the tests


@pytest.mark.parametrize("name", BUDGETS)
def test_within_its_budget(name):
    paths, most = BUDGETS[name]
    assert total(paths) <= most


def test_at_most_sixteen_files_in_the_root():
    assert len([path for path in ROOM if path.suffix == ".py"]) <= 16


@pytest.mark.parametrize("folder", ["think_agent", "demos"])
def test_no_file_has_more_than_300_lines_of_code(folder):
    sizes = {str(path.relative_to(ROOT)): round(size(path)) for path in files(folder)}
    assert {path: lines for path, lines in sizes.items() if lines > 300} == {}


def test_the_tests_are_not_the_project():
    assert total(TESTS) <= 1.6 * total(PACKAGE + DEMOS)


def test_what_counts_as_a_line_of_code():
    source = '"""A docstring\n\nof three lines."""\n\n# why\nx = [\n    1,  # one\n\n]\n"no code"\n'
    assert lines_of_code(source) == 3
