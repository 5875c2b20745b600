"""An agent on a durable engine, DBOS: runs that survive the process and the machine they run on.

    agent = DurableAgent(model, tools, instructions=...)

    @DBOS.workflow()
    def conversation(text: str) -> list[str]:
        return lines(agent.run(text).transcript)

Rule 1: each model call, each action and each check is a step: its message is in the engine's
        database before the next one is planned. The rest of a run is the pure loop. So a workflow
        that starts over on another machine reads its finished steps from the record, plans the same
        steps, and goes on where it stopped.
Rule 2: a step records the line that a transcript file would have. Here, too, the transcript is the
        only state.
Rule 3: everything else that could differ the second time is a step as well: the clock, the
        idempotency keys, and the result of a `needs_approval` predicate.
Rule 4: a step that was running when its process died runs again, and nobody is asked. So each tool
        must allow that: it is `read_only` or `idempotent`, or it takes an idempotency key, which
        stays the same. Any other tool is refused when the agent is made.
Rule 5: a model that is unreachable or out of quota is asked again for four minutes. Then the
        workflow fails with its error.

Limitations: only plain `run`, inside a workflow. There is no transcript path: the engine keeps the
transcript. `approve` is called in the workflow, not in a step; to wait for a person it uses
`DBOS.recv`. A run goes on only with the same tools, checks and instructions: see `version`.
`demos/fleet` shows processes that share the work.
"""

import hashlib
import json
import os
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

try:
    from dbos import DBOS, StepOptions, error
except ImportError as missing:
    raise ImportError("durable runs need DBOS; run: pip install dbos") from missing

from .. import __version__
from ..agent import Agent, Saved
from ..errors import ConnectionFailed, Overloaded, RateLimited, TimedOut
from ..loop import AskHuman
from ..messages import MESSAGES, Json, Message, from_json, to_json
from ..model import Model
from ..running import Asked, Event, Perform, Run, RunCheck
from ..schema import KEY
from ..text import canonical
from ..tools import Tool
from ..transcript import utc_now


def is_passing(error: BaseException) -> bool:
    """May this error be gone in a minute?"""
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
    """An Agent whose runs are called in DBOS workflows. It takes the arguments of Agent, except
    `now`. Raises ValueError for a tool that must not run twice.
    """

    def __init__(self, model: Model, tools: Iterable[Tool] = (), **settings: Any) -> None:
        super().__init__(model, [_judged_once(tool) for tool in tools], now=now, **settings)
        for tool in self.tools.values():
            if not (tool.may_repeat or tool.takes_key):
                raise ValueError(
                    f"tool {tool.name}: the engine may run it twice; give its function a parameter "
                    f"{KEY}, or declare it read_only or idempotent"
                )

    @property
    def version(self) -> str:
        """For DBOS's `application_version`: a run goes on only under the version it began with.

        The version covers what the loop depends on: the kit, the tools, the checks and the
        instructions. It does not cover the model, so workers may use different providers.
        """
        made_of = {**self.made_of(), "checks": list(self.settings.limits.checks)}
        del made_of["model"]
        return f"{__version__}-{hashlib.sha256(canonical(made_of).encode()).hexdigest()[:16]}"

    def mint_key(self) -> str:
        """As a step: the same key when the workflow starts over."""
        return DBOS.run_step({"name": "key"}, super().mint_key)

    def perform(self, asked: Asked, *, streamed: bool = False) -> Generator[Event, None, None]:
        """As a step, if it does I/O. A recorded reply has no Deltas."""
        if isinstance(asked, AskHuman):
            yield from super().perform(asked)
            return

        notices: list[Event] = []  # of this process; a step that is read from the record has none

        def step() -> str:
            message, *notices[:] = super(DurableAgent, self).perform(asked)
            assert isinstance(message, MESSAGES)
            return lines([replace(message, at=utc_now())])[0]

        try:
            line = DBOS.run_step(_options(asked), step)
        except error.DBOSMaxStepRetriesExceeded as failed:
            raise failed.errors[-1] from None
        yield from_json(json.loads(line))
        yield from notices

    def _opened(self, text: str | None, transcript: Saved | None, streamed: bool) -> Run:
        if DBOS.workflow_id is None or isinstance(transcript, (str, os.PathLike)):
            raise TypeError(ONLY)
        return super()._opened(text, transcript, streamed)

    async def _aopened(self, text: str | None, transcript: Saved | None, streamed: bool) -> Run:
        raise TypeError(ONLY)


def _options(asked: Asked) -> StepOptions:
    match asked:
        case Perform(call=call):
            return StepOptions(name=call.name)
        case RunCheck(name=name):
            return StepOptions(name=f"check {name}")
    return ASK_THE_MODEL


def _judged_once(tool: Tool) -> Tool:
    """The tool, with its predicate as a step: it may read what the call itself changes."""
    predicate = tool.needs_approval
    if not callable(predicate):
        return tool

    def judged(arguments: Json) -> bool:
        return DBOS.run_step({"name": "approval"}, predicate, arguments)

    return replace(tool, needs_approval=judged)


def now() -> str:
    """The time, as a step: the same time when the workflow starts over. Inside a step, the present
    time.
    """
    return DBOS.run_step({"name": "now"}, utc_now)


def lines(messages: Iterable[Message]) -> list[str]:
    """Messages as the lines of a transcript file."""
    return [json.dumps(to_json(message), separators=(",", ":")) for message in messages]


def read(recorded: Sequence[str]) -> list[Message]:
    """The messages of `lines`."""
    return [from_json(json.loads(line)) for line in recorded]
