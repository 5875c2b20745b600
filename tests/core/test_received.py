"""A model's reply is completed before it is recorded (`received.py`)."""

from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.strategies import calls, transcripts
from think_agent import Turn, tool
from think_agent.messages import Assistant, Enforced, Force, ToolCall, ToolChoice, User
from think_agent.received import read_received, with_ids
from think_agent.testing import think

ASK = [User("Refund ORD-001")]
THINK_CALL = think("x")
PAY = ToolCall("1", "pay")


def received(reply: Assistant, choice: ToolChoice = "auto", tools=()) -> Assistant:
    by_name = {each.name: each for each in tools}
    return read_received(reply, choice, Turn.of(ASK), "2026-03-01T12:00:00Z", by_name)


# Rule 1: every call has an id.


@example((ToolCall("", "f"),), [User("a"), Assistant(tool_calls=(ToolCall("call_1", "f"),))])
@settings(max_examples=60)
@given(st.lists(calls, max_size=6).map(tuple), transcripts)
def test_calls_without_an_id_get_a_new_one_and_nothing_else_changes(calls, history):
    turn = Turn.of(history)
    minted = with_ids(calls, turn)
    assert with_ids(minted, turn) == minted
    given = [call.id for call in calls if call.id]
    taken = {call.id for said in history if isinstance(said, Assistant) for call in said.tool_calls}
    for old, new in zip(calls, minted, strict=True):
        assert new.name == old.name
        assert new.arguments == old.arguments
        assert new.id == old.id if old.id else new.id not in {"", *given, *taken}
        counted = f"call_{len(turn.history.ids) + minted.index(new)}"  # over the whole history
        assert counted in {new.id, *given, *taken} or old.id
        taken.add(new.id)


# Rule 2: every call names the argument that carries its thought.


def test_a_call_names_the_argument_in_which_its_tool_has_the_thought():
    @tool
    def note(thought: str) -> str:
        """Note it."""
        return "noted"

    reply = Assistant(tool_calls=(ToolCall("1", "note"), ToolCall("2", "unknown")))
    noted, unknown = received(reply, tools=[note]).tool_calls
    assert noted.thought_in == note.thought_in
    assert unknown.thought_in == ToolCall("2", "unknown").thought_in


# Rule 3: the reply stores its tool choice and whether it followed it.


@dataclass(frozen=True)
class Case:
    """A tool choice, the reply to it, and what is stored in `Assistant.enforced`."""

    name: str
    choice: ToolChoice
    reply: Assistant
    enforced: Enforced


A_THOUGHT = Force("think")
CASES = [
    Case("a thought, as asked", A_THOUGHT, Assistant(tool_calls=(THINK_CALL,)), "tool_choice"),
    Case("another tool", A_THOUGHT, Assistant(tool_calls=(PAY,)), "ignored"),
    Case("only text", A_THOUGHT, Assistant("Paid."), "ignored"),
    Case("any tool, as asked", "required", Assistant(tool_calls=(PAY,)), "tool_choice"),
    Case("no tool", "required", Assistant("Paid."), "ignored"),
    Case("no tool, as asked", "none", Assistant("Paid."), "tool_choice"),
    Case("a tool in a closing reply", "none", Assistant(tool_calls=(PAY,)), "ignored"),
    Case("nothing was asked", "auto", Assistant("Paid."), None),
    Case(
        "a schema enforced it",
        A_THOUGHT,
        Assistant(tool_calls=(THINK_CALL,), enforced="schema"),
        "schema",
    ),
    Case(
        "a schema should have enforced it",  # the reply counts, not what was promised
        A_THOUGHT,
        Assistant("Paid.", enforced="schema"),
        "ignored",
    ),
    Case(
        "it was only asked in words",
        A_THOUGHT,
        Assistant("Paid.", enforced="prompt"),
        "prompt",
    ),
    Case(
        "it was cut, so that can't be told",
        A_THOUGHT,
        Assistant("I would", stop_reason="max_tokens", enforced="tool_choice"),
        None,
    ),
    Case(
        "it was cut after the thought",
        A_THOUGHT,
        Assistant(tool_calls=(THINK_CALL,), stop_reason="max_tokens", enforced="schema"),
        "schema",
    ),
    Case(
        "it ignored the form of its dialect",
        A_THOUGHT,
        Assistant("Paid.", stop_reason="malformed", dialect="json"),
        "ignored",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reply_stores_its_tool_choice_and_whether_it_followed_it(case):
    stored = received(case.reply, case.choice)
    assert stored.tool_choice == case.choice
    assert stored.enforced == case.enforced
