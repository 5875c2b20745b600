"""Which messages a request shows (`context.py`)."""

from dataclasses import dataclass

import pytest

from tests.support.agents import by_place
from think_agent import Agent, Assistant, Notice, ScriptedModel, ToolResult, User, tool
from think_agent.context import find_left_out
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


def ask(replies, **settings) -> Asked:
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
        max_model_calls=500, **settings,
    )  # fmt: skip
    return Asked(requests, agent.run("Look.", on_event=watch), notices)


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


def test_a_request_mostly_begins_with_the_one_before():
    """What a provider has cached stays valid in at least nine of ten steps."""
    asked = ask([*[call("look", n=n) for n in range(200)], "Done."], max_context_chars=50_000)
    kept = 0
    for before, after in zip(asked.requests, asked.requests[1:], strict=False):
        begin = list(after.messages[: len(before.messages)])
        kept += begin == list(before.messages)
    assert kept / (len(asked.requests) - 1) >= 0.9


def test_a_resumed_run_shows_the_same():
    asked = ask([*[call("look", n=n) for n in range(12)], "Done."])
    full = asked.outcome.transcript
    for end in range(2, len(full) - 1):
        spoken = [m for m in full[:end] if isinstance(m, User | Assistant | ToolResult)]
        before, _ = find_left_out(spoken, {"look"}, 5_000)
        again, _ = find_left_out(list(spoken), {"look"}, 5_000)
        assert before == again
    last = asked.requests[-1]
    left_out, _ = find_left_out(
        [m for m in full[:-2] if isinstance(m, User | Assistant | ToolResult)], {"look"}, 5_000
    )
    contents = ["left out" in text for text in shown_results(last)]
    assert sum(contents) == len(left_out)


@pytest.mark.parametrize("limit", [0, -1])
def test_the_limit_is_above_0(limit):
    with pytest.raises(ValueError, match="max_context_chars"):
        Agent(ScriptedModel([]), max_context_chars=limit)
