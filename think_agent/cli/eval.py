"""The command `think-agent eval`: from flags to a table.

Rule 1: the table goes to stdout, everything else to stderr.
Rule 2: `evaluation/command.py` does the evaluation; this file has its flags and messages.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..audit.words import counted
from ..evaluation import tables
from ..evaluation.command import Evaluation
from ..evaluation.inputs import settings_of
from ..evaluation.page import to_html
from ..evaluation.report import power
from ..evaluation.scores import VARIED, Setting, named
from .audit import write_page
from .console import STAND_IN
from .options import (
    Command,
    config_flags,
    file_option,
    given,
    new_file,
    old_file,
    positive,
    prices_of,
    several,
    under,
    whole,
)
from .screen import Screen, say

EXIT_CODES = (
    "exit codes: 0 there is a table, 1 a model or file is out of reach, 2 a flag or a case is "
    "wrong, 130 stopped: the same command goes on"
)

RUNS = ("base_url", "timeout", "trials", "concurrency", "shard")
arm_option = partial(under("what is compared: each combination of"), type=several)
run_option = under("runs")


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("cases", type=old_file)
@arm_option(
    "--provider", metavar="P[:MODEL],...", default="ollama", help="models; offline:NAME is a script"
)
@arm_option("--force", metavar="F,...", default="first", help="never, first, always")
@arm_option(
    "--think", metavar="T,...", default="on", help="on; brief: 25 words; minimal: no signal; none"
)
@arm_option(
    "--cover",
    metavar="C,...",
    default="gate",
    help="gate, carry, none: what a guarded call stands behind",
)
@arm_option(
    "--silence", metavar="S,...", default="confirm", help="confirm, ask, accept: it calls no tool"
)
@arm_option(
    "--done-when", metavar="D,...", default="off", help="off, on: is it checked that all is done?"
)
@arm_option(
    "--advice",
    metavar="A,...",
    default="off",
    help="off, on, silent: the suite's advice on how to think",
)
@arm_option(
    "--reasoning",
    metavar="R,...",
    default="default",
    help="default, off, low, medium, high: its own",
)
@arm_option(
    "--dialect",
    metavar="D,...",
    default="default",
    help="default (on Ollama auto), native, json, react, auto",
)
@arm_option(
    "--enforce",
    metavar="E,...",
    default="off",
    help="off, on: a world that refuses gives answers away",
)
@arm_option(
    "--max-output-tokens", metavar="N", type=whole, help="tokens a reply, the same in all of them"
)
@arm_option(
    "--four-rows",
    type=bool,
    is_flag=True,
    help="or the rows of Anthropic's article, and what each adds",
)
@run_option("--base-url", metavar="U", help="another server, for all of the providers")
@run_option(
    "--timeout",
    metavar="S",
    type=positive,
    default=120.0,
    help="seconds of silence before a model is given up",
)
@run_option("--trials", metavar="K", type=whole, default=1, help="runs of each case")
@run_option("--concurrency", metavar="N", type=whole, help="runs at the same time; 4, on Ollama 1")
@run_option(
    "--shard",
    metavar="I/N",
    default="1/1",
    help="run the I-th of every N trials; merge the files with cat",
)
@file_option(
    "--suite", metavar="MODULE", default="suite", help="a module; the suite.py beside the cases"
)
@file_option(
    "--out",
    metavar="PATH",
    type=new_file,
    default="runs/eval.jsonl",
    help="results; a run goes on where the file ends",
)
@file_option(
    "--html",
    metavar="PATH",
    type=new_file,
    help="write one page there, with a picture of the shares",
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
        **given(ctx, RUNS),
    )
    evaluation.try_models()
    _announce(evaluation, wanted)
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


def _announce(evaluation: Evaluation, wanted: list[Setting]) -> None:
    """Print what will be run and compared, before anything costs money."""
    names = named(wanted)
    for setting in wanted:
        text = f"to run: {names[setting]}"
        if setting in evaluation.impossible:
            text = f"skipped {names[setting]}: {evaluation.impossible[setting]}"
        elif setting.is_scripted:
            text += f", a {STAND_IN}"
        say(text)
    plan = evaluation.plan
    tested = [comparison for comparison in plan.comparisons if comparison.is_tested]
    for comparison in tested:
        say(f"to compare: {names[comparison.setting]} and {names[comparison.against]}")
    if tested:
        compared = sum(not case.easy for case in evaluation.cases)
        say(power(compared, plan.trials, len(tested)))


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
