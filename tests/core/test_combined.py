"""The combinations that always run, and those that only `.ci/run` runs."""

from itertools import combinations

import pytest

from tests.support.combined import combined


@pytest.mark.parametrize("sizes", [(5, 3, 3, 3), (5, 3, 4, 2), (5, 4, 3), (6, 4)])
def test_all_factors_but_any_one_meet_in_every_combination(sizes):
    factors = {f"factor_{place}": range(size) for place, size in enumerate(sizes)}
    names, cases = combined(**factors).args
    everything = {case.values for case in cases}
    always = [case.values for case in cases if not case.marks]
    assert names == list(factors)
    assert len(always) * min(sizes) == len(everything) == len(cases)
    for kept in combinations(range(len(sizes)), len(sizes) - 1):
        assert {tuple(values[place] for place in kept) for values in always} == {
            tuple(values[place] for place in kept) for values in everything
        }
