"""The command `think-agent`, and the code that runs every command line of this project.

Rule 1: an error that a user can cause is one line on stderr with advice, not a traceback.
Rule 2: the exit code shows how the command ended (`EXIT_CODES`).
Rule 3: a command's module is imported when the command is used. `--help` imports none.
"""

import importlib
import os
import signal
import sys
import warnings

import click
from click.exceptions import NoArgsIsHelpError

from .. import __version__
from ..errors import FileError, ModelError
from ..messages import Exit
from .demo import demo_module
from .screen import accept_any_text, open_missing_streams, say

EXIT_CODES = (
    "exit codes: 0 an answer was given, 1 a model or file can't be used, 2 a flag or variable "
    "is wrong, 3 no regular answer (limit, unmet, needs_human, ...), 130 stopped by Ctrl-C or "
    "SIGTERM. Each flag is a variable, too: --base-url is THINK_AGENT_BASE_URL."
)
COMMANDS = {  # each with the module that defines its `command`, and the first sentence of its help
    "audit": ("audit", "Show what a run did and why, or count the runs of another program."),
    "chat": ("own_agent", "Talk with your own agent."),
    "demo": ("", "Decide refund requests, and show every thought."),
    "eval": ("eval", "Measure whether thinking helps."),
    "gate": ("gate", "Stand between an agent and an MCP server."),
    "probe": ("probe", "Ask an endpoint what it really does."),
}


class Commands(click.Group):
    """A group that knows its commands' names and a line of help for each (rule 3)."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name == "demo":
            desk: click.Command = demo_module("__main__").refund
            return desk
        module, _ = COMMANDS[cmd_name]
        command: click.Command = importlib.import_module(f".{module}", __package__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Commands, commands={name: click.Command(name) for name in COMMANDS})
@click.version_option(__version__, message="%(version)s")
def think_agent() -> None:
    """Try the demo, talk with your own agent, put a gate before other people's tools, read what a
    run did, ask an endpoint what it does, measure whether thinking helps.
    """


def main() -> int:
    """The command `think-agent`."""
    return run(think_agent, "think-agent")


def run(command: click.Command, prog: str, words: list[str] | None = None) -> int:
    """Run a command line (by default, this process's own). Returns the exit code."""
    open_missing_streams()
    signal.signal(signal.SIGTERM, _stop)
    warnings.showwarning = lambda message, *_: say(str(message))
    for stream in (sys.stdin, sys.stdout):  # stderr already accepts any text
        accept_any_text(stream)

    try:
        code = int(command.main(words, prog, standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except NoArgsIsHelpError as error:
        print(error.message)
        return 2
    except click.ClickException as error:
        return _fail(error.format_message(), 2)
    except ValueError as error:
        return _fail(str(error), 2)
    except (ModelError, FileError) as error:
        return _fail(str(error), 1)
    except OSError as error:  # a full disk, or a closed pipe
        # Otherwise Python would try to write the rest at exit, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(str(error), 1)
    except click.Abort as stop:  # click's name for a KeyboardInterrupt
        say(str(stop.__cause__) or "stopped")
        return 130


def _stop(*_: object) -> None:
    """SIGTERM ends a run like Ctrl-C, even under asyncio."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a script started it with `&`
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _fail(text: str, code: int) -> int:
    say(f"error: {' '.join(text.split())}")  # a path may contain a line break
    return code


def exit_code(exit: Exit) -> int:
    """0 for an answer, 3 for any other end."""
    if exit in ("signal", "silence"):
        return 0
    return 3
