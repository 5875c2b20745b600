"""Runs of other frameworks: the counts that were made by hand, in the file and in small ones."""

import gzip
import json

import pytest

from tests.support.traces import PATH, needs_traces
from tests.support.wires import to_anthropic, to_chat, to_ollama
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.audit.imports import count, read_runs, table
from think_agent.cli.main import run, think_agent
from think_agent.errors import FileError
from think_agent.evaluation.tables import markdown

WRITES = ["book_*", "cancel_*", "update_*", "send_certificate"]
TO_WIRE = {"openai": to_chat, "anthropic": to_anthropic, "ollama": to_ollama}


@needs_traces
def test_the_200_runs_of_tau_bench_as_they_were_counted_by_hand():
    recorded = read_runs(PATH, "openai")
    found = count(recorded, WRITES)
    by_hand = [(15, 250), (0, 250), (40, 250), (61, 200)]
    assert list(found.values())[:4] == by_hand
    # Its think has no exit flag.
    assert [found[what][0] for what in found if what.startswith(("turns", "replies"))] == [0, 0]
    text = markdown([table(recorded, WRITES, by="reward")])
    for cell in (
        *("all: 200 runs", "reward 0.0: 116 runs", "reward 1.0: 84 runs", "16 of 84", "8 of 56"),
        *("15 of 250", "40 of 250: 16.0% (12.0% to 21.1%)", "32 of 194", "45 of 116"),
    ):
        assert f"| {cell}" in text


def acted(name, result, **arguments):
    call = ToolCall("a", name, arguments)
    return [Assistant(tool_calls=(call,)), ToolResult("a", name, result, "Error" in result)]


SAID = [
    User("Pay Ann and Bob."),
    *acted("think", "Noted.", thought="Ann first.", should_continue="true"),
    *acted("pay", "paid", to="Ann"),
    *acted("pay", "paid", to="Ann"),
    *acted("pay", "Error: no account", thought="Bob, too.", to="Bob"),
    Assistant("I will now pay Carol."),
    User("Well?"),
    Assistant('{"name": "pay", "arguments": {"to": "Carol"}}'),
]


def written(form="openai"):
    """The messages as another program keeps them."""
    return json.loads(json.dumps(TO_WIRE[form](Request(SAID, system="Be kind."))["messages"]))


RUN = written()


@pytest.mark.parametrize("form", TO_WIRE)
def test_what_is_counted_in_a_run(tmp_path, form):
    (tmp_path / "run.json").write_text(json.dumps(written(form)))
    [run] = read_runs(tmp_path / "run.json", form)
    found = count([run], ["pay"])
    assert found == {
        "writes behind a thought of their own turn": (2, 3),
        "writes that carry that thought themselves": (1, 3),
        "writes with one since the last action, in any turn": (2, 3),
        "runs with a thought in them": (1, 1),
        "turns that ended in words after a thought that said go on": (1, 2),
        "calls that failed": (1, 3),
        "calls repeated, with the same result": (1, 3),
        "replies with a call written as text": (1, 6),
    }


KEPT = {"messages": RUN, "reward": 0.5}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (json.dumps(RUN), [{}]),
        (json.dumps([RUN, RUN]), [{}, {}]),
        (json.dumps([KEPT, KEPT]), [{"reward": 0.5}] * 2),
        (json.dumps(KEPT) + "\n" + json.dumps(RUN) + "\n", [{"reward": 0.5}, {}]),
    ],
)
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_the_forms_of_a_file(tmp_path, text, facts, packed):
    (tmp_path / "runs").write_bytes(packed(text.encode()))
    runs = read_runs(tmp_path / "runs", "openai")
    assert [run.facts for run in runs] == facts
    assert all(run.messages == runs[0].messages for run in runs)


def run_audit(*words):
    return run(think_agent, "think-agent", ["audit", *map(str, words), "--from", "openai"])


def test_the_command_counts_runs_and_shows_one_alone(tmp_path, capsys):
    path, page = tmp_path / "runs.json", tmp_path / "run.html"
    path.write_text(json.dumps([KEPT, KEPT]))
    assert run_audit(path, "--guarded", "p*,book_*", "--by", "reward") == 0
    shown = capsys.readouterr().out
    assert "| reward 0.5: 2 runs" in shown
    assert "| 4 of 6: 66.7%" in shown
    assert run_audit(path, "--html", page) == 2
    assert "of 2 runs there is only the table" in capsys.readouterr().err
    path.write_text(json.dumps(RUN))
    assert run_audit(path, "--guarded", "pay") == 0
    shown = capsys.readouterr().out
    assert "\N{THOUGHT BALLOON} Ann first." in shown
    assert "| 2 of 3: 66.7%" in shown
    assert run_audit(path, "--html", page, "--redact", "to") == 0
    assert "Ann first." not in page.read_text()
    assert "[redacted] first." in page.read_text()


@pytest.mark.parametrize(
    "text", ["{torn", "[1]", '[{"role": "king"}]', '{"messages": 5}', "5", "[[{}]]", "[]", ""]
)
def test_what_is_no_run_is_said_in_one_line(tmp_path, text):
    (tmp_path / "runs.json").write_text(text)
    for file in ("runs.json", "none.json"):
        with pytest.raises(FileError, match=f"{file}, run 1: it cannot be read as openai messages"):
            read_runs(tmp_path / file, "openai")
