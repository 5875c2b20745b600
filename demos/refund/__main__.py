"""The refund desk at a terminal: `think-agent demo "I want a refund on order ORD-001"`, or, in a
clone, `python -m demos.refund "…"`.

Without a text it shows a prompt for a conversation. Piped text is a single request.
"""

import sys
from pathlib import Path
from typing import Any

import click
from click import Context, ParameterSource

from think_agent import __version__
from think_agent.audit import read
from think_agent.cli.choosing import ModelCommand, limit_flags, model_flags
from think_agent.cli.main import EXIT_CODES, run
from think_agent.cli.options import (
    Flag,
    Group,
    config_flags,
    file_option,
    find_old_file,
    new_file,
    output_option,
)
from think_agent.cli.screen import can_type, read_piped
from think_agent.cli.shell import command_line, quote
from think_agent.errors import TranscriptError
from think_agent.transcript import HEADER

from .session import Session

PROG = f"python -m {__package__}"


def read_approval(text: str) -> str:
    """`ask`, `never`, or `always-under AMOUNT`."""
    match text.split():
        case ["ask" | "never"]:
            return text
        case ["always-under", amount] if amount.replace(".", "", 1).isdecimal():
            return f"always-under {float(amount):g}"
    raise click.BadParameter("use ask, never, or always-under AMOUNT (in dollars)")


class DeskCommand(ModelCommand):
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
loop_option = Group("loop")


@click.command(cls=DeskCommand, epilog=EXIT_CODES, options_metavar="[FLAG]...")
@click.argument("text", nargs=-1)
@model_flags(default="auto")
@loop_option("--thinker", metavar="P[:MODEL]", help="another model for the thoughts")
@loop_option(
    "--dialect",
    metavar="D",
    type=click.Choice(DIALECTS),
    default="auto",
    help="how the model calls tools: auto (native if it can, else json), native, json, react",
)
@loop_option(
    "--force",
    metavar="F",
    type=click.Choice(FORCES),
    default="first",
    help=f"when to force a thought: {', '.join(FORCES)}",
)
@loop_option(
    "--silence",
    metavar="S",
    type=click.Choice(SILENCES),
    default="confirm",
    help="a stop without the signal: confirm, ask (always) or accept",
)
@loop_option(
    "--done-when",
    metavar="D",
    type=click.Choice(DONE_WHEN),
    default="on",
    help="on: end only when no order is left open; or off",
)
@loop_option("--carry", is_flag=True, help="a guarded call carries its thought as an argument")
@loop_option(
    "--sources", is_flag=True, help="the answer cites the results that support each decision"
)
@loop_option(
    "--approve",
    metavar="WHO",
    type=read_approval,
    default="never",
    help="who approves refunds over $500: ask, which is you, "
    "never (they are escalated), or a rule: always-under AMOUNT",
)
@limit_flags
@output_option("--json", is_flag=True, help="print one JSON object and nothing else")
@output_option("--quiet", is_flag=True, help="print the bare answer")
@click.option(
    "-v",
    "--verbose",
    cls=Flag,
    group=output_option,
    is_flag=True,
    help="show whole results, which model call it is, and what each step took",
)
@output_option(
    "--explain", is_flag=True, help="say at the end which policy decided what, step by step"
)
@output_option("--hide-thoughts", is_flag=True, help="show only the answer and the counts")
@output_option("--no-stream", is_flag=True, help="wait for whole replies")
@file_option(
    "--db",
    metavar="PATH",
    type=new_file,
    help="the shop's SQLite file (default: next to the transcript)",
)
@file_option("--transcript", metavar="PATH", type=new_file, help="keep the transcript in this file")
@file_option("--resume", metavar="PATH", type=find_old_file, help="resume the run in this file")
@file_option("--html", metavar="PATH", type=new_file, help="write the audit page there")
@config_flags
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def refund(ctx: Context, /, **settings: Any) -> int:
    """Decide refund requests, and show every thought."""
    text = " ".join(settings["text"]).strip()
    resumed = settings["resume"]
    if text and resumed:
        raise click.UsageError("--resume continues a run: leave the request out")
    if not text and not resumed:
        has_prompt = can_type() and not settings["json"]
        text = read_piped().strip()
        if not text and not has_prompt:
            raise click.UsageError("the request is empty: pass it as an argument or on stdin")
    for name in ("transcript", "resume"):
        check_transcript(f"--{name}", settings[name])
    return Session(ctx, text, [command_line(ctx), *list_typed_flags(ctx)]).run()


def check_transcript(flag: str, path: Path | None) -> None:
    """Raises TranscriptError if the file is no transcript, not even the beginning of one."""
    if not path or not path.exists():
        return
    with path.open("rb") as file:
        beginning = file.read(len(HEADER))
    if HEADER.startswith(beginning):
        return
    try:
        read(path)
    except TranscriptError as error:
        raise TranscriptError(f"{flag} {error}") from error


def list_typed_flags(ctx: Context) -> list[str]:
    """The flags that the user typed, for the command that continues the run."""
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
            words.append(f"{flag} {quote(str(value))}")
    return words


if __name__ == "__main__":
    sys.exit(run(refund, PROG))
