"""A transcript in memory or on disk: an append-only file of JSON lines, one message a line.

Rule 1: each message is written at once, so a killed process loses nothing. `flush` syncs the file
        to disk, so a power cut loses nothing either.
Rule 2: the first line is a header: the version, an id, the instructions, the tools and the model.
        If one of these changes, a new header is written before the next message. A header never
        contains an API key.
Rule 3: if the last line is only half written, it's cut off when the file is opened, since nothing
        was done after it. Any other unreadable line is an error that names the line.
Rule 4: the file is locked while it's open, so only one process uses it. A forked child gets neither
        the lock nor the file.
Rule 5: if a write fails or a line can't be read, the file stays unchanged.

    {"type": "transcript", "version": 3, "id": "…", "created": "…", "model": "…", "tools": […], …}
    {"type": "user", "text": "I want a refund on ORD-001", "at": "2026-11-21T23:37:47.120+00:00"}
"""

import contextlib
import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from weakref import WeakSet

from .checking import Culprit, check_function, is_a
from .errors import TranscriptError, TranscriptInUse
from .messages import Json, Message, from_json, to_json
from .text import canonical
from .turn import Turn, read_time

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

VERSION = 3
HEADER = b'{"type":"transcript"'  # the beginning of the first line
FAR_BEHIND = 2**31 - 2  # the last byte that msvcrt can lock


def utc_now() -> str:
    """The time stamp for a message: ISO, in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def checked_clock(now: Callable[[], str]) -> Callable[[], str]:
    """A clock of the user's own. Reading it raises TypeError if it gives no time stamp."""
    check_function("now=", now)
    culprit = Culprit("now=", now)

    def read_clock() -> str:
        with culprit:
            at = now()
        if not is_a(at, str) or read_time(at) is None:
            raise culprit.returned(at, "return an ISO time in UTC, such as 2026-03-01T12:00:00Z")
        return at

    return read_clock


class Transcript:
    """The `messages` of a conversation, and the `turn` that's read from them. Only `append` changes
    them. `is_held`: it stays open after a run, and the caller who opened it closes it.
    """

    path: str | None = None
    is_held = False

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.notices: list[str] = []
        self.messages = list(messages)
        self.turn = Turn.of(self.messages)

    def __enter__(self) -> "Transcript":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, message: Message) -> None:
        """Add a message."""
        self.messages.append(message)
        self.turn.add(message)

    def flush(self) -> None:
        """Wait until all messages are on disk, if they're in a file."""

    def close(self) -> None:
        """Close the file, if there is one."""


class TranscriptFile(Transcript):
    """A transcript in a file, which stays open until `close`. `append` writes before it returns.
    `notices`: what a person who continues with the file should know.

    `made_of` goes into the header of a new file, and is compared with the header of an existing one
    (rule 2). Raises TranscriptError if the file can't be used.
    """

    def __init__(self, path: str | os.PathLike[str], made_of: Json, *, now: str) -> None:
        super().__init__()
        self.path: str = os.fspath(path)
        self._current: Json = {}  # the header that applies to the next message
        self._header: Json | None = None  # to be written before the next message
        self._file = _open(self.path)
        try:
            lock(self._file, self.path)
            self._begin(made_of, now)
        except BaseException:
            self.close()
            raise

    def _begin(self, made_of: Json, now: str) -> None:
        header = self._load()
        with contextlib.suppress(OSError):  # an existing file may have another mode
            os.chmod(self.path, 0o600)
        new_header = {"type": "transcript", "version": VERSION, "id": os.urandom(16).hex()}
        new_header |= {"created": now, **made_of}
        if header is None:
            self._write(new_header)
            self._current = new_header
            return
        self._current = header
        self.compare(made_of, now)

    def compare(self, made_of: Json, now: str) -> None:
        """Compare `made_of` with the header. If it has changed, a new header will be written before
        the next message. Raises TranscriptError if the file is closed.
        """
        self._check_open()
        before = self._current
        changed = []
        for key in made_of:
            # Compared as JSON: in a file, a tuple is a list.
            if canonical(before.get(key)) != canonical(made_of[key]):
                changed.append(_name_change(key, before.get(key), made_of[key]))
        if changed:
            self.notices.append(f"{self.path}: changed since it was created: {', '.join(changed)}.")
            self._current = {**before, "created": now, **made_of}
            self._header = self._current

    def append(self, message: Message) -> None:
        """Write the message to the file, then add it to the messages in memory."""
        record = to_json(message)
        if self._header is not None:
            self._write(self._header)
            self._header = None
        self._write(record)
        super().append(message)

    def flush(self) -> None:
        """Wait until everything written so far is on disk."""
        self._check_open()
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Close the file, which also unlocks it."""
        if sys.platform != "win32" and not self._file.closed:
            # A command that's just being started may briefly hold a copy of the file.
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()

    def _load(self) -> Json | None:
        """Read the file. Returns its last header, or None if the file is empty."""
        self._file.seek(0)
        data = self._file.readall()
        lines = data.splitlines(keepends=True)
        torn = b""
        if lines and not _is_json(lines[-1]):
            torn = lines.pop()
        header = self._read(lines)
        is_begun = not lines and HEADER.startswith(torn[: len(HEADER)])
        if header is None and not is_begun:
            raise TranscriptError(f"{self.path}, line 1: not a transcript; choose another file")
        try:  # change the file only now, when all of it has been read
            if torn:
                self._file.truncate(len(data) - len(torn))
                self.notices.append(f"{self.path}: a torn last line was cut off.")
            elif lines and not lines[-1].endswith(b"\n"):
                self._file.write(b"\n")
        except OSError as error:
            raise self._unwritable(error) from error
        return header

    def _read(self, lines: list[bytes]) -> Json | None:
        """Read the messages. Returns the last header, or None if the first line isn't a header."""
        header: Json | None = None
        for number, line in enumerate(lines, 1):
            try:
                record = _json_object(line)
                if record.get("type") == "transcript":
                    header = record
                    self._check_version(record.get("version"))
                elif header is None:
                    return None
                else:
                    super().append(from_json(record))
            except (ValueError, RecursionError) as error:
                problem = f"{self.path}, line {number}: cannot be read ({error})"
                raise TranscriptError(f"{problem}; repair it or restore a copy") from error
        return header

    def _check_version(self, version: object) -> None:
        if version != VERSION:
            problem = f"it is of version {version!r}, this kit reads version {VERSION}"
            raise TranscriptError(f"{self.path}, line 1: {problem}; begin another transcript")

    def _unwritable(self, problem: object) -> TranscriptError:
        return TranscriptError(f"{self.path}: cannot be written ({problem}); the run stops here")

    def _check_open(self) -> None:
        if self._file.closed:
            raise TranscriptError(f"{self.path}: it is closed; open it again")

    def _write(self, record: Json) -> None:
        self._check_open()
        # Only ASCII: otherwise a lone surrogate in a model's text couldn't be written.
        try:
            line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        except RecursionError as error:  # it couldn't be read again either
            raise self._unwritable("it is nested too deeply") from error
        size = os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(line) < len(line):
                raise OSError("the disk took only a part of it; make room")
        except OSError as error:
            self._file.truncate(size)
            raise self._unwritable(error) from error


def _json_object(line: bytes) -> Json:
    record = json.loads(line.decode())  # json.loads would detect the encoding of each line
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _name_change(key: str, before: object, now: object) -> str:
    """What has changed. Tools are listed by name, because a server may rewrite a description."""
    old, new = _by_name(before), _by_name(now)
    changed = [name for name in old | new if old.get(name) != new.get(name)]
    if not changed:
        return key
    return f"{key} ({', '.join(changed)})"


def _by_name(tools: object) -> dict[str, str]:
    """The tools in a header, as JSON, by name; empty if `tools` isn't a list."""
    if not isinstance(tools, list):
        return {}
    return {str(tool.get("name")): canonical(tool) for tool in tools if isinstance(tool, dict)}


def _open(path: str) -> io.FileIO:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        file = io.FileIO(path, "a+", opener=_open_private)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        problem = getattr(error, "strerror", error)
        raise TranscriptError(f"{path}: cannot be opened ({problem}); choose another") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe or a device stores nothing
        file.close()
        raise TranscriptError(f"{path}: not a regular file; choose another")
    return file


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


_locked: WeakSet[io.FileIO] = WeakSet()


def lock(file: io.FileIO, path: str | os.PathLike[str]) -> None:
    """Lock the file until it's closed. A forked child closes its copy at once; otherwise the lock
    would outlive this process. Raises TranscriptInUse if another process has it open.
    """
    _watch_forks()
    _locked.add(file)
    try:
        if sys.platform == "win32":  # Windows locks bytes, which others then can't read
            file.seek(FAR_BEHIND)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise TranscriptInUse(f"{path}: another run has it open; wait for its end") from error


@cache
def _watch_forks() -> None:
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=_close_copies)


def _close_copies() -> None:
    """In a forked child, close its copies of the locked files. The parent keeps its locks."""
    for file in list(_locked):
        file.close()
