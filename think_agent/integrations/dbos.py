"""An agent on a durable engine, DBOS: its runs survive the process and the machine.

Rule 1: each model call, action and check is a step. It records the line that a transcript file
        would have; everything else is the pure loop. So a workflow that restarts on another machine
        reads its finished steps, plans the same ones, and continues.
Rule 2: the first step of each run records the time and a random id. Everything else follows from
        the record, so keys and time limits are the same after a restart.
Rule 3: if a process dies during a step, the step runs again without asking anyone. So a tool must
        be `read_only` or `idempotent`, or take an idempotency key. Any other tool is an error.
Rule 4: if a model is unreachable or out of quota, the call is retried for four minutes. Then the
        workflow fails with its error.

Limitations: only plain `run`, inside a workflow; no transcript path. `approve` is called in the
workflow, where `DBOS.recv` waits for a person. The README of this folder shows how to use it.
"""

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4, uuid5

from ..installing import install_command

try:
    from dbos import DBOS, StepOptions, error
except ImportError as missing:
    advice = install_command("think-agent[fleet]")
    raise ImportError(f"durable runs need DBOS; run: {advice}") from missing

from .. import __version__
from ..agent import Agent, Saved
from ..errors import ConnectionFailed, Overloaded, RateLimited, TimedOut
from ..loop import AskHuman
from ..messages import Assistant, Message, Verdict, from_json, to_json
from ..model import Model, Request
from ..received import read_received
from ..running import Effect, Event, Opening, Perform, Run, RunCheck
from ..schema import KEY
from ..text import canonical
from ..tools import Tool
from ..transcript import TranscriptFile, utc_now


def is_passing(error: BaseException) -> bool:
    """Can this error be temporary?"""
    return isinstance(error, ConnectionFailed | Overloaded | RateLimited | TimedOut)


ASK_THE_MODEL: StepOptions = {
    "name": "model",
    "retries_allowed": True,
    "should_retry": is_passing,
    "interval_seconds": 2.0,  # doubled each time; the provider has already retried
    "max_attempts": 8,
}
ONLY = "a durable run is agent.run(text) in a DBOS workflow, without a path: the engine keeps it"


class DurableAgent(Agent):
    """An Agent for use in DBOS workflows. It takes the arguments of Agent, except `now`. Raises
    ValueError for a tool that mustn't run twice.
    """

    _run: Run  # these three belong to the copy that does one run
    _id: str  # a random one
    _stamp: str  # of the last step

    def __init__(self, model: Model, tools: Iterable[Tool] = (), **settings: Any) -> None:
        super().__init__(model, [_durable(tool) for tool in tools], **settings)

    @property
    def version(self) -> str:
        """For DBOS's `application_version`: a run continues only under the version it began with.

        The version covers what the loop depends on: the kit, the tools, the checks and the
        instructions. It doesn't cover the model, so workers may use different providers.
        """
        made_of = {**self.made_of(), "checks": tuple(self._checks)}
        del made_of["model"]
        return f"{__version__}-{hashlib.sha256(canonical(made_of).encode()).hexdigest()[:16]}"

    def mint_key(self) -> str:
        """A key that stays the same when the workflow restarts, and differs in a fork of it."""
        return uuid5(UUID(self._id), f"{DBOS.workflow_id} {len(self._run.messages)}").hex

    def perform(self, effect: Effect, *, streamed: bool = False) -> Generator[Event, None, None]:
        """Perform an effect as a step. A recorded reply has no Deltas."""
        perform = partial(super().perform, effect)
        if isinstance(effect, AskHuman):
            # A person is asked in the workflow itself: only the answer is a step, not the wait.
            answer = list(perform())
            perform = partial(iter, answer)
        step = _Step(effect, perform, self._run, self.tools)
        try:
            line = DBOS.run_step(_options(effect), step.run)
        except error.DBOSMaxStepRetriesExceeded as failed:
            raise failed.errors[-1] from None
        (message,) = read([line])
        self._stamp = str(message.at)
        yield message
        yield from step.rest  # including a tool's error, now that it's recorded

    def _open_run(self, transcript: Saved | None, opening: Opening) -> Run:
        in_a_file = isinstance(transcript, (str, os.PathLike, TranscriptFile))
        if DBOS.workflow_id is None or in_a_file:
            raise TypeError(ONLY)
        if isinstance(opening, Verdict):
            _check_workflow_of(opening)
        durable = copy(self)  # workflows run in parallel, so each run needs its own clock and keys
        opened = DBOS.run_step({"name": "open"}, lambda: [utc_now(), str(uuid4())])
        durable._stamp, durable._id = opened
        durable.now = lambda: durable._stamp
        durable._run = Agent._open_run(durable, transcript, opening)
        return durable._run

    async def _aopen_run(self, transcript: Saved | None, opening: Opening) -> Run:
        raise TypeError(ONLY)


@dataclass
class _Step:
    """An effect as a step of the engine. `run` performs it and returns the line to record. `rest`
    yields what follows; nothing if the step was read from the record.
    """

    effect: Effect
    perform: Callable[[], Iterator[Event]]
    of: Run
    tools: Mapping[str, Tool]
    rest: Iterator[Event] = field(default_factory=lambda: iter(()))

    def run(self) -> str:
        self.rest = self.perform()
        message = next(self.rest)
        assert isinstance(message, Message)
        now = utc_now()
        if isinstance(self.effect, Request) and isinstance(message, Assistant):
            choice = self.effect.tool_choice
            message = read_received(message, choice, self.of.turn, now, self.tools)  # rule 1
        return lines([replace(message, at=now)])[0]


def _check_workflow_of(answer: Verdict) -> None:
    """An answer that's sent twice mustn't start two workflows. The engine runs each workflow id
    once, so the resuming workflow must use the id of the question's pause.
    """
    pause = answer.question.partition(".")[0]
    if pause != DBOS.workflow_id:
        raise ValueError(
            "resume in a workflow that has the id of the question: "
            "with SetWorkflowID(question.pause): DBOS.start_workflow(...)"
        )


def _options(effect: Effect) -> StepOptions:
    match effect:
        case Perform(call):
            return {"name": call.name}
        case RunCheck(name):
            return {"name": f"check {name}"}
        case AskHuman():
            return {"name": "answer"}
    return ASK_THE_MODEL


def _durable(tool: Tool) -> Tool:
    """The tool, with its predicate as a step: it may read what the call itself changes."""
    if not (tool.may_repeat or tool.takes_key):
        raise ValueError(
            f"tool {tool.name}: the engine may run it twice; give its function a parameter {KEY}, "
            "or declare it read_only or idempotent"
        )
    if not callable(tool.needs_approval):
        return tool
    judged = partial(DBOS.run_step, {"name": "approval"}, tool.needs_approval)
    return replace(tool, needs_approval=judged)


def lines(messages: Iterable[Message]) -> list[str]:
    """Messages as the lines of a transcript file."""
    return [json.dumps(to_json(message), separators=(",", ":")) for message in messages]


def read(recorded: Iterable[str]) -> list[Message]:
    """The messages of `lines`."""
    return [from_json(json.loads(line)) for line in recorded]
