"""The command `think-agent`, and how every command line of this project runs.

Rule 1: an error that a user can meet is one line on stderr that says what to do, never a traceback.
Rule 2: the exit code tells how it ended (`EXIT_CODES`).
"""

import io
import os
import signal
import sys
import warnings

import click

from .. import __version__
from ..errors import FileError, ModelError
from ..messages import Exit
from .audit import command as audit
from .eval import command as evaluate
from .probe import command as probe
from .screen import accept_any_text, say

EXIT_CODES = (
    "exit codes: 0 an answer was given, 1 a model or file is out of reach, 2 a flag or variable "
    "is wrong, 3 no regular answer (limit, unmet, needs_human, ...), 130 stopped by Ctrl-C or "
    "SIGTERM, 141 the reader of the output went away. "
    "Each flag is a variable, too: --base-url is THINK_AGENT_BASE_URL."
)

READER_GONE = 141  # what a shell says of a program that SIGPIPE ended


@click.group(commands={"audit": audit, "eval": evaluate, "probe": probe}, no_args_is_help=True)
@click.version_option(__version__, message="%(version)s")
def think_agent() -> None:
    """Ask an endpoint what it does, measure whether thinking helps, read what a run did."""


def main() -> int:
    """The command `think-agent`."""
    return run(think_agent, "think-agent")


def run(command: click.Command, prog: str, words: list[str] | None = None) -> int:
    """Run a command line, that of this process where no `words` are given; the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends a run as Ctrl-C does
    warnings.showwarning = lambda message, *_: say(str(message))
    if sys.stdin is None:  # closed by whoever started us: nothing to read
        sys.stdin = io.StringIO()
    if sys.stdout is None:
        say("error: stdout is closed, so nothing could be shown")
        return 1
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        accept_any_text(stream)

    try:
        if words is None:
            words = sys.argv[1:]
        code = _run(command, prog, words)
        sys.stdout.flush()
        return code
    except OSError as error:
        # Else Python would try to write the rest when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return READER_GONE  # nothing more can be said to it
        say(f"error: {error}")  # the disk is full, say
        return 1


def _run(command: click.Command, prog: str, words: list[str]) -> int:
    try:
        with command.make_context(prog, words) as ctx:
            return int(command.invoke(ctx) or 0)
    except click.exceptions.Exit as done:  # --help, --version
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.message)
        if isinstance(error.ctx.command, click.Group):
            return 0
        return 2
    except (ModelError, FileError) as error:
        return _failed(str(error), 1)
    except click.ClickException as error:
        return _failed(error.format_message(), 2)
    except ValueError as error:
        return _failed(str(error), 2)
    except KeyboardInterrupt as stop:
        say(str(stop) or "stopped")
        return 130


def _failed(text: str, code: int) -> int:
    say(f"error: {' '.join(text.split())}")  # a path may have a line break in it
    return code


def exit_code(exit: Exit) -> int:
    """0 for an answer, 3 for everything else."""
    if exit in ("signal", "silence"):
        return 0
    return 3
