"""Runs one trial: a case under a setting.

Rule 1: this module doesn't depend on what the cases are about. A *suite* creates a case's tools and
        world and checks that world afterwards. It checks what a model did, never what it said.
Rule 2: every trial starts with a new world and an empty transcript. Trials share only the model.
Rule 3: two settings differ only in what their fields say. The task is the same in all of them. It
        may be followed by advice on thinking, with a line that says where to think.
Rule 4: a trial's `digest` is known before it runs. So results of a different trial are never mixed
        in.
Rule 5: an error in the suite's code ends the evaluation and names the case, trial, file and line
        (SuiteError). If a suite's simulated user fails, the suite raises ModelError, which is
        counted and retried like the model's own failures.

Limitations: models use their provider's default sampling, so results vary. That's why a case can
have several trials.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import BaseModel

from .. import __version__
from ..agent import Agent
from ..dialects.auto import Auto
from ..errors import AuthError, BadRequest, FileError, ModelError, ModelNotFound
from ..messages import CARRIED, Json, Message, Usage
from ..mistakes import place_error
from ..model import Model
from ..policies.cannot import THINK_CANNOT
from ..received import is_honored
from ..testing.scripted import Script
from ..think import THINK, THINK_MINIMAL, THOUGHT
from ..tools import Tool
from ..transcript import Transcript
from ..turn import Turn
from .scores import Result, Setting
from .sources import digest_json as digest_of

BRIEF_NOTES = THINK.parameters["properties"] | {CARRIED: THOUGHT | {"maxLength": 180}}
BRIEF = replace(
    THINK,
    description=f"{THINK.description} Write at most 25 words.",
    parameters=THINK.parameters | {"properties": BRIEF_NOTES},
)
THINK_TOOLS = {
    "on": THINK,
    "cannot": THINK_CANNOT,
    "brief": BRIEF,
    "minimal": THINK_MINIMAL,
    "none": None,
}


class WorldCheck(NamedTuple):
    """The state of the world after a trial. `right`: it is as it should be. `wrong_writes`: how
    often the model wrote, or tried to write, something wrong. `found` is for a person to read.
    """

    right: bool
    wrong_writes: int = 0
    found: tuple[str, ...] = ()


class World(Protocol):
    """The world of one case: what the agent gets, and the check of what it did. It may have a list
    `done_when`: checks for the setting of that name.
    """

    instructions: str
    tools: list[Tool]

    def reply(self, transcript: Sequence[Message]) -> str | None:
        """The person's next message, which begins a turn; None ends the conversation. It's called
        after each turn, and at the start if the case has no text.
        """

    def check(self) -> WorldCheck:
        """Look at the world once the conversation is over."""


class Suite(BaseModel):
    """The names that a suite module defines; the last three are optional.

    - `prepare(case, enforce=…)` makes the world of a case. With `enforce` the world refuses wrong
      calls, as a real one might. Raises ValueError for a case it can't read.
    - `STAND_INS`: scripted models, for the provider `offline:NAME`.
    - `FLOORS`: scripts that don't think, which are part of every evaluation.
    - `ADVICE`: a text on how to think, which doesn't name a tool for it.
    - `VERSION`: what else shapes its numbers, such as the version of a benchmark and the name of
      the model that plays its user.

    `source` is a digest of its code and of the user's code that it imports (`sources.py`).
    """

    prepare: Callable[..., World]
    STAND_INS: dict[str, Script]
    FLOORS: dict[str, Script] = {}
    ADVICE: str = ""
    VERSION: str = ""
    source: str = ""


class SuiteError(ValueError):
    """The suite's own code raised an error."""


class Case(BaseModel, extra="allow"):
    """A line of the cases file: the fields of every case, and whatever the suite needs. `easy`: a
    script that doesn't think may decide it, so settings aren't compared on it. `cannot`: what the
    person asks for can't be done, because a tool is missing, and to say so is the right end.
    `text`: what the person says first.
    """

    id: str
    kind: str
    easy: bool = False
    cannot: bool = False
    text: str

    @property
    def line(self) -> Json:
        """The fields of the line."""
        return self.model_dump(exclude_unset=True)


class Job(NamedTuple):
    """A trial, with its result if it has run. `name` identifies the result and the transcript. It
    consists of the case, the trial number, and a `digest`.
    """

    setting: Setting
    case: Case
    trial: int
    name: str = ""
    result: Result | None = None

    @property
    def is_open(self) -> bool:
        """Does it have no outcome yet, or only a failed request?"""
        return self.result is None or self.result.error != ""


def prepare_trial(setting: Setting, case: Case, model: Model, suite: Suite) -> tuple[World, Agent]:
    """The world of a trial and its agent. Raises ValueError for an impossible setting."""
    world = suite.prepare(case.line, enforce=setting.enforce == "on")
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
        raise ValueError("think=brief is in the tool's description, which only native calls show")
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
    """Where the advice says to think: a place that the model really has."""
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


def describe_to_model(setting: Setting, case: Case, model: Model, suite: Suite) -> Json:
    """What a trial's model reads: its instructions and tools."""
    _, agent = prepare_trial(setting, case, model, suite)
    return agent.made_of()


def digest_trial(setting: Setting, case: Case, told: Json, suite: Suite) -> str:
    """A digest of everything that affects a trial's result: the case, what its model is `told`, the
    setting, the suite's code, and the kit's version.
    """
    made_of = [__version__, suite.source, suite.VERSION, asdict(setting), case.line, told]
    return digest_of(made_of)


async def attempt(job: Job, model: Model, suite: Suite, transcript: Path | None = None) -> Result:
    """Run one trial, and save it in the file `transcript` if there is one. Raises ModelError only
    if no other trial could run either, and SuiteError for an error in the suite's code.

    If the provider refuses a request, that's an outcome of the setting, and not right. Otherwise a
    setting that fails on its hardest cases would look better.
    """
    case = job.case
    world, agent = prepare_trial(job.setting, case, model, suite)
    result = Result(
        setting=job.setting,
        case=case.id,
        kind=case.kind,
        easy=case.easy,
        cannot=case.cannot,
        trial=job.trial,
        name=job.name,
    )
    saved = transcript or Transcript()  # every turn adds to it
    try:
        text = case.text or _next_words(job, world, ())
        while text is not None:
            with _blame(job, "the run"):
                outcome = await agent.arun(text, transcript=saved)
            text = await asyncio.to_thread(_next_words, job, world, outcome.transcript)
    except (AuthError, ModelNotFound):  # every other case would fail as well
        raise
    except BadRequest as error:
        return replace(result, exit="bad request", found=(str(error),))
    except ModelError as error:
        return replace(result, error=str(error))
    with _blame(job, "the suite's check"):
        checked = world.check()._asdict()
    return replace(
        result, exit=outcome.exit, **_count_turns(Turn.all(outcome.transcript)), **checked
    )


def _next_words(job: Job, world: World, transcript: Sequence[Message]) -> str | None:
    with _blame(job, "the suite's reply"):
        return world.reply(transcript)


@contextmanager
def _blame(job: Job, what: str) -> Iterator[None]:
    """Add the case and the trial to an error in the suite's code."""
    try:
        yield
    except (ModelError, FileError):
        raise
    except Exception as error:
        raise SuiteError(
            f"case {job.case.id}, trial {job.trial}: {what} raised "
            f"{place_error(error)}; mend it and choose another file: "
            "results of other code are not mixed"
        ) from error


def _count_turns(turns: list[Turn]) -> Json:
    """Counts over all turns of a trial."""
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
                found["honored"] += is_honored(reply.tool_choice, reply)
    return {**found, "usage": usage, "served": tuple(served)}
