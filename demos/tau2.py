"""tau2-bench as a suite of `think-agent eval`: real tasks, a simulated user, tau2's own checker.

    python -m demos.tau2 airline > airline.jsonl
    think-agent eval airline.jsonl --suite demos.tau2 --provider anthropic --four-rows

It needs tau2-bench 1.0.1 and refuses any other: 2.0.0 (2026-10-19) is a different benchmark, whose
numbers can't be compared, and `pip install tau2` is a different project. The README of
`think_agent/evaluation` says how to install this.

Rule 1: tau2's tools are used unchanged. Those that write need a thought first.
Rule 2: the user says the lines in a case's `then`, or is tau2's simulator (TAU2_USER: its model).
Rule 3: a case is right if tau2's checker finds its database in the expected state.

Limitations: it can't run a task that begins in the middle or whose user has tools.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import click

from think_agent import Message, ModelError, NothingDone, Tool, Turn, User
from think_agent.cli.main import run
from think_agent.cli.screen import say
from think_agent.evaluation.trials import WorldCheck
from think_agent.messages import THINK_NAME
from think_agent.testing.scripted import Script
from think_agent.text import shorten
from think_agent.wire.outgoing import pair_results

PINNED = "1.0.1"  # of 2026-07-15, the last one before 2.0.0
INSTALL = (
    f"git clone --branch v{PINNED} https://github.com/sierra-research/tau2-bench && "
    "pip install -e tau2-bench"
)


def check_version() -> None:
    """Raises ValueError if the installed tau2 is not the pinned one."""
    try:
        found = metadata.version("tau2")
    except metadata.PackageNotFoundError:
        raise ValueError(
            f"tau2-bench is not installed; with Python 3.12 or 3.13 run: {INSTALL}"
        ) from None
    if found != PINNED:
        raise ValueError(
            f"tau2 {found} is not tau2-bench {PINNED}, and its figures cannot be compared "
            f"with those of {PINNED}; uninstall it, and run: {INSTALL}"
        )


try:
    check_version()  # before its modules are imported: those of another version differ
except ValueError as problem:
    if __name__ != "__main__":
        raise
    say(f"error: {problem}")
    sys.exit(2)

from loguru import logger  # noqa: E402
from tau2.data_model import message as theirs  # noqa: E402
from tau2.environment.toolkit import TOOL_TYPE_ATTR  # noqa: E402
from tau2.evaluator.evaluator_env import EnvironmentEvaluator  # noqa: E402
from tau2.registry import registry  # noqa: E402
from tau2.user.user_simulator import UserSimulator  # noqa: E402

USER = os.environ.get("TAU2_USER", "gpt-4.1-mini")  # the model of the simulated user
VERSION = f"tau2 {PINNED}, user {USER}"
STAND_INS: Mapping[str, Script] = {}
ADVICE = """Before you change anything or answer, list the rules of the policy that apply, check
that you have all the information they ask for, and verify that the change keeps each of them."""
GREETING = "Hi! How can I help you today?"  # so begins every conversation of tau2


class TaskWorld:
    """The world of one task: tau2's environment, and its user."""

    def __init__(self, domain: str, task_id: str, then: Sequence[str] | None) -> None:
        tasks = {task.id: task for task in load_tasks(domain)}
        if task_id not in tasks:
            raise ValueError(f"{domain} has no task {task_id!r}; print its cases again")
        self._task = tasks[task_id]
        self._environment_of = registry.get_env_constructor(domain)
        self._environment = self._environment_of()
        self._then = then
        problem = find_obstacle(self._task, self._environment, then)
        if problem:
            raise ValueError(problem)
        begin = self._task.initial_state
        if begin:
            self._environment.set_state(begin.initialization_data, begin.initialization_actions, [])
        self.instructions = self._environment.get_policy()
        self.tools = [self._make_tool(tool) for tool in self._environment.get_tools()]
        self._said: list[Any] = []  # the conversation, in tau2's words
        self._user = UserSimulator(llm=USER, instructions=str(self._task.user_scenario))
        self._state = self._user.get_init_state()

    def _make_tool(self, tool: Any) -> Tool:
        described = tool.openai_schema["function"]
        kind = getattr(tool._func, TOOL_TYPE_ATTR, None)
        writes = getattr(kind, "value", "") == "write"
        return Tool(
            name=described["name"],
            description=described["description"],
            parameters=described["parameters"],
            function=self._make_function(described["name"]),
            think_first=writes,
            read_only=not writes,
        )

    def _make_function(self, name: str) -> Callable[..., str]:
        def run(**arguments: Any) -> str:
            wanted = theirs.ToolCall(id=name, name=name, arguments=arguments)
            answer = self._environment.get_response(wanted)
            if answer.error:
                raise NothingDone(answer.content)
            return str(answer.content)

        return run

    def reply(self, transcript: Sequence[Message]) -> str | None:
        """What the user says next. It is remembered what was said, for the checker."""
        self._said = translate_transcript(transcript)
        if self._then is not None:
            turns = Turn.all(transcript)  # the user begins each
            return dict(enumerate(self._then)).get(len(turns))
        last = self._said[-1] if self._said else _make_agent_message(GREETING)
        try:
            said, self._state = self._user.generate_next_message(last, self._state)
        except Exception as error:  # of LiteLLM, of its provider, of the network
            why = f"{type(error).__name__}: {error}"
            raise ModelError(f"tau2's simulated user ({USER}): {shorten(why)}") from error
        if self._user.is_stop(said):
            return None
        return str(said.content)

    def check(self) -> WorldCheck:
        """tau2's own reward for the database, and what of it is not as it should be."""
        try:
            found = EnvironmentEvaluator.calculate_reward(
                self._environment_of, self._task, self._said, strict_replay=False
            )
        except ValueError as missing:  # so says an assertion about something that is not there
            return WorldCheck(right=False, found=(str(missing),))
        parts = (found.reward_breakdown or {}).items()
        rewards = [f"{part.value}: {reward}" for part, reward in parts]
        return WorldCheck(right=found.reward == 1.0, found=tuple(rewards))


def prepare(case: Mapping[str, Any], *, enforce: bool) -> TaskWorld:
    """The world of a case. tau2's tools have no rules of their own: `enforce` changes nothing."""
    logger.disable("tau2")  # it logs each call
    return TaskWorld(case["domain"], case["task"], case.get("then"))


def translate_transcript(transcript: Sequence[Message]) -> list[Any]:
    """A transcript in tau2's words: what the user and the agent said, and the calls that ran."""
    said: list[Any] = []
    for message, answered in pair_results(transcript):
        if isinstance(message, User):
            if message.kind == "person":
                said.append(theirs.UserMessage(role="user", content=message.text))
        elif message.words:
            said.append(_make_agent_message(message.words))
        for call, result in answered:
            if call.name == THINK_NAME or result.refused:
                continue
            wanted = theirs.ToolCall(id=call.id, name=call.name, arguments=call.arguments)
            said.append(theirs.AssistantMessage(role="assistant", tool_calls=[wanted]))
            said.append(theirs.ToolMessage(id=call.id, role="tool", content=result.content))
    return said


def _make_agent_message(text: str) -> Any:
    return theirs.AssistantMessage(role="assistant", content=text)


def load_tasks(domain: str) -> list[Any]:
    """The tasks of a domain. Raises ValueError if there is none, or if its files are not there."""
    known = registry.get_info().domains
    if domain not in known:
        raise ValueError(f"tau2 has no domain {domain!r}; use one of {', '.join(known)}")
    try:
        tasks: list[Any] = registry.get_tasks_loader(domain)()
    except OSError as error:
        raise ValueError(f"the data of tau2 is missing ({error}); set TAU2_DATA_DIR") from error
    return tasks


def find_obstacle(task: Any, environment: Any, then: Sequence[str] | None) -> str:
    """Why a task cannot be played; empty if it can."""
    if task.initial_state and task.initial_state.message_history:
        return "it begins in the middle; choose another task"
    if environment.user_tools is not None and then is None:
        return "its user has tools; choose another domain"
    return ""


@click.command()
@click.argument("domain", default="airline")
def main(domain: str) -> None:
    """Print the cases of a domain, one a line, for `think-agent eval`."""
    logger.disable("tau2")
    tasks = load_tasks(domain)
    environment = registry.get_env_constructor(domain)()
    cases = []
    left_out: Counter[str] = Counter()
    for task in tasks:
        problem = find_obstacle(task, environment, None)
        if problem:
            left_out[problem] += 1
            continue
        case = {"id": f"{domain}-{task.id}", "kind": domain, "text": "", "domain": domain}
        cases.append(case | {"task": task.id})
    if not cases:
        raise ValueError(f"no task of {domain} can be played: {', '.join(left_out)}")
    for problem, count in left_out.items():
        click.echo(f"left out {count}: {problem}", err=True)
    for case in cases:
        print(json.dumps(case))


if __name__ == "__main__":
    sys.exit(run(main, "python -m demos.tau2"))
