"""Text from a model, a tool or a server: made safe to show, and short enough.

Rule 1: `sanitize` is the one way to a terminal, a page or an error: what nobody would see, or what
        a terminal would obey, is written out (`\\x1b`, `\\u202e`).
Rule 2: `well_formed` is the one way in: a lone surrogate, which no SDK can send back, is replaced.
"""

import json
import unicodedata
from typing import Any

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
