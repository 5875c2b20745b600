"""Checking: what a user passes to the kit, in one line that says what is wrong and what to do."""

from collections.abc import Iterable
from math import inf


def read_limit(name: str, value: float | None) -> float:
    """A limit as a number; infinity for None. Raises ValueError if it is not above 0."""
    if value is None:
        return inf
    if not value > 0:
        raise ValueError(f"{name}={value!r}: use a number above 0")
    return value


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise ValueError if `value` is not one of `choices`."""
    if value not in tuple(choices):
        raise ValueError(f"{name}={value!r}: use one of {', '.join(choices)}")
