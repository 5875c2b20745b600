"""Settings from four places: a default, a TOML file, the environment, a flag. The later wins.

Rule 1: a setting has one name in all of them: `--base-url`, `THINK_AGENT_BASE_URL`, and `base_url`
        in the section `[think_agent]` of the file that `--config` names.
Rule 2: a value is checked the same way wherever it comes from, and a wrong one is an error that
        names its place.
Rule 3: `sources` tells where each value came from; `--show-config` prints that.
"""

import argparse
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

PREFIX = "THINK_AGENT_"
SECTION = "think_agent"
YES, NO = ("1", "true", "yes"), ("0", "false", "no", "")


class UserError(Exception):
    """Something the user has to mend. The text is one line that says how."""


class Untyped(str):
    """The value of a flag that nobody typed: it came from the environment or from a file."""

    __slots__ = ()


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose flags may have their values elsewhere, too; see `add_flag`."""

    def __init__(
        self, *, config: dict[str, Any] | None = None, file: str = "", **options: Any
    ) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.config = config or {}
        self.file = file
        self.flags: dict[str, str] = {}
        self.elsewhere: dict[str, str] = {}

    def error(self, message: str) -> NoReturn:
        """One line instead of the whole usage."""
        raise UserError(f"{message} (see {self.prog} --help)")

    def sources(self, argv: Sequence[str]) -> dict[str, str]:
        """Where each setting came from: `flag`, a variable, the file, or `default`."""
        typed = {word.partition("=")[0] for word in argv}
        return {
            name: "flag" if flag in typed else self.elsewhere.get(name, "default")
            for name, flag in self.flags.items()
        }

    def refuse_unknown(self) -> None:
        """Call it after the last `add_flag`: a name in the file that means nothing is a mistake."""
        if unknown := self.config.keys() - self.flags.keys() - {"prices"}:
            known = ", ".join(sorted(self.flags))
            raise UserError(f"{self.file}: unknown {', '.join(sorted(unknown))}; known: {known}")


def read_config(argv: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The file that `--config` or THINK_AGENT_CONFIG names, with its section; else ("", {})."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    finder.add_argument("--config", default=os.environ.get(PREFIX + "CONFIG", ""))
    try:
        path = finder.parse_known_args(argv)[0].config
    except argparse.ArgumentError as error:
        raise UserError(f"{error}") from error
    if not path:
        return "", {}
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check --config") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error})") from error
    if SECTION not in data:
        raise UserError(f"{path}: there is no section [{SECTION}]; put the settings under it")
    section = data[SECTION]
    if not isinstance(section, dict):
        raise UserError(f"{path}: {SECTION} must be a section, [{SECTION}]")
    return path, section


def add_flag(parser: argparse.ArgumentParser, flag: str, **options: Any) -> None:
    """`parser.add_argument(flag, ...)`, its default from its variable or its entry in the file."""
    name = flag.removeprefix("--").replace("-", "_")
    variable = PREFIX + name.upper()
    source, value = variable, os.environ.get(variable, "")
    if isinstance(parser, Parser):
        parser.flags[name] = flag
        if not value and name in parser.config:
            source, value = parser.file, _as_text(parser.config[name])
        if value:
            parser.elsewhere[name] = source
    if options.get("action") == "store_true":
        if value.lower() not in (*YES, *NO):
            raise UserError(f"{source}: {name}={value!r}: use 1 or 0")
        options["default"] = value.lower() in YES
    elif value:
        options["default"] = _checked(source, name, value, options)
    options["help"] = f"{options.get('help', '')} [{variable}]".strip()
    parser.add_argument(flag, **options)


def show(values: argparse.Namespace, sources: dict[str, str]) -> str:
    """Every setting, its value, and where it came from, a line each."""
    rows = [(name, _shown(getattr(values, name)), source) for name, source in sources.items()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{n:{widths[0]}}  {v:{widths[1]}}  {s}" for n, v, s in rows)


def _shown(value: Any) -> str:
    return "-" if value is None else str(value)


def whole(text: str) -> int:
    """A whole number from 1, for `type=`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("use a whole number from 1")
    return int(text)


def positive(text: str) -> float:
    """A number above 0, for `type=`."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise argparse.ArgumentTypeError("use a number above 0")
    return number


def _checked(source: str, name: str, value: str, options: dict[str, Any]) -> Any:
    choices, convert = options.get("choices"), options.get("type")
    if choices and value not in choices:
        raise UserError(f"{source}: {name}={value!r}: use one of {', '.join(choices)}")
    if convert is None:
        return Untyped(value)
    try:
        return convert(value)
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{source}: {name}={value!r}: {error}") from error


def _as_text(value: Any) -> str:
    """A TOML value as it would have been typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)
