"""`think-agent audit`: shows a run as text, JSON or one HTML page, and counts the runs of another
program.

Rule 1: text, page and JSON show one Report, and nothing else. The text has the look of a run in the
        terminal.
Rule 2: the output is as private as the transcript: file mode 0600, and `--redact` hides fields in
        every form.
Rule 3: a log is read whole; if not, the exit code says so.
"""

from json import dumps
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..audit import (
    Log,
    Record,
    Report,
    counts,
    explain,
    read,
    read_log,
    report,
    to_html,
    to_json_report,
    words,
)
from ..audit.report import Note, Step, fits
from ..errors import TranscriptError
from ..evaluation import tables
from ..messages import Json
from .console import RunView
from .options import Command, Group, new_file, old_file, output_option, several
from .screen import Screen, say, write_block
from .why import explained

EXIT_CODES = (
    "exit codes: 0 it is shown, 1 a file cannot be used, 2 a flag is wrong, 3 it is shown, but "
    "something in the log could not be read"
)
MOST_PLACES = 10  # that could not be read, on the screen
log_option = Group("runs of other programs")


def write_page(path: Path, page: str) -> None:
    """Write a page to a file that only its owner can read, and say so. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.chmod(0o600)  # it may have existed
    path.write_text(page, encoding="utf-8")
    say(f"wrote {path}")


def show(made: Report, console: Console) -> None:
    """Show the report as text, in the look of a run in the terminal."""
    view = RunView(console)
    run = ""
    if "id" in made.header:
        run = f"run {made.header['id']}"
    view.print(words.joined("Audit", run, *made.figures["models"]))
    view.print(f"Actions by the thought behind them: {words.behind(made.figures['came_about'])}")
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
    for mark, text in explained(made.steps):
        write_block(console, mark, "", text)


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
@click.argument("transcript", metavar="RUN.jsonl", type=old_file)
@output_option("--html", "PATH", "write one self-contained HTML page there", type=new_file)
@output_option("--text", is_flag=True, help="print it as text (the default)")
@output_option("--json", is_flag=True, help="print one JSON object and nothing else")
@output_option(
    "--steps", is_flag=True, help="say why the loop took each step, also on the page, one a screen"
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
    "tools whose calls are thoughts, besides think",
    type=several,
    default="",
)
def command(**options: Any) -> int:
    """Show what a run did and why, or count the runs of another program. A run is shown as text, as
    JSON, or as one HTML page. Of another program's runs, it counts what stands behind what.
    """
    path = options["transcript"]
    try:
        record = read(path)
    except TranscriptError:  # it is a log of another program
        pass
    else:
        _show_run(record, options)
        return 0

    log = read_log(path, options["think"])
    table = _table(log, options)
    if len(log.runs) == 1:
        run = log.runs[0]
        _show_run(Record(run.header, tuple(run.messages), ()), options)
        if not options["json"]:
            tables.show([table], Screen())
    else:
        _show_table(log, options, table)
    for place in log.unread[:MOST_PLACES]:
        say(f"not read: {place}")
    if len(log.unread) > MOST_PLACES:
        say(f"not read: {len(log.unread) - MOST_PLACES} more")
    if log.unread:
        return 3
    return 0


def _show_run(record: Record, options: Json) -> None:
    """Show one run in the chosen form."""
    html = options["html"]
    steps = explain(None, record.messages) if options["steps"] else ()
    made = report(
        record.entries,
        header=record.header,
        warnings=record.warnings,
        redact=options["redact"],
        guarded=options["guarded"] or ["*"],
        explained=steps,
    )
    if html:
        write_page(html, to_html(made))
    if options["json"]:
        print(dumps(to_json_report(made)))
    elif options["text"] or not html:
        show(made, Screen())


# The runs of another program.


def _table(log: Log, options: Json) -> tables.Section:
    """The table of counts. A pattern that fits nothing in the log is reported: `0 of 0` would say
    nothing. Raises UsageError.
    """
    tools = sorted(counts.tools_of(log.runs))
    known = f"no call in the log fits; its tools: {', '.join(tools)}"
    patterns = options["guarded"]
    for pattern in patterns:
        if not any(fits(tool, [pattern]) for tool in tools):
            say(f"--guarded {pattern}: {known}")
    if patterns and not any(fits(tool, patterns) for tool in tools):
        raise click.UsageError(f"--guarded: {known}")

    return counts.table(log, patterns)


def _show_table(log: Log, options: Json, table: tables.Section) -> None:
    if options["redact"]:
        raise click.UsageError(f"--redact: of {len(log.runs)} runs there is only the table")
    html = options["html"]
    if html:
        write_page(html, counts.to_html(table, log.unread))
    if options["json"]:
        header, *rows = table.rows
        counted = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
        print(dumps({"counts": counted, "unread": log.unread}))
    elif not html:
        tables.show([table], Screen())
