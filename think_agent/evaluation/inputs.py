"""What an evaluation is given: cases, a suite, settings, and the models they need.

Rule 1: a suite is the module `suite.py` beside the cases file, or the one that is named.
Rule 2: whatever is wrong is a ValueError of one line that names its place, and is raised before the
        first model is asked.
Rule 3: a setting that cannot be is named with its reason, and not run.
"""

import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from ..dialects import in_dialect
from ..errors import BadRequest
from ..model import Model
from ..providers import connect
from ..schema import problems
from .scores import FOUR_ROWS, Setting
from .trials import Case, Job, Suite, prepared

SETTING = TypeAdapter(Setting)


def read_cases(path: Path) -> list[Case]:
    """The cases of a JSONL file. Raises ValueError with the line of the first that is none."""
    cases: dict[str, Case] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            case = Case.model_validate_json(line)
        except ValidationError as error:
            said = f"a case is a JSON object with id, kind and text ({problems(error)})"
            raise ValueError(f"{path}, line {number}: {said}") from error
        if case.id in cases:
            raise ValueError(f"{path}, line {number}: the id {case.id!r} is taken; choose another")
        cases[case.id] = case
    if not cases:
        raise ValueError(f"{path}: there are no cases in it; write one JSON object a line")
    return list(cases.values())


def load_suite(name: str | None, cases: Path) -> Suite:
    """The suite module `name`, or the `suite.py` beside the cases file, by its name in its
    package.
    """
    root = Path.cwd()
    if name is None:
        file = cases.resolve().with_name("suite.py")
        if not file.exists():
            raise ValueError(f"{cases}: there is no suite.py beside it; name the module of a suite")
        root, name = file.parent, file.stem
        while (root / "__init__.py").exists():
            root, name = root.parent, f"{root.name}.{name}"
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"suite {name!r}: use the name of a module, such as demos.refund.suite")
    sys.path.insert(0, str(root))  # a suite is the user's own code, as with `python -m`
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"suite {name}: {error}; run it where that can be imported") from error
    if not (hasattr(module, "prepare") and hasattr(module, "STAND_INS")):
        raise ValueError(f"suite {name}: a suite has prepare(case, trust_model) and STAND_INS")
    return cast(Suite, module)


def settings_of(*, four_rows: bool = False, **arms: Iterable[object]) -> list[Setting]:
    """Every combination of the values that are given for each field of a Setting; with `four_rows`
    each row of Anthropic's article, in place of what is given for the fields that it sets.
    """
    rows: Iterable[Mapping[str, object]] = FOUR_ROWS if four_rows else [{}]
    every = [dict(zip(arms, values, strict=True)) for values in product(*arms.values())]
    try:
        wanted = [SETTING.validate_python({**one, **row}) for row in rows for one in every]
    except ValidationError as error:
        raise ValueError(problems(error)) from error
    return list(dict.fromkeys(wanted))


def models_for(
    settings: Sequence[Setting], suite: Suite, case: Case
) -> tuple[dict[Setting, Model], dict[Setting, str]]:
    """The model of each setting; and why others cannot be. `case` is one to try an agent on.

    Settings of one provider share its connection. Raises ModelError for a provider that cannot be
    connected: without its package, or without a key.
    """
    connected = cache(connect)
    models: dict[Setting, Model] = {}
    impossible: dict[Setting, str] = {}
    for setting in settings:
        try:
            if setting.think == "none" and setting.force != settings[0].force:
                raise ValueError("without a think tool there is nothing to force")
            model = in_dialect(connected(setting.provider, **_how(setting, suite)), setting.dialect)
            prepared(Job(setting, case, 1), model, suite)
            models[setting] = model
        except (ValueError, TypeError, BadRequest) as error:
            impossible[setting] = str(error)
    return models, impossible


def _how(setting: Setting, suite: Suite) -> dict[str, Any]:
    """The keywords of `connect`. A stand-in has to speak the dialect itself."""
    if not setting.is_scripted:
        how = {name: getattr(setting, name) for name in ("timeout", "max_output_tokens")}
        reasoning = None if setting.reasoning == "default" else setting.reasoning
        return how | {"base_url": setting.base_url or None, "reasoning": reasoning}
    script = suite.STAND_INS.get(setting.provider.partition(":")[2])
    if script is None:
        names = ", ".join(f"offline:{known}" for known in suite.STAND_INS)
        raise ValueError(f"provider {setting.provider!r}: this suite's stand-ins are {names}")
    if setting.reasoning in ("low", "medium"):
        raise ValueError("a stand-in does not reason")
    if setting.dialect == "native":
        return {"script": script}
    if speaking := getattr(suite, "speaking", None):
        return {"script": speaking(script, setting.dialect)}
    raise ValueError("this suite's stand-ins speak no dialect")
