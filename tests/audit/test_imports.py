"""Runs of other frameworks: the counts that were made by hand, in the file and in small ones."""

import gzip
import json
from pathlib import Path

import pytest

from think_agent.audit.imports import count, read_runs, table
from think_agent.cli.main import run, think_agent
from think_agent.errors import FileError
from think_agent.evaluation.tables import markdown

TRACES = Path(__file__).parents[3] / "shared/traces/tau-airline-gpt-4o.json.gz"
WRITES = ["book_*", "cancel_*", "update_*", "send_certificate"]


@pytest.fixture(scope="module")
def recorded():
    if not TRACES.exists():
        pytest.skip(f"{TRACES.name} of tau-bench is not beside the project")
    return read_runs(TRACES, "openai")


def test_the_200_runs_of_tau_bench_as_they_were_counted_by_hand(recorded):
    found = count(recorded, WRITES)
    assert (found.runs, found.writes, found.covered, found.near) == (200, 250, 15, 40)
    assert found.thoughtful == 61
    assert found.how == {"volunteered": 15}
    assert found.promises == found.as_text == 0  # its think has no exit flag
    good = [run for run in recorded if run.facts["reward"] == 1]
    bad = [run for run in recorded if run.facts["reward"] != 1]
    one, other = count(good, WRITES), count(bad, WRITES)
    assert (one.runs, one.thoughtful, one.near, one.writes) == (84, 16, 8, 56)
    assert (other.near, other.writes) == (32, 194)
    assert "Airline Agent Policy" in recorded[0].instructions


def test_the_table_has_the_figures_with_intervals_and_carries_rewards_through(recorded):
    text = markdown(table(recorded, WRITES, by="reward"))
    assert "| 15 of 250 " in text
    assert "| 40 of 250 " in text
    assert "16.0%" in text
    assert "12.0% to 21.1%" in text
    assert "| 1.0 " in text or "| 1 " in text


def called(name, id="a", **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def answer(content, id="a"):
    return {"role": "tool", "tool_call_id": id, "content": content}


def said(text, role="assistant"):
    return {"role": role, "content": text}


def read(folder, value):
    (folder / "runs.json").write_text(json.dumps(value))
    return read_runs(folder / "runs.json", "openai")


RUN = [
    said("Be kind.", "system"),
    said("Pay Ann and Bob.", "user"),
    called("think", thought="Ann first.", should_continue="true"),
    answer("Noted."),
    called("pay", to="Ann"),
    answer("paid"),
    called("pay", to="Ann"),
    answer("paid"),
    called("pay", to="Bob"),
    answer("Error: no account"),
    said("I will now pay Carol."),
    said("Well?", "user"),
    said('{"name": "pay", "arguments": {"to": "Carol"}}'),
]


def test_what_is_counted_in_a_run(tmp_path):
    [run] = read(tmp_path, RUN)
    found = count([run], ["pay"])
    assert (found.turns, found.replies, found.actions) == (2, 6, 3)
    assert (found.writes, found.covered, found.near) == (3, 1, 1)
    assert (found.failed, found.repeated) == (1, 1)
    assert (found.promises, found.as_text) == (1, 1)
    assert run.instructions == "Be kind."


def test_a_thought_that_a_call_carries_covers_it(tmp_path):
    carrying = called("pay", thought="She asked.", to="Ann")
    found = count(read(tmp_path, [said("Pay!", "user"), carrying, answer("ok")]), ["p*"])
    assert (found.covered, found.how) == (1, {"carried": 1})


@pytest.mark.parametrize("form", ["list", "lists", "objects", "lines", "gz"])
def test_the_forms_of_a_file(tmp_path, form):
    path = tmp_path / "runs"
    run = {"messages": RUN, "reward": 0.5}
    values = {
        "list": json.dumps(RUN),
        "lists": json.dumps([RUN, RUN]),
        "objects": json.dumps([run, run]),
        "lines": json.dumps(run) + "\n" + json.dumps(RUN) + "\n",
        "gz": json.dumps(run),
    }
    data = values[form].encode()
    path.write_bytes(gzip.compress(data) if form == "gz" else data)
    runs = read_runs(path, "openai")
    assert len(runs) == (1 if form in ("list", "gz") else 2)
    assert runs[0].facts == ({"reward": 0.5} if form in ("objects", "lines", "gz") else {})
    assert all(run.messages == runs[0].messages for run in runs)


def test_anthropics_and_ollamas_lists_are_read(tmp_path):
    path = tmp_path / "runs.jsonl"
    use = {"type": "tool_use", "id": "a", "name": "pay", "input": {"to": "Ann"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}
    body = {
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [said("Pay!", "user"), said([use]), said([result], "user"), said("Sorry.")],
    }
    path.write_text(json.dumps(body))
    [run] = read_runs(path, "anthropic")
    assert run.instructions == "Be kind."
    assert (count([run], ["pay"]).writes, count([run]).failed) == (1, 1)
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "pay", "arguments": {}}}]}
    path.write_text(json.dumps([said("Pay!", "user"), call, said("paid", "tool"), said("Done.")]))
    [run] = read_runs(path, "ollama")
    assert count([run], ["pay"]).writes == 1
    assert [m.name for m in run.messages if hasattr(m, "call_id")] == ["pay"]


def run_audit(*words):
    return run(think_agent, "think-agent", ["audit", *map(str, words), "--from", "openai"])


def test_the_command_counts_runs_and_shows_one_alone(tmp_path, capsys):
    path, page = tmp_path / "runs.json", tmp_path / "run.html"
    path.write_text(json.dumps([{"messages": RUN, "reward": 1}] * 2))
    assert run_audit(path, "--guarded", "p*,book_*", "--by", "reward") == 0
    shown = capsys.readouterr().out
    assert "writes behind a thought of their own turn (volunteered 2) | 2 of 6" in shown
    assert "**By reward, as the file says**" in shown
    assert run_audit(path, "--html", page) == 2
    assert "of 2 runs there is only the table" in capsys.readouterr().err
    path.write_text(json.dumps(RUN))
    assert run_audit(path, "--guarded", "pay") == 0
    shown = capsys.readouterr().out
    assert "\N{THOUGHT BALLOON} Ann first." in shown
    assert "(volunteered 1) | 1 of 3" in shown
    assert run_audit(path, "--html", page, "--redact", "to") == 0
    assert "Ann first." not in page.read_text()
    assert "[redacted] first." in page.read_text()


@pytest.mark.parametrize(
    "text", ["{torn", "[1]", '[{"role": "king"}]', '{"messages": 5}', "5", "[[{}]]", "[]", ""]
)
def test_what_is_no_run_is_said_in_one_line(tmp_path, text):
    path = tmp_path / "runs.json"
    path.write_text(text)
    with pytest.raises(FileError, match=r"runs\.json, run 1: it is no list of openai messages"):
        read_runs(path, "openai")
    with pytest.raises(FileError, match="cannot be read"):
        read_runs(tmp_path / "none.json", "openai")
