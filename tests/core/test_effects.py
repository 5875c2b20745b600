"""The effects of a step are a pure list. The idempotency key of a call is made when its `Started`
is recorded: one key for each call, and the same one after a resume.
"""

import os
from dataclasses import replace

import pytest

from tests.support.agents import of_kind
from think_agent import Agent, Request, ScriptedModel, tool
from think_agent.loop import AskHuman, Bounds, CallModel, CallTool, Refuse
from think_agent.messages import (
    Assistant,
    Started,
    ToolCall,
    ToolResult,
    User,
)
from think_agent.running import Flush, Perform, Run, RunCheck
from think_agent.testing import call, think
from think_agent.transcript import Transcript

ASK = User("Refund both.")
THINK = replace(think("both are due"), id="t")
ONE, TWO = ToolCall("1", "pay", {"order": 1}), ToolCall("2", "pay", {"order": 2})
LOOK = ToolCall("3", "look", {"order": 1})
BOTH = Assistant(tool_calls=(THINK, ONE, TWO), stop_reason="tool_use")


class Desk:
    """A shop that remembers keys. It may be killed in a payment."""

    def __init__(self) -> None:
        self.paid: list[tuple[int, str]] = []
        self.dies_at: set[int] = set()  # the numbers of the payments that are killed

        @tool
        def pay(order: int, idempotency_key: str) -> str:
            self.paid.append((order, idempotency_key))
            if len(self.paid) in self.dies_at:
                raise KeyboardInterrupt
            return "paid"

        @tool(idempotent=True)
        def look(order: int) -> str:
            return "89 $"

        self.tools = [pay, look]

    def agent(self, *replies: Assistant) -> Agent:
        return Agent(ScriptedModel([*replies, Assistant("Done.")]), self.tools, silence="accept")

    @property
    def keys(self) -> list[str]:
        return [key for _, key in self.paid]


def asked(agent, step, *messages, came=None) -> list:
    """What a run yields for a step, without times; it is sent `came` for what it asks."""
    work = Run(agent, Transcript([ASK, *messages])).do(step)
    found, send = [], None
    while True:
        try:
            item = work.send(send)
        except StopIteration:
            return found
        send = came if isinstance(item, (Request, Perform, AskHuman, RunCheck)) else None
        found.append(item)


def test_a_call_a_thought_a_refusal_and_a_question_are_done_in_order():
    agent = Desk().agent()
    paid = ToolResult("1", "pay", "paid")
    one = Assistant(tool_calls=(ONE,))
    started, flushed, *rest, at_last = asked(agent, CallTool(ONE), one, came=paid)
    assert started == Started("1", "pay")
    assert rest == [Perform(ONE, started.key), paid]
    assert isinstance(flushed, Flush)
    assert isinstance(at_last, Flush)
    for harmless in (replace(LOOK, id="1"), call("fly")):
        reply = Assistant(tool_calls=(harmless,))
        assert asked(agent, CallTool(harmless), reply, came=paid) == [Perform(harmless), paid]
    assert [type(item) for item in asked(agent, CallTool(THINK), BOTH)] == [ToolResult]
    [refused] = asked(agent, Refuse(ONE, "gate", "not run."), one)
    assert refused.refused == "gate"
    assert refused.content == "error: not run."
    say = User("No more.", kind="limit")
    step = CallModel("none", say=say, bounds=Bounds(max_output_tokens=1_000))
    said, _, request, *_ = asked(agent, step, BOTH, came=Assistant("Bye."))
    assert said == say
    assert request.messages == (ASK, BOTH, say)
    assert request.tool_choice == "none"
    assert request.max_output_tokens == 1_000


@pytest.mark.parametrize("reply", [Assistant(tool_calls=(ONE,)), BOTH], ids=["call", "thought"])
def test_a_policy_cannot_change_which_call_is_answered(reply):
    def another(step, turn):
        return CallTool(replace(step.call, id="another"))

    agent = Agent(ScriptedModel([]), Desk().tools, policies=[another])
    assert agent.next_step([ASK, reply]) == CallTool(reply.tool_calls[0])


def test_a_file_is_flushed_twice_for_a_side_effect_once_at_the_end_and_never_for_a_read(
    tmp_path, monkeypatch
):
    flushed = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    desk, path = Desk(), tmp_path / "run.jsonl"
    desk.agent().run("Hello", transcript=path)
    assert len(flushed) == 1
    looks = Assistant(tool_calls=(THINK, LOOK, LOOK), stop_reason="tool_use")
    desk.agent(looks, BOTH).run(ASK.text, transcript=path)
    assert len(flushed) - 1 == 2 * len(desk.paid) + 1 == 5


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_call_that_is_killed_twice_keeps_its_idempotency_key(at, where, tmp_path):
    path = tmp_path / "run.jsonl" if where == "file" else None
    desk = Desk()
    desk.dies_at = {at, at + 1}
    with pytest.raises(KeyboardInterrupt) as first:
        desk.agent(BOTH).run(ASK.text, transcript=path)
    with pytest.raises(KeyboardInterrupt) as second:
        desk.agent().resume(path or first.value.transcript)
    outcome = desk.agent().resume(path or second.value.transcript)
    assert outcome.answer == "Done."
    assert [order for order, _ in desk.paid] == ([1, 1, 1, 2] if at == 1 else [1, 2, 2, 2])
    assert desk.keys[at - 1] == desk.keys[at] == desk.keys[at + 1]
    assert {m.key for m in of_kind(outcome.transcript, Started)} == set(desk.keys)
    assert len(set(desk.keys)) == 2


def test_two_copies_of_a_transcript_get_different_keys():
    """Two processes go on from the same messages. Each of their payments is a new one."""
    start = [ASK, BOTH, ToolResult("t", "think", "Thought recorded.")]
    desk = Desk()
    for _ in range(2):
        desk.agent().resume(start)
    assert [order for order, _ in desk.paid] == [1, 2, 1, 2]
    assert len(set(desk.keys)) == 4
