"""The agent of demos/tau2.py, on tau2's own interface and a recorded task of its mock domain."""

import json

import pytest

pytest.importorskip("tau2", reason="needs tau2-bench, which wants Python 3.12 (see demos/tau2.py)")

from tau2.data_model.message import UserMessage
from tau2.domains.mock.environment import get_environment

from demos.tau2 import ThinkAgent, create
from think_agent import ScriptedModel
from think_agent.messages import ToolResult
from think_agent.testing import call, think

RECORDED = [  # of the task create_task_1
    think("user_1 wants a task named Important Meeting"),
    call("create_task", user_id="user_1", title="Important Meeting"),
    call("get_users"),
    think("The task is there.", False),
    "Your task is created.",
]


def play(model):
    """Run the task in tau2's own environment. Gives the agent's replies and the environment."""
    environment = get_environment()
    agent = ThinkAgent(environment.get_tools(), environment.get_policy(), model)
    state = agent.get_init_state([UserMessage(role="user", content="Hi! How can I help you?")])
    message = UserMessage(role="user", content="Create the task Important Meeting for user_1.")
    said = []
    while not said or said[-1].tool_calls:
        reply, state = agent.generate_next_message(message, state)
        said.append(reply)
        if reply.tool_calls:
            message = environment.get_response(reply.tool_calls[0])
    return said, state, environment


def test_a_recorded_task_is_played_through_tau2_s_environment():
    said, state, environment = play(ScriptedModel(RECORDED))
    assert [reply.tool_calls[0].name for reply in said[:-1]] == ["create_task", "get_users"]
    assert said[-1].content == "Your task is created."
    titles = [task.title for task in environment.tools.db.tasks.values()]
    assert "Important Meeting" in titles
    results = [message for message in state if isinstance(message, ToolResult)]
    assert json.loads(results[1].content)["title"] == "Important Meeting"
    assert not any(result.is_error for result in results)


def test_a_write_without_a_thought_never_reaches_tau2():
    hasty = [call("create_task", user_id="user_1", title="x"), *RECORDED]
    said, state, _ = play(ScriptedModel(hasty))
    assert [reply.tool_calls[0].name for reply in said[:-1]] == ["create_task", "get_users"]
    refused = [message.refused for message in state if isinstance(message, ToolResult)]
    assert refused[0] == "gate"


def test_a_task_that_begins_in_the_middle_is_refused():
    agent = create([], "", llm="offline")
    with pytest.raises(ValueError, match="choose another"):
        agent.get_init_state([UserMessage(role="user", content="1")] * 2)
