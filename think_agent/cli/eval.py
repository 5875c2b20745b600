"""The command `think-agent eval`: from flags to a table.

Rule 1: the table goes to stdout, everything else to stderr.
Rule 2: `evaluation/command.py` does the evaluation; this file has its flags and messages.
"""

import sys
from pathlib import Path
from typing import Any

import click

from ..audit.words import counted
from ..evaluation import tables
from ..evaluation.command import Evaluation
from ..evaluation.comparisons import planned
from ..evaluation.inputs import settings_of
from ..evaluation.page import to_html
from ..evaluation.report import power
from ..evaluation.scores import VARIED, Setting, named
from .audit import write_page
from .console import STAND_IN
from .options import (
    Command,
    config_flags,
    flags,
    given,
    new_file,
    old_file,
    positive,
    prices_of,
    several,
    whole,
)
from .screen import Screen, say

EXIT_CODES = (
    "exit codes: 0 there is a table, 1 a model or file is out of reach, 2 a flag or a case is "
    "wrong, 130 stopped: the same command goes on"
)


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("cases", type=old_file)
@flags(
    "what is compared: each combination of",
    ("--provider P[:MODEL],...", several, "ollama", "models; offline:NAME is a script"),
    ("--force F,...", several, "first", "never, first, always"),
    ("--think T,...", several, "on", "on; brief: 25 words; minimal: no signal; none"),
    ("--cover C,...", several, "gate", "gate, carry, none: what a guarded call stands behind"),
    ("--silence S,...", several, "confirm", "confirm, ask, accept: it calls no tool"),
    ("--done-when D,...", several, "off", "off, on: is it checked that all is done?"),
    ("--advice A,...", several, "off", "off, on, silent: the suite's advice on how to think"),
    ("--reasoning R,...", several, "default", "default, off, low, medium, high: its own"),
    ("--dialect D,...", several, "default", "default (on Ollama auto), native, json, react, auto"),
    ("--enforce E,...", several, "off", "off, on: a world that refuses gives answers away"),
    ("--max-output-tokens N", whole, "tokens a reply, the same in all of them"),
    ("--four-rows", bool, "or the rows of Anthropic's article, and what each adds"),
)
@flags(
    "runs",
    ("--base-url U", str, "another server, for all of the providers"),
    ("--timeout S", positive, 120.0, "seconds of silence before a model is given up"),
    ("--trials K", whole, 1, "runs of each case"),
    ("--concurrency N", whole, "runs at the same time; 4, on Ollama 1"),
    ("--shard I/N", str, "1/1", "run the I-th of every N trials; merge the files with cat"),
)
@flags(
    "files",
    ("--suite MODULE", str, "suite", "a module; the suite.py beside the cases"),
    ("--out PATH", new_file, "runs/eval.jsonl", "results; a run goes on where the file ends"),
    ("--html PATH", new_file, "write one page there, with a picture of the shares"),
)
@config_flags
@click.pass_context
def command(ctx: click.Context, /, out: str, html: str | None, **settings: Any) -> None:
    """Measure whether thinking helps. It runs cases x models x settings x trials, and says what is
    a finding.
    """
    known = prices_of(ctx)
    settings["max_output_tokens"] = [settings["max_output_tokens"]]
    arms = {name: settings[name] for name in VARIED}
    wanted = settings_of(four_rows=settings["four_rows"], **arms)
    evaluation = Evaluation(
        Path(settings["cases"]),
        wanted,
        out=Path(out),
        suite=settings["suite"],
        **given(ctx, "runs"),
    )
    evaluation.try_models()
    _announce(evaluation, wanted, settings["trials"])
    _run(evaluation, out)
    models = evaluation.models.items()
    prices = {setting: known[m.model] for setting, m in models if m.model in known}
    report = evaluation.report(prices)
    tables.show(report, Screen())
    if html:
        write_page(html, to_html(evaluation.found(), report))
        say(f"wrote {html}")
    if evaluation.missing:
        say(f"{counted(evaluation.missing, 'run')} of this plan are missing in {out}")


def _announce(evaluation: Evaluation, wanted: list[Setting], trials: int) -> None:
    """Print what will be run and compared, before anything costs money."""
    names = named(wanted)
    for setting in wanted:
        text = f"to run: {names[setting]}"
        if setting in evaluation.impossible:
            text = f"skipped {names[setting]}: {evaluation.impossible[setting]}"
        elif setting.is_scripted:
            text += f", a {STAND_IN}"
        say(text)
    tested = [pair for pair in planned([*evaluation.models]) if pair.is_tested]
    for comparison in tested:
        say(f"to compare: {names[comparison.setting]} and {names[comparison.against]}")
    if tested:
        compared = sum(not case.easy for case in evaluation.cases)
        say(power(compared, trials, len(tested)))


def _run(evaluation: Evaluation, out: str) -> None:
    """Do the runs that are left, with a progress bar on stderr if that is a terminal."""
    jobs = len(evaluation.jobs)
    waiting = len(evaluation.waiting)
    if waiting < jobs:
        say(f"{jobs - waiting} of {jobs} runs are done already, in {out}")
    try:
        with click.progressbar(length=waiting, file=sys.stderr, label="runs") as bar:
            evaluation.run(lambda result: bar.update(1))
    except KeyboardInterrupt:
        done = f"{jobs - len(evaluation.waiting)} of {jobs} runs are done"
        raise KeyboardInterrupt(f"stopped: {done}; the same command goes on") from None
