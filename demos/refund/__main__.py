"""The refund desk at a terminal: `python -m demos.refund "I want a refund on order ORD-001"`.

Without a text it shows a prompt and remembers the conversation. Text that is piped in is one
request.
"""

import os
import sys
from typing import Any

import click
from click import Context, ParameterSource

from demos.refund.session import Session
from demos.refund.shell import quoted
from think_agent import __version__
from think_agent.audit import read
from think_agent.cli.choosing import ModelCommand, limit_flags, model_flags
from think_agent.cli.main import EXIT_CODES, run
from think_agent.cli.options import config_flags, flags, new_file, old_file
from think_agent.errors import TranscriptError
from think_agent.transcript import HEADER

PROG = "python -m demos.refund"


def approval(text: str) -> str:
    """`ask`, `never`, or `always-under AMOUNT`."""
    match text.split():
        case ["ask" | "never"]:
            return text
        case ["always-under", amount] if amount.replace(".", "", 1).isdecimal():
            return f"always-under {float(amount):g}"
    raise click.BadParameter("use ask, never, or always-under AMOUNT (in dollars)")


class Desk(ModelCommand):
    """The command; it also takes `--approve always-under AMOUNT` as two words."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        if "always-under" in args[:-1]:
            place = args.index("always-under")
            args = [*args[:place], " ".join(args[place : place + 2]), *args[place + 2 :]]
        return super().parse_args(ctx, args)


DIALECTS = ("auto", "native", "json", "react")
FORCES = ("first", "never", "always")
SILENCES = ("confirm", "ask", "accept")
DONE_WHEN = ("on", "off")


@click.command(cls=Desk, epilog=EXIT_CODES, options_metavar="[FLAG]...")
@click.argument("text", nargs=-1)
@model_flags(default="auto")
@flags(
    "loop",
    ("--thinker P[:MODEL]", str, None, "another model for the thoughts"),
    (
        "--dialect D",
        DIALECTS,
        "auto",
        "how the model calls tools: auto (native if it can, else json), native, json, react",
    ),
    ("--force F", FORCES, "first", f"when to force a thought: {', '.join(FORCES)}"),
    (
        "--silence S",
        SILENCES,
        "confirm",
        "a stop without the signal: confirm, ask (always) or accept",
    ),
    ("--done-when D", DONE_WHEN, "on", "on: end only when no order is left open; or off"),
    ("--carry", bool, "a guarded call carries its thought as an argument"),
    ("--sources", bool, "the answer names the results on which each decision stands"),
    (
        "--approve WHO",
        approval,
        "never",
        "who approves refunds over $500: ask, which is you, "
        "never (they are escalated), or a rule: always-under AMOUNT",
    ),
)
@limit_flags
@flags(
    "output",
    ("--json", bool, "print one JSON object and nothing else"),
    ("--quiet", bool, "print the bare answer"),
    ("-v,--verbose", bool, "show whole results, and what each step took"),
    ("--explain", bool, "say at the end which policy decided what, step by step"),
    ("--hide-thoughts", bool, "show only the answer and the counts"),
    ("--no-stream", bool, "wait for whole replies"),
)
@flags(
    "files",
    ("--db PATH", new_file, None, "the shop's SQLite file (else beside the transcript)"),
    ("--transcript PATH", new_file, None, "keep the transcript in this file"),
    ("--resume PATH", old_file, None, "go on with the run in this file"),
    ("--html PATH", new_file, None, "write the audit page there"),
)
@config_flags
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def refund(ctx: Context, /, **settings: Any) -> int:
    """Decide refund requests, and show every thought."""
    text = " ".join(settings["text"]).strip()
    resumed = settings["resume"]
    if text and resumed:
        raise click.UsageError("--resume goes on with a run: leave the request out")
    if not text and not resumed:
        has_prompt = sys.stdin.isatty() and not settings["json"]
        if not sys.stdin.isatty():
            text = sys.stdin.read().strip()
        if not text and not has_prompt:
            raise click.UsageError("the request is empty: say what you want, in words or on stdin")
    for name in ("transcript", "resume"):
        check_transcript(f"--{name}", settings[name])
    return Session(ctx, text, [PROG, *typed(ctx)]).run()


def check_transcript(flag: str, path: str | None) -> None:
    """Raises TranscriptError if the file is no transcript, not even the beginning of one."""
    if not path or not os.path.exists(path):
        return
    with open(path, "rb") as file:
        beginning = file.read(len(HEADER))
    if HEADER.startswith(beginning):
        return
    try:
        read(path)
    except TranscriptError as error:
        raise TranscriptError(f"{flag} {error}") from error


def typed(ctx: Context) -> list[str]:
    """The flags that were typed, for the command that goes on with the run."""
    words = []
    for param in ctx.command.params:
        name = str(param.name)
        if not isinstance(param, click.Option) or name in ("transcript", "resume"):
            continue
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        flag = param.opts[-1]
        value = ctx.params[name]
        if value is True:
            words.append(flag)
        else:
            words.append(f"{flag} {quoted(str(value))}")
    return words


if __name__ == "__main__":
    sys.exit(run(refund, PROG))
