"""The command `think-agent eval`: from flags to a table and a plot.

Rule 1: the table goes to stdout, everything else to stderr.
Rule 2: what an evaluation does is in `evaluation/command.py`; here are its flags and its words.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import FileError
from ..evaluation import scores, tables
from ..evaluation.command import Evaluation, Plan
from ..evaluation.inputs import is_scripted
from ..evaluation.scores import PLOTS, Result
from ..policies import Price
from .console import say
from .options import PRICES, Command, File, config_flags, flags, prices, several, toml, whole
from .shared_flags import STAND_IN

FOLDERS = File(makes_folders=True)
TEXT = "{task.description}"
FLAGS = {"on": "on", "off": "minimal"}  # --flag says by another name what --think says


@click.command(
    cls=Command,
    no_args_is_help=True,
    epilog="exit codes: 0 there is a table, 1 a model or file is out of reach, 2 a flag or a case "
    "is wrong, 130 stopped: the same command goes on",
)
@click.argument("cases", type=File(exists=True))
@flags(
    "what is compared: each combination of",
    ("--provider", "P[:MODEL],...", several, "ollama", "models; offline:NAME is a stand-in"),
    ("--force", "F,...", several, "first", "never, first, always"),
    ("--think", "T,...", several, None, "on; minimal: without the exit signal; none: no tool"),
    ("--flag", "F,...", several, None, "on is --think on, off is --think minimal"),
    ("--cover", "C,...", several, "gate", "gate, carry, none: what a guarded call stands behind"),
    ("--silence", "S,...", several, "confirm", "confirm, accept: a reply that calls no tool"),
    ("--reasoning", "R,...", several, "default", "default, off, low, medium: the model's own"),
    ("--instructions", "I,...", several, None, "names of the suite's: plain, optimized"),
    ("--dialect", "D,...", several, "native", "native, json, react"),
    ("--four-rows", "", bool, False, "or the rows of Anthropic's article: baseline, think, ..."),
)
@flags(
    "runs",
    ("--base-url", "U", str, None, "another server, for all of the providers"),
    ("--trials", "K", whole, 1, "runs of each case"),
    ("--concurrency", "N", whole, 4, "runs at the same time"),
    ("--shard", "I/N", str, "1/1", "run the I-th of every N trials; merge the files with cat"),
    ("--trust-model", "", bool, False, "switch the world's own enforcement off"),
)
@flags(
    "files",
    ("--suite", "MODULE", str, None, "default: the suite.py beside the cases"),
    ("--out", "PATH", FOLDERS, "runs/eval.jsonl", "results; a run goes on where the file ends"),
    ("--plot", "PATH", FOLDERS, None, "the plot (default: beside --out, as .png)"),
    ("--prices", "TOML", File(exists=True), None, "dollars per million tokens, by model"),
)
@config_flags
@click.pass_context
def command(ctx: click.Context, /, **settings: Any) -> int:
    """Run cases x models x settings x trials, and say what is a finding."""
    out = Path(settings["out"])
    picture = Path(settings["plot"] or out.with_suffix(".png"))
    if picture == out:
        raise FileError(f"--plot {picture}: that is the file of --out; choose another path")
    if picture.suffix.lower() not in PLOTS:
        raise click.UsageError(f"--plot {picture}: use a name that ends in {', '.join(PLOTS)}")
    known: dict[str, Price] = ctx.meta.get(PRICES, {})
    if path := settings["prices"]:
        known |= prices(toml(path), path)
    evaluation = Evaluation(_plan(settings, out))
    for provider in dict.fromkeys(s.provider for s in evaluation.models if is_scripted(s)):
        say(f"{provider} is a {STAND_IN}")
    skipped = dict(evaluation.impossible)
    for setting, name in scores.named([*evaluation.models, *skipped]).items():
        if setting in skipped:
            say(f"skipped {name}: {skipped[setting]}")
    if known and (without := {m.model for m in evaluation.models.values()} - known.keys()):
        say(f"no price for {', '.join(sorted(without))}: its cost is left out")
    jobs, waiting = evaluation.jobs, evaluation.waiting
    if len(waiting) < len(jobs):
        say(f"{len(jobs) - len(waiting)} of {len(jobs)} runs are done already, in {out}")
    # asyncio cancels its tasks on SIGINT alone, so SIGTERM becomes one
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _progress(len(waiting)) as advance:
            evaluation.run(advance)
    except KeyboardInterrupt:
        done = len(jobs) - len(evaluation.waiting)
        say(f"stopped: {done} of {len(jobs)} runs are done; the same command goes on")
        return 130
    for setting in evaluation.impossible.keys() - skipped.keys():
        say(f"skipped {setting.provider}: {evaluation.impossible[setting]}")
    found = evaluation.found()
    console = Console(highlight=False)
    report = tables.report(found, evaluation.prices(known))
    if console.is_terminal:
        tables.show(report, console)
    else:
        print(tables.markdown(report))
    if found:
        _plotted(evaluation, picture)
    return 0


def _plan(settings: Mapping[str, Any], out: Path) -> Plan:
    if settings["think"] and settings["flag"]:
        raise click.UsageError("--flag says the same as --think; use one of them")
    flags = [FLAGS.get(value, value) for value in settings["flag"] or ["on"]]
    part, _, parts = settings["shard"].partition("/")
    if not (part.isdecimal() and parts.isdecimal()):
        raise click.UsageError(f"--shard {settings['shard']!r}: use two numbers, such as 1/4")
    plan = {name: settings[name] for name in (f.name for f in fields(Plan))}
    plan |= {"cases": Path(plan["cases"]), "out": out, "shard": (int(part), int(parts))}
    plan["think"] = plan["think"] or flags
    plan["base_url"] = plan["base_url"] or ""
    plan["instructions"] = plan["instructions"] or [""]
    return Plan(**plan)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Result], None]]:
    """A bar on stderr, where that is a terminal, with the time that is left."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn(TEXT))
    unseen = not console.is_terminal or not total
    with Progress(*columns, console=console, disable=unseen) as progress:
        task = progress.add_task("", total=total)
        right = ran = 0

        def advance(result: Result) -> None:
            nonlocal right, ran
            right, ran = right + result.right, ran + 1
            progress.update(task, advance=1, description=f"right: {right} of {ran}")

        yield advance


def _plotted(evaluation: Evaluation, path: Path) -> None:
    try:
        scores.plot(evaluation.found(), path)
    except ImportError:
        say('no plot: matplotlib is not installed; in the clone run: pip install ".[eval]"')
    except OSError as error:
        raise FileError(f"--plot {path}: {error.strerror}; choose another path") from error
    else:
        say(f"plot: {path}")
