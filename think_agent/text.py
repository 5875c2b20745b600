"""Text from a model, a tool or a server: made safe to show, short enough, and read as JSON.

Rule 1: `sanitize` is the one way to a terminal, a page or an error: what nobody would see, or what
        a terminal would obey, is written out (`\\x1b`, `\\u202e`).
Rule 2: `well_formed` is the one way in: a lone surrogate, which no SDK can send back, is replaced.
Rule 3: JSON is read strictly (no NaN, no Infinity, no text that could not be sent, no bottomless
        nesting), and reading it never raises: a model may have written it.
"""

import json
import math
import unicodedata
from collections.abc import Iterator
from typing import Any, NoReturn

MAX_DEPTH = 100  # of nested JSON; a model has no use for more, and Python cannot write much more
JOINERS = "\u200c\u200d"  # invisible, but part of emoji and of several scripts


def sanitize(text: str, keep: str = "\n\t") -> str:
    """`text` with control, format and other invisible characters written out, but for `keep`."""
    if text.isprintable():
        return text
    kept = keep + JOINERS
    shown = []
    for char in text.replace("\r\n", "\n"):
        is_space = unicodedata.category(char) == "Zs"
        if char.isprintable() or char in kept or is_space:
            shown.append(char)
        else:
            shown.append(char.encode("unicode_escape").decode())
    return "".join(shown)


def is_blank(text: str) -> bool:
    """Does it say nothing? Words have letters or digits, and such that can be seen."""
    return not any(char.isalnum() for char in text)


def shorten(text: str, limit: int = 200) -> str:
    """`text` on one line, of at most `limit` characters; the last is `…` where some were cut."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def well_formed(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def json_text(value: Any) -> str:
    """`value` as JSON, in whatever characters it has."""
    return json.dumps(value, ensure_ascii=False)


def canonical(value: Any) -> str:
    """JSON that is the same for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True)


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
