"""An agent on a script in one line, and parts of its transcript."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from think_agent import Agent, Outcome, Request, ScriptedModel, Tool, tool
from think_agent.messages import Assistant, Message, ToolResult, User
from think_agent.testing.scripted import Reply

NOTHING = ["", " \n", "...", "\u200b", "\u00ad", "\u2800", "\0", "\U000e0041"]
"""Blank thoughts: texts without a letter or a number that can be seen."""


@tool(think_first=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@tool(idempotent=True)
def look(item: str) -> str:
    """Look it up."""
    return "89 $"


@tool
def _number(n: int) -> None:
    """It takes a number."""


def taking_n(name: str, function: Callable[..., Any], **guards: Any) -> Tool:
    """A tool with one parameter, `n: int`. Its schema was made once: a property test has thousands
    of these tools.
    """
    return replace(_number, name=name, function=function, **guards)


def by_place(*replies: Reply) -> Callable[[Request], Assistant]:
    """The script as a function of the request, so that another process can go on with it."""

    def reply(request: Request) -> Assistant:
        place = sum(isinstance(message, Assistant) for message in request.messages)
        return ScriptedModel(replies[place:]).complete(request)

    return reply


def agent(*replies: Reply, tools: Iterable[Tool] = (), **settings: Any) -> Agent:
    """An agent that is not forced to think. If it calls no tool, the turn is over."""
    settings = {"force": "never", "silence": "accept", **settings}
    return Agent(ScriptedModel(by_place(*replies)), tools, **settings)


def results(outcome: Outcome | Iterable[Message], name: str = "") -> list[ToolResult]:
    """The results, or only those of the tool `name`."""
    messages = outcome.transcript if isinstance(outcome, Outcome) else outcome
    return [m for m in messages if isinstance(m, ToolResult) and name in ("", m.name)]


def of_kind(events: Iterable[object], *kinds: type) -> list[Any]:
    """The events, or messages, of these types."""
    return [event for event in events if isinstance(event, kinds)]


def clock(seconds: float = 1, day: int = 1) -> Callable[[], str]:
    """A clock that goes on by so many seconds each time it is read."""
    start, ticks = datetime(2026, 3, day, 12, tzinfo=UTC), count()
    return lambda: (start + timedelta(seconds=seconds * next(ticks))).isoformat()


def kit_said(outcome: Outcome) -> list[User]:
    """The messages that the kit wrote in the user's role."""
    return [m for m in outcome.transcript if isinstance(m, User) and m.kind != "person"]
