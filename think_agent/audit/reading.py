"""Reads a transcript for an audit, even if the file is damaged.

Rule 1: everything readable is shown, because audits are for runs in which something went wrong. An
        unreadable line, such as a half-written last one, is its own entry. (transcript.py, which
        resumes runs, is strict.)
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import TranscriptError
from ..messages import Json, Message, from_json
from ..transcript import VERSION


@dataclass(frozen=True)
class Unreadable:
    """A line of the file that isn't a message: its number, its text and the problem."""

    line: int
    raw: str
    problem: str


Entry = Message | Unreadable


class Record(NamedTuple):
    """The content of a file: its header, its entries, and warnings about the file.

    `lines` are the entries' line numbers. `headers`: each header, with the index in `entries` from
    which it applies; `header` is all of them merged. `digest` is the file's SHA-256, which shows
    whether a copy is the same. All three are empty for messages in memory.
    """

    header: Json
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    headers: tuple[tuple[int, Json], ...] = ()
    digest: str = ""

    @property
    def messages(self) -> list[Message]:
        """The readable entries."""
        return [entry for entry in self.entries if not isinstance(entry, Unreadable)]


def read(path: str | Path) -> Record:
    """Read a transcript, damaged or not. Raises TranscriptError if the file is missing or has no
    readable line.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TranscriptError(f"{path}: {error.strerror}; choose another file") from error
    header: Json = {}
    headers: list[tuple[int, Json]] = []
    entries: list[Entry] = []
    numbers: list[int] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found: Json = json.loads(line)
            if found["type"] == "transcript":
                header |= found  # a later header overrides
                headers.append((len(entries), found))
                continue
            entries.append(from_json(found))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raw = line.decode(errors="backslashreplace")
            entries.append(Unreadable(number, raw, str(error)))
        numbers.append(number)

    version = header.get("version", "unknown")
    warnings: tuple[str, ...] = ()
    if version != VERSION:
        warnings = (f"The file is of version {version}; this reads version {VERSION}.",)
    digest = hashlib.sha256(data).hexdigest()
    record = Record(header, tuple(entries), warnings, tuple(numbers), tuple(headers), digest)
    if not header and not record.messages:
        raise TranscriptError(f"{path}: no line of it is a message; choose the transcript of a run")
    return record
