"""A stranger (after lesson 16): a server is not trusted, but you know its tools.

Task: `stock` only reads, so it just runs. `order` needs a thought but no yes. `cancel` is left
as it is: a person is asked.
Hint: `declared=` takes a dict: the name of a tool, and what you know about it, as options of
`@tool`. A tool that you declare `read_only` needs no thought and no yes, if you don't ask for them.
"""

import pytest
from mcp.server.mcpserver import MCPServer

from think_agent import Agent, Outcome, ScriptedModel, ToolCall
from think_agent.integrations.mcp import Server
from think_agent.testing import call, think
from think_agent.tools import ToolOptions

shop = MCPServer("shop")


@shop.tool()
def stock(item: str) -> str:
    """How many are left."""
    return f"3 packets of {item}"


@shop.tool()
def order(item: str) -> str:
    """Order one more. It is paid at the end of the month."""
    return f"{item} is ordered."


@shop.tool()
def cancel(item: str) -> str:
    """Cancel an order, for good."""
    return f"{item} is cancelled."


def declare_tools() -> dict[str, ToolOptions]:
    """What you know about the tools of this server."""
    # Your code begins.
    # Your code ends.
    return {}


def run_reply(*reply: ToolCall) -> Outcome:
    """The run of an agent with one reply, and then its answer. There's no person to ask."""
    with Server(shop, declared=declare_tools()) as tools:
        model = ScriptedModel([reply, think("Done.", should_continue=False), "Done."])
        return Agent(model, tools, force="never").run("Tea, please.")


def test_stock_is_simply_looked_up() -> None:
    outcome = run_reply(call("stock", item="tea"))
    assert [action.result.content for action in outcome.actions] == ["3 packets of tea"]


def test_an_order_needs_a_thought() -> None:
    assert not run_reply(call("order", item="tea")).actions


def test_an_order_needs_no_yes() -> None:
    outcome = run_reply(think("There are only three left."), call("order", item="tea"))
    assert (outcome.exit, len(outcome.actions)) == ("signal", 1)


@pytest.mark.parametrize("thoughts", [0, 1])
def test_nothing_is_cancelled_unasked(thoughts: int) -> None:
    outcome = run_reply(*[think("They said so.")] * thoughts, call("cancel", item="tea"))
    assert not outcome.actions
