"""The command `think-agent`, and what the command lines of this project share: flags with
environment variables, the choice of a model, errors.

Rule 1: every flag is also an environment variable, `--base-url` as `THINK_AGENT_BASE_URL`; the flag
        wins.
Rule 2: an error that a user can meet is one line on stderr that says what to do, never a traceback.
Rule 3: the exit code tells how it ended (`EXIT_CODES`).
Rule 4: a subcommand is a module with `add_arguments(parser)` and `main(args) -> exit code`, listed
        in `COMMANDS` and imported only when a command line is read.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from . import __version__
from .errors import ModelError
from .loop import Exit
from .model import Model
from .providers import PROVIDERS, connect

EXIT_CODES = """\
exit codes:
  0    an answer was given (exit "signal" or "silence")
  1    the model could not be reached or read, or a file could not be used
  2    a flag or an environment variable is wrong
  3    the run ended without a regular answer (limit, truncated, refused, empty, ...)
  130  stopped by Ctrl-C"""

# command: what it does; each is the module of that name
COMMANDS = {
    "probe": "ask an endpoint what it really does: tools, forcing, schemas, streaming",
}

STAND_IN = "scripted stand-in: no language model is at work"


class UserError(Exception):
    """Something the user has to mend. The text is one line that says how."""


class FromEnvironment(str):
    """The value of a flag that nobody typed: it came from an environment variable."""

    __slots__ = ()


def add_flag(parser: argparse.ArgumentParser, flag: str, **options: Any) -> None:
    """`parser.add_argument(flag, ...)`, with its environment variable as the default."""
    variable = "THINK_AGENT_" + flag.removeprefix("--").replace("-", "_").upper()
    value = os.environ.get(variable, "")
    if options.get("action") == "store_true":
        if value.lower() not in ("", "0", "false", "no", "1", "true", "yes"):
            parser.error(f"{variable}={value!r}: use 1 or 0")
        options["default"] = value.lower() in ("1", "true", "yes")
    elif value:
        choices = options.get("choices")
        if choices and value not in choices:
            parser.error(f"{variable}={value!r}: use one of {', '.join(choices)}")
        options["default"] = FromEnvironment(value)
    options["help"] = f"{options.get('help', '')} [{variable}]".strip()
    parser.add_argument(flag, **options)


def add_model_flags(parser: argparse.ArgumentParser, *, default: str) -> None:
    """`--provider`, `--model` and `--base-url`."""
    names = ", ".join(PROVIDERS)
    add_flag(parser, "--provider", metavar="P[:MODEL]", default=default, help=f"auto, {names}")
    add_flag(parser, "--model", metavar="M", help="another model than the provider's default")
    add_flag(
        parser, "--base-url", metavar="U", help="another server that speaks the provider's protocol"
    )


def choose_model(provider: str, model: str | None, base_url: str | None, **stand_in: Any) -> Model:
    """The model that the flags name; `--model` wins over `--provider P:MODEL`. `auto` is Ollama
    where it answers and has the model, else the stand-in.

    `stand_in` goes to the offline provider alone. Says on stderr why it plays a stand-in.
    """
    name, _, named_model = provider.partition(":")
    typed_spec = named_model and not isinstance(provider, FromEnvironment)
    if model is None or (typed_spec and isinstance(model, FromEnvironment)):
        model = named_model
    if name == "auto":
        spec = f"ollama:{model}" if model else "ollama"
        trouble = _trouble_with_ollama(spec, base_url)
        if not trouble:
            return connect(spec, base_url=base_url)
        print(
            f"{trouble}\nPlaying a {STAND_IN}. For the real thing run `ollama serve` and "
            f"`ollama pull {PROVIDERS['ollama'][3]}`, or --provider anthropic, openai or gemini.",
            file=sys.stderr,
        )
        return connect("offline", **stand_in)
    if name not in PROVIDERS:
        raise UserError(f"--provider {name!r}: use one of auto, {', '.join(PROVIDERS)}")
    spec = f"{name}:{model}" if model else name
    return connect(spec, **stand_in) if name == "offline" else connect(spec, base_url=base_url)


def _trouble_with_ollama(spec: str, base_url: str | None) -> str | None:
    try:
        connect(spec, base_url=base_url, timeout=2.0).check()
    except ModelError as error:
        return str(error)
    return None


def exit_code(exit: Exit) -> int:
    """0 for an answer, 3 for everything else."""
    return 0 if exit in ("signal", "silence") else 3


def guarded(main: Callable[[], int]) -> int:
    """Run `main`, with errors as one line and the documented exit codes."""
    try:
        return main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our pipe went away; nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def main() -> int:
    """The command `think-agent`."""
    return guarded(_command)


def _command() -> int:
    parser = argparse.ArgumentParser(prog="think-agent")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, help in COMMANDS.items():
        module = importlib.import_module(f".{name}", __package__)
        module.add_arguments(commands.add_parser(name, help=help, description=help))
    args = parser.parse_args()
    return int(importlib.import_module(f".{args.command}", __package__).main(args))
