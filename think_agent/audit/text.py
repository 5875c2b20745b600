"""Why did it do that? A transcript as text, as JSON and as one HTML page:
`think-agent audit RUN.jsonl --html out.html`.

Rule 1: whatever can be shown is shown. A torn last line is left out with a warning, any other line
        that cannot be read becomes a row of its own: an audit is made when something went wrong.
        (The reader that goes on with a run, transcript.py, is strict.)
Rule 2: the same Report (audit_report.py) is behind all three forms.
Rule 3: what is written is as private as the transcript: file mode 0600, and `--redact` hides
        fields (redact.py).

    from think_agent.audit import report, to_html
    page = to_html(report(outcome.transcript, exit=outcome.exit))
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pydantic
from rich.cells import cell_len
from rich.console import Console

from .. import trail
from ..cli.console import ICONS, lines_of, printable, say
from ..cli.options import UserError, add_flag
from ..cli.paths import check_apart, check_output
from ..errors import FileError, TranscriptError
from ..messages import Json, Message, from_json
from .layout import (
    EXITS,
    HOW,
    STATUS,
    Action,
    Ended,
    Entry,
    Note,
    Report,
    Step,
    Thought,
    Turn,
    Unreadable,
    asked,
    behind,
    duration,
    report,
    tokens,
    verdict_text,
    warnings,
)
from .page import to_html

__all__ = [
    "Record",
    "Report",
    "add_arguments",
    "main",
    "read",
    "report",
    "to_html",
    "to_json_report",
    "to_text",
    "write_page",
]

VERSION = 1  # of the file format; transcript.py writes it

# `from_json` checks names, this checks types: a file may have been written by anybody.
_CHECKED: pydantic.TypeAdapter[Message] = pydantic.TypeAdapter(
    Message, config=pydantic.ConfigDict(revalidate_instances="always", strict=True)
)


@dataclass(frozen=True, slots=True)
class Record:
    """What a file holds: its header, its entries and what is wrong with it."""

    header: Json
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]


def read(path: str | Path) -> Record:
    """Read a transcript, whatever its state. Raises TranscriptError when there is no such file, or
    nothing in it can be read.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise TranscriptError(f"{path}: {error.strerror}; choose another file") from error
    places = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    header: Json = {}
    found: list[Entry] = []
    said: list[str] = []
    for number, line in places:
        try:
            record = json.loads(line)
            if number == 1 and isinstance(record, dict) and record.get("type") == "transcript":
                header = record
            else:
                found.append(_entry(record))
        except (ValueError, RecursionError) as error:
            problem = " ".join(str(error).split())
            if (number, line) == places[-1] and isinstance(error, json.JSONDecodeError):
                said.append(f"The last line ({number}) is torn and was left out.")
            else:
                found.append(Unreadable(number, line.decode(errors="backslashreplace"), problem))
    if not places:
        raise TranscriptError(
            f"{path}: it is empty: the run was stopped before it began; begin it again"
        )
    if not header and all(isinstance(entry, Unreadable) for entry in found):
        raise TranscriptError(
            f"{path}: no line of it is a message; choose a file that --transcript wrote"
        )
    if not header:
        said.insert(0, "The file has no header: nothing says when and with what it was made.")
    elif header.get("version") != VERSION:
        said.insert(0, f"The file is of version {header.get('version')}, this reads {VERSION}.")
    return Record(header, tuple(found), tuple(said))


def _entry(record: object) -> Entry:
    match record:
        case {"type": "ended", "exit": str(exit), **rest}:
            at = rest.get("at")
            return Ended(exit, at if isinstance(at, str) else None)
        case dict():
            return _CHECKED.validate_python(from_json(record))
    raise ValueError("not a JSON object")


def to_json_report(report: Report) -> Json:
    """The report as one JSON object: what is shown, without the raw messages."""
    return {
        "header": report.header,
        "exit": report.turns[-1].exit if report.turns else None,
        "models": report.models,
        "model_calls": len(report.steps),
        "thoughts": len(report.thoughts),
        "actions": len(report.actions),
        "behind_a_thought": report.behind_a_thought,
        "came_about": report.came_about,
        "usage": asdict(report.usage),
        "seconds": report.seconds,
        "warnings": [{"step": step or None, "text": text} for step, text in warnings(report)],
        "turns": [
            {
                "request": turn.request.text if turn.request else None,
                "entries": [_entry_json(entry) for entry in turn.entries],
                "exit": turn.exit,
                "answer": turn.answer,
                "seconds": turn.seconds,
            }
            for turn in report.turns
        ],
    }


def _entry_json(entry: Step | Note) -> Json:
    if isinstance(entry, Note):
        return {"who": entry.who, "text": entry.text, "elapsed": entry.elapsed}
    reply = entry.reply
    return {
        "step": entry.number,
        "asked": asked(reply),
        "enforced": reply.enforced,
        "stop_reason": reply.stop_reason,
        "thinking": reply.thinking,
        "text": reply.text,
        "calls": [{"kind": type(call).__name__.lower(), **asdict(call)} for call in entry.calls],
        "usage": asdict(reply.usage),
        "seconds": entry.seconds,
        "elapsed": entry.elapsed,
        "at": reply.at,
    }


def to_text(report: Report) -> str:
    """The report as plain text, with control characters written out."""
    return printable("\n".join(_lines(report))) + "\n"


def _lines(report: Report) -> Iterator[str]:
    named = [f"run {report.header['id']}"] if "id" in report.header else []
    yield " · ".join(["Audit", *named, *report.models])
    behind_of = f"actions behind a thought: {report.behind_a_thought} of {len(report.actions)}"
    how = behind(report)
    figures = [
        f"{len(report.steps)} model calls",
        f"{behind_of} ({how})" if how else behind_of,
        f"tokens: {tokens(report.usage)}",
        duration(report.seconds),
    ]
    yield " · ".join(part for part in figures if part)
    for step, text in warnings(report):
        yield f"! {f'step {step}: ' if step else ''}{text}"
    for turn in report.turns:
        yield ""
        yield f"Request {turn.number}: {turn.request.text if turn.request else '(none)'}"
        for entry in turn.entries:
            yield from _step_lines(entry, turn) if isinstance(entry, Step) else _note_lines(entry)
        yield f"Exit: {turn.exit or 'not ended'}. {EXITS.get(turn.exit or '', '')}".rstrip()


def _note_lines(note: Note) -> Iterator[str]:
    yield f"    {'!' if note.is_warning else '→'} {_indented(note.text, 6)}"


def _step_lines(step: Step, turn: Turn) -> Iterator[str]:
    reply = step.reply
    facts = [asked(reply), f"enforced: {reply.enforced}" if reply.enforced else ""]
    facts += [tokens(reply.usage), duration(step.seconds)]
    yield f"{step.number:>3} {' · '.join(fact for fact in facts if fact)}"
    if reply.thinking.strip():
        yield f"    {ICONS['thinking']} {_indented(reply.thinking.strip(), 7)}"
    if reply.text.strip():
        yield f"    {ICONS['answer']} {_indented(reply.text.strip(), 7)}"
    for call in step.calls:
        if isinstance(call, Thought):
            how = f"(thought {call.number}, {HOW[call.how]})"
            yield f"    {ICONS['thought']} {_indented(call.text, 7)} {how}"
        else:
            yield from _action_lines(call)


def _action_lines(action: Action) -> Iterator[str]:
    mark, words = STATUS[action.status]
    how = HOW[action.how] if action.how else ""
    why = f"behind thought {action.thought}, {how}" if action.thought else "behind no thought"
    took = f", {duration(action.seconds)}" if action.seconds is not None else ""
    yield f"    {ICONS['call']} {_indented(trail.signature(action.call), 7)}"
    yield f"       {mark} {words}{took}; {why}"
    if action.verdict:
        yield f"       a person decided: {_indented(verdict_text(action.verdict), 9)}"
    if action.result:
        yield f"       ↳ {_indented(action.result, 9)}"


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)


def write_page(path: str, page: str) -> None:
    """Write a page to a file that only its owner reads. Raises FileError."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(file, "w", encoding="utf-8") as out:
            out.write(page)
    except OSError as error:
        raise FileError(f"--html {path}: {error.strerror}; choose another path") from error


# The command.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `think-agent audit`."""
    parser.epilog = "exit codes: 0 it is shown, 1 a file cannot be used, 2 a flag is wrong"
    parser.add_argument("transcript", metavar="RUN.jsonl", help="the transcript of a run")
    add_flag(parser, "--html", metavar="PATH", help="write one self-contained HTML page there")
    add_flag(parser, "--text", action="store_true", help="print it as text (the default)")
    add_flag(parser, "--json", action="store_true", help="print one JSON object and nothing else")
    add_flag(
        parser,
        "--redact",
        metavar="FIELD[,FIELD]",
        default="",
        help="hide these fields, and their values wherever they occur",
    )


# How a line begins: its indent, and the number or the mark that the rest of it stands beside.
_BEGINNING = re.compile(r" *(?:(?:\d{1,3}|[^\w\s]{1,2}) +)?")


def _print(text: str) -> None:
    """Whole lines to a pipe; a terminal gets them wrapped at words, each beside its beginning."""
    if not sys.stdout.isatty():
        print(text, end="")
        return
    console = Console()
    for line in text.splitlines():
        beginning = _BEGINNING.findall(line)[0]
        if 2 * cell_len(beginning) > console.width:
            beginning = ""
        for part in lines_of(line[len(beginning) :], console.width - cell_len(beginning)):
            print(beginning + part)
            beginning = " " * cell_len(beginning)


def main(args: argparse.Namespace) -> int:
    """Read the transcript and show it in the forms that the flags name."""
    if args.text and args.json:
        raise UserError("--text and --json: choose one of them")
    if args.html:
        check_apart({"the transcript": args.transcript, "--html": args.html})
        check_output("--html", args.html)
    fields = [name.strip() for name in args.redact.split(",") if name.strip()]
    record = read(args.transcript)
    try:
        made = report(record.entries, header=record.header, warnings=record.warnings, redact=fields)
        if args.html:
            write_page(args.html, to_html(made))
            say(f"wrote {args.html}")
        if args.json:
            print(json.dumps(to_json_report(made)))
        elif args.text or not args.html:
            _print(to_text(made))
    except RecursionError as error:
        raise TranscriptError(f"{args.transcript}: some JSON in it is nested too deep") from error
    return 0
