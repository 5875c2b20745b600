"""An agent on a durable engine, DBOS: runs that survive the process and the machine they run on.

    agent = DurableAgent(model, tools, instructions=...)

    @DBOS.workflow()
    def conversation(text: str) -> list[str]:
        return lines(agent.run(text).transcript)

Rule 1: each model call and each action is a step: its message is in the engine's database before
        the next one is planned. The rest of a run is the pure loop, so a workflow that starts over
        on another machine gets its finished steps from the record, plans the same, and goes on
        where it stopped.
Rule 2: what a step records is the line that a transcript file would hold. The transcript is the
        only state here, too.
Rule 3: whatever else could differ the second time is a step as well: the clock.
Rule 4: a step that was running when its process died runs again. An action keeps its idempotency
        key then, made of the workflow's id and the number of the step. A tool that takes no key and
        changes the world may do it twice: give it one.
Rule 5: a model that is out of reach or out of quota is asked again, for four minutes, and then the
        workflow fails with its error.

The edge: plain `run` alone, inside a workflow; no transcript path, for the engine keeps it.
`approve` is called in the workflow, not in a step: one that waits for a person does so with
`DBOS.recv`. The same tools and instructions must be there when a run goes on: see `version`. The
last part is what the processes of any fleet share; `demos/fleet` and `eval_engine.py` use it.
"""

import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dbos import (
    DBOS,
    DBOSClient,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    StepOptions,
    error,
)
from sqlalchemy.exc import SQLAlchemyError

from .. import __version__
from ..agent import Agent, Conversation, fingerprint
from ..cli.options import UserError
from ..errors import ConnectionFailed, Overloaded, RateLimited, TimedOut
from ..messages import MESSAGES, Message, from_json, to_json
from ..model import Model, Request
from ..running import Effect, Event, Perform
from ..tools import Tool
from ..transcript import utc_now

PASSING = (ConnectionFailed, Overloaded, RateLimited, TimedOut)  # may be over in a minute


def _is_passing(problem: BaseException) -> bool:
    return isinstance(problem, PASSING)


ASK_THE_MODEL: StepOptions = {
    "name": "model",
    "retries_allowed": True,
    "should_retry": _is_passing,
    "interval_seconds": 2.0,  # and twice as long each time: the SDK below has tried in vain already
    "max_attempts": 8,
}
ONLY = "a durable run is agent.run(text) in a DBOS workflow, without a path: the engine keeps it"


class DurableAgent(Agent):
    """An Agent whose runs are to be called in DBOS workflows. It takes what Agent takes, but for
    `now`.
    """

    def __init__(self, model: Model, tools: Iterable[Tool] = (), **settings: Any) -> None:
        super().__init__(model, tools, now=now, **settings)

    @property
    def version(self) -> str:
        """For DBOS's `application_version`: a run begun under one version goes on under no other.

        It covers what the loop depends on: the kit, the tools and the instructions. It does not
        cover the model, so workers with different providers may share a fleet.
        """
        made_of = self._made_of()
        return f"{__version__}-{fingerprint(made_of['tools'] + made_of['instructions'])}"

    def perform(self, effect: Effect, *, streamed: bool = False) -> Iterator[Event]:
        """As a step, where it reaches into the world. A recorded reply has no deltas."""
        match effect:
            case Request():
                options = ASK_THE_MODEL
            case Perform(call=call):
                options = StepOptions(name=call.name)
            case _:
                yield from super().perform(effect)
                return

        def step() -> str:
            keyed = effect
            if isinstance(effect, Perform):
                keyed = replace(effect, key=f"{DBOS.workflow_id}-{DBOS.step_id}")
            came = super(DurableAgent, self).perform(keyed)
            [line] = lines(event for event in came if isinstance(event, MESSAGES))
            return line

        try:
            line = DBOS.run_step(options, step)
        except error.DBOSMaxStepRetriesExceeded as failed:
            raise failed.errors[-1] from None
        yield from_json(json.loads(line))

    def _events(
        self, text: str | None, transcript: Conversation, streamed: bool
    ) -> Generator[Event, None, None]:
        if DBOS.workflow_id is None or isinstance(transcript, (str, os.PathLike)):
            raise TypeError(ONLY)
        return super()._events(text, transcript, streamed)

    def _aevents(
        self, text: str | None, transcript: Conversation, streamed: bool
    ) -> AsyncGenerator[Event, None]:
        raise TypeError(ONLY)


def now() -> str:
    """The time, as a step: the same again when the workflow starts over. Inside a step, the time
    of day.
    """
    return DBOS.run_step({"name": "now"}, utc_now)


def lines(messages: Iterable[Message]) -> list[str]:
    """Messages as the lines of a transcript file."""
    return [json.dumps(to_json(message), separators=(",", ":")) for message in messages]


def read(recorded: Sequence[str]) -> list[Message]:
    """The messages of `lines`."""
    return [from_json(json.loads(line)) for line in recorded]


# What the processes of a fleet share: the engine's database, and care for one another's work.

URLS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
READABLE = DBOSPortableJSONSerializer()  # the default is pickle, which nobody can read


@contextmanager
def client(url: str, name: str) -> Iterator[DBOSClient]:
    """The database of the application `name`, seen from outside; it is made where there is none.

    Raises UserError where it cannot be used.
    """
    logging.getLogger("dbos").setLevel(logging.CRITICAL)  # what matters is said by us
    try:
        DBOS.migrate(url)
        made = DBOSClient(system_database_url=url, serializer=READABLE, application_name=name)
    except (TypeError, ValueError) as problem:  # not quoted: a password may be in it
        raise UserError(f"--fleet: that is no database to share; use {URLS}") from problem
    except (SQLAlchemyError, error.DBOSException) as problem:
        cause = str(getattr(problem, "orig", problem)).strip().splitlines()[0]
        raise UserError(f"--fleet: the database cannot be used ({cause}); use {URLS}") from problem
    try:
        yield made
    finally:
        made.destroy()


def config(url: str, name: str, *, worker: str, version: str) -> DBOSConfig:
    """What makes a process a worker, as `DBOS(config=...)`. One that is started again under its
    old name takes up its own work at once.
    """
    return {
        "name": name,
        "system_database_url": url,
        "serializer": READABLE,
        "executor_id": worker,
        "application_version": version,
        "log_level": "CRITICAL",
    }


def take_over(queue: str, silence: float) -> list[str]:
    """Queue again what other workers have been silent about, with no step finished, for so many
    seconds. Whose it was does no harm by going on: the first record of a step counts.
    """
    silent = []
    under_way = DBOS.list_workflows(
        status="PENDING", queue_name=queue, app_version=DBOS.application_version, load_input=False
    )
    for run in under_way:
        steps = DBOS.list_workflow_steps(run.workflow_id, load_output=False)
        signs = [run.dequeued_at or 0, *(step["completed_at_epoch_ms"] or 0 for step in steps)]
        seconds = time.time() - max(signs) / 1000
        if run.executor_id != DBOS.executor_id and seconds > silence:
            DBOS.resume_workflow(run.workflow_id, queue_name=queue)
            silent.append(run.workflow_id)
    return silent
