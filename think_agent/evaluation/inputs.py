"""Reads the inputs of an evaluation: cases, a suite, settings, and the models they need.

Rule 1: a suite is the module `suite.py` next to the cases file, or a named module.
Rule 2: every error is a one-line ValueError that names its place, and is raised before the first
        model call.
"""

import importlib
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..dialects import in_dialect
from ..messages import Json
from ..mistakes import place_error
from ..model import Model
from ..providers import connect
from ..schema import problems
from ..testing.scripted import ScriptedModel
from ..text import shorten
from .scores import FOUR_ROWS, Setting
from .sources import source_digest
from .trials import Case, Suite


def read_cases(path: Path, suite: Suite) -> list[Case]:
    """The cases in a JSONL file. Raises ValueError with the number of the first line that isn't a
    case or that the suite can't read.
    """
    cases: dict[str, Case] = {}
    for number, line in enumerate(path.read_bytes().rstrip().splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            case = Case.model_validate_json(line)
            suite.prepare(case.line, enforce=False)
        except ValidationError as error:
            raise ValueError(f"{where}: no case ({problems(error)})") from error
        except ValueError as error:
            raise ValueError(f"{where}: the suite cannot read it ({error})") from error
        except Exception as error:  # a mistake in the suite's own code
            problem = place_error(error)
            raise ValueError(f"{where}: the suite cannot read it ({problem})") from error
        if case.id in cases:
            raise ValueError(f"{where}: the id {case.id!r} is taken; choose another")
        cases[case.id] = case
    if not cases:
        raise ValueError(f"{path}: there are no cases in it; write one JSON object a line")
    return list(cases.values())


def _find_module(name: str, folder: Path) -> tuple[Path, str]:
    """The folder to import a module from, and its full name. A suite inside a package is imported
    as a part of it, so it can use relative imports (`from .shop import Shop`).
    """
    if not (folder / f"{name}.py").exists():
        return folder, name
    while (folder / "__init__.py").exists():
        name = f"{folder.name}.{name}"
        folder = folder.parent
    return folder, name


def load_suite(name: str, cases: Path) -> Suite:
    """The suite module `name`, which may be next to the cases file. It's the user's own code, and
    is found as `python -m` would find it.
    """
    root, module = _find_module(name, cases.resolve().parent)
    sys.path[:0] = [str(root), str(Path.cwd())]
    try:
        found = vars(importlib.import_module(module))
        return Suite.model_validate(found | {"source": source_digest(module)})
    except (ImportError, TypeError, ValidationError) as error:  # TypeError: for "./suite.py"
        needed = "name a module with prepare and STAND_INS, or put suite.py next to the cases"
        raise ValueError(f"suite {name}: {shorten(str(error))}; {needed}") from error


def settings_of(*, four_rows: bool = False, **arms: Iterable[object]) -> list[Setting]:
    """Every combination of the given values for a Setting's fields, once each. `four_rows` adds the
    rows of Anthropic's article, which override the fields that they set.
    """
    rows = FOUR_ROWS if four_rows else [{}]
    wanted = []
    try:
        for values in product(*arms.values()):
            given: Json = dict(zip(arms, values, strict=True))
            for row in rows:
                wanted.append(Setting(**(given | row)))
    except ValidationError as error:
        raise ValueError(problems(error)) from error
    if not wanted:
        raise ValueError("each field of a setting needs a value")
    return list(dict.fromkeys(wanted))


def model_of(setting: Setting, suite: Suite, **options: Any) -> Model:
    """The model of a setting; `options` go to `connect`. Raises ValueError for an impossible
    setting, ModelError if the provider can't be connected (no package or no key).
    """
    if not setting.is_scripted:
        options["max_output_tokens"] = setting.max_output_tokens
        if setting.reasoning != "default":
            options["reasoning"] = setting.reasoning
        model = connect(setting.provider, **options)
        if setting.dialect == "default":
            return model
        return in_dialect(model, setting.dialect)

    scripts = suite.STAND_INS | suite.FLOORS
    kind, _, name = setting.provider.partition(":")
    if name not in scripts:
        known = ", ".join(f"offline:{script}" for script in scripts)
        raise ValueError(f"{setting.provider} isn't a script of this suite; use one of {known}")
    if setting.reasoning not in ("default", "off"):
        raise ValueError("a script does not reason")
    if setting.dialect not in ("default", "native"):
        raise ValueError("a script speaks no dialect")
    return ScriptedModel(scripts[name], name=kind, model=name)
