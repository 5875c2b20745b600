"""Paths that a person gives on a command line, looked at before anything else is done.

Rule 1: a path that will not do is found before a model is asked: it costs nothing, and the error is
        all there is to read.
Rule 2: looking leaves nothing behind, no file and no folder.

The edge: a disk that is full, or a path that is taken away in the meantime, is found by whoever
writes. So is a broken line in the middle of a transcript.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ..errors import FileError, TranscriptError
from ..transcript import HEADER

LONGEST_NAME = 255  # bytes, on the usual file systems


def check_output(flag: str, path: str, *, makes_folders: bool = False) -> None:
    """Raises FileError where no file can be written at `path`."""
    target = Path(os.path.realpath(path))  # where a link leads to
    folder = target.parent
    while makes_folders and not os.path.exists(folder):
        folder = folder.parent
    if os.path.isdir(target):
        raise FileError(f"{flag} {path}: that is a folder; name a file in it")
    if os.path.exists(target) and not os.path.isfile(target):
        raise FileError(f"{flag} {path}: that is no regular file; choose another path")
    if os.path.islink(target) or len(os.fsencode(target.name)) > LONGEST_NAME:
        raise FileError(f"{flag} {path}: no file can have that name; choose another path")
    if not os.path.isdir(folder):
        raise FileError(
            f"{flag} {path}: there is no folder {folder}; make it first, or choose another path"
        )
    if not os.access(target if os.path.exists(target) else folder, os.W_OK):
        raise FileError(f"{flag} {path}: it may not be written; choose another path")


def check_apart(paths: Mapping[str, str | None]) -> None:
    """Raises FileError where two flags name one file: the second would destroy the first."""
    taken: dict[str, str] = {}
    for flag, path in paths.items():
        if path:
            other = taken.setdefault(os.path.realpath(path), flag)
            if other != flag:
                raise FileError(f"{flag} {path}: that is the file of {other}; choose another path")


def check_transcript(flag: str, path: str, *, resumed: bool = False) -> None:
    """Raises FileError where no transcript can be kept at `path`, or none can be resumed."""
    if resumed and not os.path.exists(path):
        raise TranscriptError(f"{flag} {path}: there is no such file; nothing to resume")
    check_output(flag, path, makes_folders=True)
    if os.path.exists(path) and not _is_transcript(flag, path):
        raise TranscriptError(f"{flag} {path}: that is no transcript; choose another file")


def _is_transcript(flag: str, path: str) -> bool:
    """By its first line, which may be empty or torn. What is no regular file is none."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            first = file.readline()
    except OSError as error:
        raise TranscriptError(f"{flag} {path}: {error.strerror}; choose another file") from error
    if HEADER.startswith(first[: len(HEADER)]):
        return True
    try:  # the same, as somebody else's program would write it
        return bool(json.loads(first)["type"] == "transcript")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
