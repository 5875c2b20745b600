"""Reads JSON from a model or a server.

Rule 1: it's strict: no NaN, no Infinity, no text that can't be sent, no unlimited nesting.
Rule 2: reading a text never raises. Without JSON, the result is None.
"""

import json
from collections.abc import Iterator
from typing import Any

import pydantic_core

from ..text import json_text, well_formed

_DECODER = json.JSONDecoder(strict=False)  # accept line breaks in strings: models write them


def read_back(value: Any, lone: str = "replace") -> Any:
    """`value` as a strict reader reads it from JSON; `lone` as for `well_formed`. Raises ValueError
    or RecursionError for NaN, infinity, and more than 200 levels.
    """
    try:  # three times as fast as json
        text = pydantic_core.to_json(value, inf_nan_mode="constants").decode()
    except ValueError:  # a lone surrogate
        text = well_formed(json_text(value), lone)
    return pydantic_core.from_json(text, allow_inf_nan=False)  # rule 1


def json_at(text: str, at: int = 0) -> tuple[Any, int] | None:
    """The JSON value that begins at `at`, and where it ends; None if there is none."""
    try:
        value, end = _DECODER.raw_decode(text, at)
        # An escape can be half a character, and 1e999 is infinity.
        return read_back(value), end
    except (ValueError, RecursionError):  # rule 2
        return None


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, in order. It tries 50 braces: a text with more is hardly JSON."""
    end = 0
    for _ in range(50):
        at = text.find("{", end)
        if at < 0:
            return
        end = at + 1
        found = json_at(text, at)
        if found:
            value, end = found
            yield value


def repeated_object(text: str) -> dict[str, Any] | None:
    """The object that is all of `text`, maybe several times, and maybe beside empty ones. None if
    there is something else, or another object.
    """
    text = text.strip()
    value: dict[str, Any] = {}
    end = 0
    while end < len(text):
        found = json_at(text, end)
        if not found or not isinstance(found[0], dict):
            return None
        another, end = found
        if value and another not in ({}, value):
            return None
        value = value or another
        while end < len(text) and text[end].isspace():
            end += 1
    return value


def json_value(text: str) -> Any:
    """The JSON value of the whole `text`; None if it isn't JSON."""
    text = text.strip()
    match json_at(text):
        case (value, end) if end == len(text):
            return value
    return None
