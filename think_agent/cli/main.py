"""The command `think-agent`, and the code that runs every command line of this project.

Rule 1: an error that a user can cause is one line on stderr that says what to do, never a
        traceback.
Rule 2: the exit code says how the command ended (`EXIT_CODES`).
"""

import os
import signal
import sys
import warnings

import click
from click.exceptions import NoArgsIsHelpError

from .. import __version__
from ..errors import FileError, ModelError
from ..messages import Exit
from .audit import command as audit
from .demo import demo_module
from .eval import command as evaluate
from .own_agent import command as own_agent
from .probe import command as probe
from .screen import accept_any_text, say

EXIT_CODES = (
    "exit codes: 0 an answer was given, 1 a model or file is out of reach, 2 a flag or variable "
    "is wrong, 3 no regular answer (limit, unmet, needs_human, ...), 130 stopped by Ctrl-C or "
    "SIGTERM. Each flag is a variable, too: --base-url is THINK_AGENT_BASE_URL."
)


class Commands(click.Group):
    """The commands. The demo is another package, so it is imported only where it is shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "demo"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "demo":
            command: click.Command = demo_module("__main__").refund
            return command
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=Commands,
    commands={"audit": audit, "chat": own_agent, "eval": evaluate, "probe": probe},
)
@click.version_option(__version__, message="%(version)s")
def think_agent() -> None:
    """Try the demo, talk with your own agent, read what a run did, ask an endpoint what it does,
    measure whether thinking helps.
    """


def main() -> int:
    """The command `think-agent`."""
    return run(think_agent, "think-agent")


def run(command: click.Command, prog: str, words: list[str] | None = None) -> int:
    """Run a command line (without `words`, the one of this process); returns the exit code."""
    signal.signal(signal.SIGTERM, _stop)
    warnings.showwarning = lambda message, *_: say(str(message))
    for stream in (sys.stdin, sys.stdout):  # Python's stderr takes any text
        accept_any_text(stream)

    try:
        code = int(command.main(words, prog, standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except NoArgsIsHelpError as error:
        print(error.message)
        return 2
    except click.ClickException as error:
        return _failed(error.format_message(), 2)
    except ValueError as error:
        return _failed(str(error), 2)
    except (ModelError, FileError) as error:
        return _failed(str(error), 1)
    except OSError as error:  # the disk is full, or the reader of a pipe went away
        # Otherwise Python would try to write the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _failed(str(error), 1)
    except click.Abort as stop:  # click's name for a KeyboardInterrupt
        say(str(stop.__cause__) or "stopped")
        return 130


def _stop(*_: object) -> None:
    """SIGTERM ends a run like Ctrl-C, even where asyncio handles that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a script started it with `&`
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _failed(text: str, code: int) -> int:
    say(f"error: {' '.join(text.split())}")  # a path may have a line break
    return code


def exit_code(exit: Exit) -> int:
    """0 for an answer, 3 for any other end."""
    if exit in ("signal", "silence"):
        return 0
    return 3
