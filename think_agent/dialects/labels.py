"""The labels of the ReAct format (`Thought:`, `Action:`, …), found in a text as it arrives.

Rule 1: a label stands at the start of a line, in any case, and may be dressed in Markdown.
Rule 2: what stands behind an `Observation:` is dropped: the model has invented it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ..wire.pieces import Part, Splitter, marks

BEFORE = (r"^[ \t]{0,8}", r"(?:[#>]{1,6}[ \t]{0,4})?", r"[*_`]{0,3}")
SPACE, NUMBER = r"[ \t]{0,4}", r"\d{0,3}"
AFTER = (SPACE, NUMBER, SPACE, r"[*_`]{0,3}", SPACE, "[:：]", r"[*_]{0,3}", "")
LABELS = marks(
    re.IGNORECASE | re.ASCII,
    thought=[[*BEFORE, *"thought", *AFTER]],
    action=[[*BEFORE, *"action", *AFTER]],
    action_input=[[*BEFORE, *"action", "[ _]", *"input", *AFTER]],
    observation=[[*BEFORE, *"observation", *AFTER]],
    final_answer=[[*BEFORE, *"final", "[ _]", *"answer", *AFTER]],
)
Sections: TypeAlias = Sequence[tuple[str, str]]


class Piece(NamedTuple):
    """A piece of the section `label`; `new`: its first."""

    label: str
    text: str
    new: bool = False


class LabelSplitter:
    """Splits a text at its labels, piece by piece."""

    def __init__(self) -> None:
        self._splitter = Splitter(LABELS)
        self._label = ""  # of the section we are in

    def feed(self, text: str) -> Iterator[Piece]:
        return self._pieces(self._splitter.feed(text))

    def close(self) -> Iterator[Piece]:
        return self._pieces(self._splitter.close())

    def _pieces(self, parts: Sequence[Part]) -> Iterator[Piece]:
        for kind, text in parts:
            name = kind.replace("_", " ")
            if name and not self._is_deaf_to(name):
                self._label = name
                yield Piece(name, "", new=True)
            elif self._label != "observation":
                yield Piece(self._label, text)

    def _is_deaf_to(self, name: str) -> bool:
        ended = self._label == "observation"
        return ended or (self._label == "final answer" and name != "observation")


def split(text: str) -> Sections:
    """A reply as `(label, text)` pairs, in order. The first has the label "", for the text before
    all labels.
    """
    splitter = LabelSplitter()
    sections: list[tuple[str, list[str]]] = [("", [])]
    for piece in (*splitter.feed(text), *splitter.close()):
        if piece.new:
            sections.append((piece.label, []))
        sections[-1][1].append(piece.text)
    return [(label, "".join(texts).strip()) for label, texts in sections]
