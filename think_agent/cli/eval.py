"""The command `think-agent eval`: from flags to a table.

Rule 1: the table goes to stdout, everything else to stderr.
Rule 2: what an evaluation does is in `evaluation/command.py`; here are its flags and its words.
"""

import signal
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from ..evaluation import tables
from ..evaluation.command import Evaluation
from ..evaluation.inputs import is_scripted, settings_of
from ..evaluation.scores import named
from ..policies import Price
from .console import Screen, say
from .options import PRICES, Command, File, config_flags, flags, positive, prices_in, several, whole
from .shared_flags import STAND_IN

ARMS = ("provider", "force", "think", "cover", "silence", "reasoning", "instructions", "dialect")
FOLDERS = File(makes_folders=True)


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
    ("--think --flag", "T,...", several, "on", "on; minimal or off: no exit signal; none: no tool"),
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
    ("--timeout", "S", positive, 120.0, "seconds of silence before a model is given up"),
    ("--max-output-tokens", "N", whole, None, "tokens a reply"),
    ("--trials", "K", whole, 1, "runs of each case"),
    ("--concurrency", "N", whole, 4, "runs at the same time"),
    ("--shard", "I/N", str, "1/1", "run the I-th of every N trials; merge the files with cat"),
    ("--trust-model", "", bool, False, "switch the world's own enforcement off"),
)
@flags(
    "files",
    ("--suite", "MODULE", str, None, "default: the suite.py beside the cases"),
    ("--out", "PATH", FOLDERS, "runs/eval.jsonl", "results; a run goes on where the file ends"),
    ("--prices", "TOML", File(exists=True), None, "dollars per million tokens, by model"),
)
@config_flags
@click.pass_context
def command(ctx: click.Context, /, **settings: Any) -> int:
    """Run cases x models x settings x trials, and say what is a finding."""
    out = Path(settings["out"])
    if {"@", "?"} & set(settings["base_url"] or ""):
        raise click.UsageError("--base-url: leave keys and passwords out, it goes into the results")
    known: dict[str, Price] = ctx.meta.get(PRICES, {})
    if path := settings["prices"]:
        known |= prices_in(path)
    arms = {name: settings[name] for name in ARMS}
    fixed = ("trust_model", "timeout", "max_output_tokens")  # the same for all
    arms |= {"base_url": [settings["base_url"] or ""]} | {name: [settings[name]] for name in fixed}
    arms["instructions"] = arms["instructions"] or [""]
    arms["think"] = ["minimal" if think == "off" else think for think in arms["think"]]
    wanted = settings_of(four_rows=settings["four_rows"], **arms)
    runs = {name: settings[name] for name in ("suite", "trials", "shard", "concurrency")}
    evaluation = Evaluation(Path(settings["cases"]), wanted, out=out, **runs)
    for provider in dict.fromkeys(s.provider for s in evaluation.models if is_scripted(s)):
        say(f"{provider} is a {STAND_IN}")
    names, skipped = named(wanted), dict(evaluation.impossible)
    for setting, reason in skipped.items():
        say(f"skipped {names[setting]}: {reason}")
    if known and (without := {m.model for m in evaluation.models.values()} - known.keys()):
        say(f"no price for {', '.join(sorted(without))}: its cost is left out")
    if not _run(evaluation, out):
        return 130
    for setting in evaluation.impossible.keys() - skipped.keys():
        say(f"skipped {names[setting]}: {evaluation.impossible[setting]}")
    costs = {one: known[m.model] for one, m in evaluation.models.items() if m.model in known}
    tables.show(tables.report(evaluation.found(), costs), Screen(highlight=False))
    return 0


def _run(evaluation: Evaluation, out: Path) -> bool:
    """Run what is waiting, with a bar on stderr where that is a terminal. False: it was stopped."""
    jobs, waiting = len(evaluation.jobs), len(evaluation.waiting)
    if waiting < jobs:
        say(f"{jobs - waiting} of {jobs} runs are done already, in {out}")
    # asyncio cancels its tasks on SIGINT alone, so SIGTERM becomes one
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    stderr = Console(stderr=True)
    unseen = not (stderr.is_terminal and waiting)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    try:
        with Progress(*columns, console=stderr, disable=unseen) as progress:
            task = progress.add_task("", total=waiting)
            evaluation.run(lambda result: progress.advance(task))
    except KeyboardInterrupt:
        done = jobs - len(evaluation.waiting)
        say(f"stopped: {done} of {jobs} runs are done; the same command goes on")
        return False
    return True
