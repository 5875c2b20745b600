"""The command `think-agent eval`: from flags to a table and a plot.

Rule 1: all that can be wrong with flags, cases and files is found before the first model is asked
        (`eval_input.py`).
Rule 2: settings take turns, trial by trial and case by case, so a server's bad hour hits all.
Rule 3: the table (`eval_tables.py`) goes to stdout, everything else to stderr.
Rule 4: without `--engine` a run is this process and its results file; with it, a durable engine
        hands out the trials (`eval_engine.py`). The results are the same.
"""

import argparse
import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..cli.console import say
from ..cli.main import STAND_IN, choose_model, speak
from ..cli.options import UserError, add_flag, positive, whole
from ..cli.paths import check_apart, check_output
from ..errors import FileError
from ..model import Model
from ..providers import connect
from . import tables as eval_tables
from .inputs import is_scripted, load_suite, read_cases, read_prices, settings_of
from .scores import PLOTS, Result, Setting, plot, score
from .trials import Job, Results, Speaks, Suite, attempt, fingerprint, run_all


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
    out = Path(args.out)
    picture = Path(args.plot or out.with_suffix(".png"))
    engine = {"the engine's database": str(out.with_suffix(".db"))} if args.engine != "none" else {}
    check_apart({"the cases": str(args.cases), **engine, "--out": str(out), "--plot": str(picture)})
    check_output("--out", str(out), makes_folders=True)
    check_output("--plot", str(picture), makes_folders=True)
    if picture.suffix.lower() not in PLOTS:
        raise UserError(f"--plot {picture}: use a name that ends in {', '.join(PLOTS)}")
    cases = read_cases(args.cases)
    known = read_prices(Path(args.prices)) if args.prices else {}
    suite = load_suite(args.suite, args.cases)
    settings = settings_of(args, suite)
    models = models_for(settings, suite)
    prices = {s: known[m.model] for s, m in models.items() if m.model in known}
    if known and len(prices) < len(settings):
        without = {model.model for model in models.values()} - known.keys()
        say(f"no price in {args.prices} for {', '.join(sorted(without))}: its cost is left out")
    asked = fingerprint(cases, suite)
    results = Results(out, asked)
    trials = range(1, args.trials + 1)
    jobs = [Job(setting, case, n) for n in trials for case in cases for setting in settings]
    waiting = [job for job in jobs if job not in results]
    if len(waiting) < len(jobs):
        say(f"{len(jobs) - len(waiting)} of {len(jobs)} runs are done already, in {out}")
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
        say(f"stopped: {done} of {len(jobs)} runs are done; the same command goes on")
        return 130
    found = {s: [results[job] for job in jobs if job.setting == s] for s in settings}
    console = Console(highlight=False)
    report = eval_tables.report(found, prices)
    if console.is_terminal:
        eval_tables.show(report, console)
    else:
        print(eval_tables.markdown(report))
    _plotted(found, picture)
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
        from .engine import asked_of, shared
    except ImportError as error:
        if error.name != "dbos":
            raise
        raise UserError(
            '--engine dbos needs DBOS; in the clone run: pip install ".[fleet]"'
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
    unseen = not console.is_terminal or not total
    with Progress(*columns, console=console, disable=unseen) as progress:
        task = progress.add_task("", total=total)
        right = ran = 0

        def advance(result: Result) -> None:
            nonlocal right, ran
            right, ran = right + result.right, ran + 1
            progress.update(task, advance=1, description=f"right: {right} of {ran}")

        yield advance


def _plotted(results: Mapping[Setting, Sequence[Result]], path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        plot([score(own) for own in results.values()], path)
    except ImportError:
        say('no plot: matplotlib is not installed; in the clone run: pip install ".[eval]"')
    except OSError as error:
        raise FileError(f"--plot {path}: {error.strerror}; choose another path") from error
    else:
        say(f"plot: {path}")


def models_for(settings: Sequence[Setting], suite: Suite) -> dict[Setting, Model]:
    """The model of each setting. Settings of one provider share its connection; a stand-in is made
    for each dialect, for it has to speak it.
    """
    connected: dict[tuple[str, str], Model] = {}
    models: dict[Setting, Model] = {}
    for setting in settings:
        source = (setting.provider, setting.dialect if is_scripted(setting) else "")
        if source not in connected:
            connected[source] = _connect(setting, suite)
        models[setting] = speak(connected[source], setting.dialect)
    for provider in dict.fromkeys(s.provider for s in settings if is_scripted(s)):
        say(f"{provider} is a {STAND_IN}")
    return models


def _connect(setting: Setting, suite: Suite) -> Model:
    provider, _, name = setting.provider.partition(":")
    if provider == "auto":
        raise UserError("--provider auto: name the providers that are to be compared")
    if not is_scripted(setting):
        return choose_model(setting.provider, None, setting.base_url or None)
    if name not in suite.STAND_INS:
        names = ", ".join(f"offline:{known}" for known in suite.STAND_INS)
        raise UserError(f"--provider {setting.provider}: this suite's stand-ins are {names}")
    script = suite.STAND_INS[name]
    if isinstance(suite, Speaks):
        script = suite.speaking(script, setting.dialect)
    return connect(setting.provider, script=script)
