"""Our side of the benchmark: the same conversation with an Agent.

`python -m tests.benchmarks.kit kit PROVIDER URL COUNT` prints the seconds of the imports and holds
COUNT conversations, at once if there are several.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from tests.benchmarks.conversation import (
    FUNCTIONS,
    INSTRUCTIONS,
    KEY,
    MODEL,
    REQUEST,
    hold,
)


def agent_for(provider: str, url: str, *, waits: bool) -> Any:
    from think_agent import Agent, connect, tool

    name, _, api = provider.partition("-")
    options: dict[str, Any] = {"api": api} if api else {}
    if name == "ollama":
        # The recorded replies have no form, and the server tells nothing of itself.
        options = {"dialect": "native", "format": False}
    base_url = f"{url}/v1" if name == "openai" else url
    key = None if name == "ollama" else KEY
    model = connect(f"{name}:{MODEL}", base_url=base_url, api_key=key, **options)
    functions = [waiting(f) if waits else f for f in FUNCTIONS.values()]
    tools = [tool(f, think_first=f.__name__ == "process_refund") for f in functions]
    return Agent(model, tools, instructions=INSTRUCTIONS)


def waiting(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as an async one; a sync tool would run in a thread, so as not to block."""

    @functools.wraps(function)
    async def wait(**arguments: Any) -> Any:
        return function(**arguments)

    return wait


def talker(side: str, provider: str, url: str) -> Callable[[], str]:
    """Holds one conversation at each call; the agent stays."""
    agent = agent_for(provider, url, waits=False)
    return lambda: str(agent.run(REQUEST).answer)


def async_talker(side: str, provider: str, url: str) -> Callable[[], Awaitable[str]]:
    """`talker`, for an event loop."""
    agent = agent_for(provider, url, waits=True)

    async def talk() -> str:
        return str((await agent.arun(REQUEST)).answer)

    return talk


if __name__ == "__main__":
    hold(talker, async_talker)
