"""Nothing is run twice, and each result says where it is from."""

import asyncio
import itertools
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

import think_agent
from demos.refund import offline
from demos.refund import suite as refund
from tests.evaluation.conftest import (
    EASY,
    FLOORS,
    cases_of,
    evaluate,
    play,
    played,
    results_in,
    write_lines,
)
from tests.readme import ROOT
from tests.servers import serve
from tests.servers.ollama import OllamaServer
from tests.support.agents import of_kind
from tests.support.providers import SPEAKS
from think_agent import (
    Assistant,
    AuthError,
    BadRequest,
    ConnectionFailed,
    ScriptedModel,
)
from think_agent.audit import read
from think_agent.errors import ModelError
from think_agent.evaluation.results import LINE
from think_agent.evaluation.tables import markdown

TWICE = ("--suite", "demos.refund.suite", "--provider", "offline:careful", "--trials", "2")


@pytest.fixture
def thirty(tmp_path):
    return write_lines(tmp_path / "thirty.jsonl", EASY[:30])


def names(path: Path) -> list[str]:
    return [result.name for result in results_in(path)]


def started(cases: Path, path: Path, wait_for: int) -> subprocess.Popen:
    """Start an evaluation in a process of its own, and wait for this many results."""
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
def test_a_stopped_evaluation_goes_on_where_it_was(thirty, out, capsys, sign):
    process = started(thirty, out, 20)
    process.send_signal(sign)
    _, shown = process.communicate(timeout=90)
    every = 30 * 2 * (1 + len(FLOORS))
    if sign != signal.SIGKILL:
        assert process.returncode == 130
        stopped = rf"\nstopped: \d+ of {every} runs are done; run it again to continue\n$"
        assert re.search(stopped, shown)
    before = out.read_bytes().splitlines()
    assert 20 <= len(before) - 1 < every  # the first is the plan
    assert evaluate(thirty, *TWICE, "--out", out) == 0
    after = out.read_bytes().splitlines()
    assert after[: len(before)] == before
    assert len(after) - 1 == every
    assert len(names(out)) == len(set(names(out))) == 60
    shown = capsys.readouterr()
    assert f"{len(before) - 1} of {every} runs are done already" in shown.err
    assert "60/60" in shown.out


def test_two_processes_do_not_write_to_one_file(thirty, out, capsys):
    """Once the second one cut off what the first was writing."""
    process = started(thirty, out, 5)
    before = out.read_bytes()
    assert evaluate(thirty, *TWICE, "--out", out) == 1
    shown = capsys.readouterr().err
    assert f"error: {out}: another run has it open; wait for its end" in shown
    assert process.wait(90) == 0
    process.communicate()
    assert out.read_bytes().startswith(before)
    assert len(names(out)) == len(set(names(out))) == 60


def test_what_another_process_added_before_the_lock_is_not_run_again(plan_few, ran, out):
    second = plan_few()
    ran()
    written = out.read_bytes()
    second.run()
    assert out.read_bytes() == written


def test_a_torn_last_line_is_cut_off_and_its_trial_run_again(plan_few, ran, out):
    ran()
    written = out.read_bytes()
    out.write_bytes(written[:-9])
    evaluation = plan_few()
    assert len(evaluation.waiting) == 1
    assert evaluation.missing == 1
    evaluation.run()
    assert len(out.read_bytes().splitlines()) == len(written.splitlines())
    assert plan_few().missing == 0


def test_more_trials_add_to_what_is_there(ran, out):
    ran()
    evaluation = ran(trials=2)
    plan, *done = out.read_text().splitlines()
    assert LINE.validate_json(plan).trials == 1
    assert len(done) == len(set(done)) == len(evaluation.jobs) == 8 * 2
    assert "pass^2" in markdown(evaluation.report())


NOT_TESTED = (
    "Nothing is tested before the plan in the first line of the results file is complete "
    "(3 settings, 2 trials of 8 cases)"
)


def test_only_the_complete_plan_in_the_file_is_tested(plan_few, few, out):
    """To look after each trial, or to add trials, tests nothing."""
    write_lines(few, cases_of("many")[:8])

    def told(run=False, **given):
        """The sentences of the report."""
        force = ("first", "never", "always")
        evaluation = plan_few(provider=["ollama:m"], force=force, **given)
        for setting in evaluation.models:
            name = "careful" if setting.force == "first" else "silent"
            evaluation.models[setting] = ScriptedModel(refund.STAND_INS[name])
        if run:
            evaluation.run()
        return evaluation.report()[-1].remark

    untested = [told(run=True, trials=2, shard="1/2")]
    planned = LINE.validate_json(out.read_text().splitlines()[0])
    assert len(planned.comparisons) == 2
    assert planned.trials == 2
    assert "is worse than force=first" in told(run=True, trials=2, shard="2/2")
    untested += [told(trials=1), told(trials=3)]
    for sentences in untested:
        assert NOT_TESTED in sentences
        assert "p = " not in sentences


def test_the_settings_of_a_trial_take_turns_in_an_order_of_each_case(plan_few):
    forces = ["first", "never", "always"]
    jobs = plan_few(force=forces).jobs
    orders = {}
    for job in jobs:
        orders.setdefault(job.case.id, []).append(job.setting)
    assert len({tuple(order) for order in orders.values()}) > 1
    assert jobs == plan_few(force=forces).jobs


def test_shards_are_disjoint_and_merge_by_concatenation_wherever_they_ran(plan_few, tmp_path):
    """Also if their servers have different addresses."""
    given = {"provider": ["openai:m"], "force": ["first", "never"], "trials": 2}
    merged = b""
    for part in (1, 2, 3):
        path = tmp_path / f"{part}.jsonl"
        with serve(SPEAKS["openai-chat"][0](), offline.reply) as server:
            url = f"{server.url}/v1"
            shard = plan_few(**given, shard=f"{part}/3", out=path, base_url=url)
            shard.run()
        done = Counter((result.case, result.trial) for result in results_in(path))
        assert set(done.values()) == {2}  # both settings of a trial: they are compared
        merged += path.read_bytes()
        assert shard.missing == 8 * 2 * 2 + 1 - len(path.read_bytes().splitlines())
    out = tmp_path / "merged.jsonl"
    out.write_bytes(merged)
    whole = plan_few(**given, out=out, base_url="http://127.0.0.1:9")  # no model is asked
    assert whole.missing == 0
    assert whole.waiting == []
    assert len(merged.splitlines()) == 3 + len(whole.jobs)  # each shard has the plan
    assert {len(own) for own in whole.select_results().values()} == {2 * 8}
    assert len(names(out)) == len(set(names(out)))


def test_a_page_is_written_beside_the_table(command, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert command("--html", page) == 0
    shown = capsys.readouterr()
    assert f"wrote {page}" in shown.err
    assert "offline:careful" in shown.out
    assert page.stat().st_mode & 0o077 == 0
    assert "Nothing is tested for significance" in page.read_text()


def test_missing_shards_are_reported(command, capsys):
    """Here `cat` would merge two of three shards."""
    for shard in ("1/3", "2/3"):
        assert command("--shard", shard) == 0
    shown = capsys.readouterr().err
    assert "14 runs of this plan are missing in" in shown.splitlines()[-1]


# Results are what they say.


def test_a_result_says_where_it_is_from_and_its_transcript_is_kept(ran, out):
    with serve(OllamaServer(), offline.reply) as server:
        url = server.url.replace("http://", "http://ann:se-cret@") + "/?key=abc"
        evaluation = ran(provider=["ollama:m"], base_url=url)
    folder = out.with_suffix(".transcripts")
    for result in results_in(out):
        assert result.served == ("m",)
        assert result.kit == think_agent.__version__
        assert datetime.fromisoformat(result.at).tzinfo
        assert re.fullmatch(rf"{result.case}\.1\.[0-9a-f]{{16}}", result.name)
        record = read(folder / f"{result.name}.jsonl")
        assert record.header["model"] == "ollama:m"
        assert len(of_kind(record.entries, Assistant)) == result.model_calls
    assert "cret" not in out.read_text()
    assert len(list(folder.iterdir())) == len(evaluation.jobs)


@pytest.mark.parametrize(
    "text",
    [
        '{"evaluation": 1, "asked": ""}\n',
        "not one of ours\n",
        "no line break either",
        "[]",
        '{"torn',
    ],
)
def test_a_file_of_something_else_is_left_as_it_is(ran, out, text):
    out.write_text(text)
    with pytest.raises(ValueError, match="line 1 isn't a result of this version"):
        ran()
    assert out.read_text() == text


# How jobs are handed out, and what becomes of errors.


class Counting(ScriptedModel):
    """Takes some time for each request, and counts the requests at the same time."""

    running = most = asked = 0

    async def acomplete(self, request):
        self.running += 1
        self.asked += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        return self.complete(request)


@pytest.mark.parametrize(
    ("provider", "given", "most"),
    [
        ("ollama:m", {}, 1),
        ("ollama:m", {"concurrency": 3}, 3),
        ("offline:careful", {}, 4),
        ("offline:careful", {"concurrency": 3}, 3),
    ],
)
def test_jobs_are_handed_out_once_and_so_many_at_a_time(plan_few, provider, given, most):
    evaluation = plan_few(provider=[provider], **given)
    model = Counting(offline.reply)
    play(evaluation, model)
    done = []
    evaluation.run(lambda result: done.append(result.name))
    assert sorted(done) == sorted(job.name for job in evaluation.jobs)
    assert model.most == most


def test_an_error_that_would_meet_every_case_ends_the_run_at_once(plan_few):
    def refuse(request):
        raise AuthError("wrong key")

    evaluation = plan_few(concurrency=3)
    model = Counting(refuse)
    play(evaluation, model)
    with pytest.raises(AuthError, match="wrong key"):
        evaluation.run()
    assert model.asked <= 3


def test_a_request_that_is_refused_is_an_outcome_and_not_right(few, out):
    def refuse(request):
        raise BadRequest("the prompt is too long")

    evaluation = played(refuse, few, out=out)
    [found] = evaluation.select_results().values()
    outcomes = [(one.exit, one.right, one.error, one.found) for one in found]
    assert outcomes == [("bad request", False, "", ("the prompt is too long",))] * 8
    assert evaluation.waiting == []


def talking(down):
    """A script whose requests with these numbers do not reach the model."""
    numbers = itertools.count(1)

    def talk(request):
        if next(numbers) in down:
            raise ConnectionFailed("no server")
        return Assistant("Done.")

    return talk


def test_a_night_ends_after_several_lost_connections_in_a_row(few, out):
    """Four in a row are bad luck; after five the server is gone."""
    with pytest.raises(ModelError, match="5 runs in a row failed: no server"):
        played(talking(range(4, 99)), few, out=out, provider=["ollama:m"], force=["never"])


def test_a_trial_with_an_error_is_not_a_wrong_answer_and_is_run_again(few, out):
    down = (1, 2, 3, 4, 6, 7, 8)
    given = {"provider": ["ollama:m"], "force": ["never"], "out": out}
    evaluation = played(talking(down), few, **given)
    [found] = evaluation.select_results().values()
    failed = [result for result in found if result.error]
    outcomes = {(one.error, one.exit, one.right) for one in failed}
    assert outcomes == {("no server", "error", False)}
    assert "error 7" in markdown(evaluation.report())
    assert [job.case.id for job in evaluation.waiting] == [one.case for one in failed]
    evaluation.run()
    assert evaluation.waiting == []
    [found] = evaluation.select_results().values()
    assert not any(result.error for result in found)
