"""The command `think-agent eval`: from flags to a table and a plot.

Rule 1: a suite is the module `suite.py` beside the cases file, or the one that `--suite` names.
Rule 2: all that can be wrong with flags, cases and files is found before the first model is asked.
Rule 3: settings take turns, trial by trial and case by case, so a server's bad hour hits all.
Rule 4: the table goes to stdout, everything else to stderr.
Rule 5: without `--engine` a run is this process and its results file; with it, a durable engine
        hands out the trials (`eval_engine.py`). The results are the same.
"""

import argparse
import asyncio
import importlib
import itertools
import json
import signal
import socket
import sys
import tomllib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast, get_args

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .cli import STAND_IN, choose_model, speak
from .evaluate import Case, Job, Results, Speaks, Suite, attempt, fingerprint, run_all
from .model import Model
from .policies import Forcing, Price
from .providers import connect
from .scores import Dialect, Flag, Result, Setting, plot, score, tables
from .settings import UserError, add_flag, positive, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `think-agent eval`."""
    parser.epilog = "exit codes: 0 there is a table, 1 a model or file is out of reach, 2 a flag "
    parser.epilog += "or a case is wrong, 130 stopped: the same command goes on"
    parser.add_argument("cases", type=Path, help="a JSONL file of cases")
    add_flag(
        parser,
        "--provider",
        metavar="P[:MODEL],...",
        default="ollama",
        help="the models; offline:NAME is one of the suite's scripted stand-ins",
    )
    add_flag(parser, "--base-url", metavar="U", help="another server, for all of the providers")
    add_flag(parser, "--force", metavar="F,...", default="first", help="never, first, always")
    add_flag(
        parser,
        "--flag",
        metavar="ON,...",
        default="on",
        help="on: the think tool has the exit signal; off: it has not",
    )
    add_flag(parser, "--dialect", metavar="D,...", default="native", help="native, json, react")
    add_flag(parser, "--trials", type=whole, metavar="K", default=1, help="runs of each case")
    add_flag(
        parser,
        "--concurrency",
        type=whole,
        metavar="N",
        default=4,
        help="runs at the same time",
    )
    add_flag(
        parser,
        "--trust-model",
        action="store_true",
        help="switch the world's own enforcement off: what would the model do?",
    )
    add_flag(
        parser,
        "--out",
        metavar="PATH",
        default="runs/eval.jsonl",
        help="the results, line by line; a run goes on where the file ends (runs/eval.jsonl)",
    )
    add_flag(parser, "--plot", metavar="PATH", help="the plot (default: beside --out, as .png)")
    add_flag(parser, "--prices", metavar="TOML", help="dollars per million tokens, by model")
    add_flag(parser, "--suite", metavar="MODULE", help="default: the suite.py beside the cases")
    add_flag(
        parser,
        "--engine",
        choices=("none", "dbos"),
        default="none",
        help="dbos: machines with the same database and the same command share the runs",
    )
    add_flag(
        parser,
        "--fleet",
        metavar="URL",
        help="the engine's database: postgresql://USER:PASSWORD@HOST/NAME or sqlite:///FILE "
        "(default: beside --out, as .db)",
    )
    add_flag(
        parser,
        "--silence",
        metavar="S",
        type=positive,
        default=1800.0,
        help="with --engine: take over a run that another machine has had for S seconds",
    )


def main(args: argparse.Namespace) -> int:
    """Run what is not done yet, and report on all of it."""
    cases = read_cases(args.cases)
    suite = load_suite(args.suite, args.cases)
    settings = settings_of(args, suite)
    models = models_for(settings, suite)
    known = read_prices(Path(args.prices)) if args.prices else {}
    prices = {s: known[m.model] for s, m in models.items() if m.model in known}
    if known and len(prices) < len(settings):
        without = {model.model for model in models.values()} - known.keys()
        _say(f"no price in {args.prices} for {', '.join(sorted(without))}: its cost is left out")
    out = Path(args.out)
    asked = fingerprint(cases, suite)
    results = Results(out, asked)
    trials = range(1, args.trials + 1)
    jobs = [Job(setting, case, n) for n in trials for case in cases for setting in settings]
    waiting = [job for job in jobs if job not in results]
    if len(waiting) < len(jobs):
        _say(f"{len(jobs) - len(waiting)} of {len(jobs)} runs are done already, in {out}")
    # asyncio cancels its tasks on SIGINT alone, so SIGTERM becomes one
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with (
            _engine(args, asked, models, suite, waiting) as perform,
            _progress(len(waiting)) as advance,
        ):

            def record(result: Result) -> None:
                results.add(result)
                advance(result)

            asyncio.run(run_all(waiting, perform, record, concurrency=args.concurrency))
    except KeyboardInterrupt:
        done = sum(job in results for job in jobs)
        _say(f"stopped: {done} of {len(jobs)} runs are done; the same command goes on")
        return 130
    found = {s: [results[job] for job in jobs if job.setting == s] for s in settings}
    print(tables(found, prices))
    _plotted(found, Path(args.plot or out.with_suffix(".png")))
    return 0


@contextmanager
def _engine(
    args: argparse.Namespace,
    asked: str,
    models: Mapping[Setting, Model],
    suite: Suite,
    waiting: Sequence[Job],
) -> Iterator[Callable[[Job], Awaitable[Result]]]:
    """What performs a job: `attempt`, here and now, or an engine that hands the jobs out."""

    def perform(job: Job) -> Awaitable[Result]:
        return attempt(job, models[job.setting], suite)

    if args.engine == "none":
        yield perform
        return
    try:
        from .eval_engine import asked_of, shared
    except ImportError as error:
        if error.name != "dbos":
            raise
        raise UserError(
            '--engine dbos needs DBOS; run: pip install "think-agent[fleet]"'
        ) from error
    out = Path(args.out).resolve()
    with shared(
        perform,
        waiting,
        asked=asked_of(asked, list(models)),
        url=args.fleet or f"sqlite:///{out.with_suffix('.db')}",
        worker=f"{socket.gethostname()}:{out}",
        concurrency=args.concurrency,
        silence=args.silence,
    ) as result:
        yield result


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Result], None]]:
    """A bar on stderr, where that is a terminal, with the time that is left."""
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        right = ran = 0

        def advance(result: Result) -> None:
            nonlocal right, ran
            right, ran = right + result.right, ran + 1
            progress.update(task, advance=1, description=f"right: {right} of {ran}")

        yield advance


def _plotted(results: Mapping[Setting, Sequence[Result]], path: Path) -> None:
    try:
        plot([score(own) for own in results.values()], path)
    except ImportError:
        _say('no plot: matplotlib is not installed; run: pip install "think-agent[eval]"')
    except (OSError, ValueError) as error:
        raise UserError(f"--plot {path}: {error}; choose another path, such as eval.png") from error
    else:
        _say(f"plot: {path}")


# What is to be run.


def read_cases(path: Path) -> list[Case]:
    """The cases of a JSONL file. Raises UserError with the line of the first that is none."""
    cases: list[Case] = []
    for number, line in enumerate(_read(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            case = Case(data["id"], data["kind"], data["text"], data)
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{path}, line {number}: a case is a JSON object with id, kind and text ({error!r})"
            ) from error
        if any(case.id == other.id for other in cases):
            raise UserError(f"{path}, line {number}: the id {case.id!r} is taken; choose another")
        cases.append(case)
    if not cases:
        raise UserError(f"{path}: there are no cases in it; write one JSON object a line")
    return cases


def load_suite(name: str | None, cases: Path) -> Suite:
    """The suite module `name`, or the `suite.py` beside the cases file, by its name in its
    package.
    """
    root = Path.cwd()
    if name is None:
        file = cases.resolve().with_name("suite.py")
        if not file.exists():
            raise UserError(
                f"{cases}: there is no suite.py beside it; name one with --suite MODULE"
            )
        root, name = file.parent, file.stem
        while (root / "__init__.py").exists():
            root, name = root.parent, f"{root.name}.{name}"
    sys.path.insert(0, str(root))  # a suite is the user's own code, as with `python -m`
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"--suite {name}: {error}; run it where that can be imported") from error
    if not (hasattr(module, "prepare") and hasattr(module, "STAND_INS")):
        raise UserError(f"--suite {name}: a suite has prepare(case, trust_model) and STAND_INS")
    return cast(Suite, module)


def settings_of(args: argparse.Namespace, suite: Suite) -> list[Setting]:
    """Every setting that the flags ask for; on stderr, those that cannot be run."""
    chosen = itertools.product(
        _list(args.provider, "--provider"),
        _list(args.dialect, "--dialect", get_args(Dialect)),
        _list(args.force, "--force", get_args(Forcing)),
        _list(args.flag, "--flag", get_args(Flag)),
    )
    settings = []
    for provider, dialect, force, flag in chosen:
        setting = Setting(
            provider,
            cast(Dialect, dialect),
            cast(Forcing, force),
            cast(Flag, flag),
            args.trust_model,
            args.base_url or "",
        )
        if force == "always" and flag == "off":
            _say(f"skipped {setting}: without the exit signal such a run could never end")
        elif _is_scripted(setting) and dialect != "native" and not isinstance(suite, Speaks):
            _say(f"skipped {setting}: this suite's stand-ins speak no dialect")
        else:
            settings.append(setting)
    if not settings:
        raise UserError("nothing is left to run; choose other values of --force, --flag, --dialect")
    return settings


def models_for(settings: Sequence[Setting], suite: Suite) -> dict[Setting, Model]:
    """The model of each setting. Settings of one provider share its connection; a stand-in is made
    for each dialect, for it has to speak it.
    """
    connected: dict[tuple[str, str], Model] = {}
    models: dict[Setting, Model] = {}
    for setting in settings:
        source = (setting.provider, setting.dialect if _is_scripted(setting) else "")
        if source not in connected:
            connected[source] = _connect(setting, suite)
        models[setting] = speak(connected[source], setting.dialect)
    for provider in dict.fromkeys(s.provider for s in settings if _is_scripted(s)):
        _say(f"{provider} is a {STAND_IN}")
    return models


def _connect(setting: Setting, suite: Suite) -> Model:
    provider, _, name = setting.provider.partition(":")
    if provider == "auto":
        raise UserError("--provider auto: name the providers that are to be compared")
    if not _is_scripted(setting):
        return choose_model(setting.provider, None, setting.base_url or None)
    if name not in suite.STAND_INS:
        names = ", ".join(f"offline:{known}" for known in suite.STAND_INS)
        raise UserError(f"--provider {setting.provider}: this suite's stand-ins are {names}")
    script = suite.STAND_INS[name]
    if isinstance(suite, Speaks):
        script = suite.speaking(script, setting.dialect)
    return connect(setting.provider, script=script)


def _is_scripted(setting: Setting) -> bool:
    return setting.provider.partition(":")[0] == "offline"


def read_prices(path: Path) -> dict[str, Price]:
    """Prices by model name, from a TOML file with a table a model."""
    try:
        prices = {name: Price(**given) for name, given in tomllib.loads(_read(path)).items()}
    except (TypeError, ValueError) as error:
        raise UserError(
            f'{path}: write a table a model, ["NAME"] with input, output and cached_input in '
            f"dollars per million tokens ({error})"
        ) from error
    for name, price in prices.items():
        for value in (price.input, price.output, price.cached_input or 0.0):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise UserError(f"{path}: {name}: {value!r} is no price; use a number from 0")
    return prices


def _list(given: str, flag: str, known: Sequence[str] = ()) -> list[str]:
    """The values of a flag that takes several, each once."""
    values = list(dict.fromkeys(value.strip() for value in given.split(",") if value.strip()))
    wrong = [value for value in values if known and value not in known]
    if wrong or not values:
        raise UserError(f"{flag} {given!r}: use {', '.join(known) or 'a list with commas'}")
    return values


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text ({error}); save it as such") from error


def _say(line: str) -> None:
    print(line, file=sys.stderr)
