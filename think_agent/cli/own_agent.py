"""The command `think-agent chat FILE:AGENT`: a conversation with your own agent.

Rule 1: the file runs as with `python FILE`, and may import its neighbors. Only `__name__ ==
        "__main__"` is false.
Rule 2: AGENT is an Agent, or a function that returns one. If the function takes a model, the flags
        choose it.
Rule 3: a mistake in the file is reported on one line, with its place.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from click import Context, ParameterSource

from ..agent import Agent
from ..errors import FileError, ModelError
from ..mistakes import place_error
from ..testing.scripted import ScriptedModel
from .choosing import ModelCommand, choose_model, model_flags, model_option
from .conversation import chat
from .options import config_flags, flags

EXIT_CODES = (
    "exit codes: 0 you left, 1 a model or file can't be used, 2 a flag or the agent is wrong, "
    "130 stopped by SIGTERM"
)


@click.command(cls=ModelCommand, epilog=EXIT_CODES, options_metavar="[FLAG]...")
@click.argument("agent", metavar="FILE:AGENT")
@model_flags(default="auto")
@config_flags
@click.pass_context
def command(ctx: Context, /, agent: str, **_: object) -> None:
    """Talk with your own agent. AGENT is the name of an Agent in a Python file, or of a
    function that makes one; if it takes a model, the flags choose that.
    """
    path, name = _read_name(agent)
    found: Any = _find_named(path, name)
    if callable(found):
        found = _make(ctx, agent, found, path)
    elif isinstance(found, Agent):
        _refuse_model_flags(ctx, agent)
    if not isinstance(found, Agent):
        kind = type(found).__name__
        raise click.UsageError(f"{agent} is a {kind}; name an Agent, or a function that makes one")
    chat(found)


def load_agent(text: str) -> Agent:
    """The agent that `FILE:AGENT` names, only for planning: a function that takes a model gets one
    without replies. Raises UsageError or ClickException.
    """
    path, name = _read_name(text)
    found: Any = _find_named(path, name)
    if callable(found):
        models = [ScriptedModel([])] if inspect.signature(found).parameters else []
        with _report_on_one_line(path):
            found = found(*models)
    if isinstance(found, Agent):
        return found
    kind = type(found).__name__
    raise click.UsageError(f"{text} is a {kind}; name an Agent, or a function that makes one")


def _read_name(text: str) -> tuple[Path, str]:
    """The file and the name in `FILE:AGENT`."""
    file, _, name = text.rpartition(":")  # the last colon: a Windows drive also has one
    if not file or not name:
        raise click.UsageError(f"{text}: write FILE:AGENT, such as my_agent.py:agent")
    path = Path(file).expanduser()
    if not path.is_file():
        raise click.UsageError(f"{path}: there is no such file")
    return path, name


def _find_named(path: Path, name: str) -> Any:
    """The value with this name in the file."""
    values = vars(_run_file(path))
    if name in values:
        return values[name]
    agents = [known for known, value in values.items() if isinstance(value, Agent)]
    known = f"its agents: {', '.join(agents)}" if agents else "it has no Agent at the top level"
    raise click.UsageError(f"{path}: there is no {name!r} in it; {known}")


def _run_file(path: Path) -> ModuleType:
    """The file as a module (rule 1)."""
    if path.stem in sys.modules:
        raise click.UsageError(f"{path}: a module is named {path.stem!r} already; rename the file")
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # for its types, and for neighbors that import it
    sys.path.insert(0, str(path.resolve().parent))
    with _report_on_one_line(path):
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
    return module


def _make(ctx: Context, agent: str, function: Callable[..., Any], path: Path) -> Any:
    """Call the function, with the chosen model if it takes one."""
    models = []
    if inspect.signature(function).parameters:
        models = [choose_model(ctx)]
    else:
        _refuse_model_flags(ctx, agent)
    with _report_on_one_line(path):
        return function(*models)


def _refuse_model_flags(ctx: Context, agent: str) -> None:
    """A flag without effect is an error. (A variable may be for another command.)"""
    for name, flag in flags(ctx.command).items():
        is_typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_typed and flag.group is model_option:
            raise click.UsageError(f"{flag.opts[-1]}: {agent} has its own model; leave it out")


@contextmanager
def _report_on_one_line(path: Path) -> Iterator[None]:
    """Report a mistake in the user's code on one line (rule 3)."""
    try:
        yield
    except (ModelError, FileError):
        raise
    except SyntaxError as error:  # its text includes the place
        raise click.ClickException(f"{type(error).__name__}: {error}") from error
    except Exception as error:
        problem = f"{path.name} raised {place_error(error)}"
        raise click.ClickException(problem) from error
