"""A wrong input is an error of one line, before anything is run."""

import json
import re

import pytest

from tests.evaluation.conftest import SUITE, evaluate
from tests.support.providers import KEY
from tests.support.simulated import CASES, LINES
from think_agent.evaluation.inputs import read_cases, settings_of
from think_agent.evaluation.trials import Suite


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"provider": ["offline:genius"]},
            "isn't a script of this suite; use one of offline:careful",
        ),
        (
            {"provider": ["offline"]},
            "offline isn't a script of this suite; use one of offline:careful",
        ),
        ({"provider": ["nonsense"]}, "with one of: ollama"),
        ({"provider": []}, "each field of a setting needs a value"),
        ({"force": ["sometimes"]}, "'never', 'first' or 'always'"),
        ({"thinking": ["on"]}, "thinking: "),
        ({"force": ["always"], "think": ["minimal"]}, "nothing is left to run"),
        ({"reasoning": ["low"]}, "a script does not reason"),
        ({"dialect": ["json"]}, "a script speaks no dialect"),
        ({"suite": "no.such.module"}, "No module named 'no'; name a module with prepare and"),
        ({"suite": "demos.refund.shop"}, "prepare Field required"),
        ({"suite": "./suite.py"}, "suite ./suite.py: .*; name a module with prepare and"),
        ({"suite": "my_suite"}, "No module named 'my_suite'; .* put suite.py next to the cases"),
        ({"shard": "0/4"}, "use a part of how many, such as 1/4"),
        ({"shard": "4/3"}, "use a part of how many, such as 1/4"),
        ({"shard": "a/b"}, "use a part of how many, such as 1/4"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_run(plan_few, out, given, message):
    with pytest.raises(ValueError, match=message):
        plan_few(**given)
    assert not out.exists()


@pytest.mark.parametrize(
    ("cases", "flag", "value", "problem"),
    [
        (CASES, "--think", "maybe", "'on', 'cannot', 'brief', 'minimal' or 'none'"),
        (CASES, "--trials", "0", "--trials"),
        (CASES, "--out", CASES, "another flag has that file"),
        (CASES, "--out", ".", "--out"),
        (CASES, "--out", "file/r.jsonl", "--out"),
        (CASES, "--config", "none.toml", "--config"),
        ("none.jsonl", "--trials", "1", "none.jsonl"),
    ],
)
def test_a_wrong_argument_is_one_line_and_writes_nothing(
    tmp_path, monkeypatch, capsys, cases, flag, value, problem
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    usual = ("--suite", SUITE, "--provider", "offline:careful")
    assert evaluate(cases, *usual, flag, value) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert problem in line
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_server_that_is_not_there_is_one_line(command, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert command("--provider", "openai:m", "--base-url", "http://127.0.0.1:9") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: 5 runs in a row failed: openai: no server at ")


CASE = LINES[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n", "there are no cases in it"),
        ('{"id": "a"}', "line 1: no case (kind: this field is required; text: "),
        (f"{json.dumps(CASE)}\n{{torn", "line 2: no case ("),
        (f"{json.dumps(CASE)}\n{json.dumps(CASE)}", "line 2: the id 'plain-1' is taken"),
        (json.dumps({**CASE, "expected": {"ORD-1": "maybe"}}), "line 1: no case (expected.ORD-1: "),
        (json.dumps({**CASE, "tools": {"think": "gone"}}), "line 1: no case (tools.think."),
    ],
)
def test_a_wrong_case_is_found_before_anything_is_run(plan_few, few, out, text, message):
    few.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        plan_few()
    assert not out.exists()


def test_a_case_that_the_suite_cannot_read_is_named_by_its_line(few):
    def prepare(case, *, enforce):
        raise ValueError("it has no orders")

    suite = Suite(prepare=prepare, STAND_INS={})
    message = r"few\.jsonl, line 1: the suite cannot read it \(it has no orders\)"
    with pytest.raises(ValueError, match=message):
        read_cases(few, suite)


def test_a_row_of_the_article_replaces_the_arms_that_it_sets():
    settings = settings_of(four_rows=True, provider=["ollama"], force=["never", "first"])
    assert settings == settings_of(four_rows=True, provider=["ollama"])
