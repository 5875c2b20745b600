"""An evaluation from its plan to its results: what `think-agent eval` does, without its flags.

    evaluation = Evaluation(Plan(cases=Path("cases.jsonl"), provider=("ollama", "anthropic")))
    evaluation.run()
    print(tables.markdown(tables.report(evaluation.found())))

Rule 1: all that can be wrong with settings, cases and files is found before the first model is
        asked (`inputs.py`). A setting that cannot be is named with its reason, and not run.
Rule 2: settings take turns, trial by trial and case by case, so a server's bad hour hits all.
Rule 3: a shard is every n-th trial of a case, under all settings, so what is compared was run by
        the same machine. The results of shards are merged by concatenation.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadRequest, ModelError
from ..messages import User
from ..model import Model, Request
from ..policies import Price
from .inputs import four_rows, is_scripted, load_suite, models_for, read_cases, settings_of
from .scores import Result, Setting
from .trials import Job, Results, attempt, fingerprint

ARMS = ("provider", "dialect", "force", "think", "cover", "silence", "reasoning", "instructions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run. Each of the fields that a Setting has, too, takes several values; every
    combination of them is a setting.

    `four_rows` runs the rows of `scores.FOUR_ROWS` for each provider and dialect instead.
    `shard=(1, 4)` runs every fourth trial, starting at the first. `suite` is the name of a module;
    None is the suite.py beside the cases. `trust_model` switches the world's own enforcement off.
    """

    cases: Path
    suite: str | None = None
    provider: Sequence[str] = ("ollama",)
    base_url: str = ""
    dialect: Sequence[str] = ("native",)
    force: Sequence[str] = ("first",)
    think: Sequence[str] = ("on",)
    cover: Sequence[str] = ("gate",)
    silence: Sequence[str] = ("confirm",)
    reasoning: Sequence[str] = ("default",)
    instructions: Sequence[str] = ("",)
    four_rows: bool = False
    trust_model: bool = False
    trials: int = 1
    shard: tuple[int, int] = (1, 1)
    concurrency: int = 4
    out: Path = Path("runs/eval.jsonl")


class Evaluation:
    """A plan that can be run. Raises ValueError for what is wrong with it, FileError for a file out
    of reach, ModelError for a provider that cannot be connected.

    `impossible`: the settings that cannot be run, each with the reason.
    """

    def __init__(self, plan: Plan) -> None:
        part, parts = plan.shard
        if not 1 <= part <= parts:
            raise ValueError(f"shard={plan.shard}: use (part, parts), such as (1, 4)")
        if plan.trials < 1 or plan.concurrency < 1:
            raise ValueError("trials and concurrency are whole numbers from 1")
        cases = read_cases(plan.cases)
        self._concurrency = plan.concurrency
        self._suite = load_suite(plan.suite, plan.cases)
        asked = fingerprint(cases, self._suite)
        given = {name: list(dict.fromkeys(getattr(plan, name))) for name in ARMS}
        wanted = (four_rows if plan.four_rows else settings_of)(
            given, trust_model=plan.trust_model, base_url=plan.base_url
        )
        self.models, self.impossible = models_for(wanted, self._suite, cases[0])
        if not self.models:
            reasons = "; ".join(dict.fromkeys(self.impossible.values()))
            raise ValueError(f"nothing is left to run ({reasons or 'no settings are given'})")
        self._results = Results(plan.out, asked)
        runs = [(case, trial) for trial in range(1, plan.trials + 1) for case in cases]
        self._all = [Job(one, case, trial) for case, trial in runs for one in self.models]
        mine = runs[part - 1 :: parts]
        self.jobs = [Job(one, case, trial) for case, trial in mine for one in self.models]

    @property
    def waiting(self) -> list[Job]:
        """What is still to be run."""
        jobs = [job for job in self.jobs if job not in self._results]
        return [job for job in jobs if job.setting not in self.impossible]

    def run(self, done: Callable[[Result], None] = lambda result: None) -> None:
        """Run what is waiting; `done` hears of each result once it is in the file. Stopped, it goes
        on with the same plan. Raises ModelError where no further trial could be run.
        """
        asyncio.run(self._run(done))

    async def _run(self, done: Callable[[Result], None]) -> None:
        for setting in dict.fromkeys(job.setting for job in self.waiting):
            if setting.reasoning == "default" or is_scripted(setting):
                continue
            if reason := await _refused(self.models[setting]):
                self.impossible[setting] = reason

        waiting = iter(self.waiting)  # shared by the workers, so each job is handed out once

        async def worker() -> None:
            for job in waiting:
                result = await attempt(job, self.models[job.setting], self._suite)
                self._results.add(result)
                done(result)

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._concurrency):
                    workers.create_task(worker())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # one is enough: they are the same server's

    def found(self) -> dict[Setting, list[Result]]:
        """All results that are in the file, of this plan, whichever shard they are of."""
        found: dict[Setting, list[Result]] = {}
        for job in self._all:
            if result := self._results.get(job):
                found.setdefault(job.setting, []).append(result)
        return found

    def prices(self, known: Mapping[str, Price]) -> dict[Setting, Price]:
        """The price of each setting, from prices by the name of a model."""
        return {one: known[m.model] for one, m in self.models.items() if m.model in known}


async def _refused(model: Model) -> str:
    """Why a model does not take its settings, found out by one short question; `""` if it does."""
    try:
        await model.acomplete(Request((User("Reply with OK."),)))
    except BadRequest as error:
        return str(error)
    except ModelError:  # which is the trials' to report
        pass
    return ""
