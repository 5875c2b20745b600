"""Checking: validate what a user passes to the kit and what a user's function returns.

Errors say in one line what is wrong, where, and what to do.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from math import inf
from typing import Any


def read_limit(name: str, value: float | None) -> float:
    """A limit as a number; infinity for None. Raises TypeError if it isn't a number, and ValueError
    if it isn't above 0.
    """
    if value is None:
        return inf
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: use a number")
    if not value > 0:
        raise ValueError(f"{name}={value!r}: use a number above 0")
    return value


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise ValueError if `value` isn't one of `choices`."""
    if value not in tuple(choices):
        raise ValueError(f"{name}={value!r}: use one of {', '.join(choices)}")


def check_function(what: str, function: object) -> None:
    """Raise TypeError if `function` isn't callable, or is async where nothing awaits it. `what`:
    its name in the error, such as `policies=`.
    """
    if not callable(function):
        raise TypeError(f"{what} {function!r}: pass a function")
    if is_async(function):
        raise TypeError(f"{what} {describe(function)} is async: use a plain function")


def check_arguments(what: str, function: Callable[..., Any], *names: str) -> None:
    """Raise TypeError if `function` doesn't take these positional arguments."""
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        wanted = ", ".join(names)
        raise TypeError(f"{what} {describe(function)} must take ({wanted})") from None
    except ValueError:  # a builtin may have no signature
        return


def is_async(function: Any) -> bool:
    """Does calling this function or object return a coroutine?"""
    if isinstance(function, type):
        return False
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)


def describe(function: Any) -> str:
    """A function by its name, its file and its line: `at_most_ten (shop.py, line 31)`."""
    plain: Callable[..., Any] = inspect.unwrap(function)
    plain = getattr(plain, "func", plain)  # of a partial
    code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    name = getattr(plain, "__qualname__", type(plain).__name__)
    if code is None:
        return name
    return f"{name} ({code.co_filename}, line {code.co_firstlineno})"


def show_value(value: object) -> str:
    """A value's `repr` in at most 80 characters, even if `repr` raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"a {type(value).__name__}"
    if len(text) <= 80:
        return text
    return f"{text[:79]}…"


def show_error(error: BaseException) -> str:
    """An error's type and text, even if its `str` raises: `KeyError: 'cents'`."""
    return f"{type(error).__name__}: {read_error(error)}".rstrip(": ")


def read_error(error: BaseException) -> str:
    """An error's text; empty if it has none or if `str` raises."""
    try:
        return str(error)
    except Exception:
        return ""
