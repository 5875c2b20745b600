"""The evaluation: known models get known scores, nothing is run twice, noise is called noise."""

import asyncio
import io
import itertools
import json
import math
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from scipy.stats import binomtest

from demos.refund import offline
from demos.refund.shop import allowed_decision
from demos.refund.suite import CaseShop, RefundCase
from tests.dialects.test_json_plan import planner
from tests.providers.test_four_providers import KEY, SPEAKS
from tests.servers import Reply, serve
from tests.servers.openai_chat import Chat
from think_agent import ModelError, Usage
from think_agent.cli.main import guarded
from think_agent.cli.options import Parser, UserError
from think_agent.evaluation.command import add_arguments, main
from think_agent.evaluation.inputs import read_prices
from think_agent.evaluation.intervals import holm, mcnemar, pass_hat_k, wilson
from think_agent.evaluation.scores import Result, Setting, compare, from_json, score, to_json
from think_agent.evaluation.tables import fitting, markdown, report, show
from think_agent.evaluation.trials import Case, Job, run_all
from think_agent.policies import Price
from think_agent.providers import PROVIDERS

ROOT = Path(__file__).parents[2]
CASES = ROOT / "demos/refund/cases.jsonl"
LINES = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
COMMAND = """
import sys
from think_agent.cli.main import guarded
from think_agent.evaluation.command import add_arguments, main
from think_agent.cli.options import Parser
parser = Parser()
add_arguments(parser)
sys.exit(guarded(lambda: main(parser.parse_args())))
"""


def evaluate(*arguments) -> int:
    """`think-agent eval ...` in this process; its exit code."""
    parser = Parser(prog="think-agent eval")

    def command() -> int:
        add_arguments(parser)
        return main(parser.parse_args([str(argument) for argument in arguments]))

    return guarded(command)


def results_in(path: Path) -> list[Result]:
    return [from_json(json.loads(line)) for line in path.read_text().splitlines()[1:]]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """Suites change the path; flags may come from the environment."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)
    for name in ("PROVIDER", "BASE_URL", "FORCE"):
        monkeypatch.delenv(f"THINK_AGENT_{name}", raising=False)


@pytest.fixture
def few(tmp_path):
    """A cases file with one case of each kind (and two of the kind whose tools fail)."""
    first = {line["kind"]: line for line in reversed(LINES)}
    path = tmp_path / "few.jsonl"
    again = next(line for line in LINES if "fails once" in line.get("tools", {}).values())
    path.write_text("".join(json.dumps(line) + "\n" for line in [*first.values(), again]))
    return path


# Statistics, against scipy and against counting.


@pytest.mark.parametrize("n", [1, 2, 7, 60, 1000])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_wilson_intervals_are_scipys(n, confidence):
    for right in {0, 1, n // 3, n // 2, n - 1, n}:
        theirs = binomtest(right, n).proportion_ci(confidence, method="wilson")
        assert wilson(right, n, confidence=confidence) == pytest.approx((theirs.low, theirs.high))


def test_nothing_is_known_of_no_cases():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("first", [0, 1, 5, 40, 900])
@pytest.mark.parametrize("second", [0, 1, 6, 44, 1000])
def test_mcnemar_is_scipys_exact_test(first, second):
    theirs = binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(theirs)


def test_holm_by_hand():
    # smallest x 3, next x 2 (= 0.04, not below the one before), largest x 1
    assert holm([0.02, 0.01, 0.5]) == pytest.approx([0.04, 0.03, 0.5])
    assert holm([0.01, 0.012, 0.013]) == pytest.approx([0.03, 0.03, 0.03])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(("right", "trials"), [(0, 4), (3, 4), (4, 4), (2, 5)])
def test_pass_hat_k_is_the_share_of_draws_that_are_all_right(right, trials):
    outcomes = [True] * right + [False] * (trials - right)
    for k in range(1, trials + 1):
        draws = list(itertools.combinations(outcomes, k))
        assert pass_hat_k(right, trials, k) == pytest.approx(sum(map(all, draws)) / len(draws))


# Scores, by values.


def result(case, right, *, setting=None, trial=1, **figures):
    setting = setting or Setting("p")
    return Result(setting=setting, case=case, kind="k", trial=trial, right=right, **figures)


def test_trials_of_a_case_are_no_further_cases():
    once = score([result(case, case != "a") for case in "abcd"])
    thrice = score([result(case, case != "a", trial=n) for case in "abcd" for n in (1, 2, 3)])
    assert (once.accuracy, once.interval) == (thrice.accuracy, thrice.interval)
    assert once.interval == wilson(3, 4)


def test_a_model_that_is_right_now_and_then_has_a_low_pass_k():
    shaky = score([result(case, n == 1, trial=n) for case in "abcd" for n in (1, 2)])
    assert (shaky.accuracy, shaky.pass_k) == (0.5, 0.0)


def test_an_error_on_the_way_counts_as_wrong_and_not_in_the_averages():
    fine = result("a", True, model_calls=4, seconds=2.0, exit="signal", usage=Usage(1000, 100, 400))
    figures = score([fine, result("b", False, error="busy")], Price(input=2, output=10))
    assert (figures.accuracy, figures.calls, figures.seconds) == (0.5, 4.0, 2.0)
    assert figures.exits == {"signal": 1, "error": 1}
    assert figures.cost == pytest.approx(1000 * 2e-6 + 100 * 10e-6)


def test_settings_are_compared_where_one_thing_differs():
    a, b = Setting("p"), Setting("p", force="never")
    c = Setting("q", force="never")
    right = {a: "123456789", b: "1", c: "12"}
    results = {s: [result(n, n in right[s], setting=s) for n in "1234567890"] for s in right}
    pairs = {(one.first, one.second): one for one in compare(results)}
    assert pairs.keys() == {(a, b), (b, c)}  # a and c differ in two
    assert (pairs[a, b].first_better, pairs[a, b].second_better) == (8, 0)
    assert pairs[a, b].p == pytest.approx(2 * binomtest(8, 8).pvalue)  # two comparisons: doubled
    assert pairs[b, c].p == 1.0


def test_markdown_rows_have_as_many_cells_as_their_header():
    odd = Setting("openai:a|b\nc\x1b[31m模型")
    found = {odd: [result("a", True, setting=odd)], Setting("p"): [result("a", False)]}
    text = markdown(report(found))
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
        assert len({cell_len(line) for line in table.splitlines()}) == 1
    assert "\x1b" not in text
    assert "not shown" in text


FORCES = ("never", "first", "always")


def many_results(count):
    settings = [Setting(f"provider-{n}", force=force) for n in range(count) for force in FORCES]
    return {s: [result(case, True, setting=s, exit="signal") for case in "ab"] for s in settings}


@pytest.mark.parametrize("width", [40, 60, 100, 140])
@pytest.mark.parametrize("count", [1, 4])
def test_a_terminal_gets_all_of_the_tables_and_no_line_wider_than_itself(width, count):
    sections = report(many_results(count))
    out = io.StringIO()
    show(sections, Console(file=out, force_terminal=True, width=width, color_system=None))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).replace("|", " ").split())
    for section in sections:
        assert section.name in words
        for cell in itertools.chain(*section.rows):
            assert all(word in words for word in cell.split()), cell


def test_a_table_that_does_not_fit_is_turned_and_dealt_out():
    rows = [["#", "right", "calls"], ["#1", "1/2", "3.0"], ["#2", "2/2", "4.0"], ["#3", "0/2", "-"]]
    assert list(fitting(rows, 24)) == [rows]
    first = [["#", "#1", "#2"], ["right", "1/2", "2/2"], ["calls", "3.0", "4.0"]]
    second = [["#", "#3"], ["right", "0/2"], ["calls", "-"]]
    assert [[list(row) for row in part] for part in fitting(rows, 21)] == [first, second]
    assert len(list(fitting(rows, 5))) == 3  # one beside the other: the least there is
    assert list(fitting([], 60)) == []


def test_a_result_is_the_same_after_the_file():
    one = result("a", True, found=("x",), usage=Usage(1, 2, 3, 4))
    assert from_json(json.loads(json.dumps(to_json(one)))) == one


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
    assert len(LINES) >= 60
    assert len(kinds) == 10
    assert min(kinds.values()) >= 5
    assert len({case["id"] for case in LINES}) == len(LINES)


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
    scores = {name: score(found) for name, found in known.items()}
    assert {name: (s.right, s.trials) for name, s in scores.items()} == {
        "careful": (71, 73),
        "hasty": (29, 73),
        "stubborn": (29, 73),
        "silent": (12, 73),
    }
    careful = scores["careful"]
    assert careful.wrong_writes == scores["silent"].wrong_writes == 0
    assert careful.exits == {"signal": 73}
    assert careful.behind_a_thought == careful.actions
    assert careful.honored == careful.forced == 73


@pytest.mark.parametrize("dialect", ["json", "react"])
def test_a_known_model_gets_its_known_score_in_a_dialect(tmp_path, dialect, capsys):
    path = tmp_path / "r.jsonl"
    spec = "offline:careful,offline:hasty,offline:silent"
    assert evaluate(CASES, "--provider", spec, "--dialect", dialect, "--out", path) == 0
    assert "skipped" not in capsys.readouterr().err
    right = {name: set() for name in ("careful", "hasty", "silent")}
    for one in results_in(path):
        assert one.setting.dialect == dialect
        assert one.behind_a_thought == one.actions
        if one.right:
            right[one.setting.provider.removeprefix("offline:")].add(one.case)
    # A json plan has one action a turn, and the gate wants a thought before each but the first.
    several = {case["id"] for case in LINES if len(case["expected"]) > 1}
    hasty = KNOWN["hasty"] - several if dialect == "json" else KNOWN["hasty"]
    assert right == {"careful": KNOWN["careful"], "hasty": hasty, "silent": KNOWN["silent"]}


def test_wrong_writes_are_proposals_that_the_shop_refused(known):
    broken = {case["id"] for case in LINES if "tools" in case}
    for case in LINES:
        if case["id"] in broken:
            continue
        tried = {n: case["expected"].get(n) for n in named(case)}
        refused = sum(right != "approve" for right in tried.values())
        (hasty,) = (one for one in known["hasty"] if one.case == case["id"])
        (stubborn,) = (one for one in known["stubborn"] if one.case == case["id"])
        assert hasty.wrong_writes == refused
        assert stubborn.wrong_writes >= refused


def test_without_the_shops_enforcement_wrong_rows_are_counted(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    spec = "offline:careful,offline:hasty"
    assert evaluate(CASES, "--provider", spec, "--trust-model", "--out", path) == 0
    assert "enforcement was switched off" in capsys.readouterr().out
    for one in results_in(path):
        case = next(case for case in LINES if case["id"] == one.case)
        if "careful" in one.setting.provider:
            assert (one.wrong_writes, one.right) == (0, one.case not in GIVES_UP)
        elif "tools" not in case:
            exist = named(case) & {order["id"] for order in case["orders"]}
            assert set(one.found) == {f"{number} approve" for number in exist}
            wrong = {n for n in named(case) if case["expected"].get(n) != "approve"}
            assert one.wrong_writes == len(wrong)


def test_without_the_exit_signal_silence_is_the_way_out(few, tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    code = evaluate(
        few,
        *("--suite", "demos.refund.suite", "--provider", "offline:careful", "--flag", "on,off"),
        *("--force", "never,first,always", "--out", path),
    )
    assert code == 0
    printed = capsys.readouterr()
    assert "skipped offline:careful native force=always flag=off: " in printed.err
    found = results_in(path)
    assert {(one.setting.flag, one.exit) for one in found} == {("on", "signal"), ("off", "silence")}
    assert len({one.setting for one in found}) == 5
    assert {one.case for one in found if not one.right} == GIVES_UP & {one.case for one in found}
    assert "force: never / first" in printed.out
    assert "flag: on / off" in printed.out


# Nothing is run twice, whatever happens.


def keys(path: Path) -> list:
    return [(one.setting, one.case, one.trial) for one in results_in(path)]


def started(path: Path, wait_for: int) -> subprocess.Popen:
    """An evaluation in a process of its own that has at least so many results."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", COMMAND, CASES, "--provider", "offline:careful"),
            *("--trials", "2", "--out", path),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
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
    arguments = (CASES, "--provider", "offline:careful", "--trials", 2, "--out", path)
    assert evaluate(*arguments) == 0
    after = keys(path)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 146
    assert f"{len(before)} of 146 runs are done already" in capsys.readouterr().err
    whole = path.read_bytes()
    assert evaluate(*arguments) == 0
    assert path.read_bytes() == whole
    assert "142/146" in capsys.readouterr().out


def test_more_trials_and_settings_add_to_what_is_there(few, tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    common = (few, "--suite", "demos.refund.suite", "--out", path)
    assert evaluate(*common, "--provider", "offline:careful") == 0
    assert evaluate(*common, "--provider", "offline:careful,offline:silent", "--trials", 2) == 0
    assert len(keys(path)) == len(set(keys(path))) == 4 * len(few.read_text().splitlines())
    assert "pass^2" in capsys.readouterr().out


def test_jobs_are_handed_out_once_and_so_many_at_a_time():
    jobs = [Job(Setting("p"), Case(str(n), "k", "", {}), 1) for n in range(40)]
    running, most, done = 0, 0, []

    async def perform(job):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return result(job.case.id, True)

    asyncio.run(run_all(jobs, perform, lambda one: done.append(one.case), concurrency=3))
    assert sorted(map(int, done)) == list(range(40))
    assert most == 3


def test_an_error_that_no_case_would_escape_ends_it_at_once():
    jobs = [Job(Setting("p"), Case(str(n), "k", "", {}), 1) for n in range(40)]
    tried = []

    async def perform(job):
        tried.append(job)
        await asyncio.sleep(0)
        raise ModelError("wrong key")

    with pytest.raises(ModelError, match="wrong key"):
        asyncio.run(run_all(jobs, perform, lambda one: None, concurrency=4))
    assert len(tried) <= 4


# Through the real SDKs.


@pytest.mark.parametrize("provider", ["ollama", "anthropic", "openai-chat", "gemini"])
def test_the_same_score_through_every_provider(provider, few, tmp_path, monkeypatch, capsys):
    for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    protocol, spec, _ = SPEAKS[provider]
    path, prices = tmp_path / "r.jsonl", tmp_path / "prices.toml"

    def brain(request):
        return replace(offline.reply(request), usage=Usage(1000, 100))

    with serve(protocol(), brain) as server:
        url = server.url + "/v1" if spec.startswith("openai") else server.url
        arguments = (few, "--suite", "demos.refund.suite", "--provider", spec, "--base-url", url)
        assert evaluate(*arguments, "--out", path) == 0
    found = results_in(path)
    assert {one.case for one in found if not one.right} == GIVES_UP & {one.case for one in found}
    assert all(one.usage.input_tokens == 1000 * one.model_calls for one in found)
    assert all(one.exit == "signal" and one.forced for one in found)
    model = spec.partition(":")[2] or PROVIDERS[spec][3]
    prices.write_text(f'["{model}"]\ninput = 1\noutput = 10\n')
    capsys.readouterr()
    # all is done: the table comes from the file, and the server may be gone
    assert evaluate(*arguments, "--out", path, "--prices", prices) == 0
    calls = sum(one.model_calls for one in found) / len(found)
    assert f"${calls * 0.002:.4f}" in capsys.readouterr().out


def test_a_dialect_is_a_setting(few, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path = tmp_path / "r.jsonl"
    with serve(Chat(), planner) as server:
        code = evaluate(
            *(few, "--suite", "demos.refund.suite", "--provider", "openai:local"),
            *("--base-url", server.url + "/v1", "--dialect", "json", "--out", path),
        )
    assert code == 0
    found = results_in(path)
    assert all(one.honored == one.forced > 0 for one in found)
    assert sum(one.right for one in found) == len(found) - 1


def test_a_trial_that_failed_on_the_way_is_run_again(few, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path = tmp_path / "r.jsonl"
    with serve(Chat(), offline.reply) as server:
        server.canned.append(Reply(400, {"error": {"message": "content filter"}}))
        arguments = (
            *(few, "--suite", "demos.refund.suite", "--provider", "openai:local"),
            *("--base-url", server.url + "/v1", "--concurrency", 1, "--out", path),
        )
        assert evaluate(*arguments) == 0
        assert "error 1" in capsys.readouterr().out
        (failed,) = (one for one in results_in(path) if one.error)
        assert "content filter" in failed.error
        assert not failed.right
        asked = len(server.requests)
        assert evaluate(*arguments) == 0
        assert "error 1" not in capsys.readouterr().out
        (text,) = (line["text"] for line in LINES if line["id"] == failed.case)
        assert server.requests[asked]["messages"][-1]["content"] == text
    assert [one.case for one in results_in(path)].count(failed.case) == 2


def test_nobody_there_is_one_line_and_exit_code_1(few, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    arguments = (few, "--suite", "demos.refund.suite", "--out", tmp_path / "r.jsonl")
    url = ("--provider", "openai:m", "--base-url", "http://127.0.0.1:9/v1")
    assert evaluate(*arguments, *url) == 1
    assert re.fullmatch(r"error: openai: no connection to .*\n", capsys.readouterr().err)


# Somebody else's suite: the evaluation knows nothing of refunds.

SWITCH = '''
from think_agent import Assistant, ToolCall, tool
from think_agent.evaluation.trials import Check

def flips(times):
    def script(request):
        done = sum(isinstance(m, Assistant) for m in request.messages)
        if done < times and request.tool_choice == "auto":
            return Assistant(tool_calls=(ToolCall("", "flip", {}),))
        return Assistant(text="Done.")
    return script

STAND_INS = {"once": flips(1), "never": flips(0)}

class Lamp:
    instructions = "Work the lamp."

    def __init__(self, on):
        self.on, self.wanted = False, on
        self.tools = [tool(self.flip)]

    def flip(self) -> str:
        """Flip the switch."""
        self.on = not self.on
        return "click"

    def check(self):
        return Check(self.on == self.wanted)

def prepare(case, *, trust_model):
    return Lamp(case["on"])
'''


def test_a_suite_is_the_module_beside_its_cases(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "suite", raising=False)
    (tmp_path / "suite.py").write_text(SWITCH)
    lines = [
        {"id": "a", "kind": "on", "text": "Light!", "on": True},
        {"id": "b", "kind": "off", "text": "Leave it dark.", "on": False},
        {"id": "c", "kind": "on", "text": "Light, please.", "on": True},
    ]
    cases, path = tmp_path / "lamp.jsonl", tmp_path / "r.jsonl"
    cases.write_text("\n".join(map(json.dumps, lines)))
    spec = "offline:once,offline:never"
    assert evaluate(cases, "--provider", spec, "--force", "never", "--out", path) == 0
    right = {(one.setting.provider, one.case) for one in results_in(path) if one.right}
    assert right == {("offline:once", "a"), ("offline:once", "c"), ("offline:never", "b")}
    assert evaluate(cases, "--provider", "offline:once", "--dialect", "json", "--out", path) == 2
    error = capsys.readouterr().err
    assert "skipped offline:once json force=first flag=on: this suite's stand-ins speak no" in error
    monkeypatch.delitem(sys.modules, "suite")


# What a user can get wrong.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--provider", "offline:genius"), "offline:careful, offline:hasty"),
        (("--provider", "nonsense"), "use one of auto, ollama"),
        (("--provider", "auto"), "name the providers"),
        (("--provider", ","), "a list with commas"),
        (("--force", "sometimes"), "never, first, always"),
        (("--flag", "maybe"), "on, off"),
        (("--dialect", "morse"), "native, json, react"),
        (("--force", "always", "--flag", "off"), "nothing is left to run"),
        (("--suite", "no.such.module"), "run it where that can be imported"),
        (("--suite", "demos.refund.shop"), "a suite has prepare"),
    ],
)
def test_wrong_flags_are_named_in_one_line(few, tmp_path, capsys, arguments, said):
    given = ("--provider", "offline:careful", "--suite", "demos.refund.suite", *arguments)
    assert evaluate(few, "--out", tmp_path / "r.jsonl", *given) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert said in error


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "many"])
def test_numbers_are_whole_and_positive(few, value, capsys):
    assert evaluate(few, "--trials", value) == 2
    assert "--trials" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there are no cases in it"),
        ("[1]", "line 1: a case is a JSON object"),
        ('{"id": "a"}', "line 1: a case is a JSON object"),
        ("\n{torn", "line 2: a case is a JSON object"),
        (json.dumps(LINES[0]) + "\n" + json.dumps(LINES[0]), "line 2: the id 'plain-1' is taken"),
        (json.dumps({**LINES[0], "expected": {"ORD-1": "maybe"}}), "case plain-1: "),
        (json.dumps({**LINES[0], "tools": {"think": "gone"}}), "case plain-1: "),
    ],
)
def test_a_wrong_case_is_found_before_anything_is_run(tmp_path, capsys, text, said):
    cases, out = tmp_path / "cases.jsonl", tmp_path / "r.jsonl"
    cases.write_text(text)
    given = ("--provider", "offline:careful", "--suite", "demos.refund.suite", "--out", out)
    assert evaluate(cases, *given) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert said in error
    assert not out.exists()


def test_results_of_other_cases_are_not_mixed_in(few, tmp_path, capsys):
    out = tmp_path / "r.jsonl"
    given = ("--provider", "offline:silent", "--suite", "demos.refund.suite", "--out", out)
    assert evaluate(few, *given) == 0
    few.write_text(few.read_text().replace("please", "now"))
    assert evaluate(few, *given) == 2
    assert "choose another --out" in capsys.readouterr().err
    for text in ("not one of ours\n", "no line break either", "[]", '{"torn'):
        out.write_text(text)
        assert evaluate(few, *given) == 2
        assert "line 1 is no line of an evaluation" in capsys.readouterr().err
        assert out.read_text() == text


def test_files_out_of_reach_are_one_line(few, tmp_path, capsys):
    suite = ("--suite", "demos.refund.suite", "--provider", "offline:silent")
    assert evaluate(tmp_path / "none.jsonl", *suite) == 2
    assert evaluate(few, *suite, "--prices", tmp_path / "none.toml") == 2
    assert evaluate(few, *suite, "--out", tmp_path) == 1
    assert evaluate(few, *suite, "--out", few / "r.jsonl") == 1
    assert evaluate(few, *suite, "--out", tmp_path / "r.jsonl", "--plot", tmp_path) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("error: ") for line in lines)
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--out", "x.png"], "--plot x.png: that is the file of --out"),
        (["--out", "x.db", "--engine", "dbos"], "--out x.db: that is the file of the engine's"),
        (["--out", str(CASES)], "that is the file of the cases"),
        (["--suite", "."], "use the name of a module"),
        (["--suite", ""], "use the name of a module"),
    ],
)
def test_what_would_destroy_a_file_or_is_no_module_is_refused(
    tmp_path, monkeypatch, capsys, flags, said
):
    monkeypatch.chdir(tmp_path)
    assert evaluate(CASES, "--provider", "offline:careful", *flags) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "[m]\ninput = 1",
        "[m]\ninput = 'a'\noutput = 1",
        "[m]\ninput = -1\noutput = 1",
        "[m]\ninput = 1\noutput = nan",
        "[m]\ninput = 1\noutput = 1\ncached_input = inf",
        "m = 5",
    ],
)
def test_wrong_prices_are_refused(tmp_path, text):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=r'prices\.toml: write a table \["m"\] with input'):
        read_prices(path)
    path.write_text("[")
    with pytest.raises(UserError, match=r"prices\.toml: not valid TOML"):
        read_prices(path)


@pytest.mark.parametrize("value", [-1, -0.01, math.nan, math.inf, -math.inf, True, "1", None])
def test_a_price_is_a_number_from_0(value):
    for name in ("input", "output", "cached_input"):
        given = {"input": 1, "output": 1, name: value}
        if (name, value) == ("cached_input", None):
            assert Price(**given).of(Usage(1_000_000, 0, 1_000_000)) == 1
            continue
        with pytest.raises(ValueError, match=f"price {name}=.*: use a number from 0"):
            Price(**given)
    assert Price(input=0, output=0, cached_input=0).of(Usage(9, 9, 9)) == 0


# The plot.


def test_a_plot_is_drawn_beside_the_results(few, tmp_path):
    given = ("--suite", "demos.refund.suite", "--provider", "offline:careful,offline:silent")
    assert evaluate(few, *given, "--out", tmp_path / "r.jsonl") == 0
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert evaluate(few, *given, "--out", tmp_path / "r.jsonl", "--plot", tmp_path / "p.svg") == 0
    assert (
        "#2 offline:silent" in (tmp_path / "p.svg").read_text()
        or "<svg" in (tmp_path / "p.svg").read_text()
    )
    deep = tmp_path / "made" / "for" / "p.pdf"
    assert evaluate(few, *given, "--out", tmp_path / "r.jsonl", "--plot", deep) == 0
    assert deep.read_bytes().startswith(b"%PDF")
    fresh = tmp_path / "fresh.jsonl"
    assert evaluate(few, *given, "--out", fresh, "--plot", "p.nonsense") == 2
    assert not fresh.exists()  # found before anything was run


def test_without_matplotlib_there_is_the_table_and_a_hint(few, tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    given = ("--suite", "demos.refund.suite", "--provider", "offline:silent")
    assert evaluate(few, *given, "--out", tmp_path / "r.jsonl") == 0
    printed = capsys.readouterr()
    assert "**Decisions**" in printed.out
    assert 'pip install ".[eval]"' in printed.err


def test_the_plot_is_all_that_needs_matplotlib():
    code = "import sys, think_agent.evaluation.command; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
