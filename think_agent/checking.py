"""Checking: validate what a user passes to the kit and what a user's function returns.

Rule 1: errors say in one line what is wrong, where, and what to do. If a user's function is at
        fault, `Culprit` names it with its file and line.
Rule 2: a check doesn't run the value's own code, which may raise (`is_a`, `show_value`).
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from math import inf
from types import UnionType
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


def check_function(what: str, function: object, *names: str, may_be_async: bool = False) -> None:
    """Raise TypeError if `function` isn't callable, doesn't take these positional arguments, or is
    async where nothing awaits it. `what`: its name in the error, such as `policies:`.
    """
    if not callable(function):
        raise TypeError(f"{what} {show_value(function)}: pass a function")
    if is_async(function) and not may_be_async:
        raise TypeError(f"{what} {describe(function)} is async: use a plain function")
    _check_arguments(what, function, names)


def _check_arguments(what: str, function: Callable[..., Any], names: tuple[str, ...]) -> None:
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
    function = strip_partial(function)
    if inspect.iscoroutinefunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)


def strip_partial(function: Any) -> Any:
    """The function in a `functools.partial`; any other function as it is."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Any) -> str:
    """The name of a function, of the one in a `partial`, or of a callable object's class."""
    for named in (function, strip_partial(function)):
        name: str = getattr(named, "__name__", "")
        if name:
            return name
    return type(function).__name__


def is_a(value: object, kind: type | UnionType | tuple[type, ...]) -> bool:
    """`isinstance`, judged by the type alone (rule 2): a proxy whose object is gone raises if it is
    asked for its class.
    """
    return issubclass(type(value), kind)


def is_awaitable(value: object) -> bool:
    """Can it be awaited?"""
    return is_a(value, Awaitable)


def close_coroutine(value: object) -> None:
    """Close a value that no one will await, if it's a coroutine. Otherwise Python would warn."""
    if is_a(value, Coroutine):
        assert isinstance(value, Coroutine)
        value.close()


@dataclass(frozen=True)
class Culprit:
    """A user's own function, named in errors about what it does. `what`: what it is for the kit.

    culprit = Culprit("the policy", policy)
    with culprit:
        step = policy(step, turn)
    if not is_a(step, Step):
        raise culprit.returned(step, "return a step")
    """

    what: str
    function: Any

    def __str__(self) -> str:
        return f"{self.what} {describe(self.function)}"

    def error(self, problem: str) -> TypeError:
        """The error that says what is wrong with it."""
        return TypeError(f"{self}: {problem}")

    def returned(self, value: object, advice: str) -> TypeError:
        """The error that says that it returned this value."""
        close_coroutine(value)
        return self.error(f"it returned {show_value(value)}; {advice}")

    def __enter__(self) -> "Culprit":
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        # In a generator or a coroutine, Python would turn it into an error without a place.
        if isinstance(error, StopIteration | StopAsyncIteration):
            raise RuntimeError(f"{self} raised {show_error(error)}") from error


def describe(function: Any) -> str:
    """A function by its name, its file and its line: `at_most_ten (shop.py, line 31)`."""
    plain = inspect.unwrap(strip_partial(inspect.unwrap(function)))
    code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    name = getattr(plain, "__qualname__", type(plain).__name__)
    if code is None:
        return name
    return f"{name} ({code.co_filename}, line {code.co_firstlineno})"


def show_value(value: object) -> str:
    """A value on one line of at most 80 characters, even if its `repr` raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"a {type(value).__name__}"
    if len(text) <= 80:
        return text
    return f"{text[:79]}…"


def show_error(error: BaseException) -> str:
    """An error on one line, even if its `str` raises: `KeyError: 'cents'`."""
    text = " ".join(read_error(error).split())
    return f"{type(error).__name__}: {text}".rstrip(": ")


def read_error(error: BaseException) -> str:
    """An error's text; empty if it has none or if `str` raises."""
    try:
        return str(error)
    except Exception:
        return ""
