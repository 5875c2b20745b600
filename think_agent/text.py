"""Text from a model, a tool or a server: make it safe to display, and shorten it.

Rule 1: text is shown on a terminal, a page or in an error only after `sanitize`, which escapes
        invisible and control characters (`\\x1b`, `\\u202e`).
Rule 2: text from outside passes through `well_formed`, which replaces lone surrogates: no SDK can
        send those back.
"""

import json

FENCED = r"```(?:[a-zA-Z][\w-]*\s)?(.*?)(?:```)?"  # with the language after the opening fence
JOINERS = "\u200c\u200d"  # invisible, but part of emoji and of several scripts
# Printable but invisible: Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties, and the
# empty Braille pattern.
UNSEEN = (
    f"[{JOINERS}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def sanitize(text: str, keep: str = "\n\t") -> str:
    """`text` with control, format and other invisible characters escaped, except `keep`."""
    if text.isprintable():
        return text
    import unicodedata  # late: most text is printable

    kept = keep + JOINERS
    shown = []
    for char in text.replace("\r\n", "\n"):
        is_visible = char.isprintable() or unicodedata.category(char) == "Zs"
        if is_visible or char in kept:
            shown.append(char)
        else:
            shown.append(char.encode("unicode_escape").decode())
    return "".join(shown)


def write_out(text: str, keep: str = "\n\t") -> str:
    """`sanitize`, which also escapes every character that's printable but invisible."""
    import re  # late: only questions to a person need it

    shown = sanitize(text, keep)
    return re.sub(UNSEEN, lambda found: found[0].encode("unicode_escape").decode(), shown)


def is_blank(text: str) -> bool:
    """Does the text have no letter and no digit?"""
    return not any(char.isalnum() for char in text)


def shorten(text: str, limit: int = 200) -> str:
    """`text` on one line of at most `limit` characters. If it's cut, the last one is `…`."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def well_formed(text: str, lone: str = "replace") -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced by U+FFFD. With
    `lone="strict"`, it raises UnicodeDecodeError for a lone one.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", lone)
    return text


def remove_fence(text: str) -> str:
    """Strip whitespace and one code fence around the whole text. (The closing fence may be missing,
    because some servers use it as a stop word.)
    """
    import re  # late: few runs need it

    body = text.strip()
    fenced = re.fullmatch(FENCED, body, re.DOTALL)
    if fenced:
        return fenced[1].strip()
    return body


json_text = json.JSONEncoder(ensure_ascii=False).encode
"""A value as JSON. Non-ASCII characters stay as they are."""


canonical = json.JSONEncoder(sort_keys=True).encode
"""A value as JSON with sorted keys, so that equal values give the same text."""
