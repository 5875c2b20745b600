"""`think-agent audit`: shows a run as text, JSON, one HTML page or ATIF, and counts the runs of
another program.

Rule 1: the text form shows the run in the same RunView as when it ran, with a summary and the
        problems that were found.
Rule 2: the output is as private as the transcript: file mode 0600, and `--redact` hides fields in
        every form.
Rule 3: a log is read whole; if not, the exit code says so.
"""

from json import dumps
from pathlib import Path
from typing import Any

import click

from ..audit import (
    Log,
    Record,
    Report,
    counts,
    read,
    read_log,
    report,
    to_atif,
    to_html,
    to_json_report,
    words,
)
from ..audit.formats import FORMATS
from ..audit.imports import is_transcript
from ..audit.redaction import Redaction
from ..audit.report import Note, Step, fits
from ..errors import FileError
from ..evaluation import tables
from ..messages import Checked, Json, ToolResult, User, Verdict
from ..streaming import Notice
from .console import RunView
from .options import Command, flags, new_file, old_file, several
from .screen import Screen, say

EXIT_CODES = (
    "exit codes: 0 it is shown, 1 a file cannot be used, 2 a flag is wrong, 3 it is shown, but "
    "something in the log could not be read"
)
MOST_PLACES = 10  # that could not be read, on the screen


def write_page(path: str, page: str) -> None:
    """Write a page to a file that only its owner can read. Raises OSError."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(0o600)
    file.chmod(0o600)  # it may have existed
    file.write_text(page, encoding="utf-8")


def show(made: Report, view: RunView) -> None:
    """Show the run in `view`, as when it ran."""
    titles = ["Audit"]
    if "id" in made.header:
        titles.append(f"run {made.header['id']}")
    view.print(words.joined(*titles, *made.figures["models"]))
    view.print(f"Actions by the thought behind them: {words.behind(made.figures['came_about'])}")
    for text in made.problems:
        view(Notice(text))
    for number, turn in enumerate(made.turns, 1):
        request = "(none)"
        if turn.request:
            request = turn.request.text
        view.print(f"\nRequest {number}: {request}")
        for entry in turn.entries:
            _show_entry(entry, view)
        view.end(turn.exit, turn.answer, turn.cause, turn.figures)


def _show_entry(entry: Step | Note, view: RunView) -> None:
    if isinstance(entry, Note):
        _show_event(entry, view)
        return
    view(entry.reply)
    for event in entry.events:
        _show_event(event, view)
    for text in entry.warnings:
        view(Notice(text))


def _show_event(event: Note, view: RunView) -> None:
    if isinstance(event.entry, Checked | ToolResult | User | Verdict):
        view(event.entry)
    else:
        view(Notice(event.text))


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("transcript", metavar="RUN.jsonl", type=old_file)
@flags(
    "output",
    ("--html PATH", new_file, "write one self-contained HTML page there"),
    ("--text", bool, "print it as text (the default)"),
    ("--json", bool, "print one JSON object and nothing else"),
    ("--to FORMAT", ("atif",), "print it as a trajectory of ATIF, for other programs"),
    ("--redact FIELD[,FIELD]", several, "", "hide these fields, and their values everywhere"),
)
@flags(
    "runs of other programs",
    ("--from FORMAT", tuple(FORMATS), "the format, where it is not to be recognized"),
    ("--guarded PATTERN[,...]", several, "", "the tools that change the world: 'book_*'"),
    ("--think NAME[,...]", several, "", "tools whose calls are thoughts, besides think"),
    ("--by FACT", str, "", "count for each value of what else the log says (reward)"),
    ("--strict", bool, "refuse a log of which something could not be read"),
)
def command(**options: Any) -> int:
    """Show what a run did, or count many. One is shown as text, as JSON, as one HTML page, as ATIF.
    Of another program's runs, it is counted what stands behind what.
    """
    path = options["transcript"]
    if not options["from"] and is_transcript(path):
        _show_run(read(path), options)
        return 0

    log = read_log(path, options["from"] or "", options["think"])
    unread = log.unread
    if options["strict"] and unread:
        what = f"{unread[0]} ({len(unread)} in all); leave out --strict to see the rest"
        raise FileError(f"{path}: {what}")
    table = _table(log, options)
    if len(log.runs) == 1 or options["to"]:
        _show_each(log, options, table)
    else:
        _show_table(log, options, table)
    for place in unread[:MOST_PLACES]:
        say(f"not read: {place}")
    if len(unread) > MOST_PLACES:
        say(f"not read: {len(unread) - MOST_PLACES} more")
    if unread:
        return 3
    return 0


def _show_run(record: Record, options: Json) -> None:
    """Show one run in the chosen form."""
    if options["to"]:
        redaction = Redaction(options["redact"], record.entries)
        entries = [redaction.hide(entry) for entry in record.entries]
        print(dumps(to_atif(entries, redaction.hide(record.header))))
        for warning in redaction.warnings():
            say(warning)
        return
    html = options["html"]
    made = report(
        record.entries,
        header=record.header,
        warnings=record.warnings,
        redact=options["redact"],
        guarded=options["guarded"] or ["*"],
    )
    if html:
        write_page(html, to_html(made))
        say(f"wrote {html}")
    if options["json"]:
        print(dumps(to_json_report(made)))
    elif not html:
        show(made, RunView(Screen(), verbose=True))


# The runs of another program.


def _table(log: Log, options: Json) -> tables.Section:
    """The table of counts. A pattern or fact that is not in the log is reported: `0 of 0` would say
    nothing. Raises UsageError.
    """
    tools = sorted(counts.tools_of(log.runs))
    known = f"no call in the log fits; its tools: {', '.join(tools)}"
    patterns = options["guarded"]
    unknown = [each for each in patterns if not any(fits(tool, [each]) for tool in tools)]
    for pattern in unknown:
        say(f"--guarded {pattern}: {known}")
    if patterns and len(unknown) == len(patterns):
        raise click.UsageError(f"--guarded: {known}")

    facts = set[str]().union(*[run.facts for run in log.runs])
    if options["by"] and options["by"] not in facts:
        raise click.UsageError(f"--by {options['by']}: the log has {', '.join(sorted(facts))}")
    return counts.table(log, patterns, by=options["by"] or "reward")


def _show_each(log: Log, options: Json, table: tables.Section) -> None:
    for run in log.runs:
        _show_run(Record(run.header, tuple(run.messages), ()), options)
    if not options["json"] and not options["to"]:
        tables.show([table], Screen())


def _show_table(log: Log, options: Json, table: tables.Section) -> None:
    if options["redact"]:
        raise click.UsageError(f"--redact: of {len(log.runs)} runs there is only the table")
    html = options["html"]
    if html:
        write_page(html, counts.to_html(table, log.unread))
        say(f"wrote {html}")
    if options["json"]:
        header, *rows = table.rows
        counted = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
        print(dumps({"format": log.format, "counts": counted, "unread": log.unread}))
    elif not html:
        tables.show([table], Screen())
