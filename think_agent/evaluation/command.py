"""Runs an evaluation, from its settings to its results: `think-agent eval` without its flags.

    settings = settings_of(provider=["ollama", "anthropic"], force=["first", "never"])
    evaluation = Evaluation(Path("cases.jsonl"), settings)
    evaluation.run()
    print(markdown(evaluation.report()))

Rule 1: errors in settings, cases and files are found before the first model is asked (`inputs.py`).
        A setting that cannot be run is listed with its reason, and left out.
Rule 2: settings take turns, trial by trial and case by case, in another order for each. So a
        slow server affects all of them.
Rule 3: a shard is every n-th trial, under all settings. So the same machine runs what is compared.
        The result files of shards are merged by concatenation.
Rule 4: the transcript of every trial is a file of its own, in a folder beside the results.
Rule 5: the suite's floors are run together with the settings.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import BadRequest, ModelError
from ..messages import User
from ..model import Model, Request
from ..policies import Price
from ..transcript import lock
from .comparisons import planned
from .inputs import load_suite, model_of, read_cases
from .report import report
from .results import LINE, Digests, Plan, read_results
from .scores import Result, Results, Setting, without_floors
from .tables import Section
from .trials import Job, attempt, digest

MOST_IN_A_ROW = 5  # errors, before the server is taken to be gone


class Evaluation:
    """Cases to run under settings. `suite` is the name of a module, such as the suite.py beside the
    cases. `shard="1/4"` runs every fourth trial, starting at the first. `concurrency` is the number
    of trials at the same time. None means 4, or 1 with Ollama, which handles one request at a time.
    `options`, such as `base_url` and `timeout`, go to `connect` for all models.

    `models`: the model of each setting that can be run. `impossible`: the other settings, each with
    the reason. Raises ValueError for a wrong argument, OSError for a file out of reach, ModelError
    for a provider that cannot be connected.
    """

    def __init__(
        self,
        cases: Path,
        settings: list[Setting],
        *,
        suite: str = "suite",
        trials: int = 1,
        shard: str = "1/1",
        concurrency: int | None = None,
        out: Path = Path("runs/eval.jsonl"),
        **options: Any,
    ) -> None:
        part = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", shard)
        if not part:
            raise ValueError(f"shard {shard!r}: use a part of how many, such as 1/4")
        self._suite = load_suite(suite, cases)
        self.cases = read_cases(cases, self._suite)

        self.models: dict[Setting, Model] = {}
        self.impossible: dict[Setting, str] = {}
        self._asked: Digests = {}
        usual = settings[0]
        floors = [  # in the world of the usual setting
            Setting(
                f"floor:{name}",
                force=usual.force,
                think="none",
                cover="none",
                enforce=usual.enforce,
            )
            for name in self._suite.FLOORS
        ]
        for setting in [*settings, *floors]:
            try:
                if setting.think == "none" and setting.force != usual.force:
                    raise ValueError("without a think tool there is nothing to force")
                model = model_of(setting, self._suite, **options)
                for case in self.cases:
                    self._asked[setting, case.id] = digest(setting, case, model, self._suite)
                self.models[setting] = model
            except ValueError as error:
                self.impossible[setting] = str(error)
        self._check_what_is_left()

        self._concurrency = concurrency
        self._trials = range(1, trials + 1)
        self._shard = slice(int(part[1]) - 1, None, int(part[2]))
        self._out = out
        self._planned, self._results = read_results(out, self._asked)

    @property
    def plan(self) -> Plan:
        """What is run and compared; it has to be the plan that is in the file."""
        compared = tuple(planned(self.models))
        return Plan(tuple(self.models), compared, len(self._trials), len(self.cases))

    def _jobs(self, shard: slice = slice(None)) -> Iterator[Job]:
        for trial, case in list(product(self._trials, self.cases))[shard]:
            # In the order of their digests, which is as good as drawn, and stands in the file.
            for setting in sorted(self.models, key=lambda setting: self._asked[setting, case.id]):
                name = f"{quote(case.id, safe='')}.{trial}.{self._asked[setting, case.id]}"
                yield Job(setting, case, trial, name, self._results.get(name))

    @property
    def jobs(self) -> list[Job]:
        """The trials of this shard."""
        return list(self._jobs(self._shard))

    @property
    def waiting(self) -> list[Job]:
        """The trials that are still to be run, or ended in an error on the way to the model."""
        return [job for job in self.jobs if job.is_open]

    @property
    def missing(self) -> int:
        """How many trials have no outcome yet, including those of other shards."""
        return sum(job.is_open for job in self._jobs())

    def try_models(self) -> None:
        """Find out which settings a model cannot take, before the run costs anything: ask its
        server and, if it is to reason, send one short question. Raises ValueError if no setting is
        left, ModelError for a server or a model that is not there.
        """
        for setting in {job.setting for job in self.waiting}:
            model = self.models[setting]
            try:
                model.check()
                if setting.reasoning != "default" and not setting.is_scripted:
                    model.complete(Request((User("Reply with OK."),)))
            except BadRequest as error:
                self.impossible[setting] = str(error)
                del self.models[setting]
        self._check_what_is_left()

    def run(self, done: Callable[[Result], None] = lambda result: None) -> None:
        """Run what is waiting; `done` gets each result once it is in the file. If it was stopped,
        run it again to go on. Raises ModelError if no further trial could be run, or if several in
        a row failed, and FileError if another process writes to the results.
        """
        concurrency = self._concurrency
        if concurrency is None:
            concurrency = 4
            if any(setting.provider.startswith("ollama") for setting in self.models):
                concurrency = 1
        self._out.parent.mkdir(parents=True, exist_ok=True)
        with self._out.open("ab", buffering=0) as file:
            lock(file, self._out)
            # A half-written line is cut off, so its trial is run again.
            file.truncate(self._out.read_bytes().rfind(b"\n") + 1)
            # Another process may have added some.
            self._planned, self._results = read_results(self._out, self._asked)
            if self._planned is None:
                self._planned = self.plan
                file.write(LINE.dump_json(self._planned) + b"\n")
            waiting = iter(self.waiting)  # shared by the workers, so each job is handed out once
            failed = 0  # in a row

            async def worker() -> None:
                nonlocal failed
                for job in waiting:
                    transcript = self._out.with_suffix(".transcripts") / f"{job.name}.jsonl"
                    transcript.unlink(missing_ok=True)  # of an earlier try
                    result = await attempt(job, self.models[job.setting], self._suite, transcript)
                    file.write(LINE.dump_json(result) + b"\n")
                    self._results[job.name] = result
                    done(result)
                    if result.error:
                        failed += 1
                    elif not job.setting.is_scripted:
                        failed = 0
                    if failed == MOST_IN_A_ROW:
                        raise ModelError(f"{MOST_IN_A_ROW} runs in a row failed: {result.error}")

            async def workers() -> None:
                # An error would meet all workers, so `asyncio.run` cancels the others after it.
                await asyncio.gather(*(worker() for _ in range(concurrency)))

            asyncio.run(workers())

    def found(self) -> Results:
        """All results of these settings that are in the file, of any shard."""
        found: Results = {setting: [] for setting in self.models}
        for job in self._jobs():
            if job.result:
                found[job.setting].append(job.result)
        return found

    def report(self, prices: Mapping[Setting, Price] = {}) -> list[Section]:
        """The report of these results. They are tested if they are the whole plan in the file."""
        waits_for = None
        if self.missing or self._planned != self.plan:
            waits_for = self._planned
        return report(self.found(), prices, waits_for)

    def _check_what_is_left(self) -> None:
        if not without_floors(self.models):
            reasons = "; ".join(dict.fromkeys(self.impossible.values()))
            raise ValueError(f"nothing is left to run ({reasons})")
