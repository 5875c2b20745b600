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
from datetime import datetime
from itertools import product
from pathlib import Path

import pytest

import think_agent
from demos.refund import offline
from demos.refund import suite as refund
from demos.refund.dialects import speaking
from tests.evaluation.test_cases import HARD, named
from tests.readme import ROOT
from tests.servers import Reply, serve
from tests.servers.ollama import OllamaServer
from tests.support.providers import KEY, SPEAKS
from tests.support.simulated import CASES, LINES, brain
from think_agent import THINK, Assistant, AuthError, BadRequest, ScriptedModel, Usage
from think_agent.audit import read
from think_agent.cli.main import main
from think_agent.evaluation import results as results_file
from think_agent.evaluation import trials
from think_agent.evaluation.command import Evaluation
from think_agent.evaluation.inputs import settings_of
from think_agent.evaluation.report import report
from think_agent.evaluation.results import RESULT
from think_agent.evaluation.scores import Result, Score, Setting
from think_agent.evaluation.tables import markdown
from think_agent.providers import PROVIDERS

SUITE = "demos.refund.suite"
FLOORS = ["do-nothing", "never-think", "follow-the-refusal", "always-deny"]


def evaluate(*arguments) -> int:
    """`think-agent eval ...` in this process; its exit code."""
    sys.argv = ["think-agent", "eval", *map(str, arguments)]
    try:
        return main()
    except SystemExit as ended:
        return ended.code


RUNS = ("suite", "trials", "shard", "concurrency", "out", "base_url", "timeout")


def plan(cases, **given) -> Evaluation:
    """An evaluation of the refund desk; what is not about the runs is a setting."""
    runs = {"suite": SUITE} | {name: given.pop(name) for name in RUNS if name in given}
    return Evaluation(cases, settings_of(**given), **runs)


def results_in(path: Path) -> list[Result]:
    """The results in a file, but for those of the floors."""
    results = [RESULT.validate_json(line) for line in path.read_text().splitlines()]
    return [result for result in results if not result.setting.is_floor]


def found_by(evaluation: Evaluation) -> dict[Setting, list[Result]]:
    """What was found, but for the floors."""
    return {s: own for s, own in evaluation.found().items() if not s.is_floor}


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
    """A cases file with one case of some kinds (and two of the kind whose tools fail)."""
    some = ("plain", "several", "unknown", "manager", "broken-tools", "many", "argues")
    first = {line["kind"]: line for line in reversed(LINES) if line["kind"] in some}
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


# Known models get known scores.


EASY = [case for case in LINES if case["kind"] not in HARD]
SOME = [*EASY, *(case for case in LINES[::5] if case["kind"] in HARD)]
GIVES_UP = {case["id"] for case in EASY if "fails once" in case.get("tools", {}).values()}
RIGHT = {  # in the easy half; what else is right there, needs no decision or one on sight
    "careful": {case["id"] for case in EASY} - GIVES_UP,
    "silent": {case["id"] for case in EASY if not case["expected"]},
}


def approved_unseen(case: dict) -> bool:
    """Is it right to approve every order that there is?"""
    if "process_refund" in case.get("tools", {}):
        return True
    there = named(case) & {order["id"] for order in case["orders"]}
    return case["expected"] == dict.fromkeys(there, "approve")


RIGHT["hasty"] = {case["id"] for case in EASY if approved_unseen(case)}
KNOWN = RIGHT
STAND_INS = ",".join(f"offline:{name}" for name in KNOWN)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """All scripts on the easy cases and some of the hard ones: the results by script."""
    path = tmp_path_factory.mktemp("eval") / "all.jsonl"
    cases = path.with_name("cases.jsonl")
    cases.write_text("\n".join(json.dumps(case) for case in SOME))
    assert evaluate(cases, "--suite", SUITE, "--provider", STAND_INS, "--out", path) == 0
    found = {name: [] for name in KNOWN}
    for result in results_in(path):
        found[result.setting.provider.removeprefix("offline:")].append(result)
    return found


def right_in_the_easy_half(results) -> set[str]:
    return {result.case for result in results if result.right and result.kind not in HARD}


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_model_gets_its_known_score(known, name):
    assert {result.case for result in known[name]} == {case["id"] for case in SOME}
    assert right_in_the_easy_half(known[name]) == KNOWN[name]


def test_the_known_scores_in_figures(known):
    careful = Score([result for result in known["careful"] if result.kind not in HARD])
    assert (careful.right, len(careful.ran), careful.total("wrong_writes")) == (58, 60, 0)
    assert careful.exits == {"signal": 60}
    assert careful.total("behind_a_thought") == careful.total("actions")
    assert careful.total("honored") == careful.total("forced") == 60
    assert careful.total("false_success") == 2


@pytest.mark.parametrize("dialect", ["json", "react"])
def test_a_known_model_gets_its_known_score_in_a_dialect(ran, tmp_path, dialect):
    cases = tmp_path / "easy.jsonl"
    cases.write_text("\n".join(json.dumps(case) for case in EASY[::2]))
    names = ("careful", "hasty", "silent")
    evaluation = ran(cases=cases, provider=[f"offline:{n}" for n in names], dialect=[dialect])
    assert evaluation.impossible == {}
    found = list(found_by(evaluation).values())
    assert all(result.behind_a_thought == result.actions for own in found for result in own)
    # These have one action a reply, and the gate wants a thought before each but the first.
    several = {case["id"] for case in LINES if len(case["expected"]) > 1}
    expected = KNOWN | {"hasty": KNOWN["hasty"] - several}
    chosen = {case["id"] for case in EASY[::2]}
    right = [right_in_the_easy_half(own) for own in found]
    assert right == [expected[name] & chosen for name in names]


def test_what_the_person_says_next_is_a_turn_of_its_own(tmp_path):
    cases = tmp_path / "argues.jsonl"
    argues = [case for case in LINES if case["kind"] == "argues"][:3]
    cases.write_text("\n".join(json.dumps(case) for case in argues))
    out = tmp_path / "r.jsonl"
    evaluation = plan(cases, provider=["offline:silent"], force=["never"], out=out)
    model = ScriptedModel(lambda request: Assistant("Done.", usage=Usage(10, 1)))
    evaluation.models.update(dict.fromkeys(evaluation.models, model))
    evaluation.run()
    [own] = found_by(evaluation).values()
    assert {result.model_calls for result in own} == {3}
    assert {result.usage for result in own} == {Usage(30, 3)}
    record = read(tmp_path / own[0].transcript)
    said = [m.text for m in record.entries if type(m).__name__ == "User" and m.kind == "person"]
    case = next(case for case in LINES if case["id"] == own[0].case)
    assert said == [case["text"], *case["then"]]


def test_wrong_writes_are_rows_that_should_not_be_there_or_were_refused(ran, tmp_path):
    cases = tmp_path / "some.jsonl"
    some = [case for case in EASY if "tools" not in case][::2]
    cases.write_text("\n".join(json.dumps(case) for case in some))
    evaluation = ran(cases=cases, provider=["offline:hasty"], enforce=["off", "on"])
    [trusting, strict] = found_by(evaluation).values()
    rows = {row[0]: row[1] for row in report(evaluation.found())[0].rows}
    assert rows["floor: always-deny"] == rows["floor: always-deny, refused"] != "0/27"
    assert rows["floor: follow-the-refusal"] != rows["floor: follow-the-refusal, refused"]
    for case, trusted, refused in zip(some, trusting, strict, strict=True):
        there = named(case) & {order["id"] for order in case["orders"]}
        assert set(trusted.found) == {f"{number} approve" for number in there}
        wrong = {n for n in named(case) if case["expected"].get(n) != "approve"}
        assert trusted.wrong_writes == len(wrong)
        assert refused.wrong_writes == len(wrong)
        assert set(refused.found) == {f"{n} approve" for n in there - wrong}


def test_without_the_exit_signal_silence_is_the_way_out(ran):
    evaluation = ran(think=["on", "minimal"], force=["never", "first", "always"])
    ((setting, why),) = evaluation.impossible.items()
    assert (setting.force, setting.think) == ("always", "minimal")
    assert "only way out" in why
    found = [result for own in found_by(evaluation).values() for result in own if result.right]
    ends = {(result.setting.think, result.exit) for result in found}
    assert ends == {("on", "signal"), ("minimal", "silence")}


def test_the_four_rows_run_and_what_cannot_be_run_is_named_before(command, tmp_path, capsys):
    assert command("--four-rows") == 0
    printed = capsys.readouterr()
    assert "skipped extended thinking: a script does not reason" in printed.err
    assert "the same for all: provider=offline:careful, force=never, cover=none" in printed.out
    for rows in re.findall(r"(?:^\|.*\n)+", printed.out, re.MULTILINE):
        names = [line.split("|")[1].strip() for line in rows.splitlines()[2:]]
        assert names[:4] == ["baseline", "prompt", "think", "think + prompt"]
        assert names[4:] == [f"floor: {name}" for name in FLOORS]
    thinks = {one.setting.think: one.behind_a_thought for one in results_in(tmp_path / "r.jsonl")}
    assert thinks["none"] == 0 < thinks["minimal"]
    said = printed.out.splitlines()
    size = r"[+-]\d+ points on 8 cases, not tested\."
    for question, names in {
        "Does the article's remedy help?": "think + prompt against baseline",
        "What does the tool add to the prompt?": "think + prompt against prompt",
        "What does the tool do without the prompt?": "think against baseline",
        "What does the prompt do without the tool?": "prompt against baseline",
    }.items():
        [line] = [line for line in said if line.startswith(question)]
        assert re.fullmatch(rf"{re.escape(question)} {re.escape(names)}: {size}", line)


def test_an_arm_that_cannot_be_is_named_with_its_reason(ran):
    evaluation = ran(think=["on", "none"], cover=["gate", "none"], force=["first", "never"])
    for setting, why in evaluation.impossible.items():
        reasons = {
            "nothing to force": setting.think == "none" and setting.force == "never",
            "think_first": setting.think == "none" and setting.cover == "gate",
        }
        assert any(word in why and holds for word, holds in reasons.items()), why
    thinking = set(product(["on"], ["gate", "none"], ["first", "never"]))
    left = {(s.think, s.cover, s.force) for s in evaluation.models if not s.is_floor}
    assert left == thinking | {("none", "none", "first")}


def test_the_arms_of_cover_reach_the_agent(ran):
    """Who approves unseen forgets the thought: refused by the gate, let through without it."""
    given = {"provider": ["offline:hasty"], "force": ["never"]}
    [gate, none] = found_by(ran(**given, cover=["gate", "none"])).values()
    assert all(one.behind_a_thought == one.actions for one in gate)
    assert sum(one.behind_a_thought for one in none) < sum(one.actions for one in none)


def test_the_arms_of_silence_reach_the_agent(ran):
    """Who promises to go on and stops is asked, or believed."""
    evaluation = ran(provider=["offline:narrator"], silence=["confirm", "accept"])
    [confirm, accept] = found_by(evaluation).values()
    assert sum(one.right for one in confirm) > sum(one.right for one in accept)
    assert {one.exit for one in accept if not one.right} >= {"silence"}


def boaster(request):
    """Looks up and checks all orders, decides the first of them, and says that all is done; asked
    what is missing, it does the rest."""
    reply = offline.reply(request)
    decisions = [call for call in reply.tool_calls if call.name == "process_refund"]
    was_asked = any(getattr(message, "kind", "") == "check" for message in request.messages)
    decided = any(getattr(message, "name", "") == "process_refund" for message in request.messages)
    if decisions and decided and not was_asked:
        return replace(reply, tool_calls=(), text="All is done.", stop_reason="end_turn")
    if decisions and not was_asked:
        return replace(reply, tool_calls=(decisions[0],))
    return reply


def test_a_false_success_is_a_column_and_done_when_catches_it(ran, tmp_path):
    cases = tmp_path / "several.jsonl"
    several = [case for case in EASY if case["kind"] == "several"]
    cases.write_text("\n".join(json.dumps(case) for case in several))
    evaluation = plan(
        cases,
        provider=["offline:careful"],
        force=["never"],
        think=["none"],
        cover=["none"],
        done_when=["off", "on"],
        out=tmp_path / "r.jsonl",
    )
    for setting in found_settings(evaluation):
        evaluation.models[setting] = ScriptedModel(boaster)
    evaluation.run()
    [believed, checked] = found_by(evaluation).values()
    more = sum(len(case["expected"]) > 1 for case in several)
    assert sum(result.false_success for result in believed) == more
    assert not any(result.false_success for result in checked)
    assert all(result.right for result in checked)
    [header, first, second] = report(found_by(evaluation))[0].rows
    column = header.index("said done")
    assert (first[column], second[column]) == (str(more), "0")


def found_settings(evaluation: Evaluation) -> list[Setting]:
    return [setting for setting in evaluation.models if not setting.is_floor]


def test_reasoning_that_a_server_refuses_is_found_by_one_question_and_not_run(few, tmp_path):
    given = {"provider": ["ollama:m"], "reasoning": ["off", "low"], "force": ["first", "never"]}
    asked = []

    def refuse(request):
        asked.append(request)
        raise BadRequest("this model does not reason")

    evaluation = plan(few, **given, out=tmp_path / "r.jsonl")
    for setting in found_settings(evaluation):
        script = refuse if setting.reasoning == "low" else offline.reply
        evaluation.models[setting] = ScriptedModel(script)
    assert len(evaluation.comparisons) == 4
    evaluation.try_models()
    evaluation.run()
    assert len(asked) == 1  # for two settings
    refused = {setting for setting in evaluation.models if setting.reasoning == "low"}
    assert evaluation.impossible == dict.fromkeys(refused, "this model does not reason")
    assert len(evaluation.comparisons) == 1
    assert {setting.reasoning for setting in found_by(evaluation)} == {"off"}


def test_where_a_model_takes_no_setting_nothing_is_run(few, tmp_path, capsys):
    out = tmp_path / "r.jsonl"
    with serve(OllamaServer(capabilities=("completion",)), offline.reply) as server:
        flags = ("--suite", SUITE, "--provider", "ollama:m", "--base-url", server.url)
        assert evaluate(few, *flags, "--out", out) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: nothing is left to run (ollama: ")
    assert not out.exists()


def test_a_model_without_tool_calling_runs_in_a_dialect_alone(few, tmp_path):
    with serve(
        OllamaServer(capabilities=("completion",)), speaking(offline.reply, "json")
    ) as server:
        given = {"provider": ["ollama:m"], "dialect": ["native", "json"], "base_url": server.url}
        evaluation = plan(few, **given, out=tmp_path / "r.jsonl")
        assert server.requests == []
        evaluation.try_models()
        assert server.requests == []
        evaluation.run()
    [(setting, why)] = evaluation.impossible.items()
    assert (setting.dialect, "does not support tools" in why) == ("native", True)
    [(setting, own)] = found_by(evaluation).items()
    assert setting.dialect == "json"
    assert any(result.right for result in own)


def test_what_is_run_and_compared_is_said_before_it_is_paid(few, tmp_path, capsys):
    with serve(OllamaServer(), brain("nothing", 1)) as server:
        flags = ("--suite", SUITE, "--provider", "ollama", "--base-url", server.url)
        out = ("--out", tmp_path / "r.jsonl")
        assert evaluate(few, *flags, *out, "--four-rows") == 0
    said = capsys.readouterr().err.splitlines()
    assert said[:5] == [
        f"to run: {row}"
        for row in ("baseline", "prompt", "think", "think + prompt", "extended thinking")
    ]
    assert said[5] == "to compare: think + prompt and baseline"
    assert said[6] == "to compare: think + prompt and extended thinking"
    assert said[10].startswith("With 8 cases and 1 trial of each, a difference of 8")
    assert "(there are 5 comparisons); one of 7 points takes " in said[10]


def test_ollama_is_asked_one_by_one_unless_told_otherwise(few, tmp_path):
    out = tmp_path / "r.jsonl"
    for given, most in (({}, 1), ({"concurrency": 3}, 3)):
        evaluation = plan(few, provider=["ollama:m"], force=["never"], out=out, **given)
        model = Counting(offline.reply)
        evaluation.models.update(dict.fromkeys(evaluation.models, model))
        evaluation.run()
        out.unlink()
        assert model.most == most


# Nothing is run twice, whatever happens.


def keys(path: Path) -> list:
    return [(one.setting, one.case, one.trial) for one in results_in(path)]


TWICE = ("--suite", SUITE, "--provider", "offline:careful", "--trials", "2")


@pytest.fixture
def thirty(tmp_path):
    path = tmp_path / "thirty.jsonl"
    path.write_text("\n".join(json.dumps(case) for case in EASY[:30]))
    return path


def started(cases: Path, path: Path, wait_for: int) -> subprocess.Popen:
    """An evaluation in a process of its own that has at least so many results."""
    words = ["-m", "think_agent", "eval", cases, *TWICE, "--out", path]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, text=True, **streams)
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") <= wait_for:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_evaluation_goes_on_where_it_was(thirty, tmp_path, capsys, sign):
    path = tmp_path / "r.jsonl"
    process = started(thirty, path, 20)
    process.send_signal(sign)
    _, said = process.communicate(timeout=90)
    every = 30 * (2 + len(FLOORS))  # a floor is run once
    if sign != signal.SIGKILL:
        assert process.returncode == 130
        stopped = rf"\nstopped: \d+ of {every} runs are done; the same command goes on\n$"
        assert re.search(stopped, said)
    before = path.read_bytes().splitlines()
    assert 20 <= len(before) < every
    with path.open("a") as file:
        file.write('{"setting": {"provider": "offl')  # what a torn write leaves
    assert evaluate(thirty, *TWICE, "--out", path) == 0
    after = path.read_bytes().splitlines()
    assert after[: len(before)] == before
    assert len(after) == len({RESULT.validate_json(line) and line for line in after}) == every
    assert len(keys(path)) == len(set(keys(path))) == 60
    assert f"{len(before)} of {every} runs are done already" in capsys.readouterr().err
    whole = path.read_bytes()
    assert evaluate(thirty, *TWICE, "--out", path) == 0
    assert path.read_bytes() == whole
    assert "60/60" in capsys.readouterr().out


def test_two_processes_do_not_write_to_one_file(thirty, tmp_path, capsys):
    """The second one used to cut off what the first was writing."""
    path = tmp_path / "r.jsonl"
    process = started(thirty, path, 5)
    before = path.read_bytes()
    assert evaluate(thirty, *TWICE, "--out", path) == 1
    said = capsys.readouterr().err
    assert f"error: {path}: another evaluation writes to it; wait for its end" in said
    assert process.wait(90) == 0
    process.communicate()
    assert path.read_bytes().startswith(before)
    assert len(keys(path)) == len(set(keys(path))) == 60


def test_more_trials_and_settings_add_to_what_is_there(ran, tmp_path):
    ran()
    evaluation = ran(provider=["offline:careful", "offline:silent"], trials=2)
    done = (tmp_path / "r.jsonl").read_text().splitlines()
    assert len(done) == len(set(done)) == len(evaluation.jobs) == 8 * (2 * 2 + len(FLOORS))
    assert "pass^2" in markdown(report(evaluation.found()))


def test_shards_are_disjoint_and_merge_by_concatenation_wherever_they_ran(few, tmp_path):
    """Also on servers at two addresses: these used not to merge."""
    given = {"provider": ["openai:m"], "force": ["first", "never"], "trials": 2}
    paths = [tmp_path / f"{n}.jsonl" for n in (1, 2, 3)]
    for n, path in enumerate(paths, 1):
        with serve(SPEAKS["openai-chat"][0](), offline.reply) as server:
            url = f"{server.url}/v1"
            shard = plan(few, **given, shard=f"{n}/3", out=path, base_url=url)
            shard.run()
        done = Counter((one.case, one.trial) for one in results_in(path))
        assert set(done.values()) == {2}  # both settings of a trial: they are compared
        assert {one.address for one in results_in(path)} == {server.url}
        every = sum(len(p.read_text().splitlines()) for p in paths[:n])
        assert shard.missing == len(shard._all) - len(path.read_text().splitlines())
    merged = tmp_path / "merged.jsonl"
    merged.write_bytes(b"".join(path.read_bytes() for path in paths))
    whole = plan(few, **given, out=merged, base_url="http://127.0.0.1:9")  # nobody is asked
    assert (whole.missing, whole.waiting, every) == (0, [], len(whole.jobs))
    assert {len(own) for own in found_by(whole).values()} == {2 * 8}
    again = [replace(one, seconds=0.0) for own in whole.found().values() for one in own]
    assert len({(one.setting, one.case, one.trial) for one in again}) == len(again)


def test_a_part_of_the_shards_is_said_to_be_a_part(command, tmp_path, capsys):
    """`cat` of two of three used to say n = 37 without a word."""
    for shard in ("1/3", "2/3"):
        assert command("--shard", shard) == 0
    said = capsys.readouterr().err
    assert "10 runs of this plan are missing in" in said.splitlines()[-1]


def test_a_failure_that_comes_later_in_a_merged_file_undoes_no_result(ran, tmp_path):
    ran()
    out = tmp_path / "r.jsonl"
    failed = replace(results_in(out)[0], right=False, error="busy")
    with out.open("ab") as file:
        file.write(RESULT.dump_json(failed) + b"\n")
    written = out.read_bytes()
    ran()
    assert out.read_bytes() == written


# Results are what they say.


def test_a_result_says_where_it_is_from_and_its_transcript_is_kept(few, tmp_path):
    out = tmp_path / "r.jsonl"
    with serve(OllamaServer(), offline.reply) as server:
        url = server.url.replace("http://", "http://ann:se-cret@") + "/?key=abc"
        evaluation = plan(few, provider=["ollama:m"], out=out, base_url=url)
        evaluation.run()
    for result in results_in(out):
        assert result.served == ("m",)
        assert result.address == server.url
        assert result.kit == think_agent.__version__
        assert datetime.fromisoformat(result.at).tzinfo
        assert len(result.asked) == 64
        record = read(tmp_path / result.transcript)
        assert record.header["model"] == "ollama:m"
        replies = [m for m in record.entries if type(m).__name__ == "Assistant"]
        assert len(replies) == result.model_calls
    assert "cret" not in out.read_text()
    assert len(list((tmp_path / "r.transcripts").iterdir())) == len(evaluation.jobs)


def told_otherwise(monkeypatch) -> None:
    tool = replace(THINK, description="Write down what you think.")
    monkeypatch.setitem(trials.THINK_TOOLS, "on", tool)


def answered_by_another_kit(monkeypatch) -> None:
    monkeypatch.setattr(results_file, "__version__", "9.9.9")


def advised_otherwise(monkeypatch) -> None:
    monkeypatch.setattr(refund, "ADVICE", "Think twice.")


def asked_otherwise(monkeypatch) -> None:
    monkeypatch.setattr(refund, "TASK", refund.TASK + "\nBe kind.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (told_otherwise, "is of another question: the case"),
        (advised_otherwise, "is of another question: the case"),
        (asked_otherwise, "is of another question: the case"),
        (answered_by_another_kit, "was made by think-agent 0.1.0, and this is 9.9.9"),
    ],
)
@pytest.mark.parametrize("dialect", ["native", "json"])
def test_what_was_asked_otherwise_is_refused_by_name(ran, monkeypatch, change, said, dialect):
    given = {"provider": ["offline:silent"], "advice": ["on"], "dialect": [dialect]}
    ran(**given)
    change(monkeypatch)
    if dialect == "json" and change is told_otherwise:
        ran(**given)  # there the think tool is not shown, but a key of the plan
        return
    with pytest.raises(ValueError, match=rf"line \d+ {said}"):
        ran(**given)


def test_results_of_other_settings_may_stand_in_the_file(ran):
    ran(provider=["offline:silent"])
    evaluation = ran(provider=["offline:hasty"])
    assert len(found_by(evaluation)) == 1


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
        evaluation.models.update(dict.fromkeys(found_settings(evaluation), model))
        return evaluation, model

    return made


def test_jobs_are_handed_out_once_and_so_many_at_a_time(played):
    evaluation, model = played(offline.reply)
    evaluation.models.update(dict.fromkeys(evaluation.models, model))  # the floors, too
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


def test_a_trial_that_failed_on_the_way_is_no_wrong_answer_and_run_again(played):
    failing = ["content filter"]

    def script(request):
        if failing:
            raise BadRequest(failing.pop())
        return offline.reply(request)

    evaluation, _ = played(script)
    evaluation.run()
    [(setting, found)] = found_by(evaluation).items()
    [failed] = [one for one in found if one.error]
    assert (failed.error, failed.exit, failed.right) == ("content filter", "error", False)
    sections = report({setting: found})
    assert sections[0].rows[1][1].endswith(f"/{len(found) - 1}")
    assert "error 1" in markdown(sections)
    said = f"careful: 1 of {len(found)} runs ended in an error, not counted: content filter"
    assert said in sections[-1].remark
    assert [job.case.id for job in evaluation.waiting] == [failed.case]
    evaluation.run()
    assert evaluation.waiting == []
    assert not any(one.error for own in evaluation.found().values() for one in own)


def test_busy_signals_in_one_row_are_no_finding(few, tmp_path, monkeypatch):
    """Twelve answers of HTTP 429 used to read "baseline beat extended thinking, p < 0.001"."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    cases = tmp_path / "easy.jsonl"
    cases.write_text("\n".join(json.dumps(case) for case in EASY[:12]))
    busy = {"error": {"message": "insufficient quota", "code": "insufficient_quota"}}
    with serve(SPEAKS["openai-chat"][0](), offline.reply) as server:
        given = {"out": tmp_path / "r.jsonl", "base_url": f"{server.url}/v1", "concurrency": 1}
        plan(cases, provider=["openai:m"], force=["first"], **given).run()
        server.canned = [Reply(400, busy) for _ in range(12)]
        evaluation = plan(cases, provider=["openai:m"], force=["first", "never"], **given)
        evaluation.run()
    assert sum(bool(one.error) for own in found_by(evaluation).values() for one in own) == 12
    said = report(evaluation.found(), comparisons=evaluation.comparisons)[-1].remark
    assert "force=never and force=first: there is no case that both have." in said
    assert "force=never: 12 of 12 runs ended in an error, not counted" in said


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
    easy = {one.case for one in found if one.kind not in HARD}
    assert right_in_the_easy_half(found) == easy - GIVES_UP
    assert all(one.usage.input_tokens == 1000 * one.model_calls for one in found)
    assert all(one.forced and not one.error for one in found)
    assert all(one.exit == "signal" for one in found if one.kind not in HARD)
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

def prepare(case, *, enforce):
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
    assert "nothing is left to run (this suite's scripts speak no dialect)" in error
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
        (("--think", "maybe"), "'on', 'minimal' or 'none'"),
        (("--trials", "0"), "--trials"),
        (("--out", str(CASES)), "another flag has that file"),
        (("--provider", "openai:m", "--base-url", "http://127.0.0.1:9"), "openai: no server at "),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, monkeypatch, capsys, flags, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert evaluate(CASES, "--provider", "offline:careful", *flags) in (1, 2)
    *before, line = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    if "--base-url" not in flags:
        assert before == list(tmp_path.iterdir()) == []


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
    with pytest.raises(ValueError, match=r"line \d+ is of another question: the case plain-1, "):
        plan(few, **given)
    refused = pytest.raises(ValueError, match="line 1 is no result of this version")
    older = '{"evaluation": 1, "asked": ""}\n'
    for text in (older, "not one of ours\n", "no line break either", "[]", '{"torn'):
        out.write_text(text)
        with refused:
            plan(few, **given)
        assert out.read_text() == text


def test_files_out_of_reach_are_one_line(command, few, tmp_path, capsys):
    assert evaluate(tmp_path / "none.jsonl", "--suite", SUITE) == 2
    assert command("--config", tmp_path / "none.toml") == 2
    assert command("--out", tmp_path) == 2
    assert command("--out", few / "r.jsonl") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("error: ") for line in lines)
    assert not (tmp_path / "r.jsonl").exists()
