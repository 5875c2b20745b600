"""`think-agent audit`: show a transcript as text, as JSON, as one HTML page; count the runs that
another framework left behind.

Rule 1: the text form is the run once more, shown by the same RunView as when it ran; around it
        stand what was made of it, and what is worth a look.
Rule 2: what is written is as private as the transcript: file mode 0600, and `--redact` hides
        fields in every form.
"""

from json import dumps
from pathlib import Path
from typing import Any

import click

from ..audit import Record, Report, imports, read, report, to_html, to_json_report, words
from ..audit.report import Note, Step
from ..errors import FileError, TranscriptError
from ..evaluation import tables
from ..messages import User, Verdict
from ..streaming import Notice
from .console import RunView, Screen, say
from .options import Command, File, flags, several

EXIT_CODES = "exit codes: 0 it is shown, 1 a file cannot be used, 2 a flag is wrong"


def write_html(path: str, made: Report) -> None:
    """Write the page of a report to a file that only its owner reads. Raises FileError."""
    page, file = to_html(made), Path(path)
    try:
        file.touch(0o600)
        file.chmod(0o600)  # it may have been there
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise FileError(f"--html {path}: {error.strerror}; choose another path") from error


def show(made: Report, view: RunView) -> None:
    """Play the run again in `view`."""
    named = f"run {made.header['id']}" if "id" in made.header else ""
    view.print(words.joined("Audit", named, *made.figures["models"]))
    view.print(f"Actions by the thought behind them: {words.behind(made.figures['came_about'])}")
    for text in made.problems:
        view(Notice(text))
    for turn in made.turns:
        view.print(f"\nRequest {turn.number}: {turn.request.text if turn.request else '(none)'}")
        for entry in turn.entries:
            match entry:
                case Step():
                    for event in (entry.reply, *entry.answers, *map(Notice, entry.warnings)):
                        view(event)
                case Note(entry=User() | Verdict() as message):
                    view(message)
                case Note():
                    view(Notice(entry.text))
        view.end(turn.exit, turn.answer, turn.cause, turn.figures)


@click.command(cls=Command, no_args_is_help=True, epilog=EXIT_CODES)
@click.argument("transcript", metavar="RUN.jsonl", type=File(exists=True))
@flags(
    "output",
    ("--html", "PATH", File(), None, "write one self-contained HTML page there"),
    ("--text", "", bool, False, "print it as text (the default)"),
    ("--json", "", bool, False, "print one JSON object and nothing else"),
    ("--redact", "FIELD[,FIELD]", several, None, "hide these fields, and their values everywhere"),
)
@flags(
    "runs of other frameworks",
    ("--from", "PROTOCOL", tuple(imports.FORMS), None, "whose messages the file holds"),
    ("--guarded", "PATTERN[,...]", several, None, "the tools that change the world: 'book_*'"),
    ("--by", "FACT", str, "", "count for each value of what else the file says, too"),
)
def command(transcript: str, html: str | None, text: bool, json: bool, **of: Any) -> None:
    """Show a transcript: as text, as JSON, as one HTML page. With --from, count what stands behind
    what in the runs of another framework; one alone is shown, too.
    """
    redact, form = of["redact"] or (), of["from"]
    runs = imports.read_runs(transcript, form) if form else []
    if len(runs) > 1 and (html or text or json or redact):
        raise click.UsageError(f"{transcript}: of {len(runs)} runs there is only the table")
    if len(runs) < 2:
        seen = Record({}, runs[0].messages, ()) if runs else read(transcript)
        try:
            made = report(seen.entries, header=seen.header, warnings=seen.warnings, redact=redact)
            if html:
                write_html(html, made)
                say(f"wrote {html}")
            if json:
                print(dumps(to_json_report(made)))
            elif not html:
                show(made, RunView(Screen(), verbose=True))
        except RecursionError as error:
            raise TranscriptError("some JSON in the transcript is nested too deep") from error
    if runs and not json:
        tables.show([imports.table(runs, of["guarded"] or (), by=of["by"])], Screen())
