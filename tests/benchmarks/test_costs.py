"""The simulator of costs gives what was computed by hand, and the page of costs is right."""

import json
import re
from collections.abc import Collection
from dataclasses import replace

import pytest

from tests.benchmarks import costs
from tests.benchmarks.caches import (
    CUT,
    PROVIDERS,
    Bill,
    Block,
    Cache,
    Rules,
    anthropic_blocks,
    bill_of,
    least,
    responses_blocks,
)
from tests.support.sizes import ROOT

MARKS = Rules("m", 100, 1.25, 0.1, 1.0, 5.0, marks_only=True, source="", per_token=1)
PREFIXES = replace(MARKS, marks_only=False, writes=1.0)


def blocks(*sizes: int, marked: int = -1) -> list[Block]:
    """Blocks of so many tokens, named by their place; a mark on one of them, else on the last."""
    cut = [Block(str(at), size) for at, size in enumerate(sizes)]
    cut[marked] = cut[marked]._replace(is_marked=True)
    return cut


def tokens(cache: Cache, request: list[Block]) -> tuple[int, int, int]:
    """How many of a request are fresh, written and read."""
    bill = cache.charge(request, 0)
    return bill.fresh, bill.written, bill.read


@pytest.mark.parametrize(
    ("rules", "requests", "bills"),
    [
        # A request that goes on from the one before reads that, and writes what is new.
        (
            MARKS,
            [blocks(150), blocks(150, 30), blocks(150, 30, 20)],
            [(0, 150, 0), (0, 30, 150), (0, 20, 180)],
        ),
        # Below the minimum nothing is kept; what crosses it is written whole.
        (
            MARKS,
            [blocks(60), blocks(60, 30), blocks(60, 30, 20), blocks(60, 30, 20, 5)],
            [
                (60, 0, 0),
                (90, 0, 0),
                (0, 110, 0),
                (0, 5, 110),
            ],
        ),
        # What stands behind the mark is fresh, and is not there the next time.
        (
            MARKS,
            [blocks(150, 40, marked=0), blocks(150, 40, marked=0), blocks(150, 40)],
            [(40, 150, 0), (40, 0, 150), (0, 40, 150)],
        ),
        # Only what ended at a mark was written: the common beginning of two others is not.
        (
            MARKS,
            [blocks(150, 10), [*blocks(150), Block("other", 10, is_marked=True)]],
            [(0, 160, 0), (0, 160, 0)],
        ),
        # Where every beginning is kept, it is.
        (
            PREFIXES,
            [blocks(150, 10), [Block("0", 150), Block("other", 10)]],
            [(0, 160, 0), (0, 10, 150)],
        ),
    ],
)
def test_what_is_read_and_written(rules, requests, bills):
    cache = Cache(rules)
    assert [tokens(cache, request) for request in requests] == bills


@pytest.mark.parametrize(("between", "read"), [(18, 150), (19, 150), (20, 0)])
def test_a_read_looks_back_twenty_blocks(between, read):
    cache = Cache(MARKS)
    assert cache.charge(blocks(150), 7) == Bill(0, 150, 0, generated=7, calls=1)
    assert cache.charge(blocks(150, *[1] * between), 0).read == read


def request(choice: str, *sizes: int, marks: Collection[int] = ()) -> list[Block]:
    """A system prompt of 150 tokens with a mark, then messages that were sent with this choice."""
    messages = [Block(f"{choice} {at}", size, at in marks) for at, size in enumerate(sizes)]
    messages[-1] = messages[-1]._replace(is_marked=True)
    return [Block("system", 150, is_marked=True), *messages]


def test_another_tool_choice_reads_the_system_prompt_and_writes_all_messages():
    cache = Cache(MARKS)
    assert tokens(cache, request("forced", 30)) == (0, 180, 0)
    assert tokens(cache, request("free", 30, 20)) == (0, 50, 150)
    assert tokens(cache, request("free", 30, 20, 10)) == (0, 10, 200)
    assert tokens(cache, request("forced", 30, 20, 10, 5)) == (0, 35, 180)


@pytest.mark.parametrize(("marks", "read"), [((), 150), ((0,), 190)])
def test_a_mark_where_the_same_tool_choice_ended_last_reads_across_a_long_turn(marks, read):
    cache = Cache(MARKS)
    cache.charge(request("none", 40), 0)
    assert cache.charge(request("none", 40, *[1] * 30, marks=marks), 0).read == read


def test_the_price_of_a_bill():
    bill = Bill(fresh=100, written=40, read=1000, generated=10, calls=2)
    assert bill.sent == 1140
    assert bill.units(MARKS) == 100 + 40 * 1.25 + 1000 * 0.1 == 250
    assert bill.dollars(MARKS) == pytest.approx((250 * 1 + 10 * 5) / 1_000_000)
    assert bill.dollars(replace(MARKS, output=None)) is None
    assert bill + bill == Bill(200, 80, 2000, 20, 4)


def test_on_claude_another_tool_choice_reads_only_tools_and_system():
    body = {
        "tools": [{"name": "a"}],
        "system": "Be kind.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "cache_control": {"type": "ephemeral"},
    }
    free = anthropic_blocks(body)
    forced = anthropic_blocks({**body, "tool_choice": {"type": "none"}})
    assert [block.is_marked for block in free] == [False, False, True]
    assert [a.key == b.key for a, b in zip(free, forced, strict=True)] == [True, True, False]
    assert not any(block.is_marked for block in anthropic_blocks({**body, "cache_control": None}))


def test_on_openai_another_tool_choice_reads_everything():
    body = {"tools": [{"name": "a"}], "instructions": "Be kind.", "input": [{"role": "user"}]}
    assert responses_blocks(body) == responses_blocks({**body, "tool_choice": "none"})


def test_the_desk_on_claude_costs_what_the_page_says():
    rules, cut = PROVIDERS["anthropic"], CUT["anthropic"]
    calls, _ = costs.played("anthropic", costs.DESK, costs.SIDES[2])

    def share(bodies):
        sent = bill_of(rules, cut, [(body, 0) for body in bodies])
        return round(sent.units(rules) / sent.sent, 2)

    assert share(costs.one_mark(body) for body, _ in calls) == 0.37
    assert share(body for body, _ in calls) == 0.31
    assert share(costs.free(body, "tool") for body, _ in calls) == 0.26  # forcing is refused


def test_each_extra_is_on_the_page():
    names = [row.split("|")[1].strip() for row in costs.extras("anthropic").splitlines()[2:]]
    assert names == ["forced thought", "final call", "silence question", "check question"]


@pytest.mark.parametrize("side", costs.SIDES[:4] + costs.SIDES[5:], ids=lambda side: side.name)
def test_every_side_reads_all_thirty_files(side):
    _, transcript = costs.played("openai-responses", costs.THIRTY, side)
    read = [message for message in transcript if costs._is_read(message)]
    assert len(read) == costs.FILES


def test_the_readme_has_the_price_of_the_page():
    page = costs.PAGE.read_text(encoding="utf-8")
    [dollars] = re.findall(r"A thousand recorded thoughts cost (\$\d\.\d\d to \$\d\.\d\d) ", page)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"a thousand thoughts [cost {dollars}](tests/benchmarks/COSTS.md)" in readme


def test_the_limit_is_every_token_once():
    """However often it is sent, and with whatever tool choice; but two equal messages are two."""
    said = [{"role": "user", "content": [{"text": word}]} for word in ("Hi", "Hi", "Bye")]
    bodies = [{"messages": said[:1]}, {"messages": said, "tool_choice": {"type": "none"}}]
    bill = least(MARKS, anthropic_blocks, [(body, 5) for body in bodies])
    sizes = [len(json.dumps(message["content"][0])) for message in said]
    assert bill == Bill(fresh=sum(sizes), generated=10)
