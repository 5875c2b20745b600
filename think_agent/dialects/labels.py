"""The labels of the ReAct format (`Thought:`, `Action:`, …) and the sections that they open.

Rule 1: a label stands at the start of a line, in any case, and may be dressed in Markdown.
Rule 2: behind a `Final Answer:` all is answer, other labels too.
Rule 3: what stands behind an `Observation:` is dropped: the model has invented it.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from ..wire.pieces import marks

BEFORE = (r"^[ \t]{0,8}", r"(?:[#>]{1,6}[ \t]{0,4})?", r"[*_`]{0,3}")
SPACE, NUMBER = r"[ \t]{0,4}", r"\d{0,3}"
AFTER = (SPACE, NUMBER, SPACE, r"[*_`]{0,3}", SPACE, "[:：]", r"[*_]{0,3}", "")
LABELS = marks(
    re.IGNORECASE | re.ASCII,
    thought=[[*BEFORE, *"thought", *AFTER]],
    action=[[*BEFORE, *"action", *AFTER]],
    input=[[*BEFORE, *"action", "[ _]", *"input", *AFTER]],
    observation=[[*BEFORE, *"observation", *AFTER]],
    answer=[[*BEFORE, *"final", "[ _]", *"answer", *AFTER]],
)
Sections: TypeAlias = Sequence[tuple[str, str]]


def opens(kind: str, section: str) -> bool:
    """Does a mark of this kind open a section of its own inside of `section`?"""
    if section == "answer":
        return kind == "observation"
    return section != "observation"


def split(text: str) -> Sections:
    """A reply as `(label, text)` pairs, in order. The first has the label "", for the text before
    all labels; that of an observation is empty.
    """
    sections, label, start = [], "", 0
    for mark in LABELS[0].finditer(text):
        if opens(mark.lastgroup or "", label):
            sections.append((label, text[start : mark.start()].strip()))
            label, start = mark.lastgroup or "", mark.end()
    sections.append((label, "" if label == "observation" else text[start:].strip()))
    return sections
