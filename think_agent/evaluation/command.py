"""An evaluation from its settings to its results: what `think-agent eval` does, without its flags.

    settings = settings_of(provider=["ollama", "anthropic"], force=["first", "never"])
    evaluation = Evaluation(Path("cases.jsonl"), settings)
    evaluation.run()
    print(tables.markdown(tables.report(evaluation.found())))

Rule 1: all that can be wrong with settings, cases and files is found before the first model is
        asked (`inputs.py`). A setting that cannot be is named with its reason, and not run.
Rule 2: settings take turns, trial by trial and case by case, so a server's bad hour hits all.
Rule 3: a shard is every n-th trial of a case, under all settings, so what is compared was run by
        the same machine. The results of shards are merged by concatenation.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import BadRequest
from ..messages import User
from ..model import Request
from .inputs import load_suite, models_for, read_cases
from .scores import Result, Setting
from .trials import Job, Results, attempt, fingerprint


class Evaluation:
    """Cases that can be run under settings. `suite` is the name of a module; None is the suite.py
    beside the cases. `shard="1/4"` runs every fourth trial, starting at the first.

    `impossible`: the settings that cannot be run, each with the reason. Raises ValueError for what
    is wrong, OSError for a file out of reach, ModelError for a provider that cannot be connected.
    """

    def __init__(
        self,
        cases: Path,
        settings: Sequence[Setting],
        *,
        suite: str | None = None,
        trials: int = 1,
        shard: str = "1/1",
        concurrency: int = 4,
        out: Path = Path("runs/eval.jsonl"),
    ) -> None:
        part, parts = (int(n) if n.isdecimal() else 0 for n in shard.partition("/")[::2])
        if not 1 <= part <= parts:
            raise ValueError(f"shard {shard!r}: use a part of how many, such as 1/4")
        read = read_cases(cases)
        self._concurrency = concurrency
        self._suite = load_suite(suite, cases)
        asked = fingerprint(read, self._suite)
        self.models, self.impossible = models_for(settings, self._suite, read[0])
        if not self.models:
            reasons = "; ".join(dict.fromkeys(self.impossible.values()))
            raise ValueError(f"nothing is left to run ({reasons or 'no settings are given'})")
        self._results = Results(out, asked)
        runs = [(case, trial) for trial in range(1, trials + 1) for case in read]
        self._all = [Job(one, case, trial) for case, trial in runs for one in self.models]
        mine = runs[part - 1 :: parts]
        self.jobs = [Job(one, case, trial) for case, trial in mine for one in self.models]

    @property
    def waiting(self) -> list[Job]:
        """What is still to be run, or failed on the way to the model."""
        left = [job for job in self.jobs if job.setting not in self.impossible]
        return [job for job in left if not (found := self._results.get(job)) or found.error]

    def run(self, done: Callable[[Result], None] = lambda result: None) -> None:
        """Run what is waiting; `done` hears of each result once it is in the file. Stopped, it goes
        on when it is run again. Raises ModelError where no further trial could be run.
        """
        for setting in dict.fromkeys(job.setting for job in self.waiting):
            if setting.reasoning != "default":
                try:  # some refuse it only when they are asked: found out by one short question
                    self.models[setting].complete(Request((User("Reply with OK."),)))
                except BadRequest as error:
                    self.impossible[setting] = str(error)
        asyncio.run(self._run(done))

    async def _run(self, done: Callable[[Result], None]) -> None:
        waiting = iter(self.waiting)  # shared by the workers, so each job is handed out once

        async def worker() -> None:
            for job in waiting:
                result = await attempt(job, self.models[job.setting], self._suite)
                self._results.add(result)
                done(result)

        # After an error, which all of them would meet, `asyncio.run` cancels the others.
        await asyncio.gather(*(worker() for _ in range(self._concurrency)))

    def found(self) -> dict[Setting, list[Result]]:
        """All results that are in the file, of these settings, whichever shard they are of."""
        found: dict[Setting, list[Result]] = {}
        for job in self._all:
            if result := self._results.get(job):
                found.setdefault(job.setting, []).append(result)
        return found
