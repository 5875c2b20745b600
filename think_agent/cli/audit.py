"""`think-agent audit`: show a run as text, as JSON, as one HTML page, as ATIF; count the runs that
another program left behind.

Rule 1: the text form is the run once more, shown by the same RunView as when it ran; around it
        stands what was made of it, and what is worth a look.
Rule 2: what is written is as private as the transcript: file mode 0600, and `--redact` hides
        fields in every form.
Rule 3: a log is read whole, or the exit code says that it was not.
"""

from collections.abc import Mapping
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
from ..audit.page import runs_to_html
from ..audit.redaction import Redaction
from ..audit.report import Note, Step
from ..errors import FileError
from ..evaluation import tables
from ..messages import Checked, Started, User, Verdict
from ..streaming import Notice
from .console import RunView
from .options import Command, File, flags, several
from .screen import Screen, say

EXIT_CODES = (
    "exit codes: 0 it is shown, 1 a file cannot be used, 2 a flag is wrong, 3 it is shown, but "
    "something in the log could not be read"
)
MOST_PLACES = 10  # of what could not be read, on the screen
LARGEST_PAGE = 50_000_000  # bytes of a transcript; a browser shows no larger page


def write_html(path: str, made: Report) -> None:
    """Write the page of a report to a file that only its owner reads. Raises OSError."""
    _write(path, to_html(made))


def _write(path: str, page: str) -> None:
    file = Path(path)
    file.touch(0o600)
    file.chmod(0o600)  # it may have been there
    file.write_text(page, encoding="utf-8")


def show(made: Report, view: RunView) -> None:
    """Play the run again in `view`."""
    titles = ["Audit"]
    if "id" in made.header:
        titles.append(f"run {made.header['id']}")
    view.print(words.joined(*titles, *made.figures["models"]))
    view.print(f"Actions by the thought behind them: {words.behind(made.figures['came_about'])}")
    for text in made.problems:
        view(Notice(text))
    for turn in made.turns:
        request = "(none)"
        if turn.request:
            request = turn.request.text
        view.print(f"\nRequest {turn.number}: {request}")
        for entry in turn.entries:
            _show_entry(entry, view)
        view.end(turn.exit, turn.answer, turn.cause, turn.figures)


def _show_entry(entry: Step | Note, view: RunView) -> None:
    if isinstance(entry, Note):
        if isinstance(entry.entry, User | Verdict | Checked):
            view(entry.entry)
        else:
            view(Notice(entry.text))
        return
    view(entry.reply)
    for event in entry.events:
        if event.entry is None or isinstance(event.entry, Started):
            view(Notice(event.text))
        else:
            view(event.entry)
    for text in entry.warnings:
        view(Notice(text))


@click.command(cls=Command, no_args_is_help=True, epilog=EXIT_CODES)
@click.argument("transcript", metavar="RUN.jsonl", type=File(exists=True), is_eager=True)
@flags(
    "output",
    ("--html", "PATH", File(), None, "write one self-contained HTML page there"),
    ("--text", "", bool, False, "print it as text (the default)"),
    ("--json", "", bool, False, "print one JSON object and nothing else"),
    ("--to", "FORMAT", ("atif",), None, "print it as a trajectory of ATIF, for other programs"),
    ("--redact", "FIELD[,FIELD]", several, "", "hide these fields, and their values everywhere"),
)
@flags(
    "runs of other programs",
    ("--from", "FORMAT", tuple(FORMATS), None, "the format, where it is not to be recognized"),
    ("--guarded", "PATTERN[,...]", several, "", "the tools that change the world: 'book_*'"),
    ("--think", "NAME[,...]", several, "", "tools whose calls are thoughts, besides think"),
    ("--by", "FACT", str, "", "count for each value of what else the log says (reward)"),
    ("--strict", "", bool, False, "refuse a log of which something could not be read"),
)
def command(transcript: str, html: str | None, json: bool, **options: Any) -> int:
    """Show a transcript: as text, as JSON, as one HTML page, as ATIF. Of another program's runs,
    count what stands behind what; one alone is shown, too.
    """
    if not options["from"] and is_transcript(transcript):
        _show_run(transcript, read(transcript), html, json, options)
        return 0

    log = read_log(transcript, options["from"] or "", options["think"])
    unread = log.unread
    if options["strict"] and unread:
        what = f"{unread[0]} ({len(unread)} in all); leave out --strict to see the rest"
        raise FileError(f"{transcript}: {what}")
    _check_names(log, options)
    if len(log.runs) > 1 and not options["to"]:
        _show_table(log, html, json, options)
    else:
        _show_each(transcript, log, html, json, options)
    if not unread:
        return 0

    for place in unread[:MOST_PLACES]:
        say(f"not read: {place}")
    if len(unread) > MOST_PLACES:
        say(f"not read: {len(unread) - MOST_PLACES} more")
    return 3


def _show_run(
    path: str, record: Record, html: str | None, json: bool, options: Mapping[str, Any]
) -> None:
    """One run, in the form that was asked for."""
    if options["to"]:
        _show_atif(record, options)
        return
    size = Path(path).stat().st_size
    if html and size > LARGEST_PAGE:
        megabytes = size // 1_000_000
        raise FileError(f"{path}: {megabytes} MB are too much for a page; take --text or --json")
    made = report(
        record.entries,
        header=record.header,
        warnings=record.warnings,
        redact=options["redact"],
        guarded=options["guarded"] or None,
    )
    if html:
        write_html(html, made)
        say(f"wrote {html}")
    if json:
        print(dumps(to_json_report(made)))
    elif not html:
        show(made, RunView(Screen(), verbose=True))


def _show_atif(record: Record, options: Mapping[str, Any]) -> None:
    redaction = Redaction(options["redact"], record.entries)
    entries = [redaction.hide(entry) for entry in record.entries]
    print(dumps(to_atif(entries, redaction.hide(record.header))))
    for warning in redaction.warnings():
        say(warning)


# The runs of another program.


def _check_names(log: Log, options: Mapping[str, Any]) -> None:
    """A name that means nothing here is said, for `0 of 0` says nothing. Raises UsageError."""
    tools = sorted(counts.tools_of(log.runs))
    for pattern in options["guarded"]:
        if not counts.fitting(tools, [pattern]):
            say(f"--guarded {pattern}: no call in the log fits; its tools: {', '.join(tools)}")
    if options["guarded"] and not counts.fitting(tools, options["guarded"]):
        raise click.UsageError(f"--guarded: no call in the log fits; its tools: {', '.join(tools)}")

    facts: set[str] = set()
    for run in log.runs:
        facts.update(run.facts)
    if options["by"] and options["by"] not in facts:
        raise click.UsageError(f"--by {options['by']}: the log has {', '.join(sorted(facts))}")


def _table(log: Log, options: Mapping[str, Any]) -> tables.Section:
    by = options["by"] or counts.usual_fact(log.runs)
    return counts.table(log, options["guarded"], by=by)


def _show_each(
    path: str, log: Log, html: str | None, json: bool, options: Mapping[str, Any]
) -> None:
    for run in log.runs:
        record = Record(run.header, tuple(run.messages), ())
        _show_run(path, record, html, json, options)
    if not json and not options["to"]:
        tables.show([_table(log, options)], Screen())


def _show_table(log: Log, html: str | None, json: bool, options: Mapping[str, Any]) -> None:
    for name in ("redact", "text"):
        if options[name]:
            raise click.UsageError(f"--{name}: of {len(log.runs)} runs there is only the table")
    table = _table(log, options)
    if html:
        _write(html, runs_to_html(table.name, table.remark, table.rows, log.unread))
        say(f"wrote {html}")
    if json:
        header, *rows = table.rows
        counted = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
        print(dumps({"format": log.format, "counts": counted, "unread": log.unread}))
    elif not html:
        tables.show([table], Screen())
