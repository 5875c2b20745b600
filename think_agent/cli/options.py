"""Flags, variables and a config file, on top of click.

Rule 1: a setting has one name: `--base-url`, THINK_AGENT_BASE_URL, and `base_url` under
        `[think_agent]` in the TOML file of `--config`. A flag wins over the environment, the
        environment over the file, the file over the default. `--show-config` prints the source of
        each value.
Rule 2: every value is checked the same way, and the error names its source. A name that no command
        knows is an error as well (`names.py`), because a misspelled limit would be ignored.
Rule 3: an unusable path is reported before a model is called. The check doesn't create files.

Limitations: a full disk or a path that's removed later is noticed only when the file is written.
The flags for the model and its limits are in `choosing.py`.
"""

import os
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click import Context, ParameterSource
from click.decorators import FC
from pydantic import ConfigDict, TypeAdapter

from .. import __version__
from ..policies import Price
from ..providers.address import mask_address
from . import names
from .screen import say

PREFIX = "THINK_AGENT_"
SECTION = "think_agent"
PRICES = "think_agent.prices"  # in `Context.meta`: the prices in the config file
WORDS = "think_agent.words"  # also there: the typed words

whole = click.IntRange(1)
whole.name = "whole number"  # for error messages
positive = click.FloatRange(0, min_open=True)
positive.name = "number"


class Flag(click.Option):
    """A flag in a group of the help, and its variable. Its errors name the value's source."""

    def __init__(self, *declared: Any, group: "Group", **options: Any) -> None:
        super().__init__(*declared, **options)
        self.group = group
        self.envvar = f"{PREFIX}{self.name}".upper()

    def resolve_envvar_value(self, ctx: Context) -> str | None:
        """The value of its variable or its alias's variable. An empty one counts as not set."""
        assert self.name
        found = variables().get(self.name)
        if found is None:
            return None
        return found.value or None

    def get_error_hint(self, ctx: Context | None) -> str:
        assert ctx
        return f"{self.opts[-1]} ({source(ctx, self.name)})"


@dataclass(frozen=True, eq=False)
class Group:
    """Flags that belong together, under a `heading` in the help."""

    heading: str

    def __call__(
        self, name: str, metavar: str = "", help: str = "", **rest: Any
    ) -> Callable[[FC], FC]:
        """Create a flag of this group. The arguments are as in the help: its name, a placeholder
        for its value, and its meaning. The rest is for `click.option`.
        """
        return click.option(
            name, metavar=metavar, help=help, cls=Flag, group=self, show_default=True, **rest
        )

    def read_given(self, ctx: Context) -> dict[str, Any]:
        """This group's settings that have a value."""
        found = {}
        for name, flag in flags(ctx.command).items():
            value = ctx.params.get(name)
            if flag.group is self and value is not None:
                found[name] = value
        return found


file_option = Group("files")
output_option = Group("output")


def flags(command: click.Command) -> dict[str, Flag]:
    """A command's flags that are settings, by name. (`--help` and `--version` aren't.)"""
    return {str(param.name): param for param in command.params if isinstance(param, Flag)}


def together(*options: Callable[[FC], FC]) -> Callable[[FC], FC]:
    """Several options as one decorator, for options that commands share."""

    def add(command: FC) -> FC:
        for option in reversed(options):
            command = option(command)
        return command

    return add


OTHERS = Group("other")  # `--help`, and click's own flags


class Command(click.Command):
    """A command with groups in its help, whose settings are checked together."""

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        groups: dict[Group, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record:
                group = param.group if isinstance(param, Flag) else OTHERS
                groups.setdefault(group, []).append(record)

        for group, records in groups.items():
            with formatter.section(group.heading):
                formatter.write_dl(records)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = [*args]
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _with_advice(error, ctx) from error
        _check_variables(ctx)
        _drop_what_is_of_another(ctx)
        if ctx.params.pop("show_config", False):
            print("\n".join(self.settings(ctx)))
            ctx.exit()
        return rest

    def settings(self, ctx: Context) -> Iterator[str]:
        """What `--show-config` prints: each setting and price, with its value and its source."""
        for name, value in ctx.params.items():
            if name == "base_url" and value:  # it may contain a key
                value = mask_address(value)
            yield f"{name:18} {value!s:20} {source(ctx, name)}"
        for model, price in prices_of(ctx).items():
            yield f"{'prices.' + model:18} {price!s:20} {ctx.params['config']}"


def show_typed(ctx: Context) -> str:
    """The typed command, without any key in a server's address."""
    line = f"{ctx.command_path} {shlex.join(ctx.meta[WORDS])}"
    address = ctx.params.get("base_url")
    if address:
        line = line.replace(address, mask_address(address))
    return line


def origin_of(ctx: Context) -> dict[str, str]:
    """The origin of a page: the command that made it, and the time."""
    when = datetime.now(UTC).isoformat(" ", "minutes").removesuffix("+00:00")
    return {"command": show_typed(ctx), "made": f"{when} UTC, by think-agent {__version__}"}


def source(ctx: Context, name: str) -> str:
    """A value's source: "flag", its variable, the config file, or "default"."""
    match ctx.get_parameter_source(name):
        case ParameterSource.COMMANDLINE:
            return "flag"
        case ParameterSource.ENVIRONMENT:
            return f"{PREFIX}{variables()[name].name}".upper()
        case ParameterSource.DEFAULT_MAP:
            return str(ctx.params["config"])
    return "default"


def prices_of(ctx: Context) -> dict[str, Price]:
    """The prices in the `--config` file, by model."""
    return dict(ctx.meta.get(PRICES, {}))


def several(text: str) -> tuple[str, ...]:
    """Comma-separated values, for `type=`."""
    return tuple(value.strip() for value in text.split(",") if value.strip())


def find_old_file(text: str) -> Path:
    """A file to read, for `type=`."""
    path = _claim_path(text)
    if not path.is_file():  # a FIFO would block
        raise click.BadParameter(f"{path}: there is no such file")
    return path


def new_file(text: str) -> Path:
    """A file to write, for `type=`. Its folders are created when it's written."""
    path = _claim_path(text)
    nearest = path
    fits = path.is_file()
    while not os.path.lexists(nearest):
        nearest = nearest.parent
        fits = nearest.is_dir()
    if not fits or not os.access(nearest, os.W_OK):
        raise click.BadParameter(f"{path}: no file can be written there; choose another path")
    return path


def _claim_path(text: str) -> Path:
    """The path, if no other flag has it: one file would overwrite the other."""
    path = Path(text).expanduser()
    real = os.path.realpath(path)
    taken = click.get_current_context().meta.setdefault("think_agent.files", [])
    if real in taken:
        raise click.BadParameter(f"{path}: another flag has that file; choose another path")
    taken.append(real)
    return path


def config_file(text: str) -> Path:
    """A TOML file, for `type=`. Its section becomes the other flags' defaults."""
    path = find_old_file(text)
    ctx = click.get_current_context()
    price_tables = TypeAdapter(dict[str, Price], config=ConfigDict(extra="forbid"))
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        section = content.pop(SECTION)
        ctx.meta[PRICES] = price_tables.validate_python(section.pop("prices", {}))
    except (ValueError, KeyError) as error:
        expected = f"not valid TOML with a section [{SECTION}] and tables of prices"
        raise click.UsageError(f"{path}: {expected} ({error})") from error
    outside = [name for name, value in content.items() if not isinstance(value, dict)]
    if outside:  # a table may belong to another program
        raise click.UsageError(f"{path}: {outside[0]} belongs below [{SECTION}]")
    if "config" in section:
        raise click.UsageError(f"{path}: config: a file of settings cannot name another one")

    names.check_names(dict.fromkeys(section, str(path)), flags(ctx.command))
    # As text, like on the command line: otherwise `true` would be a whole number.
    texts = {name: str(value) for name, value in section.items()}
    settings = names.by_setting(texts, str(path))
    # An argument isn't a setting, though another command's setting may have its name.
    own = settings.keys() & flags(ctx.command)
    ctx.default_map = {name: settings[name].value for name in own}
    return path


config_flags = together(
    file_option(
        "--config", "FILE", f"settings in TOML, under [{SECTION}]", type=config_file, is_eager=True
    ),
    file_option("--show-config", is_flag=True, help="print the settings and stop"),
)
"""`--config` (read before the other flags) and `--show-config`."""


def variables() -> dict[str, names.Given]:
    """The settings in the environment, except the tests' (THINK_AGENT_TEST_*)."""
    found = {}
    for variable, value in os.environ.items():
        if variable.startswith(PREFIX) and not variable.startswith(f"{PREFIX}TEST_"):
            found[variable.removeprefix(PREFIX).lower()] = value
    return names.by_setting(found, f"{PREFIX}*")


def _check_variables(ctx: Context) -> None:
    """Raises UsageError for a variable that isn't a setting of any command."""
    places = {found.name: f"{PREFIX}{found.name}".upper() for found in variables().values()}
    names.check_names(places, flags(ctx.command))


def _with_advice(error: click.NoSuchOption, ctx: Context) -> click.UsageError:
    """click's error, with the nearest flags if click has found none."""
    if error.possibilities:
        return error
    name = error.option_name.removeprefix("--").replace("-", "_")
    return click.UsageError(
        f"{error.message.rstrip('.')}; {names.advice(name, flags(ctx.command))}", ctx
    )


def _drop_what_is_of_another(ctx: Context) -> None:
    """Ignore a base URL or a model from a weaker source than the provider's. It's for another
    provider, whose server mustn't get this one's key.
    """
    for name in ("base_url", "model"):
        its_source = ctx.get_parameter_source(name) or 0
        provider_source = ctx.get_parameter_source("provider") or 0
        if ctx.params.get(name) and its_source > provider_source:
            ctx.params[name] = None
            where = f"--{name.replace('_', '-')} ({source(ctx, name)})"
            say(f"{where}: left out, it was meant for another provider than --provider")
