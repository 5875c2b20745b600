"""Does thinking help *your* model? Cases, run under several settings, one result a trial.

Rule 1: this module knows nothing of what the cases are about. A *suite* makes the tools and the
        world of one case and checks that world afterwards. What a model said is never checked, only
        what it did.
Rule 2: every trial starts from a new world and an empty transcript; it shares only the model.
Rule 3: two settings differ in what they name and in nothing else. The task is the same in all of
        them; advice on thinking stands behind it, with a line on where to think that fits the
        tools.
Rule 4: what a model is asked is known before it is asked (`digest`). Results of something else are
        never mixed in.

Limitations: `scores.py` has what the results add up to. A model's own sampling is its provider's
default; nothing here makes it deterministic, which is what trials are for.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import BaseModel

from .. import __version__
from ..agent import Agent, Saved
from ..errors import AuthError, ConnectionFailed, ModelError, ModelNotFound
from ..messages import Json, Usage
from ..model import Model
from ..policies.forcing import honored
from ..scripted import Script
from ..text import canonical
from ..think import THINK, THINK_MINIMAL
from ..tools import Tool
from ..turn import Turn
from .scores import Result, Setting

THINK_TOOLS = {"on": THINK, "minimal": THINK_MINIMAL, "none": None}


class Check(NamedTuple):
    """What became of the world of a case. `right`: it is as it should be. `wrong_writes`: how often
    the model wrote, or tried to write, what it should not. `found` is for a person to read.
    """

    right: bool
    wrong_writes: int = 0
    found: tuple[str, ...] = ()


class World(Protocol):
    """One case made real: what the agent gets, and the check of what it did. It may have a list
    `done_when` on top, the checks of the setting of that name.
    """

    instructions: str
    tools: list[Tool]

    def check(self) -> Check:
        """Look at the world once the agent is done."""


class Suite(BaseModel):
    """What a suite module has, and may have.

    - `prepare(case, enforce=…)` makes the world of a case. Where it is to enforce, it refuses what
      is wrong, as a real one might. Raises ValueError for a case it cannot read.
    - `STAND_INS`: scripted models, the provider `offline:NAME`.
    - `FLOORS`: scripts that do not think, which are run beside every evaluation.
    - `ADVICE`: a text on how to think, which does not say with what.
    """

    prepare: Callable[..., World]
    STAND_INS: dict[str, Script]
    FLOORS: dict[str, Script] = {}
    ADVICE: str = ""


class Case(BaseModel, extra="allow"):
    """A line of the cases file: what every case has, and whatever the suite needs. `then`: what the
    person says next, each in a turn of its own.
    """

    id: str
    kind: str
    text: str
    then: list[str] = []


class Job(NamedTuple):
    """One trial that is to be run. `name`: what its result is found by, and its transcript. It has
    the case, the trial, and a `digest` of what is asked.
    """

    setting: Setting
    case: Case
    trial: int
    name: str = ""


def prepared(job: Job, model: Model, suite: Suite) -> tuple[World, Agent]:
    """The world of a trial and its agent. Raises ValueError where the setting allows of none.

    Advice on thinking says where to think: a prompt that asks for another thing than the model has
    tests that.
    """
    setting = job.setting
    world = suite.prepare(job.case.model_dump(), enforce=setting.enforce == "on")
    tools = world.tools
    if setting.cover == "none":
        tools = [replace(tool, think_first=False) for tool in tools]
    instructions = world.instructions
    if setting.advice == "on":
        if not suite.ADVICE:
            raise ValueError("this suite has no ADVICE on thinking")
        written = {"json": "in `reasoning`", "react": "in a Thought"}
        where = written.get(setting.dialect, "in a call of the tool `think`")
        if setting.think == "none":
            where = "for yourself, before you call a tool"
        if setting.cover == "carry":
            where = "in the argument `thought` of the call"
        instructions = f"{instructions.strip()}\n\n{suite.ADVICE.strip()}\n\nDo this {where}."
    checks = getattr(world, "done_when", ())
    if setting.done_when == "off":
        checks = ()
    agent = Agent(
        model,
        tools,
        instructions=instructions,
        force=setting.force,
        think=THINK_TOOLS[setting.think],
        silence=setting.silence,
        carry=setting.cover == "carry",
        done_when=checks,
    )
    return world, agent


def digest(job: Job, model: Model, suite: Suite) -> str:
    """A digest of all that the model is asked, up to its first word: the case, what the agent tells
    it, and the setting and version by which the kit puts that in words.
    """
    _, agent = prepared(job, model, suite)
    asked = [__version__, asdict(job.setting), job.case.model_dump(), agent.made_of()]
    return hashlib.sha256(canonical(asked).encode()).hexdigest()[:16]


async def attempt(job: Job, model: Model, suite: Suite, transcript: Saved = ()) -> Result:
    """Run one trial, kept in the file `transcript`, where that is a Path. Raises ModelError only
    where no other trial could be run either.
    """
    case = job.case
    world, agent = prepared(job, model, suite)
    result = Result(
        setting=job.setting, case=case.id, kind=case.kind, trial=job.trial, name=job.name
    )
    try:
        for text in (case.text, *case.then):
            outcome = await agent.arun(text, transcript=transcript)
            if not isinstance(transcript, Path):
                transcript = outcome.transcript
    except (AuthError, ModelNotFound, ConnectionFailed):  # no other case would fare better
        raise
    except ModelError as error:
        return replace(result, error=str(error))
    return replace(
        result,
        exit=outcome.exit,
        **_counted(Turn.all(outcome.transcript)),
        **world.check()._asdict(),
    )


def _counted(turns: list[Turn]) -> Json:
    """What was done in all turns of a trial."""
    found: Counter[str] = Counter()
    usage = Usage()
    served = set()
    for turn in turns:
        usage += turn.usage
        found["actions"] += len(turn.actions)
        found["behind_a_thought"] += sum(action.thought is not None for action in turn.actions)
        for reply in turn.replies:
            found["model_calls"] += 1
            served.add(reply.model)
            if reply.tool_choice not in ("auto", "none"):
                found["forced"] += 1
                found["honored"] += honored(reply.tool_choice, reply)
    return {**found, "usage": usage, "served": tuple(served)}
