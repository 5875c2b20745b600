"""The results file: its plan, and one line for each trial, with its origin.

Rule 1: the first line is the plan. It is there before anything is run, so nobody can choose it by
        the results. It holds a digest of each thing that shapes a number. Only its comparisons are
        tested, and only once it is complete: whoever looks often finds something.
Rule 2: each trial names its plan. Trials of another one are refused, and the error says what has
        changed; or they are shown apart (`mixed`), and never tested.
Rule 3: a line is in the file before the next trial begins. After a stop or a kill the same plan
        goes on. Finished trials are not run again; trials that ended in an error are, until they
        are closed.
Rule 4: one process writes at a time (`Evaluation.run`): the file is locked meanwhile, and a second
        one is refused. A file of another program is refused, too, and is not changed.
Rule 5: `cat` merges the files of shards, whatever servers they used.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass as plain
from dataclasses import field
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from ..transcript import utc_now
from .comparisons import Comparison
from .scores import Result, Setting
from .sources import digest_json

MOST_IN_A_ROW = 5  # cases that fail, before the server is taken to be gone
MOST_SITTINGS = 3  # in which a trial may fail, before it is closed


@dataclass(frozen=True)
class EvaluationPlan:
    """What is run and compared: `trials` of each of so many `cases` under these settings.

    `made_of`: a digest of each thing that shapes a number, by its name. How many trials there are
    is not one of them: it shapes no trial.
    """

    settings: tuple[Setting, ...]
    comparisons: tuple[Comparison, ...]
    trials: int
    cases: int
    made_of: dict[str, str]
    at: str = field(default_factory=utc_now, compare=False)

    @property
    def digest(self) -> str:
        """The name by which a trial knows its plan."""
        return digest_json(self.made_of)

    def find_changes(self, other: "EvaluationPlan") -> str:
        """What is not the same in another plan, in words; empty if nothing is."""
        names = self.made_of.keys() | other.made_of.keys()
        differing = [n for n in names if self.made_of.get(n) != other.made_of.get(n)]
        return ", ".join(sorted(differing))


class OtherPlan(ValueError):
    """The results file is of another plan."""


LINE: TypeAdapter[EvaluationPlan | Result] = TypeAdapter(EvaluationPlan | Result)
"""Reads a line of the file and writes it; `validate_json` raises ValueError if it is neither."""


@plain
class RecordedResults:
    """What is in a results file. `tries`: all results of all plans, also of earlier tries."""

    plans: list[EvaluationPlan] = field(default_factory=list)
    tries: list[Result] = field(default_factory=list)

    @property
    def plan(self) -> EvaluationPlan | None:
        """The plan of the file; merged shards have several, which are the same."""
        return self.plans[0] if self.plans else None

    def of_plan(self, name: str) -> dict[str, Result]:
        """The last try of each trial of the plan with this digest, by the name of the trial."""
        return {result.name: result for result in self.tries if result.plan == name}

    def of_others(self, name: str) -> dict[str, dict[str, Result]]:
        """The same for each of the other plans, by its digest."""
        others = dict.fromkeys(result.plan for result in self.tries if result.plan != name)
        return {other: self.of_plan(other) for other in others}


def read_results(path: Path) -> RecordedResults:
    """Read a results file. Raises ValueError for a file of something else."""
    recorded = RecordedResults()
    if not path.exists():
        return recorded
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if number > 1 and not line.endswith(b"\n"):
            break  # half-written when the process was killed
        try:
            found = LINE.validate_json(line)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number} is no result of this version of think-agent eval: choose "
                "another file"
            ) from error
        if isinstance(found, EvaluationPlan):
            recorded.plans.append(found)
        else:
            recorded.tries.append(found)
    return recorded


def sittings_failed(tries: Sequence[Result]) -> Counter[str]:
    """In how many sittings each trial failed, by its name. The failures at the end of a sitting
    that was given up do not count: the server was gone.
    """
    by_sitting: dict[str, list[Result]] = defaultdict(list)
    for result in tries:
        if not result.setting.is_scripted and not result.is_closed:
            by_sitting[result.sitting].append(result)
    failed: Counter[str] = Counter()
    for results in by_sitting.values():
        outage = Outage()
        for result in results:
            outage.add(result)
        if outage.is_over_the_limit:
            del results[-len(outage.failures) :]
        failed.update({result.name for result in results if result.error})
    return failed


class Outage:
    """Is the server gone? Then trials of several cases fail in a row. (All trials of one case may
    fail for a reason of that case.)
    """

    def __init__(self) -> None:
        self.failures: list[Result] = []  # in a row

    def add(self, result: Result) -> None:
        """Add the next result of a sitting. Scripts need no server, so they say nothing of it."""
        if result.error:
            self.failures.append(result)
        elif not result.setting.is_scripted:
            self.failures = []

    @property
    def is_over_the_limit(self) -> bool:
        """Did so many cases fail that the server is taken to be gone?"""
        return len({failure.case for failure in self.failures}) >= MOST_IN_A_ROW
