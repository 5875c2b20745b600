"""A plan names what is run, not how many: trials of another plan are refused, or shown apart."""

import json
import sys
from dataclasses import replace

import pytest

from demos.refund import suite as refund
from tests.evaluation.conftest import EASY, cases_of, plan, play, played, write_lines
from tests.support import simulated
from think_agent import THINK, Assistant, BadRequest, ScriptedModel
from think_agent.evaluation import command, trials
from think_agent.evaluation.results import LINE, OtherPlan
from think_agent.evaluation.sources import source_digest
from think_agent.evaluation.tables import markdown

OTHER_THINK = replace(THINK, description="Write down what you think.")
MODEL = {"provider": ["ollama:m"], "advice": ["on"]}


def changed(part: str) -> str:
    return rf"r\.jsonl is of another plan, .*\(think-agent .*\)\. Changed since: {part}\. Choose an"


@pytest.mark.parametrize("dialect", ["native", "json"])
@pytest.mark.parametrize(
    ("place", "name", "value", "part"),
    [
        (trials, "THINK_TOOLS", {"on": OTHER_THINK, "none": None}, "prompts and tools"),
        (simulated, "ADVICE", "Think twice.", "prompts and tools"),
        (refund, "TASK", refund.TASK + "\nBe kind.", "prompts and tools"),
        (command, "__version__", "9.9.9", "think-agent"),
    ],
)
def test_a_plan_of_other_prompts_tools_or_version_is_refused(
    few, out, monkeypatch, dialect, place, name, value, part
):
    given = {**MODEL, "dialect": [dialect], "out": out}
    played(refund.STAND_INS["silent"], few, **given)
    plan(few, **given)
    monkeypatch.setattr(place, name, value)
    with pytest.raises(OtherPlan, match=changed(part)):
        plan(few, **given)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: lines[1:], "cases"),  # left out
        (lambda lines: [*lines[1:], EASY[50]], "cases"),  # exchanged, as many as before
        (lambda lines: [{**lines[0], "text": "Money!"}, *lines[1:]], "cases"),
        (lambda lines: [{**lines[0], "expected": {}}, *lines[1:]], "cases"),
        (lambda lines: [{**lines[0], "easy": False}, *lines[1:]], "cases"),
        (lambda lines: [{**lines[0], "rules": ["No."]}, *lines[1:]], "cases, prompts and tools"),
    ],
)
def test_a_plan_of_other_cases_is_refused(few, out, change, part):
    lines = [json.loads(line) for line in few.read_text().split("\n") if line]
    assert EASY[50] not in lines
    played(refund.STAND_INS["silent"], few, out=out)
    write_lines(few, change(lines))
    before = out.read_bytes()
    with pytest.raises(OtherPlan, match=changed(part)):
        plan(few, out=out)
    assert out.read_bytes() == before


def test_the_order_of_the_cases_is_no_other_plan(few, out):
    lines = [json.loads(line) for line in few.read_text().split("\n") if line]
    played(refund.STAND_INS["silent"], few, out=out)
    write_lines(few, lines[::-1])
    assert plan(few, out=out).missing == 0


@pytest.mark.parametrize("force", [["first"], ["first", "never", "always"], ["never", "first"]])
def test_a_plan_of_other_settings_is_refused(ran, plan_few, out, force):
    """Also the same in another order: the first one is that with which the others are compared."""
    ran(force=["first", "never"])
    before = out.read_bytes()
    with pytest.raises(OtherPlan, match=changed("settings")):
        plan_few(force=force).run()
    with pytest.raises(OtherPlan):
        plan_few(force=force).report()
    assert out.read_bytes() == before


def test_a_plan_begun_without_an_impossible_setting_goes_on(plan_few):
    arms = {"provider": ["ollama:m"], "reasoning": ["off", "low"]}

    def begin():
        evaluation = plan_few(**arms)
        play(evaluation, ScriptedModel(refund.STAND_INS["silent"]))
        for setting in evaluation.models:
            if setting.reasoning == "low":
                evaluation.models[setting] = ScriptedModel(refuse)
        evaluation.try_models()
        return evaluation

    def refuse(request):
        raise BadRequest("this model does not reason")

    begin().run()
    again = begin()
    again.run()
    assert again.missing == 0
    assert len(again.select_results()) == 1


# The code of a suite.

SUITE = """
from helpers import Lamp
from think_agent import Assistant, tool

STAND_INS = {"never": lambda request: Assistant("Done.")}

def prepare(case, *, enforce):
    return Lamp()
"""
HELPERS = """
from think_agent.evaluation.trials import WorldCheck

class Lamp:
    instructions = "Work the lamp."
    tools = []

    def reply(self, transcript):
        return None

    def check(self):
        return WorldCheck(True)
"""


@pytest.fixture
def lamp(tmp_path, out, monkeypatch):
    """A suite of two files beside its cases; plans an evaluation of it, loaded anew each time."""
    (tmp_path / "lamp_suite.py").write_text(SUITE)
    (tmp_path / "helpers.py").write_text(HELPERS)
    cases = write_lines(tmp_path / "lamp.jsonl", [{"id": "a", "kind": "k", "text": "Light!"}])

    def load():
        for name in ("lamp_suite", "helpers"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        provider = ["offline:never"]
        return plan(cases, suite="lamp_suite", force=["never"], provider=provider, out=out)

    return load


@pytest.mark.parametrize("name", ["lamp_suite.py", "helpers.py"])
def test_a_suite_or_scorer_that_was_edited_is_another_plan(lamp, tmp_path, name):
    lamp().run()
    assert lamp().missing == 0
    with (tmp_path / name).open("a") as file:
        file.write("\n# edited\n")
    with pytest.raises(OtherPlan, match=changed("suite")):
        lamp()


def test_a_suite_names_the_versions_that_shape_its_numbers(lamp, tmp_path):
    lamp().run()
    with (tmp_path / "lamp_suite.py").open("a") as file:
        file.write("VERSION = 'bench 2.0'\n")
    with pytest.raises(OtherPlan, match=changed("suite")):
        lamp()


@pytest.mark.parametrize(
    ("code", "is_seen"),
    [
        ("import used", True),
        ("from used import x", True),
        ("from . import near", True),
        ("from .near import x", True),
        ("from package import near", True),
        ("import package.near as n", True),
        ("def late():\n    from package.deep import far", True),
        ("import json, numpy, think_agent", False),
        ("import no_such_module", False),
    ],
)
def test_the_digest_of_code_has_every_file_of_the_users(tmp_path, monkeypatch, code, is_seen):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "package/deep").mkdir(parents=True)
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / "package/start.py").write_text(code)
    others = ["used.py", "package/near.py", "package/deep/far.py"]
    for name in others:
        (tmp_path / name).write_text("x = 1\n")
    before = source_digest("package.start")
    for name in others:
        (tmp_path / name).write_text("x = 2\n")
    assert (source_digest("package.start") != before) == is_seen
    assert "package" not in sys.modules  # nothing was run


def test_code_with_other_line_breaks_is_the_same(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "breaks.py").write_bytes(b"x = 1\ny = 2\n")
    before = source_digest("breaks")
    (tmp_path / "breaks.py").write_bytes(b"x = 1\r\ny = 2\r\n")
    assert source_digest("breaks") == before


# Mixed files.


def test_trials_of_another_plan_are_shown_apart_and_never_tested(few, out):
    """Exchange the cases that the baseline alone got right: nothing of that is ever tested."""
    write_lines(few, cases_of("many")[:8])
    given = {"provider": ["ollama:m"], "force": ["first", "never"], "out": out}
    played(refund.STAND_INS["silent"], few, **given)
    write_lines(few, cases_of("many")[2:10])
    mixed = played(refund.STAND_INS["careful"], few, **given, mixed=True)
    *sections, sentences = mixed.report()
    apart = sections[3]
    assert apart.remark == "of another plan: shown separately, not compared and not tested"
    assert [row[:2] for row in apart.rows] == [
        ["setting", "right"],
        ["force=first", "0/8"],
        ["force=never", "0/8"],
    ]
    own = [row[1] for row in sections[0].rows[1:]]
    assert own == ["8/8", "8/8"]
    assert "p = " not in sentences.remark
    assert "Nothing is tested before the plan in the first line" in sentences.remark
    assert markdown(mixed.report()).count("Decisions") == 1

    plans = [LINE.validate_json(line) for line in out.read_text().splitlines() if "made_of" in line]
    assert len({plan.digest for plan in plans}) == 2
    with pytest.raises(OtherPlan):
        plan(few, **given)


def test_the_first_plan_stays_tested_in_a_mixed_file(few, out):
    lines = cases_of("many")[:8]
    write_lines(few, lines)
    given = {"provider": ["ollama:m"], "force": ["first", "never"], "out": out}
    played(refund.STAND_INS["silent"], few, **given)
    write_lines(few, lines[1:])
    played(refund.STAND_INS["silent"], few, **given, mixed=True)
    write_lines(few, lines)
    assert "p = 1" in plan(few, **given, mixed=True).report()[-1].remark


def test_the_command_says_what_to_do_with_another_plan(few, command, capsys):
    assert command() == 0
    write_lines(few, cases_of("many")[:3])
    capsys.readouterr()
    assert command() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "Changed since: cases" in line
    assert line.endswith("Choose another file, or show its trials separately with --mixed.")
    assert command("--mixed") == 0
    assert "of another plan: shown separately" in capsys.readouterr().out


def test_an_answer_of_the_same_model_is_asked_for_again_in_another_plan(few, out):
    """Otherwise somebody could keep the results that he liked."""
    asked = []

    def count(request):
        asked.append(request)
        return Assistant("Done.")

    write_lines(few, cases_of("many")[:3])
    given = {"provider": ["ollama:m"], "force": ["never"], "out": out}
    played(count, few, **given)
    write_lines(few, cases_of("many")[:4])
    played(count, few, **given, mixed=True)
    assert len(asked) == 3 + 4
