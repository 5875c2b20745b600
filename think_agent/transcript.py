"""A transcript on disk: append-only JSONL, one message a line, readable by `jq` and by the next
process.

Rule 1: a message is on the disk (flushed and fsynced) before the next step is planned.
Rule 2: the first line is a header: schema version, an id, and what the run was made of. No key is
        ever in it.
Rule 3: a torn last line is cut off on open, for nothing was built on it. Any other line that cannot
        be read is an error that names the line; nothing is skipped, and the file is not touched.
Rule 4: one process at a time: the file is locked while it is open.
Rule 5: a write that fails leaves the file as it was before.

    {"type": "transcript", "version": 1, "id": "…", "created": "…", "model": "…", "tools": "…", …}
    {"type": "user", "text": "I want a refund on ORD-001", "at": "2026-11-21T23:37:47.120+00:00"}
    …
    {"type": "ended", "exit": "signal", "at": "…"}

An `ended` line stands after each run. It is for readers; the loop does not need it.
"""

import contextlib
import json
import os
import stat
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from .errors import TranscriptError
from .messages import Json, Message, from_json, to_json

VERSION = 1
HEADER = b'{"type":"transcript"'  # how the first line begins


def utc_now() -> str:
    """The time as it is stamped on messages: ISO, in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Transcript(list[Message]):
    """The messages of a file, in a `with` block. `append` writes before it returns.

    `made_of` describes the agent (model, fingerprints of tools and instructions); it goes into the
    header of a new file and is compared with that of an old one: `changed` lists what is different
    now. `cut` is the number of bytes of a torn last line that were cut off.
    """

    def __init__(
        self, path: str | os.PathLike[str], made_of: Mapping[str, str], *, now: str
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.cut = 0
        self._file = _open(self.path)
        try:
            _lock(self._file, self.path)
            header = self._load() or self._write_header(made_of, now)
        except BaseException:
            os.close(self._file)
            raise
        self.id: str = header["id"]
        self.changed = [name for name, value in made_of.items() if header.get(name) != value]

    def append(self, message: Message) -> None:
        """Write, then remember."""
        self._write(to_json(message))
        super().append(message)

    def ended(self, exit: str, now: str) -> None:
        """Note how a run ended, for whoever reads the file."""
        self._write({"type": "ended", "exit": exit, "at": now})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._file)  # which releases the lock, too

    def _load(self) -> Json | None:
        """Read the file; its header, or None when there is nothing in it yet."""
        with open(self._file, "rb", closefd=False) as file:
            data = file.read()
        *lines, tail = data.split(b"\n")
        torn = b""
        if tail and _is_json(tail):  # whole, but for the line break
            lines.append(tail)
        elif tail or (lines and not _is_json(lines[-1])):
            torn = tail or lines.pop() + b"\n"
        header = self._read_all(lines)
        if header is None and not HEADER.startswith(torn[: len(HEADER)]):
            raise self._foreign()
        try:  # only now that all of it could be read
            if torn:
                os.ftruncate(self._file, len(data) - len(torn))
            elif tail:
                os.write(self._file, b"\n")
        except OSError as error:
            raise self._unwritable(error) from error
        self.cut = len(torn)
        return header

    def _read_all(self, lines: list[bytes]) -> Json | None:
        if not lines:
            return None
        header = self._read(lines[0], 1)
        if (header.get("type"), header.get("version")) != ("transcript", VERSION):
            raise self._foreign()
        if not isinstance(header.get("id"), str):
            raise self._corrupt(1, "it has no id")
        for number, line in enumerate(lines[1:], start=2):
            record = self._read(line, number)
            if record.get("type") != "ended":
                try:
                    super().append(from_json(record))
                except ValueError as error:
                    raise self._corrupt(number, str(error)) from error
        return header

    def _read(self, line: bytes, number: int) -> Json:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._corrupt(number, str(error)) from error
        if not isinstance(record, dict):
            raise self._corrupt(number, "not a JSON object")
        return record

    def _foreign(self) -> TranscriptError:
        return TranscriptError(
            f"{self.path}, line 1: not a transcript of version {VERSION}; choose another file"
        )

    def _unwritable(self, problem: object) -> TranscriptError:
        return TranscriptError(f"{self.path}: cannot be written ({problem}); the run stops here")

    def _corrupt(self, number: int, problem: str) -> TranscriptError:
        advice = "mend it or restore a copy" if number > 1 else "is it a transcript at all?"
        said = f"{self.path}, line {number}: cannot be read ({problem}); {advice}"
        return TranscriptError(said)

    def _write_header(self, made_of: Mapping[str, str], now: str) -> Json:
        header = {
            "type": "transcript",
            "version": VERSION,
            "id": uuid.uuid4().hex,
            "created": now,
            **made_of,
        }
        self._write(header)
        with contextlib.suppress(OSError):  # the folder's entry, too; not every system can
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return header

    def _write(self, record: Json) -> None:
        # ASCII alone: a lone surrogate in a model's words must not make the line unwritable.
        try:
            line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        except RecursionError as error:  # no reader could make a message of it again
            raise self._unwritable("it is nested too deeply") from error
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError("the disk took only a part of it; make room")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise self._unwritable(error) from error
        if os.fstat(self._file).st_nlink == 0:
            raise TranscriptError(
                f"{self.path}: was deleted while the run was writing to it; start again"
            )


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except (OSError, ValueError) as error:  # ValueError: there is a NUL in the path
        problem = error.strerror if isinstance(error, OSError) else error
        raise TranscriptError(
            f"{path}: cannot be opened ({problem}); choose another file"
        ) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):  # a pipe or a device keeps nothing
        os.close(file)
        raise TranscriptError(f"{path}: not a regular file; choose another")
    return file


def _lock(file: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: the file is used without a lock
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise TranscriptError(
            f"{path}: another process is using it; wait until it has ended"
        ) from error


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
