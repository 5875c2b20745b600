"""The results file: its plan, and a line for each trial with its origin.

Rule 1: the first line is the plan. It's written before anything runs, so it can't be chosen by the
        results. It has a digest of everything that affects a number. Only its comparisons are
        tested, and only once it's complete, since repeated looks find false differences.
Rule 2: each trial names its plan. Trials of another plan are refused, and the error says what has
        changed; or they're shown separately (`mixed`) and never tested.
Rule 3: each line is in the file before the next trial begins. After a stop or a kill the same plan
        continues. Finished trials don't run again; failed ones do, until they're closed.
Rule 4: `Evaluation.run` locks the file, so a second process is refused. Another program's file is
        refused as well, and isn't changed.
Rule 5: `cat` merges shards' files, whichever servers they used.
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

MOST_IN_A_ROW = 5  # failed cases in a row that mean the server is gone
MOST_SITTINGS = 3  # with failures, before a trial is closed


@dataclass(frozen=True)
class EvaluationPlan:
    """What is run and compared: `trials` of each of these `cases` under these settings.

    `made_of`: digests of everything that affects a number, by name. The number of trials isn't
    included, since it doesn't affect a trial.
    """

    settings: tuple[Setting, ...]
    comparisons: tuple[Comparison, ...]
    trials: int
    cases: int
    made_of: dict[str, str]
    at: str = field(default_factory=utc_now, compare=False)

    @property
    def digest(self) -> str:
        """The name that trials use for their plan."""
        return digest_json(self.made_of)

    def find_changes(self, other: "EvaluationPlan") -> str:
        """The differences from another plan, as text; empty if there are none."""
        names = self.made_of.keys() | other.made_of.keys()
        differing = [n for n in names if self.made_of.get(n) != other.made_of.get(n)]
        return ", ".join(sorted(differing))


class OtherPlan(ValueError):
    """The results file is of another plan."""


LINE: TypeAdapter[EvaluationPlan | Result] = TypeAdapter(EvaluationPlan | Result)
"""Reads and writes a line of the file. `validate_json` raises ValueError for an invalid one."""


@plain
class RecordedResults:
    """A results file. `tries`: all results of all plans, including earlier tries."""

    plans: list[EvaluationPlan] = field(default_factory=list)
    tries: list[Result] = field(default_factory=list)

    @property
    def plan(self) -> EvaluationPlan | None:
        """The file's plan. Merged shards have several equal ones."""
        return self.plans[0] if self.plans else None

    def of_plan(self, name: str) -> dict[str, Result]:
        """The last try of each trial of the plan with this digest, by the trial's name."""
        return {result.name: result for result in self.tries if result.plan == name}

    def of_others(self, name: str) -> dict[str, dict[str, Result]]:
        """The same for the other plans, by digest."""
        others = dict.fromkeys(result.plan for result in self.tries if result.plan != name)
        return {other: self.of_plan(other) for other in others}


def read_results(path: Path) -> RecordedResults:
    """Read a results file. Raises ValueError for any other file."""
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
                f"{path}, line {number} isn't a result of this version of think-agent eval: choose "
                "another file"
            ) from error
        if isinstance(found, EvaluationPlan):
            recorded.plans.append(found)
        else:
            recorded.tries.append(found)
    return recorded


def count_failed_sittings(tries: Sequence[Result]) -> Counter[str]:
    """In how many sittings each trial failed, by its name. Failures at the end of an aborted
    sitting don't count, since the server was gone.
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
    """Detects that the server is gone: trials of several cases fail in a row. (Trials of a single
    case may all fail because of that case.)
    """

    def __init__(self) -> None:
        self.failures: list[Result] = []  # in a row

    def add(self, result: Result) -> None:
        """Add the next result of a sitting. Scripts are ignored, since they need no server."""
        if result.error:
            self.failures.append(result)
        elif not result.setting.is_scripted:
            self.failures = []

    @property
    def is_over_the_limit(self) -> bool:
        """Did enough cases fail to conclude that the server is gone?"""
        return len({failure.case for failure in self.failures}) >= MOST_IN_A_ROW
