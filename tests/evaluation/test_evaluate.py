"""The evaluation: known models get known scores, nothing is run twice, what is wrong is said."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from demos.refund import offline
from demos.refund.shop import allowed_decision
from demos.refund.suite import CaseShop, RefundCase
from tests.readme import ROOT
from tests.servers import serve
from tests.support.providers import KEY, SPEAKS
from think_agent import AuthError, BadRequest, ScriptedModel, Usage
from think_agent.cli.main import main
from think_agent.evaluation.command import Evaluation
from think_agent.evaluation.inputs import settings_of
from think_agent.evaluation.scores import Result, Score
from think_agent.evaluation.tables import markdown, report
from think_agent.evaluation.trials import RESULT
from think_agent.providers import PROVIDERS

CASES = ROOT / "demos/refund/cases.jsonl"
SUITE = "demos.refund.suite"
LINES = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def evaluate(*arguments) -> int:
    """`think-agent eval ...` in this process; its exit code."""
    sys.argv = ["think-agent", "eval", *map(str, arguments)]
    try:
        return main()
    except SystemExit as ended:
        return ended.code


RUNS = ("suite", "trials", "shard", "concurrency", "out")


def plan(cases, **given) -> Evaluation:
    """An evaluation of the refund desk; what is not about the runs is a setting."""
    runs = {"suite": SUITE} | {name: given.pop(name) for name in RUNS if name in given}
    return Evaluation(cases, settings_of(**given), **runs)


def results_in(path: Path) -> list[Result]:
    return [RESULT.validate_json(line) for line in path.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """Suites change the path; flags may come from the environment."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.chdir(ROOT)
    for name in ("PROVIDER", "BASE_URL", "FORCE"):
        monkeypatch.delenv(f"THINK_AGENT_{name}", raising=False)


@pytest.fixture
def few(tmp_path):
    """A cases file with one case of each kind (and two of the kind whose tools fail)."""
    first = {line["kind"]: line for line in reversed(LINES)}
    again = next(line for line in LINES if "fails once" in line.get("tools", {}).values())
    path = tmp_path / "few.jsonl"
    path.write_text("\n".join(map(json.dumps, [*first.values(), again])))
    return path


@pytest.fixture
def ran(few, tmp_path):
    """Evaluates the few cases; gives the evaluation."""

    def run(**given) -> Evaluation:
        given = {"provider": ["offline:careful"], "out": tmp_path / "r.jsonl", **given}
        evaluation = plan(given.pop("cases", few), **given)
        evaluation.run()
        return evaluation

    return run


@pytest.fixture
def command(few, tmp_path):
    """`think-agent eval` on the few cases, with more flags; its exit code."""
    out = ("--suite", SUITE, "--provider", "offline:careful", "--out", tmp_path / "r.jsonl")
    return lambda *flags: evaluate(few, *out, *flags)


# The cases, judged by hand a second time.


def by_policy(order: dict) -> str:
    """The policy in policy.md, rule by rule."""
    if order.get("refunded_days_ago") is not None or order.get("final_sale"):
        return "deny"
    if order["days_ago"] > 30:
        return "deny"
    return "escalate" if order["price_cents"] > 50000 else "approve"


def named(case: dict) -> set[str]:
    return {number.upper() for number in re.findall(r"\bORD-\d+\b", case["text"], re.IGNORECASE)}


def test_there_are_sixty_cases_in_ten_kinds():
    kinds = Counter(case["kind"] for case in LINES)
    assert (len(LINES), len(kinds), min(kinds.values()) >= 5) == (73, 10, True)


@pytest.mark.parametrize("case", LINES, ids=lambda case: case["id"])
def test_the_expected_rows_are_those_of_the_policy(case):
    right = {order["id"]: by_policy(order) for order in case["orders"]}
    down = [state for state in case.get("tools", {}).values() if state != "fails once"]
    wanted = {} if down else {n: right[n] for n in named(case) if n in right}
    assert case["expected"] == wanted
    shop = CaseShop(RefundCase.model_validate(case).orders, enforce=True)
    assert {n: allowed_decision(shop.order(n))[0] for n in right} == right


# Known models get known scores.


def approved_unseen(case: dict) -> set[str]:
    """The rows that a model leaves which asks for every approval: those the shop lets through."""
    if "process_refund" in case.get("tools", {}):
        return set()
    right = {order["id"]: by_policy(order) for order in case["orders"]}
    return {number for number in named(case) if right.get(number) == "approve"}


HEALTHY = [case for case in LINES if "tools" not in case]
GIVES_UP = {case["id"] for case in LINES if "fails once" in case.get("tools", {}).values()}
KNOWN = {
    "careful": {case["id"] for case in LINES} - GIVES_UP,
    "hasty": {
        case["id"]
        for case in LINES
        if case["expected"] == dict.fromkeys(approved_unseen(case), "approve")
    },
    "silent": {case["id"] for case in LINES if not case["expected"]},
}
KNOWN["stubborn"] = KNOWN["hasty"]
STAND_INS = ",".join(f"offline:{name}" for name in KNOWN)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """All stand-ins on all cases: the results by stand-in."""
    path = tmp_path_factory.mktemp("eval") / "all.jsonl"
    assert evaluate(CASES, "--provider", STAND_INS, "--out", path) == 0
    found = {name: [] for name in KNOWN}
    for one in results_in(path):
        found[one.setting.provider.removeprefix("offline:")].append(one)
    return found


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_model_gets_its_known_score(known, name):
    assert {one.case for one in known[name]} == {case["id"] for case in LINES}
    assert {one.case for one in known[name] if one.right} == KNOWN[name]


def test_the_known_scores_in_figures(known):
    careful = Score(known["careful"])
    assert (careful.right, careful.trials, careful.total("wrong_writes")) == (71, 73, 0)
    assert careful.exits == {"signal": 73}
    assert careful.total("behind_a_thought") == careful.total("actions")
    assert careful.total("honored") == careful.total("forced") == 73


@pytest.mark.parametrize("dialect", ["json", "react"])
def test_a_known_model_gets_its_known_score_in_a_dialect(ran, dialect):
    names = ("careful", "hasty", "silent")
    evaluation = ran(cases=CASES, provider=[f"offline:{n}" for n in names], dialect=[dialect])
    assert evaluation.impossible == {}
    found = list(evaluation.found().values())
    assert all(one.behind_a_thought == one.actions for own in found for one in own)
    # A json plan has one action a turn, and the gate wants a thought before each but the first.
    several = {case["id"] for case in LINES if len(case["expected"]) > 1}
    expected = KNOWN | ({"hasty": KNOWN["hasty"] - several} if dialect == "json" else {})
    right = [{one.case for one in own if one.right} for own in found]
    assert right == [expected[name] for name in names]


def test_wrong_writes_are_proposals_that_the_shop_refused(known):
    hasty = {one.case: one.wrong_writes for one in known["hasty"]}
    for case in HEALTHY:
        tried = [case["expected"].get(number) for number in named(case)]
        assert hasty[case["id"]] == sum(right != "approve" for right in tried)
    assert all(one.wrong_writes >= hasty[one.case] for one in known["stubborn"])


def test_without_the_shops_enforcement_wrong_rows_are_counted(ran):
    providers = ["offline:careful", "offline:hasty"]
    evaluation = ran(cases=CASES, provider=providers, trust_model=[True])
    assert "the same for all: trust_model=True" in markdown(report(evaluation.found()))
    careful, hasty = evaluation.found().values()
    assert {one.case for one in careful if one.right} == KNOWN["careful"]
    assert not any(one.wrong_writes for one in careful)
    rows = {one.case: one for one in hasty}
    for case in HEALTHY:
        exist = named(case) & {order["id"] for order in case["orders"]}
        assert set(rows[case["id"]].found) == {f"{number} approve" for number in exist}
        wrong = {n for n in named(case) if case["expected"].get(n) != "approve"}
        assert rows[case["id"]].wrong_writes == len(wrong)


def test_without_the_exit_signal_silence_is_the_way_out(ran):
    evaluation = ran(think=["on", "minimal"], force=["never", "first", "always"])
    ((setting, why),) = evaluation.impossible.items()
    assert (setting.force, setting.think) == ("always", "minimal")
    assert "only way out" in why
    found = [one for own in evaluation.found().values() for one in own]
    ends = {(one.setting.think, one.exit) for one in found}
    assert ends == {("on", "signal"), ("minimal", "silence")}
    assert {one.case for one in found if not one.right} == GIVES_UP & {one.case for one in found}


def test_the_four_rows_run_and_what_cannot_be_run_is_named(command, tmp_path, capsys):
    assert command("--four-rows") == 0
    printed = capsys.readouterr()
    assert "skipped extended thinking: a stand-in does not reason" in printed.err
    assert "the same for all: provider=offline:careful, force=never, cover=none" in printed.out
    rows = re.findall(r"^\| (baseline|think|think \+ prompt) +\| \d+/\d", printed.out, re.MULTILINE)
    assert rows[:3] == ["baseline", "think", "think + prompt"]
    thinks = {one.setting.think: one.behind_a_thought for one in results_in(tmp_path / "r.jsonl")}
    assert thinks["none"] == 0 < thinks["minimal"]


def test_an_arm_that_cannot_be_is_named_with_its_reason(ran):
    evaluation = ran(
        think=["on", "none"],
        cover=["gate", "none"],
        force=["first", "never"],
        instructions=["plain", "terse"],
    )
    for setting, why in evaluation.impossible.items():
        reasons = {
            "terse": setting.instructions == "terse",
            "nothing to force": setting.think == "none" and setting.force == "never",
            "think_first": setting.think == "none" and setting.cover == "gate",
        }
        assert any(word in why and holds for word, holds in reasons.items()), why
    thinking = set(product(["on"], ["gate", "none"], ["first", "never"], ["plain"]))
    left = {(s.think, s.cover, s.force, s.instructions) for s in evaluation.models}
    assert left == thinking | {("none", "none", "first", "plain")}


def test_the_arms_of_cover_reach_the_agent(ran):
    """Who approves unseen forgets the thought: refused by the gate, let through without it."""
    given = {"provider": ["offline:hasty"], "force": ["never"]}
    [gate, none] = ran(**given, cover=["gate", "none"]).found().values()
    assert all(one.behind_a_thought == one.actions for one in gate)
    assert sum(one.behind_a_thought for one in none) < sum(one.actions for one in none)


def test_the_arms_of_silence_reach_the_agent(ran):
    """Who promises to go on and stops is asked, or believed."""
    evaluation = ran(provider=["offline:narrator"], silence=["confirm", "accept"])
    [confirm, accept] = evaluation.found().values()
    assert sum(one.right for one in confirm) > sum(one.right for one in accept)
    assert {one.exit for one in accept if not one.right} >= {"silence"}


def test_reasoning_that_a_server_refuses_is_found_by_one_question_and_not_run(few, tmp_path):
    evaluation = plan(few, provider=["offline:careful"], out=tmp_path / "r.jsonl")
    (setting,) = evaluation.models
    asked = []

    def refuse(request):
        asked.append(request)
        raise BadRequest("this model does not reason")

    arm = replace(setting, provider="local:m", reasoning="low")
    evaluation.models[arm] = ScriptedModel(refuse)
    evaluation.jobs += [replace(job, setting=arm) for job in evaluation.jobs]
    evaluation.run()
    assert len(asked) == 1
    assert evaluation.impossible == {arm: "this model does not reason"}
    assert set(evaluation.found()) == {setting}


# Nothing is run twice, whatever happens.


def keys(path: Path) -> list:
    return [(one.setting, one.case, one.trial) for one in results_in(path)]


TWICE = ("--provider", "offline:careful", "--trials", "2")


def started(path: Path, wait_for: int) -> subprocess.Popen:
    """An evaluation in a process of its own that has at least so many results."""
    words = ["-m", "think_agent", "eval", CASES, *TWICE, "--out", path]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, text=True, **streams)
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") <= wait_for:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_evaluation_goes_on_where_it_was(tmp_path, capsys, sign):
    path = tmp_path / "r.jsonl"
    process = started(path, 20)
    process.send_signal(sign)
    _, said = process.communicate(timeout=30)
    if sign != signal.SIGKILL:
        assert process.returncode == 130
        assert re.search(r"\nstopped: \d+ of 146 runs are done; the same command goes on\n$", said)
    before = keys(path)
    assert 20 <= len(before) < 146
    with path.open("a") as file:
        file.write('{"setting": {"provider": "offl')  # what a torn write leaves
    assert evaluate(CASES, *TWICE, "--out", path) == 0
    after = keys(path)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 146
    assert f"{len(before)} of 146 runs are done already" in capsys.readouterr().err
    whole = path.read_bytes()
    assert evaluate(CASES, *TWICE, "--out", path) == 0
    assert path.read_bytes() == whole
    assert "142/146" in capsys.readouterr().out


def test_more_trials_and_settings_add_to_what_is_there(ran, tmp_path):
    ran()
    evaluation = ran(provider=["offline:careful", "offline:silent"], trials=2)
    done = keys(tmp_path / "r.jsonl")
    assert len(done) == len(set(done)) == len(evaluation.jobs)
    assert "pass^2" in markdown(report(evaluation.found()))


def test_shards_are_disjoint_and_merge_by_concatenation(ran, tmp_path):
    given = {"provider": ["offline:careful", "offline:hasty"], "trials": 2}
    paths = [tmp_path / f"{n}.jsonl" for n in (1, 2, 3)]
    for n, path in enumerate(paths, 1):
        ran(**given, shard=f"{n}/3", out=path)
        done = Counter((one.case, one.trial) for one in results_in(path))
        assert set(done.values()) == {2}  # both settings of a trial: they are compared
    merged = tmp_path / "merged.jsonl"
    merged.write_bytes(b"".join(path.read_bytes() for path in paths))
    written = merged.read_bytes()
    whole = ran(**given, out=merged)
    assert merged.read_bytes() == written  # nothing was waiting
    at_once = ran(**given, out=tmp_path / "at_once.jsonl")
    assert untimed(whole) == untimed(at_once)


def untimed(evaluation: Evaluation) -> dict:
    found = evaluation.found()
    return {setting: [replace(one, seconds=0.0) for one in own] for setting, own in found.items()}


def test_a_failure_that_comes_later_in_a_merged_file_undoes_no_result(ran, tmp_path):
    ran()
    out = tmp_path / "r.jsonl"
    failed = replace(results_in(out)[0], right=False, error="busy")
    with out.open("ab") as file:
        file.write(RESULT.dump_json(failed) + b"\n")
    written = out.read_bytes()
    ran()
    assert out.read_bytes() == written


class Counting(ScriptedModel):
    """Takes its time, and counts how many ask it at once."""

    running = most = asked = 0

    async def acomplete(self, request):
        self.running, self.asked = self.running + 1, self.asked + 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        return self.complete(request)


@pytest.fixture
def played(few, tmp_path):
    """An evaluation of the few cases, three at a time, in which `script` plays the model."""

    def made(script) -> tuple[Evaluation, Counting]:
        given = {"concurrency": 3, "out": tmp_path / "r.jsonl"}
        evaluation = plan(few, provider=["offline:careful"], **given)
        model = Counting(script)
        evaluation.models.update(dict.fromkeys(evaluation.models, model))
        return evaluation, model

    return made


def test_jobs_are_handed_out_once_and_so_many_at_a_time(played):
    evaluation, model = played(offline.reply)
    done = []
    evaluation.run(lambda one: done.append((one.case, one.trial)))
    assert sorted(done) == sorted((job.case.id, job.trial) for job in evaluation.jobs)
    assert model.most == 3


def test_an_error_that_no_case_would_escape_ends_it_at_once(played):
    def refuse(request):
        raise AuthError("wrong key")

    evaluation, model = played(refuse)
    with pytest.raises(AuthError, match="wrong key"):
        evaluation.run()
    assert model.asked <= 3


def test_a_trial_that_failed_on_the_way_is_counted_and_run_again(played):
    failing = ["content filter"]

    def script(request):
        if failing:
            raise BadRequest(failing.pop())
        return offline.reply(request)

    evaluation, _ = played(script)
    evaluation.run()
    [found] = evaluation.found().values()
    [failed] = [one for one in found if one.error]
    assert (failed.error, failed.exit, failed.right) == ("content filter", "error", False)
    said = markdown(report(evaluation.found()))
    assert "error 1" in said
    assert f"careful: 1 of {len(found)} runs ended in an error: content filter" in said
    assert [job.case.id for job in evaluation.waiting] == [failed.case]
    evaluation.run()
    assert evaluation.waiting == []
    assert not any(one.error for own in evaluation.found().values() for one in own)


# Through the real SDKs.


@pytest.mark.parametrize("provider", sorted(SPEAKS.keys() - {"openai-responses"}))
def test_the_same_score_through_every_provider(provider, command, tmp_path, monkeypatch, capsys):
    for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    path, prices = tmp_path / "r.jsonl", tmp_path / "prices.toml"
    protocol, spec, _ = SPEAKS[provider]

    def brain(request):
        return replace(offline.reply(request), usage=Usage(1000, 100))

    with serve(protocol(), brain) as server:
        url = server.url + "/v1" if spec.startswith("openai") else server.url
        flags = ("--provider", spec, "--base-url", url, "--max-output-tokens", "321")
        assert command(*flags, "--cover", "gate,carry") == 0
        bodies = [json.dumps(body) for body in server.requests]
    assert all("321" in body for body in bodies)
    # A tool that carries its thought has a parameter for it, as the think tool has.
    assert {1, 2} <= {body.count('"thought": {') for body in bodies}
    found = results_in(path)
    assert {one.case for one in found if not one.right} == GIVES_UP & {one.case for one in found}
    assert all(one.usage.input_tokens == 1000 * one.model_calls for one in found)
    assert all(one.exit == "signal" and one.forced and not one.error for one in found)
    model = spec.partition(":")[2] or PROVIDERS[spec].default_model
    prices.write_text(f'[think_agent.prices."{model}"]\ninput = 1\noutput = 10\n')
    capsys.readouterr()
    # all is done: the table comes from the file, and the server may be gone
    assert command(*flags, "--cover", "gate,carry", "--config", prices) == 0
    calls = sum(one.model_calls for one in found) / len(found)
    assert f"${calls * 0.002:.4f}" in capsys.readouterr().out


# Somebody else's suite: the evaluation knows nothing of refunds.

SWITCH = """
from types import SimpleNamespace

from think_agent import Assistant, tool
from think_agent.evaluation.trials import Check
from think_agent.testing import call

FLIP, DONE = Assistant(tool_calls=(call("flip"),)), Assistant(text="Done.")
STAND_INS = {
    "once": lambda request: DONE if request.messages[1:] else FLIP,
    "never": lambda request: DONE,
}

def prepare(case, *, trust_model):
    flipped = []
    flip = tool(lambda: flipped.append(1), name="flip", description="Flip the switch.")
    check = lambda: Check(bool(flipped) == case["on"])
    return SimpleNamespace(instructions="Work the lamp.", tools=[flip], check=check)
"""


def test_a_suite_is_the_module_beside_its_cases(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "suite", raising=False)
    (tmp_path / "suite.py").write_text(SWITCH)
    cases, path = tmp_path / "lamp.jsonl", tmp_path / "r.jsonl"
    case = {"kind": "lamp", "text": "Light!"}
    lines = [{"id": "a", "on": True, **case}, {"id": "b", "on": False, **case}]
    cases.write_text("\n".join(map(json.dumps, lines)))
    spec = "offline:once,offline:never"
    assert evaluate(cases, "--provider", spec, "--force", "never", "--out", path) == 0
    right = {(one.setting.provider, one.case) for one in results_in(path) if one.right}
    assert right == {("offline:once", "a"), ("offline:never", "b")}
    assert evaluate(cases, "--provider", "offline:once", "--dialect", "json", "--out", path) == 2
    error = capsys.readouterr().err
    assert "nothing is left to run (this suite's stand-ins speak no dialect)" in error
    monkeypatch.delitem(sys.modules, "suite")


# What a user can get wrong.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"provider": ["offline:genius"]}, "offline:careful, offline:hasty"),
        ({"provider": ["nonsense"]}, "use one of: ollama"),
        ({"provider": []}, "no settings are given"),
        ({"force": ["sometimes"]}, "'never', 'first' or 'always'"),
        ({"force": ["always"], "think": ["minimal"]}, "nothing is left to run"),
        ({"suite": "no.such.module"}, "run it where that can be imported"),
        ({"suite": "demos.refund.shop"}, "a suite has prepare"),
        ({"suite": "."}, "use the name of a module"),
        ({"shard": "5/4"}, "use a part of how many, such as 1/4"),
        ({"shard": "a/b"}, "use a part of how many, such as 1/4"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_run(few, tmp_path, given, said):
    out = tmp_path / "r.jsonl"
    with pytest.raises(ValueError, match=said):
        plan(few, **{"provider": ["offline:careful"], **given}, out=out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--flag", "maybe"), "'on', 'minimal' or 'none'"),
        (("--trials", "0"), "--trials"),
        (("--out", str(CASES)), "that is the file of the cases"),
        (("--provider", "openai:m", "--base-url", "http://127.0.0.1:9"), "openai: no server at "),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, monkeypatch, capsys, flags, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert evaluate(CASES, "--provider", "offline:careful", *flags) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert "--base-url" in flags or list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there are no cases in it"),
        ('{"id": "a"}', "line 1: a case is a JSON object"),
        ("\n{torn", "line 2: a case is a JSON object"),
        (json.dumps(LINES[0]) + "\n" + json.dumps(LINES[0]), "line 2: the id 'plain-1' is taken"),
        (json.dumps({**LINES[0], "expected": {"ORD-1": "maybe"}}), "case plain-1: "),
        (json.dumps({**LINES[0], "tools": {"think": "gone"}}), "case plain-1: "),
    ],
)
def test_a_wrong_case_is_found_before_anything_is_run(tmp_path, text, said):
    cases, out = tmp_path / "cases.jsonl", tmp_path / "r.jsonl"
    cases.write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        plan(cases, provider=["offline:careful"], out=out)
    assert not out.exists()


def test_results_of_other_cases_are_not_mixed_in(few, tmp_path):
    out = tmp_path / "r.jsonl"
    given = {"provider": ["offline:silent"], "out": out}
    plan(few, **given).run()
    few.write_text(few.read_text().replace("please", "now"))
    refused = pytest.raises(ValueError, match="line 1 is no result of these cases")
    with refused:
        plan(few, **given)
    older = '{"evaluation": 1, "asked": ""}\n'
    for text in (older, "not one of ours\n", "no line break either", "[]", '{"torn'):
        out.write_text(text)
        with refused:
            plan(few, **given)
        assert out.read_text() == text


def test_a_flag_from_before_says_which_think_tool(command, tmp_path):
    assert command("--flag", "off") == 0
    assert {one.setting.think for one in results_in(tmp_path / "r.jsonl")} == {"minimal"}


def test_files_out_of_reach_are_one_line(command, few, tmp_path, capsys):
    assert evaluate(tmp_path / "none.jsonl", "--suite", SUITE) == 1
    assert command("--config", tmp_path / "none.toml") == 1
    assert command("--out", tmp_path) == 1
    assert command("--out", few / "r.jsonl") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("error: ") for line in lines)
    assert not (tmp_path / "r.jsonl").exists()
