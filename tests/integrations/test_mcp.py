"""Tools of MCP servers, over the official SDK: in this process, as a command, killed in a call."""

import asyncio
import os
import sys
import textwrap

import pytest

pytest.importorskip("mcp", reason='needs pip install -e ".[mcp]"')

from mcp.server.mcpserver import Image, MCPServer
from mcp.types import ToolAnnotations as Hints
from pydantic import BaseModel

from think_agent import Agent, ScriptedModel, ToolResult, tool
from think_agent.integrations.mcp import Server
from think_agent.testing import call, think

READS = Hints(read_only_hint=True)
ADDS = Hints(destructive_hint=False)


class Node(BaseModel):
    name: str
    inner: list["Node"] = []


def shop() -> MCPServer:
    app = MCPServer("shop")

    @app.tool(annotations=READS)
    def look(what: str) -> str:
        """Look something up."""
        return f"{what}: 3"

    @app.tool(annotations=ADDS)
    async def pay(amount: int, seconds: float = 0) -> str:
        """Pay."""
        await asyncio.sleep(seconds)
        return f"paid {amount}"

    @app.tool(annotations=Hints(destructive_hint=False, idempotent_hint=True))
    def put(amount: int) -> str:
        """Set an amount."""
        return f"put {amount}"

    @app.tool()
    def wipe() -> str:
        """Wipe all."""
        return "wiped"

    @app.tool(annotations=ADDS)
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    @app.tool(annotations=READS)
    def picture() -> Image:
        """A picture."""
        return Image(data=b"x" * 3000, format="png")

    @app.tool(name="a.b/c", annotations=READS)
    def tree(node: Node | None = None) -> str:
        """A tree."""
        return "" if node is None else node.name

    return app


COMMAND = textwrap.dedent("""
    import os, sys
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    print("up", file=sys.stderr)
    app = MCPServer("fragile")

    @app.tool(annotations=ToolAnnotations(destructive_hint=False))
    def die() -> str:
        "It dies in its call."
        os._exit(1)

    @app.tool(annotations=ToolAnnotations(read_only_hint=True))
    def name(name: str) -> str:
        "An environment variable."
        return os.environ.get(name, "not set")

    app.run("stdio")
""")


def agent(tools, *calls, **settings) -> Agent:
    replies = [*[(think("why"), item) for item in calls], think("done", should_continue=False)]
    return Agent(ScriptedModel([*replies, "Done."]), tools, **settings)


def results(outcome) -> list[ToolResult]:
    return [m for m in outcome.transcript if isinstance(m, ToolResult) and m.name != "think"]


def test_what_a_trusted_server_says_of_its_tools_is_declared() -> None:
    with Server(shop(), trusted=True) as tools:
        flags = {
            t.name: (t.read_only, t.idempotent, t.think_first, t.needs_approval) for t in tools
        }
    assert flags["look"] == (True, False, False, False)
    assert flags["pay"] == (False, False, True, False)
    assert flags["put"] == (False, True, True, False)
    assert flags["wipe"] == (False, False, True, True)  # it says nothing


def test_an_untrusted_server_is_believed_nothing() -> None:
    with Server(shop()) as tools:
        assert all(t.think_first and t.needs_approval for t in tools)
        assert not any(t.may_repeat for t in tools)
        outcome = agent(tools, call("look", what="tea")).run("Look.")
    assert outcome.exit == "needs_human"


def test_what_you_declare_wins() -> None:
    declared = {"look": {"read_only": True, "think_first": False, "needs_approval": False}}
    with Server(shop(), only=["look", "pay"], prefix="x_", declared=declared) as tools:
        assert [(t.name, t.read_only) for t in tools] == [("x_look", True), ("x_pay", False)]


@pytest.mark.parametrize("wrong", [{"only": ["nope"]}, {"declared": {"nope": {}}}])
def test_a_tool_that_is_not_there_is_an_error_at_the_start(wrong) -> None:
    with pytest.raises(ValueError, match="nope"), Server(shop(), **wrong):
        pass


def test_runs_sync_async_and_side_by_side() -> None:
    async def several(tools) -> list[str]:
        runs = [agent(tools, call("pay", amount=n, seconds=0.05)).arun("Pay.") for n in range(5)]
        return [results(outcome)[0].content for outcome in await asyncio.gather(*runs)]

    async def inside() -> str:
        async with Server(shop(), trusted=True) as tools:
            outcome = await agent(tools, call("look", what="tea")).arun("Look.")
            return results(outcome)[0].content

    with Server(shop(), trusted=True) as tools:
        assert results(agent(tools, call("look", what="tea")).run("Look."))[0].content == "tea: 3"
        assert asyncio.run(several(tools)) == [f"paid {n}" for n in range(5)]
    assert asyncio.run(inside()) == "tea: 3"


def test_results_and_schemas() -> None:
    with Server(shop(), trusted=True) as tools:
        calls = (call("picture"), call("a_b_c", node={"name": "n"}), call("a_b_c", node={"x": 1}))
        picture, tree, misfit = results(agent(tools, *calls).run("Show."))
        assert "$ref" not in str(tools[-1].parameters)  # of a type that contains itself
    assert picture.content == "[image/png, 3,000 bytes, not shown]"
    assert tree.content == "n"
    assert misfit.refused == "invalid"


def test_an_error_of_the_server_is_one_line_and_may_have_happened(caplog) -> None:
    with Server(shop(), trusted=True) as tools:
        (result,) = results(agent(tools, call("fail")).run("Fail."))
    assert result.in_doubt
    assert result.content.startswith("error: Error executing tool fail")
    assert all(
        r.name != "think_agent" for r in caplog.records
    )  # no traceback: it is no mistake of the tool's author


def test_a_call_that_takes_too_long_may_have_happened() -> None:
    with Server(shop(), trusted=True, timeout=0.1) as tools:
        (result,) = results(agent(tools, call("pay", amount=1, seconds=9)).run("Pay."))
    assert result.in_doubt


@pytest.mark.timeout(20)
def test_an_async_tool_may_open_a_server_but_not_block_for_it() -> None:
    @tool(read_only=True)
    async def right() -> int:
        """Open it."""
        async with Server(shop(), trusted=True) as tools:
            return len(tools)

    @tool(read_only=True)
    async def wrong() -> int:
        """Open it, and wait for oneself."""
        with Server(shop(), trusted=True) as tools:
            return len(tools)

    right_one, wrong_one = results(agent([right, wrong], call("right"), call("wrong")).run("Open."))
    assert right_one.content == "7"
    assert "async with" in wrong_one.content


def test_a_command_that_dies_in_a_call_is_in_doubt_and_stays_gone() -> None:
    with Server([sys.executable, "-c", COMMAND], trusted=True) as tools:
        first, again, after = results(
            agent(
                tools, call("die"), call("die"), call("name", name="X"), approve=lambda asked: False
            ).run("Die.")
        )
    assert first.in_doubt
    assert again.refused == "person"
    assert (after.content, after.in_doubt) == (
        "error: nothing was sent: the server is gone.",
        False,
    )


def test_a_command_sees_only_the_variables_that_it_is_given(monkeypatch) -> None:
    monkeypatch.setitem(os.environ, "SECRET_KEY", "k")
    with Server([sys.executable, "-c", COMMAND], trusted=True, env={"GIVEN": "yes"}) as tools:
        calls = (call("name", name="SECRET_KEY"), call("name", name="GIVEN"))
        assert [r.content for r in results(agent(tools, *calls).run("Read."))] == ["not set", "yes"]


@pytest.mark.parametrize(
    ("address", "seconds", "what"),
    [
        ("no-such-command x", 9, "no-such-command"),
        ([sys.executable, "-c", "raise SystemExit('no key')"], 9, "no key"),
        (
            [sys.executable, "-c", "import time; time.sleep(9)"],
            0.5,
            "did not answer in 0.5 seconds",
        ),
    ],
)
def test_a_server_that_does_not_start_is_one_line(address, seconds, what) -> None:
    with (
        pytest.raises(ConnectionError, match=what) as caught,
        Server(address, start_timeout=seconds),
    ):
        pass
    assert "\n" not in str(caught.value)
