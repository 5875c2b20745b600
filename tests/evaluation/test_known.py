"""Known models get known scores, and each setting reaches the agent."""

import json
import re
import sys
from dataclasses import replace

import pytest

from demos.refund import offline
from demos.refund.dialects import speak_dialect
from demos.refund.stand_ins import STAND_INS
from tests.evaluation.conftest import (
    EASY,
    FAILS_ONCE,
    HARD,
    SUITE,
    cases_of,
    evaluate,
    ids,
    plan,
    play,
    played,
    results_in,
    write_lines,
)
from tests.evaluation.test_cases import named
from tests.servers import serve
from tests.servers.ollama import OllamaServer
from tests.support.agents import of_kind
from tests.support.providers import KEY, SPEAKS
from tests.support.simulated import brain
from think_agent import Assistant, BadRequest, ScriptedModel, Usage, User
from think_agent.audit import read
from think_agent.dialects import in_dialect
from think_agent.evaluation.report import power
from think_agent.evaluation.scores import FOUR_ROWS, Score
from think_agent.providers import PROVIDERS

GIVES_UP = ids(FAILS_ONCE)
SEVERAL = {case["id"] for case in EASY if len(case["expected"]) > 1}


def approved_unseen(case: dict) -> bool:
    """Is it right to approve every order that exists?"""
    if "process_refund" in case.get("tools", {}):
        return True
    there = named(case) & ids(case["orders"])
    return case["expected"] == dict.fromkeys(there, "approve")


RIGHT = {  # in the easy half; what else is right there, needs no decision or one on sight
    "careful": ids(EASY) - GIVES_UP,
    "silent": {case["id"] for case in EASY if not case["expected"]},
    "hasty": {case["id"] for case in EASY if approved_unseen(case)},
}


def in_the_easy_half(results) -> list:
    return [result for result in results if result.kind not in HARD]


def right_in_the_easy_half(results) -> set[str]:
    return {result.case for result in in_the_easy_half(results) if result.right}


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """All scripts on the easy cases and some of the hard ones: the results by script."""
    folder = tmp_path_factory.mktemp("eval")
    cases = write_lines(folder / "cases.jsonl", [*EASY, *cases_of(*HARD)[::5]])
    scripts = [f"offline:{name}" for name in RIGHT]
    evaluation = plan(cases, provider=scripts, out=folder / "all.jsonl")
    evaluation.run()
    assert evaluation.missing == 0
    return dict(zip(RIGHT, evaluation.select_results().values(), strict=True))


@pytest.mark.parametrize("name", RIGHT)
def test_a_known_model_gets_its_known_score(known, name):
    assert len(known[name]) == 60 + 12
    assert right_in_the_easy_half(known[name]) == RIGHT[name]


def test_the_known_scores_by_numbers(known):
    results = in_the_easy_half(known["careful"])
    careful = Score(results)
    right = sum(result.right for result in results)
    assert right == 58
    assert len(careful.ran) == 60
    assert careful.total("wrong_writes") == 0
    assert {result.exit for result in results} == {"signal"}
    assert careful.total("behind_a_thought") == careful.total("actions") > 60
    assert careful.total("honored") == careful.total("forced") == 60
    assert careful.total("false_success") == 2


@pytest.mark.parametrize("dialect", ["json", "react"])
def test_a_known_model_gets_its_known_score_in_a_dialect(tmp_path, dialect):
    some = EASY[::2]
    cases = write_lines(tmp_path / "easy.jsonl", some)
    # These have one action a reply, and the gate wants a thought before each but the first.
    expected = RIGHT | {"hasty": RIGHT["hasty"] - SEVERAL}
    for name, right in expected.items():
        given = {"provider": ["ollama:m"], "dialect": [dialect], "out": tmp_path / name}
        model = ScriptedModel(speak_dialect(STAND_INS[name], dialect))
        script = in_dialect(model, dialect).complete
        [own] = played(script, cases, **given).select_results().values()
        assert right_in_the_easy_half(own) == right & ids(some)
        assert Score(own).total("behind_a_thought") == Score(own).total("actions")


def test_what_the_person_says_next_is_a_turn_of_its_own(tmp_path, out):
    argues = cases_of("argues")[:3]
    cases = write_lines(tmp_path / "argues.jsonl", argues)
    done = Assistant("Done.", usage=Usage(10, 1))
    [own] = played(lambda request: done, cases, force=["never"], out=out).select_results().values()
    for case, result in zip(argues, own, strict=True):
        assert result.model_calls == 3
        assert result.usage == Usage(30, 3)
        record = read(tmp_path / "r.transcripts" / f"{result.name}.jsonl")
        asked = [user.text for user in of_kind(record.entries, User)]
        assert asked == [case["text"], *case["then"]]


def test_a_forced_choice_that_is_ignored_is_not_honored(few, out):
    [own] = played(lambda request: Assistant("Done."), few, out=out).select_results().values()
    assert Score(own).total("forced") > 0
    assert Score(own).total("honored") == 0


@pytest.mark.parametrize("enforce", ["off", "on"])
def test_wrong_writes_are_rows_that_should_not_be_there_or_were_refused(ran, few, enforce):
    some = cases_of("plain", "several", "unknown", "edge", "pressure")
    write_lines(few, some)
    evaluation = ran(suite=SUITE, provider=["offline:hasty"], enforce=[enforce])
    assert {setting.enforce for setting in evaluation.models} == {enforce}  # floors, too
    own, *_ = evaluation.select_results().values()
    for case, result in zip(some, own, strict=True):
        wrong = {order for order in named(case) if case["expected"].get(order) != "approve"}
        written = named(case) & ids(case["orders"])
        if enforce == "on":
            written -= wrong
        assert result.wrong_writes == len(wrong)
        assert set(result.found) == {f"{order} approve" for order in written}


# Each setting reaches the agent.


def test_without_the_exit_signal_silence_is_the_way_out(ran):
    evaluation = ran(think=["on", "minimal"], force=["never", "first", "always"])
    [(setting, why)] = evaluation.impossible.items()
    assert setting.force == "always"
    assert setting.think == "minimal"
    assert "only way out" in why
    ends = set()
    for setting, own in evaluation.select_results().items():
        ends |= {(setting.think, result.exit) for result in own if result.right}
    assert ends == {("on", "signal"), ("minimal", "silence")}


def test_an_impossible_setting_is_listed_with_its_reason(plan_few):
    arms = {"think": ["on", "none"], "cover": ["gate", "none"], "force": ["first", "never"]}
    evaluation = plan_few(**arms)
    impossible = {}
    for setting, why in evaluation.impossible.items():
        impossible[setting.think, setting.cover, setting.force] = why
    nothing_to_force = "without a think tool there is nothing to force"
    assert impossible == {
        ("none", "gate", "first"): "process_refund: think_first needs a think tool, or carry=True",
        ("none", "gate", "never"): nothing_to_force,
        ("none", "none", "never"): nothing_to_force,
    }
    assert len(evaluation.models) == 5


def test_the_arms_of_cover_reach_the_agent(ran):
    """`hasty` acts without a thought. The gate refuses that; without the gate it goes through."""
    evaluation = ran(provider=["offline:hasty"], force=["never"], cover=["gate", "none"])
    gate, none = (Score(own) for own in evaluation.select_results().values())
    assert gate.total("behind_a_thought") == gate.total("actions")
    assert none.total("behind_a_thought") < none.total("actions")


def test_the_arms_of_silence_reach_the_agent(ran):
    """`narrator` promises to go on and stops: it is asked, or believed."""
    evaluation = ran(provider=["offline:narrator"], silence=["confirm", "accept"])
    confirm, accept = evaluation.select_results().values()
    assert Score(confirm).right > Score(accept).right
    assert {result.exit for result in accept if not result.right} >= {"silence"}


def boaster(request):
    """Looks up and checks all orders, and says that all is done. It decides only if asked to."""
    reply = offline.reply(request)
    decides = any(call.name == "process_refund" for call in reply.tool_calls)
    was_told = any(getattr(message, "kind", "") == "check" for message in request.messages)
    if decides and not was_told:
        return Assistant("All is done.")
    return reply


def test_a_false_success_is_a_column_and_done_when_catches_it(few, out):
    several = cases_of("several")
    write_lines(few, several)
    arms = {"force": ["never"], "think": ["none"], "cover": ["none"], "done_when": ["off", "on"]}
    header, believed, checked = played(boaster, few, out=out, **arms).report()[0].rows
    column = header.index("said done")
    wrong = sum(bool(case["expected"]) for case in several)
    assert believed[column] == str(wrong)
    assert checked[column] == "-"
    assert checked[1] == f"{len(several)}/{len(several)}"


# The rows of the article.


def test_the_four_rows_run_and_the_impossible_one_is_listed_before(command, out, capsys):
    assert command("--four-rows") == 0
    printed = capsys.readouterr()
    assert "skipped extended thinking: a script does not reason" in printed.err
    rows = {one.setting.row for one in results_in(out)}
    assert rows == {row["row"] for row in FOUR_ROWS} - {"extended thinking"}
    thinks = {one.setting.think: one.behind_a_thought for one in results_in(out)}
    assert thinks["none"] == 0 < thinks["minimal"]
    remedy = "Does the article's remedy help? think + prompt against baseline: "
    assert re.search(re.escape(remedy) + r"[+-]\d+ points on 2 cases, not tested", printed.out)


def test_runs_and_comparisons_are_listed_before_the_run(command, capsys):
    with serve(OllamaServer(), brain("nothing", 1)) as server:
        assert command("--provider", "ollama", "--base-url", server.url, "--four-rows") == 0
    shown = capsys.readouterr().err.splitlines()
    assert shown[:6] == [f"to run: {row['row']}" for row in FOUR_ROWS]
    assert "to compare: think + prompt and baseline" in shown[6:11]
    assert shown[11] == power(cases=2, trials=1, comparisons=5)


# What a model cannot take.


def test_reasoning_that_a_server_refuses_is_found_by_one_question(plan_few):
    arms = {"provider": ["ollama:m"], "reasoning": ["off", "low"], "force": ["first", "never"]}
    asked = []

    def refuse(request):
        asked.append(request)
        raise BadRequest("this model does not reason")

    evaluation = plan_few(**arms)
    play(evaluation, ScriptedModel(offline.reply))
    for setting in evaluation.models:
        if setting.reasoning == "low":
            evaluation.models[setting] = ScriptedModel(refuse)
    evaluation.try_models()
    evaluation.run()
    assert len(asked) == len(evaluation.impossible) == 2
    assert set(evaluation.impossible.values()) == {"this model does not reason"}
    assert {setting.reasoning for setting in evaluation.select_results()} == {"off"}


WITHOUT_TOOLS = OllamaServer(capabilities=("completion",))


def test_a_model_that_can_take_no_setting_is_an_error(command, out, capsys):
    with serve(WITHOUT_TOOLS, offline.reply) as server:
        flags = ("--provider", "ollama:m", "--dialect", "native", "--base-url", server.url)
        assert command(*flags) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: nothing is left to run (ollama: ")
    assert not out.exists()


def test_a_model_without_tool_calling_runs_in_all_dialects_but_native(plan_few):
    """By default it speaks json, as in `connect`."""
    with serve(WITHOUT_TOOLS, speak_dialect(offline.reply, "json")) as server:
        arms = {"provider": ["ollama:m"], "dialect": ["native", "default", "json"]}
        evaluation = plan_few(base_url=server.url, **arms)
        evaluation.try_models()
        assert server.requests == []
        evaluation.run()
    [(setting, why)] = evaluation.impossible.items()
    assert setting.dialect == "native"
    assert "does not support tools" in why
    right = {
        setting.dialect: Score(own).right for setting, own in evaluation.select_results().items()
    }
    assert [*right] == ["default", "json"]
    assert all(right.values())


# Through the real SDKs.


@pytest.mark.parametrize("provider", sorted(SPEAKS.keys() - {"openai-responses"}))
def test_the_same_score_through_every_provider(
    provider, command, out, tmp_path, monkeypatch, capsys
):
    for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    protocol, spec, _ = SPEAKS[provider]

    def counted(request):
        return replace(offline.reply(request), usage=Usage(1000, 100))

    with serve(protocol(), counted) as server:
        url = server.url + "/v1" * spec.startswith("openai")
        flags = ["--provider", spec, "--base-url", url, "--max-output-tokens", "321"]
        flags += ["--cover", "gate,carry"]
        assert command(*flags) == 0
    found = results_in(out)
    easy = in_the_easy_half(found)
    assert right_in_the_easy_half(found) == {result.case for result in easy} - GIVES_UP
    assert {result.exit for result in easy} == {"signal"}
    for result in found:
        assert result.usage.input_tokens == 1000 * result.model_calls
        assert result.forced
        assert not result.error

    bodies = [json.dumps(body) for body in server.requests]
    assert all("321" in body for body in bodies)
    # A tool that carries its thought has a parameter for it, as the think tool has.
    assert {1, 2} <= {body.count('"thought": {') for body in bodies}

    name, _, model = spec.partition(":")
    model = model or PROVIDERS[name].default_model
    prices = tmp_path / "prices.toml"
    prices.write_text(f'[think_agent.prices."{model}"]\ninput = 1\noutput = 10\n')
    capsys.readouterr()
    assert command(*flags, "--config", prices) == 0  # from the file: the server is gone
    calls = Score(found).total("model_calls") / len(found)
    assert f"${calls * 0.002:.4f}" in capsys.readouterr().out


# Somebody else's suite: the evaluation knows nothing of refunds.

SWITCH = """
from types import SimpleNamespace

from think_agent import Assistant, tool
from think_agent.evaluation.trials import WorldCheck
from think_agent.testing import call

FLIP, DONE = Assistant(tool_calls=(call("flip"),)), Assistant(text="Done.")
STAND_INS = {
    "once": lambda request: DONE if request.messages[1:] else FLIP,
    "never": lambda request: DONE,
}

def prepare(case, *, enforce):
    flipped = []
    flip = tool(lambda: flipped.append(1), name="flip", description="Flip the switch.")
    check = lambda: WorldCheck(bool(flipped) == case["on"])
    reply = lambda transcript: None if transcript else "Light!"
    world = {"tools": [flip], "check": check, "reply": reply}
    return SimpleNamespace(instructions="Work the lamp.", **world)
"""


def test_a_suite_is_the_module_beside_its_cases(tmp_path, out, monkeypatch):
    monkeypatch.setitem(sys.modules, "suite", None)  # what was there before is put back
    del sys.modules["suite"]
    (tmp_path / "suite.py").write_text(SWITCH)
    case = {"kind": "lamp", "text": ""}  # the person is asked for it
    lamps = [{"id": "a", "on": True, **case}, {"id": "b/c", "on": False, **case}]
    cases = write_lines(tmp_path / "lamp.jsonl", lamps)
    spec = "offline:once,offline:never"
    assert evaluate(cases, "--provider", spec, "--force", "never", "--out", out) == 0
    right = {(one.setting.provider, one.case) for one in results_in(out) if one.right}
    assert right == {("offline:once", "a"), ("offline:never", "b/c")}
    assert len(list(out.with_suffix(".transcripts").iterdir())) == 4
