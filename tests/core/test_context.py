"""Which messages a request shows (`context.py`)."""

import json
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.servers.anthropic import without_marks
from tests.support.agents import by_place
from tests.support.wires import WIRES, to_wire
from think_agent import Agent, Assistant, Notice, ScriptedModel, ToolResult, tool
from think_agent.testing import call

LONG = "x" * 1_000


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return f"{n} {LONG}"


@tool(repeats=True)
def pay(n: int) -> str:
    """Pay."""
    return f"{n} {LONG}"


@dataclass
class Asked:
    """An agent that looks up 1, 2, … and what its requests showed."""

    requests: list
    outcome: object
    notices: list


def ask(replies, resumed=None, **settings) -> Asked:
    """Run this script; or resume a transcript with it."""
    requests, notices = [], []
    script = by_place(*replies)

    def reply(request):
        requests.append(request)
        return script(request)

    def watch(event):
        if isinstance(event, Notice):
            notices.append(event.text)

    settings = {"max_context_chars": 5_000, **settings}
    agent = Agent(
        ScriptedModel(reply), [look, pay], force="never", silence="accept",
        approve=lambda question: True, max_model_calls=500, **settings,
    )  # fmt: skip
    if resumed:
        outcome = agent.resume(resumed, on_event=watch)
    else:
        outcome = agent.run("Look.", on_event=watch)
    return Asked(requests, outcome, notices)


def shown_results(request):
    return [m.content for m in request.messages if isinstance(m, ToolResult)]


def test_old_results_are_left_out_down_to_half_the_limit():
    asked = ask([*[call("look", n=n) for n in range(8)], "Done."])
    sizes = [sum(map(len, shown_results(request))) for request in asked.requests]
    assert max(sizes) <= 5_000
    assert min(sizes[5:]) <= 2_600
    assert "(left out, 1,002 characters; call it again)" in shown_results(asked.requests[-1])


def test_the_transcript_keeps_everything():
    asked = ask([*[call("look", n=n) for n in range(8)], "Done."])
    contents = [m.content for m in asked.outcome.transcript if isinstance(m, ToolResult)]
    assert contents == [f"{n} {LONG}" for n in range(8)]


def test_a_watcher_is_told_once():
    asked = ask([*[call("look", n=n) for n in range(20)], "Done."])
    assert len(asked.notices) == 1


def test_the_result_of_a_payment_is_never_left_out():
    asked = ask([*[call("pay", n=n) for n in range(8)], "Done."])
    assert not any("left out" in text for text in shown_results(asked.requests[-1]))


def test_results_of_the_latest_reply_stay():
    asked = ask([tuple(call("look", n=n) for n in range(8)), "Done."])
    assert not any("left out" in text for text in shown_results(asked.requests[-1]))


def test_signed_history_is_never_shortened():
    signed = Assistant(tool_calls=(call("look", n=0),), signed=True)
    asked = ask([signed, *[call("look", n=n) for n in range(1, 8)], "Done."])
    assert not any("left out" in text for text in shown_results(asked.requests[-1]))


def test_off_by_default():
    asked = ask([*[call("look", n=n) for n in range(30)], "Done."], max_context_chars=None)
    assert not any("left out" in text for text in shown_results(asked.requests[-1]))


# A long turn, as five protocols send it.


@pytest.fixture(scope="module")
def long_turn():
    """The requests of a turn with 200 look-ups."""
    return ask([*[call("look", n=n) for n in range(200)], "Done."], max_context_chars=50_000)


def sent(wire, request):
    """The messages of a request as JSON, as this protocol sends them."""
    body = without_marks(to_wire(wire, request))
    [name] = body.keys() & {"messages", "contents", "input"}
    return json.dumps(body[name])


@pytest.mark.parametrize("wire", WIRES)
def test_a_long_turn_is_bounded_and_mostly_begins_with_the_bytes_of_the_request_before(
    long_turn, wire
):
    """So what a provider has cached stays valid, in at least nine of ten steps."""
    texts = [sent(wire, request) for request in long_turn.requests]
    assert len(texts) == 201
    assert max(text.count(LONG) for text in texts) * len(LONG) <= 50_000
    kept = [after.startswith(before.rstrip("]}")) for before, after in pairwise(texts)]
    assert sum(kept) / len(kept) >= 0.9
    assert not all(kept)  # results were left out


def test_no_call_is_parted_from_its_result(long_turn):
    for request in long_turn.requests:
        calls = [c.id for m in request.messages if isinstance(m, Assistant) for c in m.tool_calls]
        answered = [m.call_id for m in request.messages if isinstance(m, ToolResult)]
        assert calls == answered


def test_a_run_that_is_resumed_at_any_message_shows_the_same():
    replies = [*[(call("look", n=n), call("pay", n=n)) for n in range(9)], "Done."]
    whole = ask(replies)
    assert any("left out" in text for text in shown_results(whole.requests[-1]))
    for end in range(1, len(whole.outcome.transcript)):
        again = ask(replies, resumed=whole.outcome.transcript[:end])
        left = [shown_results(request) for request in again.requests]
        before = [shown_results(request) for request in whole.requests]
        assert left == before[len(before) - len(left) :]


@pytest.mark.parametrize("limit", [0, -1])
def test_the_limit_is_above_0(limit):
    with pytest.raises(ValueError, match="max_context_chars"):
        Agent(ScriptedModel([]), max_context_chars=limit)
