"""The results file: its plan, and one line for each trial, with its origin.

Rule 1: the first line is the plan. It is there before anything is run, so nobody can choose it by
        the results. Only its comparisons are tested, and only once it is complete. To look before,
        or at other settings or trials, tests nothing: whoever looks often finds something.
Rule 2: a line is in the file before the next trial begins. After a stop or a kill the same plan
        goes on. Finished trials are not run again; trials that ended in an error are.
Rule 3: one process writes at a time (`Evaluation.run`): the file is locked meanwhile, and a second
        one is refused.
Rule 4: if the question of a line has changed, or the version of the kit, the file is refused, with
        the name of the case. A file of another program is refused, too, and is not changed.
Rule 5: `cat` merges the files of shards, whatever servers they used.
"""

from dataclasses import field
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from ..transcript import utc_now
from .comparisons import Comparison
from .scores import Result, Setting


@dataclass(frozen=True)
class Plan:
    """What is run and compared: `trials` of each of so many `cases` under these settings."""

    settings: tuple[Setting, ...]
    comparisons: tuple[Comparison, ...]
    trials: int
    cases: int
    at: str = field(default_factory=utc_now, compare=False)


Digests = dict[tuple[Setting, str], str]  # of each question, by setting and id of the case
LINE: TypeAdapter[Plan | Result] = TypeAdapter(Plan | Result)
"""Reads a line of the file and writes it; `validate_json` raises ValueError if it is neither."""


def read_results(path: Path, asked: Digests) -> tuple[Plan | None, dict[str, Result]]:
    """The plan of a file, and its results by their names. `asked`: the questions of this
    evaluation. Raises ValueError for a file of something else.
    """
    plan = None
    found: dict[str, Result] = {}
    if not path.exists():
        return plan, found
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if number > 1 and not line.endswith(b"\n"):
            break  # half-written when the process was killed
        where = f"{path}, line {number}"
        try:
            result = LINE.validate_json(line)
        except ValueError as error:
            raise ValueError(
                f"{where} is no result of this version of think-agent eval: choose another file"
            ) from error
        if isinstance(result, Plan):
            plan = plan or result  # merged shards have several
            continue
        if not result.name.endswith(asked.get((result.setting, result.case), "")):
            raise ValueError(
                f"{where} is of another question: the case {result.case}, its tools or its "
                f"instructions have changed since, or think-agent, which was {result.kit}; "
                "choose another file"
            )
        found[result.name] = result
    return plan, found
