"""The spellings of a text: its characters, with any escapes undone.

    [Spelled("Zo%C3%AB &amp; Co"), Spelled("Zoë &amp; Co", …), Spelled("Zoë & Co", …)]

Rule 1: a reading undoes one layer of escapes, of JSON (`\\u00eb`, `\\n`), HTML (`&euml;`, `&#235;`)
        and URLs (`%C3%AB`), even mixed. Readings continue until there is nothing left to undo. So a
        value is found however often it was escaped, even if only some characters were.
Rule 2: texts are folded before they're compared: lower case, decomposed (NFKD, so NFC, NFD and
        full-width forms are equal), and with `+` for a space, as in a URL's query.
Rule 3: a reading knows the place of each character in the original text.
"""

import html
import re
import unicodedata
from functools import cached_property

MOST_LAYERS = 8
# Escapes: bytes in a URL, a character in HTML, a character in JSON.
ESCAPE = re.compile(
    r"(?P<url>(?:%[0-9a-fA-F]{2})+)"
    r"|(?P<html>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});)"
    r"|(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<unit>\\u[0-9a-fA-F]{4})"
    r"|(?P<json>\\[\"\\/bfnrt])"
)
JSON_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Spelled:
    """A reading of a text. `begins` and `ends` are the places of its characters in the original;
    None: the reading is the original.
    """

    def __init__(
        self, text: str, begins: list[int] | None = None, ends: list[int] | None = None
    ) -> None:
        self.text = text
        self._begins = begins
        self._ends = ends

    def place(self, begin: int, end: int) -> tuple[int, int]:
        """Where a part of the reading is in the original. `end` is exclusive."""
        if self._begins is None or self._ends is None:
            return begin, end
        return self._begins[begin], self._ends[end - 1]

    @property
    def folded(self) -> str:
        """The folded text (rule 2)."""
        return self._folding[0]

    def place_of_folded(self, begin: int, end: int) -> tuple[int, int]:
        """Where a part of the folded text is in the original."""
        places = self._folding[1]
        if places is None:
            return self.place(begin, end)
        return self.place(places[begin], places[end - 1] + 1)

    @cached_property
    def _folding(self) -> tuple[str, list[int] | None]:
        """The folded text, and for each character the one in the reading that it came from."""
        if self.text.isascii():  # its length doesn't change
            return fold_text(self.text), None
        characters = []
        for place, character in enumerate(self.text):
            for part in fold_text(character):
                characters.append((part, place))
        # Combining marks get a canonical order.
        begin = 0
        for at in range(len(characters) + 1):
            is_mark = at < len(characters) and unicodedata.combining(characters[at][0])
            if not is_mark:
                marks = characters[begin:at]
                marks.sort(key=lambda each: unicodedata.combining(each[0]))
                characters[begin:at] = marks
                begin = at + 1
        return "".join(part for part, _ in characters), [place for _, place in characters]

    def undo_layer(self) -> "Spelled | None":
        """The reading with one more layer undone; None if there is nothing to undo."""
        found = [(match, _read_escape(match)) for match in ESCAPE.finditer(self.text)]
        found = [(match, meant) for match, meant in found if meant != match[0]]
        if not found:
            return None
        parts: list[str] = []
        begins: list[int] = []
        ends: list[int] = []

        def keep(begin: int, end: int) -> None:
            """Keep these characters unchanged."""
            parts.append(self.text[begin:end])
            for at in range(begin, end):
                place = self.place(at, at + 1)
                begins.append(place[0])
                ends.append(place[1])

        last = 0
        for match, meant in found:
            keep(last, match.start())
            begin, end = self.place(match.start(), match.end())
            parts.append(meant)
            begins += [begin] * len(meant)
            ends += [end] * len(meant)
            last = match.end()
        keep(last, len(self.text))
        return Spelled("".join(parts), begins, ends)


def readings(text: str) -> list[Spelled]:
    """The readings of a text: unchanged, then with one more layer of escapes undone each time."""
    found = [Spelled(text)]
    while len(found) < MOST_LAYERS:
        further = found[-1].undo_layer()
        if further is None:
            break
        found.append(further)
    return found


def fold_text(text: str) -> str:
    """Fold a text (rule 2)."""
    text = text.replace("+", " ")
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFKD", decomposed.casefold())


def _read_escape(match: re.Match[str]) -> str:
    """The characters that an escape represents."""
    text = match[0]
    match match.lastgroup:
        case "url":
            return _of_bytes(bytes.fromhex(text.replace("%", "")))
        case "html":
            return html.unescape(text)
        case "pair":
            return (
                text.encode()
                .decode("unicode_escape")
                .encode("utf-16", "surrogatepass")
                .decode("utf-16")
            )
        case "unit":
            return chr(int(text[-4:], 16))
    return JSON_ESCAPES.get(text[1], text[1])


def _of_bytes(data: bytes) -> str:
    """Decode bytes of a URL. Old pages use Latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
