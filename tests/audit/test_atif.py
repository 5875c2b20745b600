"""ATIF: runs of other programs are read."""

import json

import pytest
from atif import Trajectory

from tests.audit.test_imports import calls_in, results_in
from think_agent.audit import read_log
from think_agent.audit.counts import count
from think_agent.messages import ToolCall, User


def read_back(trajectory, folder):
    (folder / "run.json").write_text(json.dumps(trajectory))
    return read_log(folder / "run.json")


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
    assert Trajectory.model_validate(TRAJECTORY)  # the package accepts it
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
