"""The offline provider: an agent runs before there is a script for it, or a model."""

import asyncio
from datetime import date
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from think_agent import THINK_MINIMAL, Agent, Request, Tool, User, connect, tool

LABEL = "[scripted stand-in, no language model] You said: Is there tea?"
ARGUMENTS = {"properties": {"kind": {"const": "green"}, "n": {"oneOf": [{"type": "number"}]}}}


class Shelf(BaseModel):
    row: Annotated[int, Field(ge=7)]
    label: str


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"force": "never"},
        {"force": "always"},
        {"think": THINK_MINIMAL},
        {"carry": True},
        {"carry": True, "think": None},
        {"answer": Shelf},
    ],
)
def test_without_a_script_it_looks_once_with_each_tool_and_changes_nothing(settings):
    ran = []

    @tool(read_only=True)
    def shelf(item: Literal["tea", "mate"], since: date, shelf: Shelf, tags: list[str]) -> str:
        """Look at a shelf."""
        ran.append(("shelf", item, since, shelf.row, tags))
        return "3"

    @tool(read_only=True)
    def code(of: Annotated[str, Field(pattern="^X[0-9]$")]) -> str:
        """Read a code."""
        raise AssertionError("an example keeps to no pattern")

    @tool(read_only=True, think_first=True)
    def audit(is_open: bool, size: int | None, note: str = "none") -> str:
        """Look behind a thought."""
        ran.append(("audit", is_open, size, note))
        return "fine"

    @tool(idempotent=True)
    def order(item: Literal["tea", "mate"], packets: int) -> str:
        """Order packets."""
        raise AssertionError("nothing may be changed")

    def ready(kind: str, n: float) -> str:
        ran.append(("ready", kind, n))
        return "ready"

    parameters = {"type": "object", "required": ["kind", "n"], **ARGUMENTS}
    made = Tool(name="ready", description="", parameters=parameters, function=ready, read_only=True)
    tools = [order, shelf, code, audit, made]
    outcome = Agent(connect("offline"), tools, **settings).run("Is there tea?")
    assert ran == [
        ("audit", True, 1, "none"),
        ("shelf", "tea", date(2026, 1, 31), 7, ["example"]),
        ("ready", "green", 1),
    ]
    if settings.get("answer"):  # in its form; a bound is not in a reduced schema
        assert outcome.answer == '{"row": 1, "label": "example"}'
        return
    wanted = 'It would have called order(item="tea", packets=1).'
    assert outcome.answer == f"{LABEL}\n{wanted}"
    assert outcome.exit == ("signal" if settings.get("think", True) else "silence")
    again = Agent(connect("offline"), tools, **settings).run("And?", transcript=outcome.transcript)
    assert len(ran) == 6, "once a turn"
    assert again.answer.endswith(wanted)


def test_two_streams_on_one_event_loop_take_turns():
    begun = []

    async def talk(name):
        model = connect("offline", pace=0.001)
        async for _ in model.astream(Request([User("Is there tea?")])):
            begun.append(name)

    async def both():
        await asyncio.gather(talk("first"), talk("second"))

    asyncio.run(both())
    assert begun.index("second") < begun.count("first"), "the second waits for the first"
