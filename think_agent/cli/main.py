"""The command `think-agent`, and what the command lines of this project share: flags with
environment variables, the choice of a model, errors.

Rule 1: every flag is also an environment variable and an entry of a TOML file (`settings.py`).
Rule 2: an error that a user can meet is one line on stderr that says what to do, never a traceback.
Rule 3: the exit code tells how it ended (`EXIT_CODES`).
Rule 4: a subcommand is a module with `add_arguments(parser)` and `main(args) -> exit code`, listed
        in `COMMANDS` and imported only when a command line is read.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .. import __version__
from ..errors import BadRequest, FileError, ModelError
from ..loop import Exit
from ..model import Model
from ..policies import Price
from ..providers import PROVIDERS, connect
from .console import say
from .options import Parser, Untyped, UserError, add_flag, positive, whole

EXIT_CODES = """\
exit codes:
  0    an answer was given (exit "signal" or "silence")
  1    a model or a file is out of reach
  2    a flag or an environment variable is wrong
  3    no regular answer (limit, needs_human, refused, ...)
  130  stopped by Ctrl-C or SIGTERM"""

# command: what it does; each is the module of that name
COMMANDS = {
    "audit": "show a transcript: as text, as JSON, as one HTML page",
    "eval": "run cases x models x settings x trials, and say what is a finding",
    "probe": "ask an endpoint what it really does: tools, forcing, schemas, streaming",
}
MODULES = {
    "audit": "think_agent.audit.text",
    "eval": "think_agent.evaluation.command",
    "probe": "think_agent.probe.asking",
}

STAND_IN = "scripted stand-in: no language model is at work"


def add_model_flags(parser: argparse.ArgumentParser, *, default: str) -> None:
    """`--provider`, `--model` and `--base-url`."""
    names = ", ".join(PROVIDERS)
    add_flag(parser, "--provider", metavar="P[:MODEL]", default=default, help=f"auto, {names}")
    add_flag(parser, "--model", metavar="M", help="another model than the provider's default")
    add_flag(
        parser, "--base-url", metavar="U", help="another server that speaks the provider's protocol"
    )


def add_limit_flags(parser: argparse.ArgumentParser) -> None:
    """The limits of a turn, as `Agent` takes them."""
    for name, default, help in (
        ("--max-model-calls", 30, "model calls a turn"),
        ("--max-actions", None, "tool calls a turn, thoughts not counted"),
        ("--max-tokens", None, "tokens a turn, input and output"),
        ("--patience", 3, "failed actions in a row"),
        ("--keep-turns", None, "turns of the conversation that a request shows"),
    ):
        add_flag(parser, name, metavar="N", type=whole, default=default, help=help)
    add_flag(parser, "--max-seconds", metavar="S", type=positive, help="seconds a turn")
    add_flag(
        parser,
        "--max-cost",
        metavar="X",
        type=positive,
        help="cost a turn; needs prices in --config",
    )
    add_flag(
        parser,
        "--on-tool-error",
        choices=("tell_model", "fail_fast"),
        default="tell_model",
        help="what a failed tool means",
    )


def limits(args: argparse.Namespace, config: Mapping[str, Any]) -> dict[str, Any]:
    """The limits among the flags, as keywords of `Agent`."""
    names = "max_model_calls max_actions max_tokens max_seconds max_cost patience keep_turns"
    given = {name: getattr(args, name) for name in names.split() if getattr(args, name) is not None}
    if "max_cost" in given:
        if "prices" not in config:
            raise UserError(
                '--max-cost needs prices: [think_agent.prices."MODEL"] with input and output, per '
                "million tokens, in the file of --config"
            )
        given["prices"] = prices(config["prices"], "--config, prices")
    return {**given, "on_tool_error": args.on_tool_error}


def prices(tables: Any, place: str) -> dict[str, Price]:
    """Prices by model, from TOML: a table a model. `place` is where they stand, for errors."""
    known: dict[str, Price] = {}
    for model, table in tables.items() if isinstance(tables, dict) else [("MODEL", tables)]:
        try:
            known[model] = Price(**table)
        except (TypeError, ValueError) as error:
            problem = str(error).removeprefix("Price.__init__() ")
            raise UserError(
                f'{place}: write a table ["{model}"] with input, output and, if there is one, '
                f"cached_input, per million tokens ({problem})"
            ) from error
    return known


def choose_model(provider: str, model: str | None, base_url: str | None, **stand_in: Any) -> Model:
    """The model that the flags name; `--model` wins over `--provider P:MODEL`. `auto` is Ollama
    where it answers and has the model, else the stand-in.

    `stand_in` goes to the offline provider alone. Says on stderr why it plays a stand-in.
    """
    name, _, named_model = provider.partition(":")
    typed_spec = named_model and not isinstance(provider, Untyped)
    if model is None or (typed_spec and isinstance(model, Untyped)):
        model = named_model
    if name == "auto":
        spec = f"ollama:{model}" if model else "ollama"
        trouble = _trouble_with_ollama(spec, base_url)
        if not trouble:
            return connect(spec, base_url=base_url)
        pull = f"`ollama pull {PROVIDERS['ollama'].default_model}`"
        say(trouble)
        say(
            f"Playing a {STAND_IN}. For the real thing run `ollama serve` and {pull}, "
            "or --provider anthropic, openai or gemini."
        )
        return connect("offline", **stand_in)
    if name not in PROVIDERS:
        raise UserError(f"--provider {name!r}: use one of auto, {', '.join(PROVIDERS)}")
    spec = f"{name}:{model}" if model else name
    return connect(spec, **stand_in) if name == "offline" else connect(spec, base_url=base_url)


def speak(model: Model, dialect: str) -> Model:
    """`model` in a dialect. `auto` is native tool calling where the model has it, else json, else
    react; what is not native is said on stderr.
    """
    if dialect == "auto":
        dialect = "native"
        try:
            model.check()
        except BadRequest as error:
            if "does not support tools" not in str(error):
                raise
            dialect = "json" if model.capabilities.structured_output else "react"
            say(f"{model.model} has no tool calling: speaking {dialect}.")
    match dialect:
        case "json":
            from ..dialects.json_plan import json_plan

            return json_plan(model)
        case "react":
            from ..dialects.react import react

            return react(model)
    return model


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
    signal.signal(signal.SIGTERM, _stop)
    try:
        return main()
    except UserError as error:
        say(f"error: {_one_line(error)}")
        return 2
    except (ModelError, FileError) as error:
        say(f"error: {_one_line(error)}")
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130
    except BrokenPipeError:  # the reader of our pipe went away; nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())  # a path may have a line break in it


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt  # SIGTERM ends a run as Ctrl-C does: between steps, with the file whole


def main() -> int:
    """The command `think-agent`."""
    return guarded(_command)


def _command() -> int:
    parser = Parser(prog="think-agent")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, help in COMMANDS.items():
        module = importlib.import_module(MODULES[name])
        module.add_arguments(commands.add_parser(name, help=help, description=help))
    args = parser.parse_args()
    return int(importlib.import_module(MODULES[args.command]).main(args))
