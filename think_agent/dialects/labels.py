"""The labels of the ReAct format (`Thought:`, `Action:`, …), found in a text as it arrives.

Rule 1: a label stands at the start of a line, in any case, and may be dressed in Markdown.
Rule 2: one splitter reads whole and streamed text alike. It holds back no more than the start of a
        line that may yet become a label.
Rule 3: what stands behind an `Observation:` is dropped: the model has invented it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

NAMES = ("thought", "action", "action input", "observation", "final answer")
LABEL = re.compile(
    r"[ \t]{0,8}(?:[#>]{1,6}[ \t]{0,4})?[*_`]{0,3}(thought|action(?:[ _]input)?|observation"
    r"|final[ _]answer)[ \t]{0,4}\d{0,3}[ \t]{0,4}[*_`]{0,3}[ \t]{0,4}[:：][*_]{0,3}",
    re.IGNORECASE,
)
LONGEST = 64  # characters that a label has at most, and then some
AROUND = " \t#>*_`:：0123456789"  # what may stand around the words of a label
LINE = re.compile(r"[^\n]*\n|[^\n]+")
Sections: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the section `label`; `new`: its first."""

    label: str
    text: str
    new: bool = False


class Splitter:
    """Splits a text at its labels, piece by piece. The beginning of a line waits as long as it may
    become a label.
    """

    def __init__(self) -> None:
        self._label = ""  # of the section we are in
        self._beginning: str | None = ""  # of the line; None once it is known what it is

    def feed(self, text: str) -> Iterator[Piece]:
        for part in LINE.findall(text):
            if self._beginning is None:
                yield from self._tell(part)
            else:
                self._beginning += part
                if not _may_be_label(self._beginning):
                    yield from self.close()

    def close(self) -> Iterator[Piece]:
        """What waited, as nothing follows that could change it."""
        line = self._beginning or ""
        label = LABEL.match(line)
        name = label[1].lower().replace("_", " ") if label else ""
        if label and not self._is_deaf_to(name):
            self._label = name
            yield Piece(name, "", new=True)
            line = line[label.end() :]
        yield from self._tell(line)

    def _tell(self, text: str) -> Iterator[Piece]:
        if text and self._label != "observation":
            yield Piece(self._label, text)
        self._beginning = "" if text.endswith("\n") else None

    def _is_deaf_to(self, name: str) -> bool:
        ended = self._label == "observation"
        return ended or (self._label == "final answer" and name != "observation")


def _may_be_label(line: str) -> bool:
    words = line.strip(AROUND).replace("_", " ").lower()
    short = len(line) < LONGEST and "\n" not in line
    return short and any(name.startswith(words) for name in NAMES)


def split(text: str) -> Sections:
    """A reply as `(label, text)` pairs, in order. The first has the label "", for the text before
    all labels.
    """
    splitter = Splitter()
    sections: list[tuple[str, list[str]]] = [("", [])]
    for piece in (*splitter.feed(text), *splitter.close()):
        if piece.new:
            sections.append((piece.label, []))
        sections[-1][1].append(piece.text)
    return [(label, "".join(texts).strip()) for label, texts in sections]
