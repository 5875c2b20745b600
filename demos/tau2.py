"""Runs our agent on the tasks of tau2-bench, with its user simulator and its checker.

    python -m demos.tau2 airline --model anthropic:claude-haiku-4-5 --task 0 --task 1

You have to install tau2 (github.com/sierra-research/tau2-bench, Python 3.12 and later). It runs the
tools itself. So every tool of ours needs an approval that nobody gives: the run pauses before the
call, tau2 runs it, and its result is one more message. Tools that write need a thought first.
"""

from collections.abc import Sequence
from typing import Any, Never

import click
from tau2.agent.base_agent import HalfDuplexAgent
from tau2.data_model import message as tau2
from tau2.data_model.simulation import TextRunConfig
from tau2.environment.toolkit import TOOL_TYPE_ATTR
from tau2.registry import registry
from tau2.runner import get_tasks, run_single_task

from think_agent import Agent, Model, Tool, Turn, connect
from think_agent.messages import Message, ToolResult

RULES = "Help the user, by this policy alone. Check each step against it.\n\n"
NO_WORDS = "I could not find an answer."  # tau2 takes no empty reply


class ThinkAgent(HalfDuplexAgent[list[Message]]):  # type: ignore[misc]  # tau2 may not be there
    """An agent for tau2. Its state is our transcript."""

    def __init__(self, tools: Sequence[Any], domain_policy: str, model: Model) -> None:
        super().__init__(tools=list(tools), domain_policy=domain_policy)
        ours = [as_ours(tool) for tool in tools]
        self.agent = Agent(model, ours, instructions=RULES + domain_policy, silence="accept")

    def get_init_state(self, message_history: Sequence[Any] | None = None) -> list[Message]:
        """An empty transcript: tau2's own greeting is left out, because no model wrote it."""
        if len(message_history or ()) > 1:
            raise ValueError("a task that begins in the middle cannot be played; choose another")
        return []

    def generate_next_message(
        self, message: Any, state: list[Message]
    ) -> tuple[tau2.AssistantMessage, list[Message]]:
        """Takes a message of a person or a tool, and gives the next call or the answer."""
        if isinstance(message, tau2.ToolMessage):
            call = Turn.of(state).pending[0]  # the call that tau2 has run
            result = ToolResult(call.id, call.name, message.content or "", is_error=message.error)
            outcome = self.agent.resume([*state, result])
        else:
            outcome = self.agent.run(message.content, transcript=state)

        transcript = list(outcome.transcript)
        if outcome.exit != "needs_human":
            text = outcome.answer or NO_WORDS
            return tau2.AssistantMessage(role="assistant", content=text), transcript
        call = outcome.turn.pending[0]
        wanted = tau2.ToolCall(id=call.id, name=call.name, arguments=call.arguments)
        return tau2.AssistantMessage(role="assistant", tool_calls=[wanted]), transcript


def as_ours(tool: Any) -> Tool:
    """A tool of tau2 as one of our tools, which is never run here."""

    def run_by_tau2(**arguments: Any) -> Never:
        raise AssertionError("tau2 runs the tools")

    function = tool.openai_schema["function"]
    kind = getattr(tool._func, TOOL_TYPE_ATTR, None)
    return Tool(
        name=function["name"],
        description=function["description"],
        parameters=function["parameters"],
        function=run_by_tau2,
        think_first=getattr(kind, "value", "") == "write",
        needs_approval=True,
    )


def create(tools: Sequence[Any], domain_policy: str, **options: Any) -> ThinkAgent:
    """tau2's registry calls this for each run; `llm` is one of our model specs."""
    return ThinkAgent(tools, domain_policy, connect(options["llm"]))


@click.command()
@click.argument("domain", default="airline")
@click.option("--model", default="ollama", help="PROVIDER or PROVIDER:MODEL, of ours")
@click.option("--user", default="gpt-4.1-mini", help="the model of tau2's user simulator")
@click.option("--task", "tasks", multiple=True, help="its id; may be given again")
def main(domain: str, model: str, user: str, tasks: tuple[str, ...]) -> None:
    """Play tasks of tau2-bench and print the reward of each."""
    registry.register_agent_factory(create, "think")
    config = TextRunConfig(domain=domain, agent="think", llm_agent=model, llm_user=user)
    for task in get_tasks(domain, task_ids=list(tasks) or None):
        run = run_single_task(config, task)
        print(f"{task.id}: reward {run.reward_info.reward if run.reward_info else 'none'}")


if __name__ == "__main__":
    main()
