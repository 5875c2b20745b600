"""JSON as a model or a server wrote it.

Rule 1: it is read strictly: no NaN, no Infinity, no text that could not be sent, no bottomless
        nesting.
Rule 2: reading never raises. What is no JSON is None, or the text as it stands.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from ..text import json_text, well_formed

MAX_DEPTH = 100  # of nested JSON; a model has no use for more, and Python cannot write much more


def json_at(text: str, at: int = 0) -> tuple[Any, int] | None:
    """The JSON value that begins at `at`, and where it ends; None where there is none. Line breaks
    inside strings are let pass, for models write them.
    """
    try:
        value, end = _DECODER.raw_decode(text, at)
        if text.find("\\u", at, end) >= 0:  # what is whole as text may not be when it is decoded
            value = json.loads(well_formed(json_text(value)))
    except (ValueError, RecursionError):
        return None
    if is_deeper(value, MAX_DEPTH):
        return None
    return value, end


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand in a text, in order. A text with many braces that begin none is
    hostile or no JSON, and looked at no further.
    """
    at, tries = text.find("{"), 50
    while at >= 0 and tries:
        if found := json_at(text, at):
            yield found[0]
        else:
            tries -= 1
        at = text.find("{", found[1] if found else at + 1)


def json_value(text: str) -> Any:
    """The JSON value that `text` is as a whole; None where it is none."""
    start = len(text) - len(text.lstrip())
    found = json_at(text, start)
    if found is None:
        return None
    value, end = found
    rest = text[end:]
    return None if rest.strip() else value


def json_object(text: str) -> dict[str, Any] | str:
    """The arguments of a call: as an object, or the text as it stands when it is none."""
    value = json_value(text)
    if isinstance(value, dict):
        return value
    return text


def is_deeper(value: Any, levels: int) -> bool:
    """Is it nested more than so many levels deep?"""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    if levels == 0:
        return True
    return any(is_deeper(item, levels - 1) for item in value)


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        _refused(number)
    return float(number)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refused, parse_float=_finite)
