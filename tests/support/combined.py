"""Combinations of several factors, for tests that go through them."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def combined(**factors: Iterable[Any]) -> pytest.MarkDecorator:
    """Every combination of the values of these factors. A part of them, in which all factors but
    any one still meet in every combination, always runs; the others are marked `slow`. So the part
    finds what is wrong, unless it takes certain values of all factors at once.
    """
    lists = [list(values) for values in factors.values()]
    fewest = min(map(len, lists))
    cases = []
    for places in product(*(range(len(values)) for values in lists)):
        values = [own[place] for own, place in zip(lists, places, strict=True)]
        always_runs = sum(places) % fewest == 0
        cases.append(pytest.param(*values, marks=[] if always_runs else pytest.mark.slow))
    return pytest.mark.parametrize(list(factors), cases)
