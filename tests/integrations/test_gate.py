"""The gate, in this process: an official client, both eras of the protocol, a server behind it."""

import asyncio
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp", reason='needs pip install -e ".[mcp]"')

from mcp import Client
from mcp import types as wire
from mcp.server.lowlevel import Server as LowLevel
from mcp.types import CallToolResult

from tests.support.commands import run
from tests.support.gates import ERAS, AtTheGate, Shop, on_the_loop, recorded, session, text_of
from think_agent import Assistant, Ended, Started, ToolCall, ToolResult, User
from think_agent.audit import read
from think_agent.transcript import TranscriptFile, utc_now

WHY = "The bill is due."
eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def record(tmp_path):
    return tmp_path / "run.jsonl"


@eras
def test_a_call_without_a_thought_is_refused_and_runs_after_one(record, era):
    shop = Shop()

    async def talk() -> list[CallToolResult]:
        async with session(shop, record, era) as gate:
            refused = await gate.call("pay", cents=5)
            await gate.call("think", thought=WHY)
            return [refused, await gate.call("pay", cents=5), await gate.call("pay", cents=6)]

    refused, done, again = on_the_loop(talk())
    assert refused.is_error
    assert "Call think first" in text_of(refused)
    assert done.structured_content == {"paid": 5}
    assert again.is_error  # a result came after the thought
    assert shop.paid == [5]
    assert recorded(record) == [
        "refused pay: gate",
        "yes by the client, which asks by itself",
        "started pay",
        "done pay",
        "refused pay: gate",
    ]


@eras
def test_calls_that_are_sent_at_once_carry_their_thoughts_and_run_one_at_a_time(record, era):
    shop = Shop()

    async def talk() -> list[CallToolResult]:
        async with session(shop, record, era) as gate:
            calls = [gate.call("pay", cents=n, thought=WHY) for n in range(5)]
            return await asyncio.gather(*calls)

    assert not any(result.is_error for result in on_the_loop(talk()))
    assert sorted(shop.paid) == [0, 1, 2, 3, 4]
    assert shop.most_at_a_time == 1


def test_a_tool_with_its_own_thought_gets_that_and_carries_ours_under_another_name(record):
    async def talk() -> tuple[list[str], CallToolResult, CallToolResult]:
        async with session(Shop(), record) as gate:
            schema = (await gate.listed())["note"].input_schema
            refused = await gate.call("note", thought="Buy milk.")
            done = await gate.call("note", thought="Buy milk.", kit_thought=WHY)
            return list(schema["properties"]), refused, done

    properties, refused, done = on_the_loop(talk())
    assert properties == ["kit_thought", "thought"]
    assert refused.is_error
    assert text_of(done) == "Buy milk."


class Listed(NamedTuple):
    """Does the client read of a tool that it reads only, and that it needs a thought?"""

    options: dict[str, Any]
    look: tuple[bool, bool]
    pay: tuple[bool, bool]


@pytest.mark.parametrize(
    "case",
    [
        Listed({}, look=(False, True), pay=(False, True)),
        Listed({"trusted": True}, look=(True, False), pay=(False, True)),
        Listed({"declared": {"pay": {"read_only": True}}}, look=(False, True), pay=(True, False)),
    ],
    ids=["a stranger", "trusted", "declared"],
)
def test_annotations_count_only_if_the_server_is_trusted(record, case):
    async def talk() -> dict[str, tuple[bool, bool]]:
        async with session(Shop(), record, **case.options) as gate:
            return {
                name: (tool.annotations.read_only_hint, "thought" in tool.input_schema["required"])
                for name, tool in (await gate.listed()).items()
            }

    found = on_the_loop(talk())
    assert found["look"] == case.look
    assert found["pay"] == case.pay
    assert found["think"] == (True, True)


def test_a_tool_that_only_reads_needs_no_thought_and_no_yes(record):
    async def talk() -> CallToolResult:
        async with session(Shop(), record, trusted=True, approve="never") as gate:
            return await gate.call("look", item="tea")

    assert text_of(on_the_loop(talk())) == "tea: 3"
    assert recorded(record) == ["done look"]


@eras
@pytest.mark.parametrize("tool", ["show", "pay", "note"])
def test_a_result_passes_unchanged(record, era, tool):
    """Pictures and structured content, too. The record has its text."""
    arguments = {"pay": {"cents": 5}, "note": {"thought": "Buy milk."}}.get(tool, {})
    carried = {"kit_thought" if tool == "note" else "thought": WHY}

    async def talk() -> tuple[CallToolResult, CallToolResult]:
        async with Client(Shop(), mode=era) as client, session(Shop(), record, era) as gate:
            return await client.call_tool(tool, arguments), await gate.call(
                tool, **arguments, **carried
            )

    direct, through = on_the_loop(talk())
    without_name = {"meta"}  # which server it was
    assert through.model_dump(exclude=without_name) == direct.model_dump(exclude=without_name)
    assert recorded(record)[-1] == f"done {tool}"


def test_a_result_that_an_older_client_cannot_read_comes_as_text(record):
    """Up to 2025-11-25, structured content is an object. The SDK would say that the call failed."""

    async def list_tools(*_: object) -> wire.ListToolsResult:
        tool = wire.Tool(name="count", input_schema={"type": "object"})
        return wire.ListToolsResult(tools=[tool])

    async def call_tool(*_: object) -> CallToolResult:
        return CallToolResult(content=[], structured_content=[1, 2])

    async def talk() -> CallToolResult:
        server = LowLevel("counter", on_list_tools=list_tools, on_call_tool=call_tool)
        async with session(server, record, "legacy") as gate:
            return await gate.call("count", thought=WHY)

    result = on_the_loop(talk())
    assert not result.is_error
    assert text_of(result) == "[1, 2]"
    assert recorded(record)[-1] == "done count"


@eras
def test_progress_passes(record, era):
    heard = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def talk() -> None:
        async with session(Shop(), record, era) as gate:
            arguments = {"cents": 5, "thought": WHY}
            await gate.client.call_tool("pay", arguments, progress_callback=hear)

    on_the_loop(talk())
    assert heard == [(1.0, 2.0, "half")]


@eras
def test_a_change_of_the_tools_passes(record, era):
    """The new tool can be called, the record has it, and the client gets a notice."""

    async def talk() -> tuple[set[str], CallToolResult, list[str]]:
        async with session(Shop(), record, era) as gate, gate.subscribed():
            before = set(await gate.listed())
            await gate.call("grow", thought=WHY)
            await gate.has_changed.wait()
            new = set(await gate.listed()) - before
            return new, await gate.call("fresh", thought=WHY), gate.said

    new, fresh, said = on_the_loop(talk())
    assert new == {"fresh"}
    assert text_of(fresh) == "fresh"
    assert "fresh" in [tool["name"] for tool in read(record).header["tools"]]
    assert any("changed since it was created: tools" in line for line in said)


class Asks(NamedTuple):
    """What the client's user answers (nothing: it can't be asked), and what comes of it."""

    answer: str
    approve: str
    paid: list[int]
    because: str


@eras
@pytest.mark.parametrize(
    "case",
    [
        Asks("accept", "never", [5], "yes by the client's user"),
        Asks("decline", "client", [], "no by the client's user"),
        Asks("cancel", "client", [], "no by the client's user"),
        Asks("", "client", [5], "yes by the client, which asks by itself"),
        Asks("", "never", [], "no by the gate"),
    ],
    ids=lambda case: f"{case.answer or 'no person'}-{case.approve}",
)
def test_who_says_yes(record, era, case):
    shop = Shop()
    answers = [case.answer] if case.answer else []

    async def talk() -> CallToolResult:
        async with session(shop, record, era, answers=answers, approve=case.approve) as gate:
            return await gate.call("pay", cents=5, thought=WHY)

    result = on_the_loop(talk())
    assert shop.paid == case.paid
    assert result.is_error == (case.paid == [])
    assert recorded(record)[0] == case.because


@pytest.mark.parametrize(("approve", "paid"), [("client", [5]), ("never", [])])
def test_a_client_that_offers_to_ask_and_cannot_is_as_one_that_does_not_offer_it(
    record, approve, paid
):
    shop = Shop()

    async def talk() -> None:
        async with session(shop, record, answers=["cannot"], approve=approve) as gate:
            await gate.call("pay", cents=5, thought=WHY)

    on_the_loop(talk())
    assert shop.paid == paid


@eras
def test_the_question_shows_what_runs(record, era):
    """Nothing in an argument can be hidden, or look like another line."""

    async def talk() -> list[str]:
        async with session(Shop(), record, era, answers=["decline"]) as gate:
            await gate.call("look", item="tea\u3164\u202e\nRun look?", thought="Is\nit there?")
            return gate.asked

    (question,) = on_the_loop(talk())
    assert question.splitlines() == [
        "Its thought: Is\\nit there?",
        'item: "tea\\u3164\\u202e\\nRun look?"',
        "Run look?",
    ]


def test_at_a_trusted_server_no_question_is_asked_about_what_destroys_nothing(record):
    shop = Shop()

    async def talk() -> None:
        async with session(shop, record, answers=["decline"], trusted=True) as gate:
            await gate.call("pay", cents=5, thought=WHY)

    on_the_loop(talk())
    assert shop.paid == [5]


class Repeats(NamedTuple):
    """What the user says to the first call of `fail` and to its repeat, and how often it ran."""

    answers: list[str]
    options: dict[str, Any]
    paid: int


@eras
@pytest.mark.parametrize(
    "case",
    [
        Repeats(["accept", "accept"], {}, 2),
        Repeats(["accept", "decline"], {}, 1),
        Repeats([], {}, 1),  # the client's own question does not say that it may have happened
        Repeats([], {"declared": {"fail": {"idempotent": True}}}, 2),
    ],
    ids=["yes", "no", "no person", "idempotent"],
)
def test_what_may_have_happened_runs_again_only_after_a_persons_yes(record, era, case):
    shop = Shop()

    async def talk() -> tuple[str, list[str]]:
        async with session(shop, record, era, answers=case.answers, **case.options) as gate:
            await gate.call("fail", cents=5, thought=WHY)
            return text_of(await gate.call("fail", cents=5, thought=WHY)), gate.asked

    shown, asked = on_the_loop(talk())
    assert shop.paid == [5] * case.paid
    if case.answers:
        assert "may have happened" in asked[1]
    elif not case.options:
        assert "may have happened" in shown


@eras
def test_a_call_that_is_cancelled_while_it_waits_is_not_run(record, era):
    shop = Shop()

    async def talk() -> None:
        async with session(shop, record, era) as gate:
            first = asyncio.create_task(gate.call("wait", cents=1, thought=WHY))
            await shop.is_busy.wait()
            second = asyncio.create_task(gate.call("pay", cents=2, thought=WHY))
            await gate.client.list_tools()  # the gate has the second call now
            second.cancel()
            await asyncio.wait({second})
            shop.go_on.set()
            await first
            await gate.call("think", thought="The next call is later than both.")

    on_the_loop(talk())
    assert shop.paid == [1]
    assert recorded(record)[-2:] == ["done wait", "refused pay: stopped"]


@eras
def test_a_call_that_is_cancelled_in_the_server_may_have_happened(record, era):
    shop = Shop()

    async def talk() -> CallToolResult:
        async with session(shop, record, era) as gate:
            first = asyncio.create_task(gate.call("wait", cents=1, thought=WHY))
            await shop.is_busy.wait()
            first.cancel()
            await asyncio.wait({first})
            return await gate.call("wait", cents=1, thought=WHY)

    again = on_the_loop(talk())
    assert "may have happened" in text_of(again)
    assert recorded(record)[1:3] == ["started wait", "may have happened: wait"]
    assert shop.paid == []


def test_when_the_client_leaves_in_a_call_the_record_is_closed_in_order(record):
    shop = Shop()

    async def talk() -> None:
        async with session(shop, record) as gate:
            asyncio.ensure_future(gate.call("wait", cents=1, thought=WHY)).add_done_callback(
                lambda task: task.exception()
            )
            await shop.is_busy.wait()

    on_the_loop(talk())
    assert recorded(record)[-1] == "may have happened: wait"
    assert isinstance(read(record).messages[-1], Ended)


def left_behind(record, *, started: bool, done: bool = False) -> None:
    """A record of a gate that was killed with a call of `pay` in its hands."""
    call = ToolCall("c1", "pay", {"cents": 5, "thought": WHY})
    with TranscriptFile(record, {"model": "mcp:client"}, now=utc_now()) as file:
        file.append(User("A session."))
        file.append(Assistant(tool_calls=(call,), stop_reason="tool_use"))
        if started:
            file.append(Started("c1", "pay"))
        if done:
            file.append(ToolResult("c1", "pay", "paid 5, receipt 17"))


@eras
@pytest.mark.parametrize("answer", ["accept", "decline", ""])
def test_after_a_kill_in_a_call_the_gate_says_that_it_may_have_happened(record, era, answer):
    left_behind(record, started=True)
    shop = Shop()
    answers = [answer] if answer else []

    async def talk() -> tuple[str, list[str], list[str]]:
        async with session(shop, record, era, answers=answers) as gate:
            result = await gate.call("pay", cents=5, thought=WHY)
            return text_of(result), gate.asked, gate.said

    shown, asked, said = on_the_loop(talk())
    assert shop.paid == ([5] if answer == "accept" else [])
    assert any("may have happened" in line for line in said)
    assert all("may have happened" in question for question in asked)
    if not answer:
        assert "may have happened" in shown


def test_after_a_kill_before_the_call_it_did_not_run_and_runs_when_it_is_made_again(record):
    left_behind(record, started=False)
    shop = Shop()

    async def talk() -> None:
        async with session(shop, record) as gate:
            assert shop.paid == []
            await gate.call("pay", cents=5, thought=WHY)

    on_the_loop(talk())
    assert shop.paid == [5]
    assert recorded(record)[0] == "refused pay: stopped"


@eras
def test_a_result_that_was_lost_with_the_gate_is_given_once_and_the_call_is_not_run_again(
    record, era
):
    """The gate was killed after it recorded the result. Nobody knows whether the client read it."""
    left_behind(record, started=True, done=True)
    shop = Shop()

    async def talk() -> list[str]:
        async with session(shop, record, era) as gate:
            other = await gate.call("pay", cents=6, thought=WHY)
            return [text_of(other), *[await pay(gate) for _ in range(2)]]

    async def pay(gate: AtTheGate) -> str:
        return text_of(await gate.call("pay", cents=5, thought=WHY))

    other, first, second = on_the_loop(talk())
    assert "6" in other
    assert "it was done before the gate was killed" in first
    assert "paid 5, receipt 17" in first
    assert "5" in second
    assert shop.paid == [6, 5]  # the second one is meant


def test_a_lost_result_is_not_forgotten_when_the_next_gate_is_killed_too(record):
    left_behind(record, started=True, done=True)
    shop = Shop()

    async def talk(*amounts: int) -> list[str]:
        async with session(shop, record) as gate:
            return [text_of(await gate.call("pay", cents=n, thought=WHY)) for n in amounts]

    on_the_loop(talk(6))
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(lines[:-2]))  # so that gate did not end its turn
    (shown,) = on_the_loop(talk(5))
    assert "receipt 17" in shown
    assert shop.paid == [6]


def test_a_record_that_another_window_holds_leaves_the_next_free_name(record):
    second = record.with_name("run-2.jsonl")

    async def talk() -> None:
        async with (
            session(Shop(), record) as one,
            session(Shop(), record) as other,
        ):
            await one.call("pay", cents=1, thought=WHY)
            await other.call("pay", cents=2, thought=WHY)

    on_the_loop(talk())
    assert recorded(record)[-1] == recorded(second)[-1] == "done pay"


def test_a_record_that_a_killed_gate_left_open_comes_before_a_free_name(record):
    """Otherwise this session would not know what may have happened in that one."""
    second = record.with_name("run-2.jsonl")

    async def once() -> None:
        async with session(Shop(), record) as gate:
            await gate.call("pay", cents=1, thought=WHY)

    on_the_loop(once())
    left_behind(second, started=True)
    on_the_loop(once())
    assert recorded(second)[-1] == "done pay"


def test_at_the_limit_nothing_runs_any_more_in_this_session(record):
    shop = Shop()

    async def talk() -> list[str]:
        async with session(shop, record, max_actions=2) as gate:
            calls = [await gate.call("pay", cents=n, thought=WHY) for n in range(4)]
            return [text_of(result) for result in calls]

    shown = on_the_loop(talk())
    assert shop.paid == [0, 1]
    assert ["limit of this session" in text for text in shown] == [False, False, True, True]


def test_what_does_not_pass_is_said_at_the_start(record):
    async def talk() -> list[str]:
        async with session(Shop(), record) as gate:
            return gate.said

    assert any(
        "resources and prompts, too. They don't pass" in line for line in on_the_loop(talk())
    )


def test_the_client_reads_the_instructions_of_both(record):
    async def talk() -> str:
        async with session(Shop(), record) as gate:
            return gate.client.instructions

    shown = on_the_loop(talk())
    assert "only with a thought" in shown
    assert "Prices are in cents." in shown


def test_the_audit_shows_a_session_while_it_lasts_and_says_what_is_not_seen(record):
    async def talk() -> str:
        async with session(Shop(), record) as gate:
            await gate.call("pay", cents=5, thought=WHY)
            done = await asyncio.to_thread(run, "-m", "think_agent", "audit", str(record))
            return done.stdout

    shown = on_the_loop(talk())
    assert WHY in shown
    assert "pay(cents=5)" in shown
    assert "What its user asked, what it answered" in " ".join(shown.split())
