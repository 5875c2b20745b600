"""ATIF: our runs are written and read back, and runs of other programs are read."""

import json
from dataclasses import replace

import pytest
from atif import Trajectory
from hypothesis import given, settings

from tests.audit.test_audit import refund, run_audit
from tests.audit.test_imports import calls_in, results_in
from tests.support.turns import transcripts
from think_agent.audit import read_log, to_atif
from think_agent.audit.counts import count
from think_agent.audit.reading import Unreadable
from think_agent.messages import (
    Assistant,
    ToolCall,
    ToolResult,
    User,
    from_json,
    to_json,
)


def is_valid(trajectory):
    """Does the package `atif` accept the trajectory?"""
    read = Trajectory.model_validate(json.loads(json.dumps(trajectory)))
    return read.to_json_dict()["steps"] is not None


def read_back(trajectory, folder):
    (folder / "run.json").write_text(json.dumps(trajectory))
    return read_log(folder / "run.json")


def without_ours(trajectory):
    """As another program would write it: without our header, and the messages of each step."""
    steps = [{k: v for k, v in step.items() if k != "extra"} for step in trajectory["steps"]]
    return {**trajectory, "steps": steps, "extra": None}


def test_a_run_goes_out_and_comes_back_as_the_same_run(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    outcome = refund("ORD-001 and ORD-004", path)
    assert run_audit(path, "--to", "atif") == 0
    trajectory = json.loads(capsys.readouterr().out)
    back = read_back(trajectory, tmp_path)
    assert back.unread == []
    assert tuple(back.runs[0].messages) == outcome.transcript
    assert back.runs[0].header["tools"][0]["name"] == "think"
    assert run_audit(tmp_path / "run.json", "--to", "atif") == 0
    assert json.loads(capsys.readouterr().out) == trajectory
    others = read_back(without_ours(trajectory), tmp_path)
    assert others.unread == []
    assert count(others.runs, ["process_refund"]) == count(back.runs, ["process_refund"])
    shown = [(m.text, m.tool_calls) for m in outcome.transcript if isinstance(m, Assistant)]
    seen = [(m.text, m.tool_calls) for m in others.runs[0].messages if isinstance(m, Assistant)]
    assert seen == shown
    assert results_in(others.runs[0]) == results_in(back.runs[0])


def fits(message):
    """Can this message be in a file? The strategy makes others, too."""
    try:
        return bool(from_json(to_json(message)))
    except ValueError:
        return False


@given(transcripts)
@settings(deadline=None, max_examples=60)
def test_any_transcript_is_valid_and_comes_back(tmp_path_factory, messages):
    messages = [from_json(to_json(message)) for message in messages if fits(message)]
    messages = [replace(message, at=None) for message in messages]  # times are the writer's
    tools = [{"name": "pay", "parameters": {}}]
    trajectory = to_atif(messages, {"instructions": "x", "model": "m", "tools": tools})
    assert is_valid(trajectory)
    if messages:
        back = read_back(trajectory, tmp_path_factory.mktemp("atif"))
        assert back.runs[0].messages == messages


STEPS = [
    {"step_id": 1, "source": "system", "message": [{"type": "text", "text": "Be kind."}]},
    {"step_id": 2, "source": "user", "message": "Pay", "timestamp": "2026-11-20T10:00:00Z"},
    {
        "step_id": 3,
        "source": "agent",
        "model_name": "m",
        "message": "I pay.",
        "reasoning_content": "hm",
        "tool_calls": [
            {"tool_call_id": "a", "function_name": "think", "arguments": {"thought": "plan"}},
            {"tool_call_id": "b", "function_name": "pay", "arguments": {"to": "Ann"}},
        ],
        "observation": {
            "results": [
                {"source_call_id": "b", "content": "no", "extra": {"is_error": True}},
                {"source_call_id": "a", "content": [{"type": "text", "text": "ok"}]},
            ]
        },
        "metrics": {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 2},
    },
    {
        "step_id": 4,
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "c", "function_name": "pay", "arguments": {}}],
        "observation": {"results": [{"content": "paid"}]},  # no id: it is the only call's
    },
]
TRAJECTORY = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s",
    "agent": {"name": "other", "version": "1"},
    "steps": STEPS,
}


def test_what_another_program_wrote_is_read(tmp_path):
    assert is_valid(TRAJECTORY)
    found = read_back(TRAJECTORY, tmp_path)
    [run] = found.runs
    assert found.unread == []
    assert run.header == {"instructions": "Be kind."}
    request, reply, *results, second, last = run.messages
    assert request == User("Pay")
    assert reply.tool_calls[1] == ToolCall("b", "pay", {"to": "Ann"})
    assert reply.thinking == "hm"
    assert [(m.name, m.content, m.is_error) for m in results] == [
        ("think", "ok", False),
        ("pay", "no", True),
    ]
    assert (second.tool_calls[0].name, last.content) == ("pay", "paid")
    assert count([run])["actions behind a thought of their own turn"] == (1, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"is_copied_context": True}, "row 5: a step that was copied from another trajectory"),
        ({"tool_calls": []}, "row 5: a result without a call: ''"),
        ({"observation": None}, "row 5: a call without a result: pay"),
        (
            {"observation": {"results": [{"subagent_trajectory_ref": [{"trajectory_path": "f"}]}]}},
            "row 5: a sub-agent's run, which is in f",
        ),
        ({"message": [{"type": "image", "source": {}}]}, "row 5: a part of the type 'image'"),
    ],
)
def test_what_cannot_be_read_of_a_trajectory_is_listed(tmp_path, change, message):
    step = {**STEPS[3], "step_id": 5, **change}
    found = read_back({**TRAJECTORY, "steps": [*STEPS, step]}, tmp_path)
    assert any(message in what for what in found.unread)


def test_only_is_error_is_read_of_a_result_s_extra(tmp_path):
    extra = {"is_error": True, "content": "another"}
    step = {**STEPS[3], "observation": {"results": [{"content": "paid", "extra": extra}]}}
    [result] = results_in(read_back({**TRAJECTORY, "steps": [step]}, tmp_path).runs[0])
    assert result == "paid"


def test_a_continuation_in_another_file_is_listed(tmp_path):
    found = read_back({**TRAJECTORY, "continued_trajectory_ref": "next.json"}, tmp_path)
    assert any("its continuation, which is in next.json" in what for what in found.unread)


def test_a_sub_agent_s_trajectory_is_a_run_of_its_own(tmp_path):
    sub = {**TRAJECTORY, "trajectory_id": "sub"}
    found = read_back({**TRAJECTORY, "subagent_trajectories": [sub]}, tmp_path)
    assert [calls_in(run) for run in found.runs] == [["think", "pay", "pay"]] * 2
    assert found.runs[1].facts["trajectory_id"] == "sub"


def test_a_trajectory_is_redacted_too(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    refund("ORD-001", path)
    assert run_audit(path, "--to", "atif", "--redact", "order_id") == 0
    shown = capsys.readouterr().out
    assert "ORD-001" not in shown
    assert is_valid(json.loads(shown))


def test_a_failure_is_written_into_a_field(tmp_path):
    asks = Assistant(tool_calls=(ToolCall("c", "pay", {}),))
    messages = [User("Pay"), asks, ToolResult("c", "pay", "no", is_error=True)]
    found = read_back(without_ours(to_atif(messages, {})), tmp_path)
    assert found.runs[0].messages[-1].is_error


def test_a_line_that_cannot_be_read_is_a_step_of_its_own():
    steps = to_atif([User("Pay"), Unreadable(3, "{torn", "no JSON")], {})["steps"]
    assert [step["message"] for step in steps[1:]] == ["Pay", "{torn"]
