"""Does thinking help *your* model? Cases, run under several settings, one result a trial.

Rule 1: this module knows nothing of what the cases are about. A *suite* makes the tools and the
        world of one case and checks that world afterwards. What a model said is never checked, only
        what it did.
Rule 2: every trial starts from a new world and an empty transcript; it shares only the model.
Rule 3: a result is appended to the results file as soon as it is there. A run that is stopped or
        killed goes on with the same command, and no finished trial is run again. Trials that
        failed on the way to the model are.
Rule 4: the file remembers what was asked (cases, instructions, tools). Results of something else
        are never mixed in.

The edge: `scores.py` has what the results add up to, `eval.py` the command. A model's own sampling
is its provider's default; nothing here makes it deterministic, which is what trials are for.
"""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from ..agent import Agent
from ..cli.options import UserError
from ..errors import AuthError, ConnectionFailed, FileError, ModelError, ModelNotFound
from ..messages import Json
from ..model import Model, Script, honored
from ..outcome import Outcome
from ..think import THINK, THINK_MINIMAL
from ..tools import Tool
from .scores import Result, Setting, from_json, to_json

HOPELESS = (AuthError, ModelNotFound, ConnectionFailed)  # no other case would fare better


@dataclass(frozen=True, slots=True)
class Check:
    """What became of the world of a case. `right`: it is as it should be. `wrong_writes`: how often
    the model wrote, or tried to write, what it should not. `found` is for a person to read.
    """

    right: bool
    wrong_writes: int = 0
    found: tuple[str, ...] = ()


class World(Protocol):
    """One case made real: what the agent gets, and the check of what it did."""

    instructions: str
    tools: Sequence[Tool]

    def check(self) -> Check:
        """Look at the world once the agent is done."""


class Suite(Protocol):
    """What a suite module has. `STAND_INS` are scripted models, as `--provider offline:NAME`."""

    STAND_INS: Mapping[str, Script]

    def prepare(self, case: Json, *, trust_model: bool) -> World:
        """The world of a case. With `trust_model` nothing in it stops the model from doing wrong.
        Raises ValueError for a case it cannot read.
        """


@runtime_checkable
class Speaks(Protocol):
    """What a suite may have on top: stand-ins that speak the dialects `"json"` and `"react"`."""

    def speaking(self, script: Script, dialect: str) -> Script:
        """`script` in a dialect; in `"native"` it is the script itself."""


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the cases file. `data` is the whole of it, for the suite."""

    id: str
    kind: str
    text: str
    data: Json


@dataclass(frozen=True, slots=True)
class Job:
    """One trial that is to be run."""

    setting: Setting
    case: Case
    trial: int

    @property
    def key(self) -> "Key":
        """What tells this trial from all others."""
        return self.setting, self.case.id, self.trial


Key: TypeAlias = tuple[Setting, str, int]


async def attempt(job: Job, model: Model, suite: Suite) -> Result:
    """Run one trial. Raises ModelError only where no other trial could be run either."""
    setting, case = job.setting, job.case
    world = suite.prepare(case.data, trust_model=setting.trust_model)
    agent = Agent(
        model,
        world.tools,
        instructions=world.instructions,
        force=setting.force,
        think=THINK if setting.flag == "on" else THINK_MINIMAL,
    )
    started = time.perf_counter()
    try:
        outcome = await agent.arun(case.text)
    except HOPELESS:
        raise
    except ModelError as error:
        return Result(
            setting=setting, case=case.id, kind=case.kind, trial=job.trial, error=str(error)
        )
    return _result(job, outcome, world.check(), time.perf_counter() - started)


def _result(job: Job, outcome: Outcome, check: Check, seconds: float) -> Result:
    forced = [step for step in outcome.steps if step.tool_choice not in ("auto", "none")]
    return Result(
        setting=job.setting,
        case=job.case.id,
        kind=job.case.kind,
        trial=job.trial,
        right=check.right,
        found=check.found,
        wrong_writes=check.wrong_writes,
        exit=outcome.exit,
        actions=len(outcome.actions),
        behind_a_thought=outcome.behind_a_thought,
        forced=len(forced),
        honored=sum(honored(step.tool_choice, step) for step in forced),
        model_calls=outcome.model_calls,
        usage=outcome.usage,
        seconds=round(seconds, 3),
    )


async def run_all(
    jobs: Iterable[Job],
    perform: Callable[[Job], Awaitable[Result]],
    record: Callable[[Result], None],
    *,
    concurrency: int,
) -> None:
    """Perform the jobs, `concurrency` at a time, and record each result as it is there."""
    waiting = iter(jobs)  # shared by the workers, so each job is handed out once

    async def worker() -> None:
        for job in waiting:
            record(await perform(job))

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(worker())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # one is enough; the others are the same server's


def fingerprint(cases: Sequence[Case], suite: Suite) -> str:
    """A digest of all that the models are asked: the cases, and the instructions and tools they
    come with. Raises UserError for the first case that the suite cannot read.
    """
    digest = hashlib.sha256()
    for case in cases:
        try:
            world = suite.prepare(case.data, trust_model=False)
        except ValueError as error:
            raise UserError(f"case {case.id}: {' '.join(str(error).split())}") from error
        shown = [(tool.name, tool.description, tool.parameters) for tool in world.tools]
        digest.update(json.dumps([case.data, world.instructions, shown]).encode())
    return digest.hexdigest()


# The results file.


class Results:
    """The results of all runs into one file: a header line, then one line a result.

    `asked` is the digest of what the models are asked (`fingerprint`). Raises UserError when the
    file holds something else, and FileError when it cannot be used.
    """

    def __init__(self, path: Path, asked: str) -> None:
        self._path = path
        self._by_key: dict[Key, Result] = {}
        with self._usable():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if data:  # read before anything is cut off: it may be somebody else's file
            self._load((whole or data).decode(errors="replace").split("\n"), asked)
        with self._usable():
            os.truncate(path, len(whole))  # a line that a kill tore apart: its trial is run again
        if not whole:
            self._append({"evaluation": 1, "asked": asked})

    def __contains__(self, job: Job) -> bool:
        """Is this trial done? One that failed on the way to the model is not."""
        return job.key in self._by_key and not self._by_key[job.key].error

    def __getitem__(self, job: Job) -> Result:
        """What came of this trial, last."""
        return self._by_key[job.key]

    def add(self, result: Result) -> None:
        """Append a result. It is in the file when this returns."""
        self._append(to_json(result))
        self._keep(result)

    def _load(self, lines: Sequence[str], asked: str) -> None:
        for number, line in enumerate(lines, 1):
            if number > 1 and not line:
                continue
            try:
                data = json.loads(line)
                if number > 1:
                    self._keep(from_json(data))
                elif data["asked"] != asked:
                    raise UserError(
                        f"{self._path} holds results for other cases, instructions or tools; "
                        "choose another --out"
                    )
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{self._path}, line {number} is no line of an evaluation; take it out, or "
                    "choose another --out"
                ) from error

    def _keep(self, result: Result) -> None:
        self._by_key[result.setting, result.case, result.trial] = result

    def _append(self, data: Json) -> None:
        with self._usable(), self._path.open("ab") as file:
            file.write(json.dumps(data).encode() + b"\n")

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(f"{self._path}: {error.strerror}; choose another --out") from error
