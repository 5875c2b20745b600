"""An evaluation on a durable engine, DBOS: its trials are shared by the machines that ask for them.

Rule 1: a trial is a workflow of one step, around the same `attempt`. Its world is in memory, so a
        trial that was under way when its process died starts over; one that is done is on record.
Rule 2: a workflow's id is what was asked, the setting, the case and the trial, so a trial is queued
        once at most, whoever asks for it, and a finished one is had for nothing. One that failed is
        queued again when the evaluation is started again.
Rule 3: machines share an evaluation when they have the same database and the same command: cases,
        instructions, tools and settings. Each of them gets all of the results.
Rule 4: a worker is named by its machine and its results file. Started again, it takes up its own
        trials at once; what another one has had for more than `silence` seconds is queued again.

The edge: the database remembers more than a results file. Measuring anew takes another database.
"""

import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from dbos import DBOS, DBOSClient, PortableWorkflowError, WorkflowHandleAsync

from ..errors import ModelError
from ..integrations.dbos import client, config, take_over
from ..messages import Json
from .scores import Result, Setting, from_json, to_json
from .trials import HOPELESS, Case, Job

VERSION = "1"  # of the workflow below: one step, so no release of the kit can get it out of step
POLL = 0.1  # seconds between two looks at the database


@contextmanager
def shared(
    attempt: Callable[[Job], Awaitable[Result]],
    jobs: Sequence[Job],
    *,
    asked: str,
    url: str,
    worker: str,
    concurrency: int,
    silence: float,
) -> Iterator[Callable[[Job], Awaitable[Result]]]:
    """Queue the jobs and be a worker for them; gives what waits for the result of one of them.

    `asked` is the digest of what the machines have in common (`asked_of`). Raises UserError when
    the database cannot be used.
    """
    name = f"eval-{asked}"  # of the application and its queue

    @DBOS.workflow(name="trial")
    async def trial(setting: Json, case: Json, number: int) -> Json:
        job = Job(Setting(**setting), Case(**case), number)

        async def step() -> Json:
            return to_json(await attempt(job))

        return await DBOS.run_step_async({"name": "attempt"}, step)

    async def result(job: Job) -> Result:
        handle: WorkflowHandleAsync[Json] = await DBOS.retrieve_workflow_async(_id(asked, job))
        try:
            return from_json(await handle.get_result(polling_interval_sec=POLL))
        except PortableWorkflowError as error:
            if error.name in {kind.__name__ for kind in HOPELESS}:
                raise ModelError(error.message) from None
            raise  # a bug, most likely in the suite

    def look_after_the_others() -> None:
        while not over.wait(1):
            take_over(name, silence)

    over = threading.Event()
    watch = threading.Thread(target=look_after_the_others)
    with client(url, name) as database:
        enqueue(database, name, asked, jobs)
        DBOS(config=config(url, name, worker=worker, version=VERSION))
        DBOS.listen_queues([name])
        try:
            DBOS.launch()
            DBOS.register_queue(
                name,
                worker_concurrency=concurrency,
                polling_interval_sec=POLL,
                on_conflict="always_update",
            )
            watch.start()
            yield result
        finally:
            over.set()
            if watch.is_alive():
                watch.join()
            # a second, so that its threads are not broken off while they hand out a trial
            DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=1)


def enqueue(database: DBOSClient, queue: str, asked: str, jobs: Sequence[Job]) -> None:
    """Queue what is not there yet, and again what failed."""
    known = {
        run.workflow_id: run
        for run in database.list_workflows(workflow_id_prefix=f"{asked}/", load_input=False)
    }
    for job in jobs:
        id = _id(asked, job)
        run = known.get(id)
        if run is None:
            database.enqueue(
                {"workflow_name": "trial", "queue_name": queue, "workflow_id": id},
                asdict(job.setting),
                asdict(job.case),
                job.trial,
            )
        elif run.status == "ERROR" or (run.output and run.output["error"]):
            database.rewind_workflow(id, queue_name=queue)


def asked_of(fingerprint: str, settings: Sequence[Setting]) -> str:
    """A digest of what the models are asked and how: what machines have in common that share an
    evaluation.
    """
    ways = sorted(json.dumps(asdict(setting)) for setting in settings)
    return hashlib.sha256(json.dumps([fingerprint, ways]).encode()).hexdigest()[:16]


def _id(asked: str, job: Job) -> str:
    return f"{asked}/{job.setting}/{job.case.id}/{job.trial}"
