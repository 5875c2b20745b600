"""Tools of MCP servers: what is believed of them, what they answer, and what changes.

The servers are our own, honest and hostile (tests/servers/mcp_shop.py, mcp_hostile.py). How they
end is in test_mcp_ends.py, and those of others are in test_mcp_servers.py.
"""

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason='needs pip install -e ".[mcp]"')

from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.servers.mcp_shop import shop
from tests.support.agents import results
from tests.support.mcp import (
    SHOP,
    calling,
    command,
    hostile,
    made,
    shop_over_http,
    until,
)
from tests.support.sizes import ROOT
from think_agent import tool
from think_agent.integrations.mcp import Server
from think_agent.testing import call

# --- what is believed ---


def guards(tools) -> dict[str, str]:
    """What is declared of each tool, in one word each."""
    names = ("read_only", "idempotent", "think_first", "needs_approval")
    return {
        item.name: " ".join(name for name in names if getattr(item, name)) or "-" for item in tools
    }


EACH_NEEDS = "think_first needs_approval"


@dataclass
class Belief:
    settings: dict[str, object]
    look: str
    pay: str
    put: str
    wipe: str


BELIEFS = {
    "whoever is not trusted is believed nothing": Belief(
        {}, look=EACH_NEEDS, pay=EACH_NEEDS, put=EACH_NEEDS, wipe=EACH_NEEDS
    ),
    "the annotations of a trusted server count": Belief(
        {"trusted": True},
        look="read_only",
        pay="think_first",
        put="idempotent think_first",
        wipe=EACH_NEEDS,  # it says nothing of itself
    ),
    "your word wins, and what follows from it": Belief(
        {"declared": {"look": {"read_only": True}, "put": {"idempotent": True}}},
        look="read_only",
        pay=EACH_NEEDS,
        put="idempotent think_first needs_approval",
        wipe=EACH_NEEDS,
    ),
    "your word wins against a trusted server, too": Belief(
        {
            "trusted": True,
            "declared": {"look": {"read_only": False}, "wipe": {"needs_approval": False}},
        },
        look=EACH_NEEDS,
        pay="think_first",
        put="idempotent think_first",
        wipe="think_first",
    ),
}


@pytest.mark.parametrize("belief", BELIEFS.values(), ids=BELIEFS)
def test_what_a_server_says_of_its_tools(belief) -> None:
    with Server(shop(), **belief.settings) as tools:
        declared = guards(tools)
    for name in ("look", "pay", "put", "wipe"):
        assert declared[name] == getattr(belief, name), name


def test_a_call_of_an_untrusted_server_needs_a_thought_and_a_yes() -> None:
    with Server(shop()) as tools:
        outcome = calling(tools, call("look", what="tea")).run("Look.")
        assert outcome.exit == "needs_human"
        agent = calling(tools, call("look", what="tea"))
        outcome = agent.resume(outcome.transcript, verdict=outcome.question.yes())
    assert results(outcome, "look")[0].content == "tea: 3"


def test_tools_can_be_chosen_and_renamed() -> None:
    declared = {"a.b/c": {"name": "tree"}, "pay": {"same": ("amount",), "timeout": 5.0}}
    with Server(shop(), only=["pay", "look", "a.b/c"], prefix="x_", declared=declared) as tools:
        assert [item.name for item in tools] == ["x_look", "tree", "x_pay"]  # the server's order
        assert tools[2].same == ("amount",)
        assert tools[2].timeout == 5.0
        assert tools[0].timeout == 60.0


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"only": ["nope"]}, ValueError, r"it has no tools \['nope'\]; it has \['a.b/c', "),
        ({"declared": {"nope": {}}}, ValueError, r"it has no tools \['nope'\]"),
        ({"declared": {"pay": {"same": ("cents",)}}}, ValueError, r"tool pay .*no such parameters"),
        ({"declared": {"pay": {"idempotant": True}}}, TypeError, "no option idempotant; use name"),
        ({"only": "look"}, TypeError, "pass a list of names"),
        ({"env": {"KEY": "k"}}, TypeError, "for a URL, pass headers="),
        ({"headers": {"KEY": "k"}}, TypeError, "for a command, pass env="),
        ({"timeout": 0, "only": ["look"]}, ValueError, "use seconds above 0"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line(settings, error, says) -> None:
    with pytest.raises(error, match=says) as caught, Server(shop(), **settings):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("empty", ["", " ", []])
def test_an_empty_command_is_an_error(empty) -> None:
    with pytest.raises(ValueError, match="empty command"):
        Server(empty)


# --- how it is used ---


def test_runs_sync_async_and_side_by_side() -> None:
    async def several(tools) -> list[str]:
        runs = [calling(tools, call("pay", amount=n, seconds=0.05)).arun("Pay.") for n in range(5)]
        outcomes = await asyncio.gather(*runs)
        return [results(outcome, "pay")[0].content for outcome in outcomes]

    async def inside() -> str:
        async with Server(shop(), trusted=True) as tools:
            outcome = await calling(tools, call("look", what="tea")).arun("Look.")
            return results(outcome, "look")[0].content

    with Server(shop(), trusted=True) as tools:
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"
        assert asyncio.run(several(tools)) == [f"paid {n}" for n in range(5)]
    assert asyncio.run(inside()) == "tea: 3"


def test_a_server_is_opened_once_at_a_time_and_again_later() -> None:
    server = Server(shop(), trusted=True)
    with server, pytest.raises(RuntimeError, match="make a Server for each use"), server:
        pass
    with server as tools:
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"
    closed = made(tools, call("look", what="tea"))[0]
    assert closed.content == "error: nothing was sent: the server is gone."


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

    right_one, wrong_one = made([right, wrong], call("right"), call("wrong"))
    assert right_one.content == "11"
    assert "use `async with`" in wrong_one.content


def test_what_else_the_sdk_takes(ledger) -> None:
    words = StdioServerParameters(
        command=sys.executable, args=SHOP[1:], cwd=ROOT, env={"GIVEN": "yes"}
    )
    with Server(words, trusted=True) as tools:
        assert made(tools, call("variable", name="GIVEN"))[0].content == "yes"
    with shop_over_http() as (url, _), Server(streamable_http_client(url), trusted=True) as tools:
        assert made(tools, call("look", what="tea"))[0].content == "tea: 3"


def test_a_command_line_is_split_as_a_shell_does(ledger) -> None:
    with Server(f"{sys.executable} -m 'tests.servers.mcp_shop'", only=["pid"]) as tools:
        assert guards(tools) == {"pid": EACH_NEEDS}


def test_a_command_sees_only_the_variables_that_it_is_given(ledger, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "k")
    with Server(SHOP, trusted=True, env={"GIVEN": "yes"}) as tools:
        found = made(tools, *(call("variable", name=name) for name in ("SECRET_KEY", "GIVEN")))
    assert [result.content for result in found] == ["not set", "yes"]


# --- results and schemas ---


def test_results_are_text_and_what_is_not_is_named() -> None:
    with Server(shop(), trusted=True) as tools:
        calls = (call("picture"), call("a_b_c", node={"name": "n"}), call("pid"))
        picture, tree, pid = made(tools, *calls)
    assert picture.content == "[image/png, 3,000 bytes, not shown]"
    assert tree.content == "n"
    assert pid.content == str(os.getpid())


def test_arguments_are_validated_before_a_call_is_sent() -> None:
    with Server(shop(), trusted=True) as tools:
        (misfit,) = made(tools, call("a_b_c", node={"x": 1}))
        recursive = next(item for item in tools if item.name == "a_b_c")
        assert "$ref" not in str(recursive.parameters)
    assert misfit.refused == "invalid"


def test_an_error_of_a_tool_is_a_line_without_a_traceback(caplog) -> None:
    with Server(shop(), trusted=True) as tools:
        (result,) = made(tools, call("fail"))
    assert result.in_doubt
    assert result.content.startswith("error: Error executing tool fail")
    assert [record for record in caplog.records if record.name == "think_agent"] == []


def test_a_result_that_does_not_fit_its_own_schema_is_a_result() -> None:
    with Server(hostile("mismatch"), trusted=True) as tools:
        (result,) = made(tools, call("look", what="tea"), approve=lambda _: True)
    assert result.content == "3 packets"
    assert not result.is_error


def test_the_order_of_keys_is_the_servers_where_it_matters_and_always_the_same() -> None:
    """A server may list its keys in another order each time it starts."""
    seen = set()
    for turn in "01":
        with Server(hostile("shuffled", turn)) as tools:
            seen.add(json.dumps(tools[0].parameters))
    assert len(seen) == 1
    assert list(json.loads(seen.pop())["properties"]) == ["to", "cents", "at", "note"]


def test_a_tool_that_cannot_be_used_is_named_and_does_not_take_the_others_with_it() -> None:
    unusable = [
        ("no_type", "input"),
        ("no_schema", "input"),
        ("schema_is_text", "input"),
        ("properties_are_a_list", "properties"),
        ("unknown_type", "'text'"),
        ("lost_reference", "not in it"),
        ("far_reference", "not in it"),
        ("odd_reference", "its schema cannot be read"),
        ("reference_is_a_number", "its schema cannot be read"),
        ("too_deep", "its schema cannot be read"),
        ("too_many_parts", "more than 10,000 parts"),
        ("n" * 80, "1 to 64 letters"),
        ("think", "use prefix="),
        ("hints_are_text", "annotations"),
        ("5", "name"),
        ("None", ""),
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Server(hostile("bad_tools")) as tools:
            assert [item.name for item in tools] == ["look"]
            (result,) = made(tools, call("look", what="tea"), approve=lambda _: True)
    assert result.content == "looked"
    told = {str(warning.message) for warning in caught}
    for name, problem in unusable:
        assert any(f"tool {name} cannot" in text and problem in text for text in told), name
    assert not any("\n" in text for text in told)


def test_a_tool_that_is_named_has_to_be_usable() -> None:
    with pytest.raises(ValueError, match="tool no_type cannot be used: malformed: "):
        Server(hostile("bad_tools"), only=["no_type"]).__enter__()


def test_tools_that_are_not_wanted_are_not_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Server(hostile("bad_tools"), only=["look"], declared={"look": {"name": "l"}}) as tools:
            assert [item.name for item in tools] == ["l"]


@contextmanager
def changing(way: str, ledger: Path) -> Iterator[Server]:
    if way == "by the protocol of 2025":
        yield Server(hostile("changes"), trusted=True)
    elif way == "in this process":
        yield Server(shop(), trusted=True)
    elif way == "a command":
        yield Server(**command(ledger))
    else:
        with shop_over_http() as (url, _):
            yield Server(url, trusted=True)


@pytest.mark.parametrize(
    "way", ["by the protocol of 2025", "in this process", "a command", "over HTTP"]
)
def test_a_tool_that_changes_is_reported_once(way, ledger) -> None:
    change = call("look") if "2025" in way else call("rewrite")
    with warnings.catch_warnings(record=True) as told, changing(way, ledger) as server:
        warnings.simplefilter("always")
        with server as tools:
            made(tools, change, approve=lambda _: True)
            until(lambda: told)
            made(tools, change, approve=lambda _: True)
    (warning,) = told
    text = str(warning.message)
    assert "tool look has changed (description) since the server was opened." in text
