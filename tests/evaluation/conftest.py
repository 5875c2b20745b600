"""Evaluations of the refund desk, on a few of its cases."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.readme import ROOT
from tests.support.simulated import LINES
from think_agent import ScriptedModel
from think_agent.cli.main import main
from think_agent.evaluation.command import Evaluation
from think_agent.evaluation.inputs import settings_of
from think_agent.evaluation.results import LINE
from think_agent.evaluation.scores import Result

SUITE = "demos.refund.suite"
NO_FLOORS = "tests.support.simulated"  # the same suite without its floors, which take time
FLOORS = [
    "do-nothing",
    "never-think",
    "follow-the-refusal",
    "always-deny",
    "five-rules",
    "text-matcher",
]
HARD = ("many", "conditions", "bundles", "outages", "argues")
EASY = [case for case in LINES if case["kind"] not in HARD]
FAILS_ONCE = [case for case in EASY if "fails once" in case.get("tools", {}).values()]
RUNS = ("suite", "trials", "shard", "concurrency", "out", "base_url", "timeout", "close", "mixed")


def plan(cases: Path, **given) -> Evaluation:
    """An evaluation of the refund desk. Arguments that are not in RUNS are settings."""
    runs = {"suite": NO_FLOORS}
    arms = {"provider": ["offline:careful"]}
    for name, value in given.items():
        kind = runs if name in RUNS else arms
        kind[name] = value
    return Evaluation(cases, settings_of(**arms), **runs)


def evaluate(*arguments) -> int:
    """`think-agent eval ...` in this process; its exit code."""
    sys.argv = ["think-agent", "eval", *map(str, arguments)]
    try:
        return main()
    except SystemExit as ended:
        return ended.code


def write_lines(path: Path, cases: list[dict]) -> Path:
    path.write_text("".join(f"{json.dumps(case)}\n" for case in cases) + "\n")
    return path


def cases_of(*kinds: str) -> list[dict]:
    return [line for line in LINES if line["kind"] in kinds]


def ids(cases: list[dict]) -> set[str]:
    return {case["id"] for case in cases}


def results_in(path: Path) -> list[Result]:
    """The results in a file, without its plan and the floors."""
    lines = [LINE.validate_json(line) for line in path.read_text().splitlines()]
    return [line for line in lines if isinstance(line, Result) and not line.setting.is_floor]


def play(evaluation: Evaluation, model) -> None:
    """Make `model` the model of all settings."""
    evaluation.models.update(dict.fromkeys(evaluation.models, model))


def played(script, cases: Path, **given) -> Evaluation:
    """An evaluation that was run, with this script as the model of its settings."""
    evaluation = plan(cases, **given)
    play(evaluation, ScriptedModel(script))
    evaluation.run()
    return evaluation


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """Suites change the path; flags may come from the environment."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.chdir(ROOT)
    for name in ("PROVIDER", "BASE_URL", "FORCE"):
        monkeypatch.delenv(f"THINK_AGENT_{name}", raising=False)


@pytest.fixture
def out(tmp_path):
    """The results file."""
    return tmp_path / "r.jsonl"


@pytest.fixture
def few(tmp_path):
    """A cases file with one case of some kinds (and two of the kind whose tools fail)."""
    kinds = ("plain", "several", "unknown", "manager", "broken-tools", "many", "argues")
    chosen = [cases_of(kind)[0] for kind in kinds]
    return write_lines(tmp_path / "few.jsonl", [*chosen, FAILS_ONCE[0]])


@pytest.fixture
def plan_few(few, out):
    """Makes an evaluation of the few cases."""
    return partial(plan, few, out=out)


@pytest.fixture
def ran(plan_few):
    """Runs an evaluation of the few cases and gives it."""

    def run(**given) -> Evaluation:
        evaluation = plan_few(**given)
        evaluation.run()
        return evaluation

    return run


@pytest.fixture
def command(few, out):
    """Runs `think-agent eval` on the few cases, with more flags. Gives its exit code."""

    def run(*flags) -> int:
        usual = ("--suite", SUITE, "--provider", "offline:careful", "--out", out)
        return evaluate(few, *usual, *flags)

    return run
