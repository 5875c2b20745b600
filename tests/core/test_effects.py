"""What a step asks of the world is a pure list, and the key of a side effect is minted when its
`Started` is appended: once for a call, another for every other one, read back on resume.
"""

import pytest
from hypothesis import given, settings

from tests.support.turns import transcripts
from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    CallModel,
    CallTool,
    Done,
    Force,
    Refuse,
    Request,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    Turn,
    User,
    tool,
)
from think_agent.running import Flush, Perform, effects

ASK = User("Refund both.")
NOTES = {"thought": "both are due", "should_continue": "true"}
THINK = ToolCall("t", "think", NOTES)
ONE, TWO = ToolCall("1", "pay", {"order": 1}), ToolCall("2", "pay", {"order": 2})
LOOK = ToolCall("3", "look", {"order": 1})
BOTH = Assistant(tool_calls=(THINK, ONE, TWO), stop_reason="tool_use")


class Desk:
    """A shop that remembers keys, and may be killed when a payment is made."""

    def __init__(self) -> None:
        self.paid: list[tuple[int, str]] = []
        self.dies_at = 0  # the payment of this number

        @tool
        def pay(order: int, idempotency_key: str) -> str:
            self.paid.append((order, idempotency_key))
            if len(self.paid) == self.dies_at:
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


def started(messages) -> list[str]:
    return [message.key for message in messages if isinstance(message, Started)]


STEPS = {
    "opening": CallModel(Force("think")),
    "a question of the kit": CallModel("none", say=User("No more.", kind="limit")),
    "thought": CallTool(THINK),
    "side effect": CallTool(ONE),
    "read": CallTool(LOOK),
    "unknown tool": CallTool(ToolCall("9", "fly")),
    "bad arguments": CallTool(ToolCall("9", "pay", {"order": "x"})),
    "no arguments": CallTool(ToolCall("9", "pay", "{")),
    "refusal": Refuse(ONE, "gate", "not run."),
    "a person": AskHuman("Go on?"),
    "done": Done("silence", "Done."),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_effects_are_a_list_that_reads_the_same_twice(step):
    agent, turn = Desk().agent(), Turn.of([ASK, BOTH])
    first, second = effects(agent, step, turn), effects(agent, step, turn)
    assert isinstance(first, list)
    assert first == second
    assert repr(first) == repr(second)  # and not only in what is compared: no key, no time
    assert turn == Turn.of([ASK, BOTH])


@settings(max_examples=60, deadline=None)
@given(transcripts)
def test_they_are_pure_wherever_a_transcript_stands(messages):
    agent, turn = Desk().agent(), Turn.of([ASK, *messages])
    step = agent.next_step(turn)
    assert step == agent.next_step([ASK, *messages])
    assert repr(effects(agent, step, turn)) == repr(effects(agent, step, turn))
    assert turn == Turn.of([ASK, *messages])


def test_what_each_kind_of_call_asks_for():
    agent, turn = Desk().agent(), Turn.of([ASK, BOTH])
    pay = [Started("1", "pay"), Flush(), Perform(ONE), Flush()]
    assert effects(agent, CallTool(ONE), turn) == pay
    assert effects(agent, CallTool(LOOK), turn) == [Perform(LOOK)]
    assert [type(effect) for effect in effects(agent, CallTool(THINK), turn)] == [ToolResult]
    (request,) = effects(agent, CallModel(), Turn.of([ASK]))
    assert request == Request((ASK,), agent.shown)
    assert effects(agent, Done("silence"), turn) == [Flush()]


def test_two_calls_in_a_row_get_two_keys_which_stand_in_their_started():
    desk = Desk()
    outcome = desk.agent(BOTH).run(ASK.text)
    assert [order for order, _ in desk.paid] == [1, 2]
    assert desk.keys == started(outcome.transcript)
    assert len(set(desk.keys)) == 2
    assert all(desk.keys)


def killed(desk: Desk, at: int, **more) -> list:
    """The messages of a run that ends inside the payment of this number."""
    messages = []
    desk.dies_at = at
    with pytest.raises(KeyboardInterrupt):
        desk.agent(BOTH).run(ASK.text, on_event=messages.append, **more)
    return [m for m in messages if isinstance(m, (User, Assistant, ToolResult, Started))]


@pytest.mark.parametrize("at", [1, 2])
def test_on_resume_a_key_is_read_back_from_memory_and_from_a_file(at, tmp_path):
    for where in (None, tmp_path / "run.jsonl"):
        desk = Desk()
        before = killed(desk, at, transcript=where)
        outcome = desk.agent().resume(where or before)
        orders = [order for order, _ in desk.paid]
        assert orders == ([1, 1, 2] if at == 1 else [1, 2, 2])
        assert desk.keys[at - 1] == desk.keys[at]  # the payment that was tried again
        assert len(set(desk.keys)) == 2
        assert set(started(outcome.transcript)) == set(desk.keys)
        assert outcome.answer == "Done."


def test_a_second_crash_keeps_the_key_too():
    desk = Desk()
    before = killed(desk, 1)
    desk.dies_at = 2
    after = []
    with pytest.raises(KeyboardInterrupt):
        desk.agent().resume(before, on_event=after.append)
    desk.agent().resume([*before, *(m for m in after if isinstance(m, Started))])
    assert desk.keys[0] == desk.keys[1] == desk.keys[2] != desk.keys[3]


def test_a_copy_that_goes_on_by_itself_has_keys_of_its_own(tmp_path):
    """Two processes go on from the same messages: what each pays anew is another payment."""
    start = [ASK, BOTH, ToolResult("t", "think", "Thought recorded.")]
    desk = Desk()
    for _ in range(2):
        desk.agent().resume(start)
    assert [order for order, _ in desk.paid] == [1, 2, 1, 2]
    assert len(set(desk.keys)) == 4

    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    desk = Desk()
    desk.agent(Assistant("Which one?")).run("Hello", transcript=one)
    other.write_bytes(one.read_bytes())
    for path in (one, other):
        desk.agent(BOTH).run(ASK.text, transcript=path)
    assert len(set(desk.keys)) == len(desk.paid) == 4


def test_a_copy_of_a_call_that_was_started_is_the_same_call():
    desk = Desk()
    before = killed(desk, 1)
    for _ in range(2):
        desk.agent().resume(before)
    first, *again = [key for order, key in desk.paid if order == 1]
    assert set(again) == {first}
    assert len({key for order, key in desk.paid if order == 2}) == 2
