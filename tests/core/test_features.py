"""A feature is a file: without the file of a policy, everything else works.

For each policy, a copy of the package without it runs a desk: a guarded call, a call that is killed
and resumed, a custom policy, and the explanation of each step.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.features import PACKAGE, copy_without

POLICIES = {path.stem for path in (PACKAGE / "policies").glob("*.py")}
SHARED = {"__init__", "asking", "validation", "yours"}  # what other policies are made with
FEATURES = sorted(POLICIES - SHARED)

DESK = """
from think_agent import Agent, ScriptedModel, tool
from think_agent.audit import explain
from think_agent.testing import call, think

paid = []
judged = []

@tool(think_first=True, idempotent=True)
def pay(order: str, cents: int) -> str:
    '''Pay.'''
    paid.append(cents)
    if len(paid) == 1:
        raise KeyboardInterrupt
    return "paid"

@tool(read_only=True)
def look(order: str) -> str:
    '''Look.'''
    return "ok"

def judge(step, turn):
    judged.append(type(step).__name__)
    return step

begin = [
    (think("look"), call("look", order="A")),
    (think("due"), call("pay", order="A", cents="5")),
]
end = [think("Done.", should_continue=False), "Paid 5."]
try:
    Agent(ScriptedModel(begin), [pay, look], policies=[judge]).run("Pay A")
except KeyboardInterrupt as stop:
    transcript = stop.transcript
agent = Agent(ScriptedModel(end), [pay, look], policies=[judge], approve=lambda question: True)
outcome = agent.resume(transcript)
calls = " ".join(action.call.name for action in outcome.actions)
explained = len(explain(agent, outcome.transcript))
print(outcome.exit, outcome.answer, paid, calls, explained > 5, "CallTool" in judged, sep="|")
"""


def run_desk(folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        [sys.executable, "-c", DESK], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_every_policy_is_a_feature_or_is_shared():
    assert len(FEATURES) == 13


@pytest.mark.slow
@pytest.mark.parametrize("policy", FEATURES)
def test_everything_else_works_without(policy, tmp_path):
    copy = copy_without(policy, tmp_path)
    assert not (copy / "policies" / f"{policy}.py").exists()
    assert run_desk(tmp_path) == "signal|Paid 5.|[5, 5]|look pay|True|True"


def test_no_agent_has_a_policy_twice_or_one_without_a_name():
    from think_agent import Agent, ScriptedModel

    names = [policy.__name__ for policy in Agent(ScriptedModel([])).policies()]
    assert len(names) == len(set(names))
    assert "<lambda>" not in names
