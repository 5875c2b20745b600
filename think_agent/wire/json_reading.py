"""Reads JSON that a model or a server wrote.

Rule 1: it reads strictly: no NaN, no Infinity, no text that could not be sent, no nesting without
        end.
Rule 2: it never raises. For a text that is not JSON the result is None.
"""

import json
from collections.abc import Iterator
from typing import Any

import pydantic_core

from ..text import json_text, well_formed

_DECODER = json.JSONDecoder(strict=False)  # line breaks inside strings pass: models write them


def json_at(text: str, at: int = 0) -> tuple[Any, int] | None:
    """The JSON value that begins at `at`, and where it ends; None if there is none."""
    try:
        value, end = _DECODER.raw_decode(text, at)
        # Read again by a strict reader, which takes at most 200 levels. An escape may have become
        # half a character, and 1e999 an infinity.
        plain = well_formed(json_text(value))
        value = pydantic_core.from_json(plain, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return None
    return value, end


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


def json_value(text: str) -> Any:
    """The JSON value of the whole `text`; None if it is not JSON."""
    text = text.strip()
    found = json_at(text)
    if not found or found[1] < len(text):
        return None
    return found[0]
