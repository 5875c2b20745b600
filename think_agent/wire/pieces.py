"""Reads text that arrives in pieces: JSON here; tags, labels and calls in `dialects/`.

Rule 1: the result doesn't depend on where the text is split. Every reader is a `Splitter` with its
        own marks. It passes on what's certain, and holds back an end that may still become a mark.
Rule 2: it never looks again at text it has passed on, so later pieces of a long text cost no more
        than the first.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ..messages import CARRIED, THINK_NAME
from ..streaming import Delta
from ..text import well_formed

Marks = tuple[re.Pattern[str], re.Pattern[str]]  # for complete marks; for partial or complete ones
Part = tuple[str, str]  # the kind of mark ("" for other text), and the text


def marks(flags: int = 0, /, **kinds: Sequence[Sequence[str]]) -> Marks:
    """Compile marks, by kind; earlier kinds win. A mark is given in parts, as a list of regular
    expressions, so that a half-arrived mark is recognized. It ends after the last part. (If the
    last part can still grow, add an empty part.)
    """

    whole = []
    begun = []
    for kind, forms in kinds.items():
        patterns = ["".join(parts) for parts in forms]
        whole.append(f"(?P<{kind}>{'|'.join(patterns)})")
        begun += [_match_begun(parts) for parts in forms]
    any_whole = "|".join(whole)
    any_begun = "|".join(begun)
    flags |= re.MULTILINE
    return re.compile(any_whole, flags), re.compile(rf"(?:{any_begun})\Z|{any_whole}", flags)


def _match_begun(parts: Sequence[str]) -> str:
    """A pattern for any number of the first parts, except all of them."""
    pattern = ""
    for part in reversed(parts[:-1]):
        pattern = f"(?:{part}{pattern})?"
    return pattern


class Splitter:
    """Splits a text at marks as it arrives."""

    _text = ""  # held back, with the character before it, since a mark may need the start of a line
    _at = 0  # where the held text begins

    def __init__(self, known: Marks) -> None:
        _, self._begun_or_whole = known

    def feed(self, text: str) -> list[Part]:
        """The parts that are certain after the next piece."""
        text = self._text + text
        at = self._at
        end = len(text)
        parts = []
        for found in self._begun_or_whole.finditer(text, at):
            if found.lastgroup is None:  # rule 1: it may still become a mark
                end = found.start()
                break
            parts += [("", text[at : found.start()]), (found.lastgroup, found[0])]
            at = found.end()
        parts.append(("", text[at:end]))
        self._at = min(end, 1)  # rule 2
        self._text = text[end - self._at :]
        return [part for part in parts if any(part)]

    def close(self) -> str:
        """The text that was held back. The end has come, so even a partial mark is text."""
        return self._text[self._at :]


HEX = "[0-9a-fA-F]"
ANY = (r"\\", "u", HEX, HEX, HEX, HEX)
HIGH = (r"\\", "u", "[dD]", "[89abAB]", HEX, HEX)  # a surrogate pair
JSON = marks(
    escape=[[*HIGH, *ANY], ANY, [r"\\", "[^u]"]],
    sign=[['["{}\\[\\]:,]']],
)


def _decode(kind: str, raw: str) -> str:
    """A part of a string as text."""
    if kind == "escape":
        with suppress(ValueError):  # it may be invalid
            return well_formed(json.loads(f'"{raw}"'))
    return raw


class JsonReader:
    """Reads an object's strings piece by piece, but not those of nested objects. A string outside
    an object has the key "". Text after the object is ignored.
    """

    _depth = 0
    is_over = False  # has the object ended?
    _in_string = False
    _in_key = False
    _key = ""

    def __init__(self) -> None:
        self._splitter = Splitter(JSON)

    def feed(self, piece: str) -> Iterator[tuple[str, str]]:
        """The text that the next piece adds, with its string's key."""
        for kind, raw in self._splitter.feed(piece):
            if self.is_over:
                return
            if raw == '"':
                self._in_string = not self._in_string
            elif self._in_string and self._depth <= 1:
                text = _decode(kind, raw)
                if self._in_key:
                    self._key += text
                else:
                    yield self._key, text
            elif kind == "sign" and not self._in_string:
                self._follow(raw)

    def _follow(self, sign: str) -> None:
        if sign in "{[":
            self._depth += 1
        elif sign in "}]":
            self._depth -= 1
            self.is_over = self._depth == 0
        self._in_key = sign != ":" and self._depth > 0
        if self._in_key:
            self._key = ""


class CallReader:
    """Reads the argument JSON of one call, piece by piece. `index`: the call's number in the reply.
    Deltas wait until the name and the number are known.
    """

    def __init__(self, name: str, index: int | None = 0) -> None:
        self.name = name
        self.index = index
        self._json = JsonReader()
        # The pieces not shown yet, each with the text it adds to a thought.
        self._waiting: list[tuple[str, list[str]]] = []

    @property
    def is_whole(self) -> bool:
        """Are the arguments complete? Any further piece belongs to something else."""
        return self._json.is_over

    def feed(self, piece: str) -> list[Delta]:
        """The Deltas of the next piece."""
        self.read(piece)
        return self.take_deltas()

    def read(self, piece: str) -> None:
        thoughts = [text for key, text in self._json.feed(piece) if key == CARRIED]
        self._waiting.append((piece, thoughts))

    def take_deltas(self) -> list[Delta]:
        """The Deltas that can be shown now. For a think call: new text of the thought."""
        if not self.name or self.index is None:
            return []
        deltas = []
        for piece, thoughts in self._waiting:
            if self.name != THINK_NAME:
                deltas.append(Delta("call", piece, self.name, self.index))
            else:
                deltas += [Delta("thought", text, self.name, self.index) for text in thoughts]
        self._waiting = []
        return deltas
