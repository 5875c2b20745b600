"""Runs one trial: a case under a setting, with one result.

Rule 1: this module does not know what the cases are about. A *suite* makes the tools and the world
        of a case and checks that world afterwards. It checks what a model did, never what it said.
Rule 2: every trial starts from a new world and an empty transcript. Trials share only the model.
Rule 3: two settings differ only in what their fields say. The task is the same in all of them. It
        may be followed by advice on thinking, with a line that says where to think.
Rule 4: the `digest` of a question is known before it is asked. So results of another question are
        never mixed in.

Limitations: a model samples as its provider does by default, so its results vary. That is why a
case may have several trials.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import BaseModel

from .. import __version__
from ..agent import Agent
from ..dialects.auto import Auto
from ..errors import AuthError, BadRequest, ModelError, ModelNotFound
from ..messages import CARRIED, Json, Message, Usage
from ..model import Model
from ..received import honored
from ..testing.scripted import Script
from ..text import canonical
from ..think import THINK, THINK_MINIMAL, THOUGHT
from ..tools import Tool
from ..transcript import Transcript
from ..turn import Turn
from .scores import Result, Setting

BRIEF_NOTES = THINK.parameters["properties"] | {CARRIED: THOUGHT | {"maxLength": 180}}
BRIEF = replace(
    THINK,
    description=f"{THINK.description} Write at most 25 words.",
    parameters=THINK.parameters | {"properties": BRIEF_NOTES},
)
THINK_TOOLS = {"on": THINK, "brief": BRIEF, "minimal": THINK_MINIMAL, "none": None}


class Check(NamedTuple):
    """The state of the world after a trial. `right`: it is as it should be. `wrong_writes`: how
    often the model wrote, or tried to write, something wrong. `found` is for a person to read.
    """

    right: bool
    wrong_writes: int = 0
    found: tuple[str, ...] = ()


class World(Protocol):
    """The world of one case: what the agent gets, and the check of what it did. It may also have a
    list `done_when`: the checks for the setting of that name.
    """

    instructions: str
    tools: list[Tool]

    def reply(self, transcript: Sequence[Message]) -> str | None:
        """What the person says next, in a turn of its own; None: the conversation is over. It is
        asked first for a case without a text, and after each turn.
        """

    def check(self) -> Check:
        """Look at the world once the conversation is over."""


class Suite(BaseModel):
    """The names in a suite module; the last two are optional.

    - `prepare(case, enforce=…)` makes the world of a case. With `enforce` the world refuses wrong
      calls, as a real one might. Raises ValueError for a case it cannot read.
    - `STAND_INS`: scripted models, for the provider `offline:NAME`.
    - `FLOORS`: scripts that do not think, which are part of every evaluation.
    - `ADVICE`: a text on how to think, which does not name a tool for it.
    """

    prepare: Callable[..., World]
    STAND_INS: dict[str, Script]
    FLOORS: dict[str, Script] = {}
    ADVICE: str = ""


class Case(BaseModel, extra="allow"):
    """A line of the cases file: the fields of every case, and whatever the suite needs. `easy`: a
    script that does not think may decide it, so settings are not compared on it. `text`: what the
    person says first.
    """

    id: str
    kind: str
    easy: bool = False
    text: str


class Job(NamedTuple):
    """A trial, with its result if it was run. `name` identifies the result and the transcript. It
    is made of the case, the trial, and a `digest` of the question.
    """

    setting: Setting
    case: Case
    trial: int
    name: str = ""
    result: Result | None = None

    @property
    def is_open(self) -> bool:
        """Has it no outcome yet, or only an error on the way to the model?"""
        return self.result is None or self.result.error != ""


def prepared(setting: Setting, case: Case, model: Model, suite: Suite) -> tuple[World, Agent]:
    """The world of a trial and its agent. Raises ValueError for an impossible setting."""
    world = suite.prepare(case.model_dump(), enforce=setting.enforce == "on")
    tools = world.tools
    if setting.cover == "none":
        tools = [replace(tool, think_first=False) for tool in tools]
    instructions = world.instructions
    if setting.advice != "off":
        if not suite.ADVICE:
            raise ValueError("this suite has no ADVICE on thinking")
        where = _where_to_think(setting, model)
        instructions = f"{instructions.strip()}\n\n{suite.ADVICE.strip()}\n\nDo this {where}."
    if setting.think == "brief" and setting.dialect not in ("native", "default"):
        raise ValueError("think=brief is told by the tool, which only native calls show")
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


def _where_to_think(setting: Setting, model: Model) -> str:
    """The place that the advice names: one that the model really has."""
    if setting.advice == "silent":
        return "for yourself, before you call a tool"
    if setting.cover == "carry":
        return "in the argument `thought` of the call"
    if setting.think == "none":
        return "in your reply, before the call"
    if setting.dialect == "json":
        return "in `reasoning`"
    if setting.dialect == "react":
        return "in a Thought"
    if isinstance(model, Auto):
        return "in a call of the tool `think`, or in `reasoning` if you write plans"
    return "in a call of the tool `think`"


def digest(setting: Setting, case: Case, model: Model, suite: Suite) -> str:
    """A digest of everything that shapes the first request: the case, the agent's instructions and
    tools, the setting, and the version of the kit.
    """
    _, agent = prepared(setting, case, model, suite)
    asked = [__version__, asdict(setting), case.model_dump(), agent.made_of()]
    return hashlib.sha256(canonical(asked).encode()).hexdigest()[:16]


async def attempt(job: Job, model: Model, suite: Suite, transcript: Path | None = None) -> Result:
    """Run one trial; `transcript` is the file in which it is kept, if it is. Raises ModelError only
    if no other trial could be run either.

    A request that the provider refuses is an outcome of its setting, and not right: to leave it out
    would praise a setting that breaks its hardest cases.
    """
    case = job.case
    world, agent = prepared(job.setting, case, model, suite)
    result = Result(
        setting=job.setting,
        case=case.id,
        kind=case.kind,
        easy=case.easy,
        trial=job.trial,
        name=job.name,
    )
    saved = transcript or Transcript()  # each turn adds to it
    try:
        text = case.text or world.reply(())
        while text is not None:
            outcome = await agent.arun(text, transcript=saved)
            text = await asyncio.to_thread(world.reply, outcome.transcript)
    except (AuthError, ModelNotFound):  # every other case would fail, too
        raise
    except BadRequest as error:
        return replace(result, exit="bad request", found=(str(error),))
    except ModelError as error:
        return replace(result, error=str(error))
    return replace(
        result,
        exit=outcome.exit,
        **_counted(Turn.all(outcome.transcript)),
        **world.check()._asdict(),
    )


def _counted(turns: list[Turn]) -> Json:
    """The counts over all turns of a trial."""
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
