"""What `think-agent eval` is given: cases, a suite, settings, prices.

Rule 1: a suite is the module `suite.py` beside the cases file, or the one that `--suite` names.
Rule 2: whatever is wrong is a UserError of one line that names its place, and is raised before the
        first model is asked.
"""

import argparse
import importlib
import itertools
import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

from ..cli.console import say
from ..cli.main import prices
from ..cli.options import UserError
from ..policies import Forcing, Price
from .scores import Dialect, Flag, Setting
from .trials import Case, Speaks, Suite


def read_cases(path: Path) -> list[Case]:
    """The cases of a JSONL file. Raises UserError with the line of the first that is none."""
    cases: list[Case] = []
    for number, line in enumerate(_read(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            case = Case(data["id"], data["kind"], data["text"], data)
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{path}, line {number}: a case is a JSON object with id, kind and text ({error!r})"
            ) from error
        if any(case.id == other.id for other in cases):
            raise UserError(f"{path}, line {number}: the id {case.id!r} is taken; choose another")
        cases.append(case)
    if not cases:
        raise UserError(f"{path}: there are no cases in it; write one JSON object a line")
    return cases


def load_suite(name: str | None, cases: Path) -> Suite:
    """The suite module `name`, or the `suite.py` beside the cases file, by its name in its
    package.
    """
    root = Path.cwd()
    if name is None:
        file = cases.resolve().with_name("suite.py")
        if not file.exists():
            raise UserError(
                f"{cases}: there is no suite.py beside it; name one with --suite MODULE"
            )
        root, name = file.parent, file.stem
        while (root / "__init__.py").exists():
            root, name = root.parent, f"{root.name}.{name}"
    if not all(part.isidentifier() for part in name.split(".")):
        raise UserError(f"--suite {name!r}: use the name of a module, such as demos.refund.suite")
    sys.path.insert(0, str(root))  # a suite is the user's own code, as with `python -m`
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"--suite {name}: {error}; run it where that can be imported") from error
    if not (hasattr(module, "prepare") and hasattr(module, "STAND_INS")):
        raise UserError(f"--suite {name}: a suite has prepare(case, trust_model) and STAND_INS")
    return cast(Suite, module)


def settings_of(args: argparse.Namespace, suite: Suite) -> list[Setting]:
    """Every setting that the flags ask for; on stderr, those that cannot be run."""
    chosen = itertools.product(
        _list(args.provider, "--provider"),
        _list(args.dialect, "--dialect", get_args(Dialect)),
        _list(args.force, "--force", get_args(Forcing)),
        _list(args.flag, "--flag", get_args(Flag)),
    )
    settings = []
    for provider, dialect, force, flag in chosen:
        setting = Setting(
            provider,
            cast(Dialect, dialect),
            cast(Forcing, force),
            cast(Flag, flag),
            args.trust_model,
            args.base_url or "",
        )
        if force == "always" and flag == "off":
            say(f"skipped {setting}: without the exit signal such a run could never end")
        elif is_scripted(setting) and dialect != "native" and not isinstance(suite, Speaks):
            say(f"skipped {setting}: this suite's stand-ins speak no dialect")
        else:
            settings.append(setting)
    if not settings:
        raise UserError("nothing is left to run; choose other values of --force, --flag, --dialect")
    return settings


def is_scripted(setting: Setting) -> bool:
    """Does one of the suite's stand-ins play the model?"""
    return setting.provider.partition(":")[0] == "offline"


def read_prices(path: Path) -> dict[str, Price]:
    """Prices by model name, from a TOML file with a table a model."""
    try:
        tables = tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML ({error})") from error
    return prices(tables, str(path))


def _list(given: str, flag: str, known: Sequence[str] = ()) -> list[str]:
    """The values of a flag that takes several, each once."""
    values = list(dict.fromkeys(value.strip() for value in given.split(",") if value.strip()))
    wrong = [value for value in values if known and value not in known]
    if wrong or not values:
        raise UserError(f"{flag} {given!r}: use {', '.join(known) or 'a list with commas'}")
    return values


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text ({error}); save it as such") from error
