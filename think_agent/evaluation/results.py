"""The results file: a line a trial, with all that says where it is from.

Rule 1: a line is in the file before the next trial begins. A run that is stopped or killed goes on
        with the same plan, and no finished trial is run again. Trials that ended in an error are.
Rule 2: one process writes at a time: the file is locked meanwhile, and a second one is refused.
Rule 3: a line that belongs to this evaluation, but was asked something else or by another version
        of the kit, is refused by name. So is a file that is none of ours; nothing in it is changed.
Rule 4: files of shards merge by `cat`, wherever their servers were.

Limitations: where the system has no file locks (Windows), two processes are not kept apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter

from ..transcript import lock
from .scores import Result, Setting

RESULT = TypeAdapter(Result)
"""A line of the file as JSON and back; `validate_json` raises ValueError for what is none."""


def read_results(path: Path, asked: dict[tuple[Setting, str], str]) -> dict[str, Result]:
    """The results in a file, by their names. `asked` has the digest of what is asked in a setting
    and a case (by its id), as far as it is of this evaluation. Raises ValueError for a file of
    something else.
    """
    found: dict[str, Result] = {}
    if not path.exists():
        return found
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if number > 1 and not line.endswith(b"\n"):
            break  # a kill tore it apart
        where = f"{path}, line {number}"
        try:
            result = RESULT.validate_json(line)
        except ValueError as error:
            raise ValueError(
                f"{where} is no result of this version of think-agent eval: choose another file"
            ) from error
        if not result.name.endswith(asked.get((result.setting, result.case), "")):
            raise ValueError(
                f"{where} is of another question: the case {result.case}, its tools or its "
                f"instructions have changed since, or think-agent, which was {result.kit}; "
                "choose another file"
            )
        found[result.name] = result
    return found


@contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """The file, to add lines to: it belongs to this process alone. Raises FileError where another
    one has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        lock(file, path)
        file.truncate(path.read_bytes().rfind(b"\n") + 1)  # a torn line: its trial is run again
        yield file
