"""The command `think-agent eval`: from flags to a table.

Rule 1: the table goes to stdout, everything else to stderr.
Rule 2: `evaluation/command.py` does the evaluation; this file has its flags and messages.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..evaluation import tables
from ..evaluation.command import Evaluation
from ..evaluation.inputs import settings_of
from ..evaluation.page import results_to_html
from ..evaluation.report import power
from ..evaluation.results import MOST_SITTINGS, OtherPlan
from ..evaluation.scores import VARIED, Setting, name_settings
from ..outcome import pluralize
from .audit import write_page
from .console import STAND_IN
from .options import (
    Command,
    Group,
    config_flags,
    file_option,
    find_old_file,
    new_file,
    origin_of,
    positive,
    prices_of,
    several,
    whole,
)
from .screen import Screen, say

EXIT_CODES = (
    "exit codes: 0 there is a table, 1 a model or file can't be used, 2 a flag or a case is "
    "wrong, 130 stopped: run it again to continue"
)

arm_option = partial(Group("what is compared: each combination of"), type=several)
run_option = Group("runs")


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("cases", type=find_old_file)
@arm_option("--provider", "P[:MODEL],...", "models; offline:NAME is a script", default="ollama")
@arm_option("--force", "F,...", "never, first, always", default="first")
@arm_option(
    "--think", "T,...", "on; cannot: and says if not; brief; minimal: no signal; none", default="on"
)
@arm_option(
    "--cover", "C,...", "gate, carry, none: how a guarded call gets its thought", default="gate"
)
@arm_option("--silence", "S,...", "confirm, ask, accept: it calls no tool", default="confirm")
@arm_option("--done-when", "D,...", "off, on: is it checked that all is done?", default="off")
@arm_option(
    "--advice", "A,...", "off, on, silent: the suite's advice on how to think", default="off"
)
@arm_option("--reasoning", "R,...", "default, off, low, medium, high: its own", default="default")
@arm_option(
    "--dialect", "D,...", "default (on Ollama auto), native, json, react, auto", default="default"
)
@arm_option("--enforce", "E,...", "off, on: a world that refuses gives answers away", default="off")
@arm_option("--max-output-tokens", "N", "tokens a reply, the same in all of them", type=whole)
@arm_option(
    "--four-rows",
    type=bool,
    is_flag=True,
    help="or the rows of Anthropic's article, and what each adds",
)
@run_option("--base-url", "U", "another server, for all of the providers")
@run_option(
    "--timeout", "S", "seconds of silence before a model is given up", type=positive, default=120.0
)
@run_option("--trials", "K", "runs of each case", type=whole, default=1)
@run_option("--concurrency", "N", "runs at the same time; 4, on Ollama 1", type=whole)
@run_option(
    "--shard", "I/N", "run the I-th of every N trials; merge the files with cat", default="1/1"
)
@run_option(
    "--close", type=bool, is_flag=True, help="trials that failed are not tried again: not right"
)
@run_option(
    "--mixed", type=bool, is_flag=True, help="show trials of another plan separately; test nothing"
)
@file_option("--suite", "MODULE", "a module; default: suite.py next to the cases", default="suite")
@file_option(
    "--out",
    "PATH",
    "results; a run continues where the file ends",
    type=new_file,
    default="runs/eval.jsonl",
)
@file_option("--html", "PATH", "write one page there, with a picture of the shares", type=new_file)
@config_flags
@click.pass_context
def command(ctx: click.Context, /, out: Path, html: Path | None, **settings: Any) -> None:
    """Measure whether thinking helps. It runs cases x models x settings x trials, and says what is
    a finding.
    """
    known = prices_of(ctx)
    settings["max_output_tokens"] = [settings["max_output_tokens"]]
    arms = {name: settings[name] for name in VARIED}
    wanted = settings_of(four_rows=settings["four_rows"], **arms)
    runs = run_option.read_given(ctx)
    try:
        evaluation = Evaluation(settings["cases"], wanted, suite=settings["suite"], out=out, **runs)
        evaluation.try_models()
        _announce(evaluation, wanted)
        _run(evaluation, out)
    except OtherPlan as error:
        raise click.UsageError(f"{error}, or show its trials separately with --mixed.") from error
    models = evaluation.models.items()
    prices = {setting: known[m.model] for setting, m in models if m.model in known}
    report = evaluation.report(prices)
    tables.show_sections(report, Screen())
    if html:
        write_page(html, results_to_html(evaluation.select_results(), report, origin_of(ctx)))
    if evaluation.missing:
        say(f"{pluralize(evaluation.missing, 'run')} of this plan are missing in {out}")
    if any(job.result for job in evaluation.waiting):
        say(
            f"runs that failed are tried again by the same command; after {MOST_SITTINGS} sittings "
            "they are closed and count as not right, or now with --close"
        )


def _announce(evaluation: Evaluation, wanted: list[Setting]) -> None:
    """Print what will run and be compared, before anything costs money."""
    names = name_settings(wanted)
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


def _run(evaluation: Evaluation, out: Path) -> None:
    """Do the remaining runs, with a progress bar if stderr is a terminal."""
    jobs = len(evaluation.jobs)
    waiting = len(evaluation.waiting)
    if waiting < jobs:
        say(f"{jobs - waiting} of {jobs} runs are done already, in {out}")
    try:
        with click.progressbar(length=waiting, file=sys.stderr, label="runs") as bar:
            evaluation.run(lambda result: bar.update(1))
    except KeyboardInterrupt:
        done = f"{jobs - len(evaluation.waiting)} of {jobs} runs are done"
        raise KeyboardInterrupt(f"stopped: {done}; run it again to continue") from None
