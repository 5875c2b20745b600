"""The results file: a line a trial, with all that says where it is from.

Rule 1: a line is in the file when `add` returns. A run that is stopped or killed goes on with the
        same plan, and no finished trial is run again. Trials that ended in an error are.
Rule 2: one process writes at a time: the file is locked meanwhile, and a second one is refused.
Rule 3: a line that belongs to this evaluation, but was asked something else or by another version
        of the kit, is refused by name. So is a file that is none of ours; nothing in it is changed.
Rule 4: files of shards merge by `cat`, wherever their servers were.
Rule 5: the transcript of every trial is a file of its own, in the folder beside the results.

Limitations: where the system has no file locks (Windows), two processes are not kept apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter

from ..errors import FileError
from .scores import Result, Setting
from .trials import Job

RESULT = TypeAdapter(Result)
"""A line of the file as JSON and back; `validate_json` raises ValueError for what is none."""


class Results:
    """The results in one file, `by_name`. `asked` has the digest of what is asked in a setting and
    a case (by its id), as far as it is of this evaluation. Raises ValueError for a file of
    something else.
    """

    def __init__(self, path: Path, asked: dict[tuple[Setting, str], str]) -> None:
        self.by_name: dict[str, Result] = {}
        self._path = path
        self._asked = asked
        if path.exists():
            self._read(path.read_bytes())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The file belongs to this process alone, and may be added to. Raises FileError where
        another one has it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab", buffering=0) as self._file:
            _lock(self._file, self._path)
            data = self._path.read_bytes()  # another process may have added to it meanwhile
            self._read(data)
            self._file.truncate(data.rfind(b"\n") + 1)  # a torn line: its trial is run again
            yield

    def add(self, result: Result) -> None:
        """Append a result, inside `locked`. It is in the file when this returns."""
        self._file.write(RESULT.dump_json(result) + b"\n")
        self.by_name[result.name] = result

    def transcript(self, job: Job) -> Path:
        """The file of a trial, empty: what an earlier try left there is gone."""
        path = self._path.with_suffix(".transcripts") / f"{job.name}.jsonl"
        path.unlink(missing_ok=True)
        return path

    def _read(self, data: bytes) -> None:
        for number, line in enumerate(data.splitlines(keepends=True), 1):
            if number > 1 and not line.endswith(b"\n"):
                break  # a kill tore it apart
            where = f"{self._path}, line {number}"
            try:
                result = RESULT.validate_json(line)
            except ValueError as error:
                said = "is no result of this version of think-agent eval: choose another file"
                raise ValueError(f"{where} {said}") from error
            asked = self._asked.get((result.setting, result.case), "")
            if not result.name.endswith(asked):
                raise ValueError(
                    f"{where} is of another question: the case {result.case}, its tools or its "
                    f"instructions have changed since, or think-agent, which was {result.kit}; "
                    "choose another file"
                )
            if not result.error or result.name not in self.by_name:  # merged, it may come after one
                self.by_name[result.name] = result


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        said = "another evaluation writes to it; wait for its end, or choose another file"
        raise FileError(f"{path}: {said}") from error
