"""`think-agent audit`: shows a run as text, JSON or an HTML page, checks whether its record is
possible, and counts another program's runs.

Rule 1: text, page and JSON all show the same RunReport. The text looks like a run in the terminal.
Rule 2: the output is as private as the transcript: file mode 0600, and `--redact` applies to every
        form.
Rule 3: another program's log is read completely or not at all.
"""

import hashlib
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Any

import click
from click import Context
from rich.console import Console

from ..agent import Agent
from ..audit import (
    Record,
    RunReport,
    check,
    counts,
    explain,
    read,
    read_log,
    report,
    to_html,
    to_json_report,
    words,
)
from ..audit.logs import LoggedRun
from ..audit.report import CheckedRecord, Note, Step, fits
from ..errors import TranscriptError
from ..evaluation import tables
from ..messages import Json
from .console import RunView
from .demo import demo_module
from .options import Command, Group, find_old_file, new_file, origin_of, output_option, several
from .own_agent import load_agent
from .screen import Screen, say, write_block
from .why import explain_steps

EXIT_CODES = (
    "exit codes: 0 it is shown, 1 a file cannot be used, 2 a flag is wrong, 3 it is shown, and "
    "--check found that the record cannot be true"
)
log_option = Group("runs of other programs")


def write_page(path: Path, page: str) -> None:
    """Write a page to a file that only its owner can read, and report it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.chmod(0o600)  # the file may have existed
    path.write_text(page, encoding="utf-8")
    say(f"wrote {path}")


def show_report(made: RunReport, console: Console) -> None:
    """Show the report as text that looks like a run in the terminal."""
    view = RunView(console)
    run = ""
    if "id" in made.header:
        run = f"run {made.header['id']}"
    name = str(made.header.get("name", ""))
    view.print(words.join_facts("Audit", name, run, *made.figures["models"]))
    for name, value in made.origin.items():
        view.print(f"{name}: {value}", "dim")
    view.print(f"Thoughts for the actions: {words.behind(made.figures['came_about'])}")
    if made.checked:
        _show_checked(view, made.checked)
    for text in made.problems:
        view.line("warning", text)
    for number, turn in enumerate(made.turns, 1):
        request = "(none)"
        if turn.request:
            request = turn.request.text
        view.print(f"\nRequest {number}: {request}")
        for entry in turn.entries:
            _show_entry(view, entry)
        view.end(turn.exit, turn.answer, turn.cause, turn.figures)
    for mark, text in explain_steps(made.steps):
        write_block(console, mark, "", text)


def _show_checked(view: RunView, checked: CheckedRecord) -> None:
    kind = "alarm" if checked.impossible else "met"
    view.line(kind, words.can_be_true(len(checked.impossible)))
    for found in checked.impossible:
        view.line("alarm", f"{found.where}: {found.text}")
    if checked.steps is not None:
        view.line("notice", words.say_differences(len(checked.otherwise), checked.steps))
    for found in checked.otherwise:
        view.line("notice", f"{found.where}: {found.text}")


def _show_entry(view: RunView, entry: Step | Note) -> None:
    if isinstance(entry, Note):
        view.line(entry.kind, entry.text)
        return
    view.reply(entry.reply)
    for note in entry.notes:
        view.line(note.kind, note.text)
    for call in entry.calls:
        view.call(call.call)
        for note in call.events:
            if note.kind != "status":
                view.line(note.kind, note.text)
        view.line("result", call.result)


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("transcript", metavar="RUN.jsonl", type=find_old_file, required=False)
@output_option("--html", "PATH", "write one self-contained HTML page there", type=new_file)
@output_option("--text", is_flag=True, help="print it as text (the default)")
@output_option("--json", is_flag=True, help="print one JSON object and nothing else")
@output_option(
    "--steps", is_flag=True, help="say why the loop took each step, also on the page, one a screen"
)
@output_option(
    "--check",
    "FILE:AGENT",
    "can the record be true, and would this agent do the same today? It runs the file, and calls "
    "no tool. Of a run of the demo leave it out: --check RUN.jsonl",
    is_flag=False,
    flag_value="",
)
@output_option(
    "--redact",
    "FIELD[,FIELD]",
    "hide these fields, and their values everywhere",
    type=several,
    default="",
)
@log_option(
    "--guarded",
    "PATTERN[,...]",
    "the tools that change the world: 'book_*'",
    type=several,
    default="",
)
@log_option(
    "--think",
    "NAME[,...]",
    "other tools whose calls are thoughts",
    type=several,
    default="",
)
@click.pass_context
def command(ctx: Context, /, **options: Any) -> int:
    """Show what a run did and why, or count the runs of another program. A run is shown as text, as
    JSON, or as one HTML page. For another program's runs, it counts actions that followed a
    thought.
    """
    path = _transcript(ctx, options)
    options["origin"] = {"file": path.name, **origin_of(ctx)}
    try:
        record = read(path)
    except TranscriptError:  # another program's log
        pass
    else:
        return _show_run(record, options)

    if options["check"] is not None:
        raise click.UsageError(f"--check: {path} isn't a record of this kit")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    options["origin"]["sha256"] = digest
    runs = read_log(path, options["think"])
    table = _make_table(runs, options)
    if len(runs) == 1:
        _show_run(Record(runs[0].header, tuple(runs[0].messages), digest=digest), options)
        if not options["json"]:
            tables.show_sections([table], Screen())
    else:
        _show_table(runs, options, table)
    return 0


def _transcript(ctx: Context, options: Json) -> Path:
    """The file. (In `--check RUN.jsonl` it's where an agent could be.)"""
    path: Path | None = options["transcript"]
    if path is None and options["check"]:
        path = find_old_file(options["check"])
        options["check"] = ""
    if path is None:
        raise click.UsageError("Missing argument 'RUN.jsonl'.", ctx)
    return path


def _show_run(record: Record, options: Json) -> int:
    """Show one run in the chosen form."""
    agent = None
    findings = None
    if options["check"] is not None:
        agent = _load_agent_to_check(options["check"], record)
        findings = check(record, agent)
    steps = explain(agent, record.messages) if options["steps"] else ()
    made = report(
        record.entries,
        header=record.header,
        warnings=record.warnings,
        redact=options["redact"],
        guarded=options["guarded"] or ["*"],
        explained=steps,
        findings=findings,
        origin={**options["origin"], "sha256": record.digest},
    )
    html = options["html"]
    if html:
        write_page(html, to_html(made, at_steps=options["steps"]))
    if options["json"]:
        print(dumps(to_json_report(made)))
    elif options["text"] or not html:
        show_report(made, Screen())
    if findings and findings.impossible:
        return 3
    return 0


def _load_agent_to_check(named: str, record: Record) -> Agent:
    """The agent to compare a record with; the demo's if none is named."""
    if named:
        return load_agent(named)
    desk: Agent | None = demo_module("again").agent_of(record.header)
    if desk is None:
        raise click.UsageError(
            "--check: this isn't a run of the demo; name its agent: --check my_agent.py:agent"
        )
    return desk


# Another program's runs.


def _make_table(runs: Sequence[LoggedRun], options: Json) -> tables.Section:
    """The table of counts. A pattern without a match in the log is reported, because `0 of 0` would
    be unclear. Raises UsageError.
    """
    tools = sorted(counts.tools_of(runs))
    known = f"no call in the log fits; its tools: {', '.join(tools)}"
    patterns = options["guarded"]
    for pattern in patterns:
        if not any(fits(tool, [pattern]) for tool in tools):
            say(f"--guarded {pattern}: {known}")
    if patterns and not any(fits(tool, patterns) for tool in tools):
        raise click.UsageError(f"--guarded: {known}")

    return counts.table(runs, patterns)


def _show_table(runs: Sequence[LoggedRun], options: Json, table: tables.Section) -> None:
    if options["redact"]:
        raise click.UsageError(f"--redact: of {len(runs)} runs there is only the table")
    html = options["html"]
    if html:
        write_page(html, counts.table_to_html(table, options["origin"]))
    if options["json"]:
        header, *rows = table.rows
        counted = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
        print(dumps({"counts": counted}))
    elif not html:
        tables.show_sections([table], Screen())
