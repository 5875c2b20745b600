"""Runs an evaluation, from its settings to its results: `think-agent eval` without its flags.

    settings = settings_of(provider=["ollama", "anthropic"], force=["first", "never"])
    evaluation = Evaluation(Path("cases.jsonl"), settings)
    evaluation.run()
    print(markdown(evaluation.report()))

Rule 1: errors in settings, cases and files are found before the first model call (`inputs.py`). A
        setting that can't run is listed with its reason and left out.
Rule 2: settings take turns, in a varying order. So a slow server affects all of them.
Rule 3: a shard is every n-th trial, under all settings. So one machine runs what's compared.
        Shards' result files are merged by concatenation.
Rule 4: each trial has its own transcript file.
Rule 5: the suite's floors are run together with the settings.
Rule 6: a trial that failed in three sittings is closed, as not right.
"""

import asyncio
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import __version__
from ..errors import BadRequest, ModelError
from ..messages import User
from ..model import Model, Request
from ..policies import Price
from ..transcript import lock
from .comparisons import plan_comparisons
from .inputs import load_suite, model_of, read_cases
from .report import report_results
from .results import (
    LINE,
    MOST_IN_A_ROW,
    MOST_SITTINGS,
    EvaluationPlan,
    OtherPlan,
    Outage,
    count_failed_sittings,
    read_results,
)
from .scores import NO_OUTCOME, Result, Results, Setting, without_floors
from .sources import digest_json as digest_of
from .tables import Section
from .trials import Case, Job, attempt, describe_to_model, digest_trial

KIT = "think-agent"  # the key for its version in a plan


class Evaluation:
    """Cases to run under settings. `suite` is the name of a module, such as the suite.py beside the
    cases. `shard="1/4"` runs every fourth trial, starting with the first. `concurrency`: how many
    trials run at the same time; None means 4, or 1 with Ollama, which handles one request at a
    time. `close` closes every failed trial without another try. `mixed` accepts a file with trials
    of another plan: they're shown separately and never tested. `options`, such as `base_url` and
    `timeout`, go to `connect` for all models.

    `models`: the model of each setting that can run. `impossible`: the other settings, with
    reasons. Raises ValueError for a wrong argument (OtherPlan for a file of another plan), OSError
    for an unusable file, ModelError if a provider can't be connected.
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
        close: bool = False,
        mixed: bool = False,
        **options: Any,
    ) -> None:
        self._shard = _part(shard)
        self._suite = load_suite(suite, cases)
        self.cases = read_cases(cases, self._suite)

        self.models: dict[Setting, Model] = {}
        self.impossible: dict[Setting, str] = {}
        self._asked: dict[tuple[Setting, str], str] = {}  # the digest of each trial
        self._told: dict[tuple[Setting, str], str] = {}  # the digest of its prompts and tools
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
                    self._ask(setting, case, model)
                self.models[setting] = model
            except ValueError as error:
                self.impossible[setting] = str(error)
        self._check_what_is_left()

        self._concurrency = concurrency
        self._trials = range(1, trials + 1)
        self._out = out
        self._close = close
        self._mixed = mixed
        self._read()

    @property
    def plan(self) -> EvaluationPlan:
        """What is run and compared. It has to match the plan in the file."""
        return self._plan_of(self.models)

    def _ask(self, setting: Setting, case: Case, model: Model) -> None:
        """Record the digests of a trial. Raises ValueError for an impossible setting."""
        its = describe_to_model(setting, case, model, self._suite)
        self._told[setting, case.id] = digest_of(its)
        self._asked[setting, case.id] = digest_trial(setting, case, its, self._suite)

    def _plan_of(self, settings: Collection[Setting]) -> EvaluationPlan:
        prompts = {self._told[setting, case.id] for setting in settings for case in self.cases}
        made_of = {
            "cases": digest_of({case.id: case.line for case in self.cases}),
            "suite": digest_of([self._suite.source, self._suite.VERSION]),
            "prompts and tools": digest_of(sorted(prompts)),
            "settings": digest_of([asdict(setting) for setting in settings]),
            KIT: __version__,
        }
        compared = tuple(plan_comparisons(settings))
        return EvaluationPlan(
            tuple(settings), compared, len(self._trials), len(self.cases), made_of
        )

    def _read(self) -> None:
        """Read the results file. Raises OtherPlan."""
        self._recorded = read_results(self._out)
        plan = self._recorded.plan
        own = self.plan
        if plan and plan.settings == tuple(s for s in self.models if s in plan.settings):
            # `try_models` may still find the others impossible, as when the file was created.
            own = self._plan_of(plan.settings)
        self._refuse_others(own)
        self._results = self._recorded.of_plan(own.digest)

    def _refuse_others(self, own: EvaluationPlan) -> None:
        """Refuse a file with another plan or another plan's trials."""
        if self._mixed:
            return
        for plan in self._recorded.plans:
            changed = plan.find_changes(own)
            if changed:
                raise OtherPlan(
                    f"{self._out} is of another plan, of {plan.at[:16]} (think-agent "
                    f"{plan.made_of[KIT]}). Changed since: {changed}. Choose another file"
                )
        if self._recorded.of_others(own.digest):
            raise OtherPlan(
                f"{self._out} has trials of a plan that is not in it. Choose another file"
            )

    def _jobs(self, shard: slice = slice(None)) -> Iterator[Job]:
        for trial, case in list(product(self._trials, self.cases))[shard]:
            # Sorted by digest: effectively random, and reproducible.
            for setting in sorted(self.models, key=lambda setting: self._asked[setting, case.id]):
                name = f"{quote(case.id, safe='')}.{trial}.{self._asked[setting, case.id]}"
                yield Job(setting, case, trial, name, self._results.get(name))

    @property
    def jobs(self) -> list[Job]:
        """The trials of this shard."""
        return list(self._jobs(self._shard))

    @property
    def waiting(self) -> list[Job]:
        """The trials that haven't run yet, or that failed before the model answered."""
        return [job for job in self.jobs if job.is_open]

    @property
    def missing(self) -> int:
        """How many trials have no outcome yet, including other shards'."""
        return sum(job.is_open for job in self._jobs())

    def try_models(self) -> None:
        """Find out which settings a model doesn't support, before the run costs anything: ask its
        server and, if it should reason, send one short question. Raises ValueError if no setting is
        left, ModelError for an unreachable server or an unknown model.
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
        """Run the waiting trials; `done` gets each result once it's in the file. If it's stopped,
        run it again to continue. Raises ModelError if no trial can run, or if several in a row
        failed, and FileError if another process is writing to the results.
        """
        concurrency = self._concurrency
        if concurrency is None:
            concurrency = 4
            if any(setting.provider.startswith("ollama") for setting in self.models):
                concurrency = 1
        self._out.parent.mkdir(parents=True, exist_ok=True)
        with self._out.open("ab", buffering=0) as file:
            lock(file, self._out)
            # A half-written line is cut off, so its trial runs again.
            file.truncate(self._out.read_bytes().rfind(b"\n") + 1)
            self._read()  # another process may have added results
            plan = self.plan
            self._refuse_others(plan)
            self._results = self._recorded.of_plan(plan.digest)
            if plan.digest not in [each.digest for each in self._recorded.plans]:
                self._recorded.plans.append(plan)
                file.write(LINE.dump_json(plan) + b"\n")
            sitting = os.urandom(4).hex()

            def write(job: Job, result: Result) -> None:
                result = replace(result, plan=plan.digest, sitting=sitting)
                file.write(LINE.dump_json(result) + b"\n")
                self._results[job.name] = result
                self._recorded.tries.append(result)
                done(result)

            self._close_failed(write)
            asyncio.run(self._run_waiting(write, concurrency))
            self._close_failed(write)

    async def _run_waiting(self, write: Callable[[Job, Result], None], concurrency: int) -> None:
        waiting = iter(self.waiting)  # shared by the workers, so each job runs once
        outage = Outage()

        async def worker() -> None:
            for job in waiting:
                transcript = self._out.with_suffix(".transcripts") / f"{job.name}.jsonl"
                transcript.unlink(missing_ok=True)  # of an earlier try
                result = await attempt(job, self.models[job.setting], self._suite, transcript)
                write(job, result)
                outage.add(result)
                if outage.is_over_the_limit:
                    raise ModelError(
                        f"{MOST_IN_A_ROW} runs in a row failed: {result.error} (run it again "
                        "to continue; trials that always fail can be closed)"
                    )

        # An error affects all workers, so `asyncio.run` cancels the others.
        await asyncio.gather(*(worker() for _ in range(concurrency)))

    def _close_failed(self, write: Callable[[Job, Result], None]) -> None:
        """Close the trials that have failed often enough (rule 6)."""
        sittings = count_failed_sittings(self._recorded.tries)
        for job in self.waiting:
            is_hopeless = self._close or sittings[job.name] >= MOST_SITTINGS
            if job.result and is_hopeless:
                error = job.result.error
                write(job, replace(job.result, exit=NO_OUTCOME, found=(error,), error=""))

    def select_results(self) -> Results:
        """All results of these settings in the file, from any shard."""
        found: Results = {setting: [] for setting in self.models}
        for job in self._jobs():
            if job.result:
                found[job.setting].append(job.result)
        return found

    def report(self, prices: Mapping[Setting, Price] = {}) -> list[Section]:
        """The report of these results. They're tested if they cover the whole plan in the file."""
        plan = self.plan
        self._refuse_others(plan)
        waits_for = None
        if self.missing or self._recorded.plan != plan:
            waits_for = self._recorded.plan or plan
        return report_results(self.select_results(), prices, waits_for, self._others(plan))

    def _others(self, own: EvaluationPlan) -> dict[str, Results]:
        """The results of other plans in the file, by a name for each plan."""
        settings_of = {plan.digest: plan.settings for plan in self._recorded.plans}
        others = {}
        for name, results in self._recorded.of_others(own.digest).items():
            by_setting: Results = {setting: [] for setting in settings_of.get(name, ())}
            for result in results.values():
                by_setting.setdefault(result.setting, []).append(result)
            others[f"Plan {name}"] = by_setting
        return others

    def _check_what_is_left(self) -> None:
        if not without_floors(self.models):
            reasons = "; ".join(dict.fromkeys(self.impossible.values()))
            raise ValueError(f"nothing is left to run ({reasons})")


def _part(shard: str) -> slice:
    """The trials of a shard: `"1/4"`, the first of every four."""
    part = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", shard)
    if not part or int(part[1]) > int(part[2]):
        raise ValueError(f"shard {shard!r}: use a part of how many, such as 1/4")
    return slice(int(part[1]) - 1, None, int(part[2]))
