"""tau2's tasks and its checker, with the recorded lines of a user, under every arm of the table."""

import json

import pytest

pytest.importorskip("tau2", reason="needs tau2-bench, on Python 3.12 or 3.13 (see demos/tau2.py)")

from demos import tau2
from tests.servers import serve
from tests.servers.openai_chat import Chat
from tests.support.sizes import ROOT
from tests.support.tau2_clerk import clerk, idle
from think_agent import Agent, Assistant, ModelError, Request, ScriptedModel
from think_agent.cli.main import run
from think_agent.evaluation.command import Evaluation
from think_agent.evaluation.inputs import settings_of
from think_agent.messages import ToolResult
from think_agent.testing import call

CASES = ROOT / "tests/data/tau2_mock.jsonl"
SUITE = "tests.support.tau2_clerk"
LINES = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def played(line, script):
    """A case, played with a script; what tau2's checker says."""
    world = tau2.prepare(line, enforce=False)
    agent = Agent(ScriptedModel(script), world.tools, instructions=world.instructions)
    transcript = ()
    while (text := world.reply(transcript)) is not None:
        transcript = agent.run(text, transcript=transcript).transcript
    return world.check(), transcript


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["task"])
def test_tau2_s_own_checker_judges(line):
    done, transcript = played(line, clerk)
    assert done.right, done
    assert not any(m.is_error for m in transcript if isinstance(m, ToolResult))
    assert not played(line, idle)[0].right


def test_a_write_without_a_thought_never_reaches_tau2():
    line = LINES[0]
    script = [call("create_task", user_id="user_1", title="x"), "That is done."]
    world = tau2.prepare(line, enforce=False)
    agent = Agent(ScriptedModel(script), world.tools, force="never", silence="accept")
    world.reply(agent.run(line["then"][0]).transcript)
    assert not world.check().right
    assert len(world._environment.tools.db.tasks) == 1


def test_in_the_table_of_the_article_the_clerk_alone_is_right(tmp_path):
    settings = settings_of(four_rows=True, provider=["offline:clerk", "offline:idle"])
    evaluation = Evaluation(CASES, settings, suite=SUITE, out=tmp_path / "r.jsonl")
    evaluation.run()
    assert evaluation.missing == 0
    for setting, results in evaluation.select_results().items():
        assert [result.right for result in results] == [setting.provider == "offline:clerk"] * 3


@pytest.mark.parametrize(
    ("domain", "task", "why"),
    [
        ("mock", "update_task_with_message_history", "middle"),
        ("mock", "create_task_1", "has tools"),
        ("mock", "create_task_999", "mock has no task 'create_task_999'; print its cases again"),
        ("space", "create_task_1", "tau2 has no domain 'space'; use one of mock, airline, "),
    ],
)
def test_a_task_that_cannot_be_played_says_why(domain, task, why):
    with pytest.raises(ValueError, match=why):
        tau2.prepare({"domain": domain, "task": task}, enforce=False)


def test_its_simulated_user_is_asked_over_http(monkeypatch):
    """By LiteLLM, which tau2 asks. The model of the user is a script behind a local server."""
    said = ["I want to change my address.", "It is 1 Main Street.", "Thank you! ###STOP###"]
    asked: list[Request] = []

    def user(request: Request) -> Assistant:
        asked.append(request)
        return Assistant(said[len(asked) - 1])

    agent = Agent(ScriptedModel(["To which?", "It is changed."]), force="never", silence="accept")
    with serve(Chat(), user) as server:
        monkeypatch.setattr(tau2, "USER", "openai/recorded")
        monkeypatch.setenv("OPENAI_API_BASE", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        world = tau2.prepare({"domain": "retail", "task": "0"}, enforce=False)
        transcript = ()
        heard = []
        while (text := world.reply(transcript)) is not None:
            heard.append(text)
            transcript = agent.run(text, transcript=transcript).transcript
    assert heard == said[:2]
    assert [request.messages[-1].text for request in asked] == [
        tau2.GREETING,
        "To which?",
        "It is changed.",
    ]
    assert "exchange" in asked[0].system  # what the task wants of its user


@pytest.mark.parametrize(
    ("domain", "problem"),
    [
        ("mock", "no task of mock can be played: its user has tools"),
        ("space", "tau2 has no domain 'space'; use one of"),
    ],
)
def test_a_domain_that_cannot_be_played_is_refused_before_its_cases_are_printed(
    domain, problem, capsys
):
    assert run(tau2.main, "tau2", [domain]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith(f"error: {problem}")


def test_a_simulated_user_that_fails_is_a_model_that_fails(monkeypatch):
    world = tau2.prepare(LINES[0], enforce=False)
    world._then = None  # so that the user is a model

    def fail(*_):
        raise TimeoutError("no answer")

    monkeypatch.setattr(world._user, "generate_next_message", fail)
    with pytest.raises(ModelError, match=r"tau2's simulated user \(.+\): TimeoutError: no answer"):
        world.reply(())
