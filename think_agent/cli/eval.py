"""The command `think-agent eval`: from flags to a table.

Rule 1: the table goes to stdout, everything else to stderr.
Rule 2: what an evaluation does is in `evaluation/command.py`; here are its flags and its words.
"""

import signal
import sys
from pathlib import Path
from typing import Any

import click

from ..evaluation import tables
from ..evaluation.command import Evaluation
from ..evaluation.inputs import settings_of
from ..evaluation.scores import VARIED, named
from .console import STAND_IN, Screen, say
from .options import Command, File, config_flags, flags, positive, prices_of, several, whole

FOLDERS = File(makes_folders=True)
EXIT_CODES = (
    "exit codes: 0 there is a table, 1 a model or file is out of reach, 2 a flag or a case is "
    "wrong, 130 stopped: the same command goes on"
)


@click.command(cls=Command, no_args_is_help=True, epilog=EXIT_CODES)
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
)
@config_flags
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run cases x models x settings x trials, and say what is a finding."""
    if {"@", "?"} & set(given["base_url"] or ""):
        raise click.UsageError("--base-url: leave keys and passwords out, it goes into the results")
    known = prices_of(ctx)
    given["think"] = tuple("minimal" if think == "off" else think for think in given["think"])
    arms = {
        name: value if isinstance(value, tuple) else [value]
        for name, value in given.items()
        if name in VARIED and value is not None
    }
    wanted = settings_of(four_rows=given["four_rows"], **arms)
    runs = {name: given[name] for name in ("suite", "trials", "shard", "concurrency")}
    evaluation = Evaluation(Path(given["cases"]), wanted, out=Path(given["out"]), **runs)
    for provider in dict.fromkeys(s.provider for s in evaluation.models if s.is_scripted):
        say(f"{provider} is a {STAND_IN}")
    _run(evaluation, given["out"])
    names = named(wanted)
    for setting, reason in evaluation.impossible.items():
        say(f"skipped {names[setting]}: {reason}")
    costs = {one: known[m.model] for one, m in evaluation.models.items() if m.model in known}
    tables.show(tables.report(evaluation.found(), costs), Screen())


def _run(evaluation: Evaluation, out: str) -> None:
    """Run what is waiting, with a bar on stderr where that is a terminal."""
    jobs, waiting = len(evaluation.jobs), len(evaluation.waiting)
    if waiting < jobs:
        say(f"{jobs - waiting} of {jobs} runs are done already, in {out}")
    # asyncio cancels its tasks on SIGINT alone, so SIGTERM becomes one
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    is_seen = waiting and Screen(stderr=True).is_terminal
    try:
        with click.progressbar(length=waiting, file=sys.stderr, hidden=not is_seen) as bar:
            evaluation.run(lambda result: bar.update(1))
    except KeyboardInterrupt:
        done = f"{jobs - len(evaluation.waiting)} of {jobs} runs are done"
        raise KeyboardInterrupt(f"stopped: {done}; the same command goes on") from None
