"""Does thinking help *your* model? Cases, run under several settings, one result a trial.

Rule 1: this module knows nothing of what the cases are about. A *suite* makes the tools and the
        world of one case and checks that world afterwards. What a model said is never checked, only
        what it did.
Rule 2: every trial starts from a new world and an empty transcript; it shares only the model.
Rule 3: a result is appended to the results file as soon as it is there. A run that is stopped or
        killed goes on with the same plan, and no finished trial is run again. Trials that failed on
        the way to the model are.
Rule 4: the file remembers what was asked (cases, instructions, tools). Results of something else
        are never mixed in. Files of the same questions are merged by concatenation.

The edge: `scores.py` has what the results add up to. A model's own sampling is its provider's
default; nothing here makes it deterministic, which is what trials are for.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, TypeAdapter

from ..agent import Agent
from ..errors import AuthError, ConnectionFailed, ModelError, ModelNotFound
from ..messages import Json
from ..model import Model, Script
from ..policies.forcing import honored
from ..text import json_text, well_formed
from ..think import THINK, THINK_MINIMAL
from ..tools import Tool
from .scores import Result, Setting

VERSION = 3  # of the results file; 1 had other settings, 2 a header
THINK_TOOLS = {"on": THINK, "minimal": THINK_MINIMAL, "none": None}


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
    """What a suite module has. `STAND_INS` are scripted models, the provider `offline:NAME`. It may
    have a function `speaking(script, dialect)` on top, which gives a stand-in in a dialect.
    """

    STAND_INS: Mapping[str, Script]

    def prepare(self, case: Json, *, trust_model: bool) -> World:
        """The world of a case. With `trust_model` nothing in it stops the model from doing wrong.
        Raises ValueError for a case it cannot read.
        """


def instructions_of(suite: Suite) -> Mapping[str, str]:
    """What a suite may have on top, too: INSTRUCTIONS, several of them by name (`"plain"`,
    `"optimized"`), to be compared.
    """
    offered = getattr(suite, "INSTRUCTIONS", None)
    return offered if isinstance(offered, Mapping) else {}


class Case(BaseModel, extra="allow", frozen=True):
    """A line of the cases file: what every case has, and whatever the suite needs."""

    id: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Job:
    """One trial that is to be run."""

    setting: Setting
    case: Case
    trial: int


def prepared(job: Job, model: Model, suite: Suite) -> tuple[World, Agent]:
    """The world of a trial and its agent. Raises ValueError where the setting allows of none."""
    setting = job.setting
    world = suite.prepare(job.case.model_dump(), trust_model=setting.trust_model)
    instructions = {"": world.instructions, **instructions_of(suite)}
    if setting.instructions not in instructions:
        raise ValueError(f"this suite has no instructions of the name {setting.instructions!r}")
    tools = world.tools
    if setting.cover == "none":
        tools = [replace(tool, think_first=False) for tool in tools]
    return world, Agent(
        model,
        tools,
        instructions=instructions[setting.instructions],
        force=setting.force,
        think=THINK_TOOLS[setting.think],
        silence=setting.silence,
        carry=setting.cover == "carry",
    )


async def attempt(job: Job, model: Model, suite: Suite) -> Result:
    """Run one trial. Raises ModelError only where no other trial could be run either."""
    world, agent = prepared(job, model, suite)
    trial = Result(setting=job.setting, case=job.case.id, trial=job.trial)
    started = time.perf_counter()
    try:
        outcome = await agent.arun(job.case.text)
    except (AuthError, ModelNotFound, ConnectionFailed):  # no other case would fare better
        raise
    except ModelError as error:
        return replace(trial, error=str(error))
    forced = [reply for reply in outcome.turn.replies if reply.tool_choice not in ("auto", "none")]
    return replace(
        trial,
        seconds=round(time.perf_counter() - started, 3),
        exit=outcome.exit,
        actions=len(outcome.actions),
        behind_a_thought=outcome.behind_a_thought,
        forced=len(forced),
        honored=sum(honored(reply.tool_choice, reply) for reply in forced),
        model_calls=outcome.model_calls,
        usage=outcome.usage,
        **asdict(world.check()),
    )


def fingerprint(cases: Sequence[Case], suite: Suite) -> str:
    """A digest of all that the models are asked: the cases, and the instructions and tools they
    come with. Raises ValueError for the first case that the suite cannot read.
    """
    digest = hashlib.sha256(json.dumps([VERSION, dict(instructions_of(suite))]).encode())
    for case in cases:
        try:
            world = suite.prepare(case.model_dump(), trust_model=False)
        except ValueError as error:
            raise ValueError(f"case {case.id}: {' '.join(str(error).split())}") from error
        shown = [(tool.name, tool.description, tool.parameters) for tool in world.tools]
        digest.update(json.dumps([case.model_dump(), world.instructions, shown]).encode())
    return digest.hexdigest()


RESULT = TypeAdapter(Result)
"""A line of the file as JSON and back; `validate_json` raises ValueError for what is none."""


class Results:
    """The results of all runs into one file, a line each, so `cat a.jsonl b.jsonl` merges two.

    `asked` is the digest of what the models are asked (`fingerprint`), and stands in every line.
    Raises ValueError when the file holds something else, and OSError when it cannot be used.
    """

    def __init__(self, path: Path, asked: str) -> None:
        self._path, self._asked = path, asked
        self._by_key: dict[tuple[Setting, str, int], Result] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        said = "is no result of these cases, instructions and tools, or of another version"
        for number, line in enumerate((whole or data).splitlines(), 1):
            try:  # before anything is cut off: it may be another's file
                self._keep(RESULT.validate_json(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number} {said}: choose another file") from error
        os.truncate(path, len(whole))  # a line that a kill tore apart: its trial is run again

    def get(self, job: Job) -> Result | None:
        """What came of this trial, last."""
        return self._by_key.get((job.setting, job.case.id, job.trial))

    def add(self, result: Result) -> None:
        """Append a result. It is in the file when this returns."""
        result = replace(result, asked=self._asked)
        line = well_formed(json_text(RESULT.dump_python(result, mode="json")))
        with self._path.open("ab") as file:
            file.write(line.encode() + b"\n")
        self._keep(result)

    def _keep(self, result: Result) -> None:
        if result.asked != self._asked:
            raise ValueError("it answers another question")
        key = (result.setting, result.case, result.trial)
        if not (result.error and key in self._by_key):  # merged, a failure may come after a result
            self._by_key[key] = result
