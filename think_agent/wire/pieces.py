"""Reads text that arrives in pieces: JSON here; tags, labels and calls in `dialects/`.

Rule 1: a text reads the same wherever it is cut. Every reader is a `Splitter` with its own marks.
        It passes on at once what is certain, and holds back an end that may still become a mark.
Rule 2: it never looks again at what it has passed on, so the last piece of a long text costs no
        more than the first.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ..messages import CARRIED, THINK_NAME
from ..streaming import Delta
from ..text import well_formed

Marks = tuple[re.Pattern[str], re.Pattern[str]]  # for whole ones; for those begun or whole
Part = tuple[str, str]  # the kind of a mark, or "" for other text; and the text


def marks(flags: int = 0, /, **kinds: Sequence[Sequence[str]]) -> Marks:
    """Marks by kind; earlier ones are preferred. Each is a list of regular expressions, one for
    each of its parts, so that a reader can tell that it has begun. It ends after the last part. (If
    that may still grow, an empty part follows it.)
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
    """A pattern for the first parts, as many as there are, but without the last one."""
    pattern = ""
    for part in reversed(parts[:-1]):
        pattern = f"(?:{part}{pattern})?"
    return pattern


class Splitter:
    """Splits a text at marks as it arrives."""

    _text = ""  # held back, after the character before it: a mark may begin a line
    _at = 0  # where it begins

    def __init__(self, known: Marks) -> None:
        _, self._begun_or_whole = known

    def feed(self, text: str) -> list[Part]:
        """The parts that the next piece makes certain."""
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
        """What was held back. No more comes, so it is text: also a mark that could have grown."""
        return self._text[self._at :]


HEX = "[0-9a-fA-F]"
ANY = (r"\\", "u", HEX, HEX, HEX, HEX)
HIGH = (r"\\", "u", "[dD]", "[89abAB]", HEX, HEX)  # half a character; the other half follows
JSON = marks(
    escape=[[*HIGH, *ANY], ANY, [r"\\", "[^u]"]],
    sign=[['["{}\\[\\]:,]']],
)


def _decode(kind: str, raw: str) -> str:
    """A part of a string as text."""
    if kind == "escape":
        with suppress(ValueError):  # it may not be a valid one
            return well_formed(json.loads(f'"{raw}"'))
    return raw


class JsonReader:
    """Reads the strings of an object piece by piece, but not those of objects inside it. A string
    that is no part of an object has the key "". What comes after an object is not read.
    """

    _depth = 0
    is_over = False  # has the object ended?
    _in_string = False
    _in_key = False
    _key = ""

    def __init__(self) -> None:
        self._splitter = Splitter(JSON)

    def feed(self, piece: str) -> Iterator[tuple[str, str]]:
        """What the next piece adds to a string: its key, and the text."""
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
    """Reads the argument JSON of one call, piece by piece. `index`: the number of the call in the
    reply. The Deltas wait until the name and the number are known.
    """

    def __init__(self, name: str, index: int | None = 0) -> None:
        self.name = name
        self.index = index
        self._json = JsonReader()
        # The pieces that nobody was shown yet, each with what it adds to a thought.
        self._waiting: list[tuple[str, list[str]]] = []

    @property
    def is_whole(self) -> bool:
        """Have the arguments ended? What comes now belongs to something else."""
        return self._json.is_over

    def feed(self, piece: str) -> list[Delta]:
        """The Deltas of the next piece."""
        self.read(piece)
        return self.take_deltas()

    def read(self, piece: str) -> None:
        thoughts = [text for key, text in self._json.feed(piece) if key == CARRIED]
        self._waiting.append((piece, thoughts))

    def take_deltas(self) -> list[Delta]:
        """What can be shown by now. For a think call: what the pieces add to the thought."""
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
