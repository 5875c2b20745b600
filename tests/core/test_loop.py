"""`next_step` as a table: a transcript on the left, what comes next on the right. The rules are
those of `think_agent/README.md`.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.support.strategies import transcripts
from think_agent import Turn
from think_agent.loop import NUDGE, CallModel, CallTool, Done, Refuse, next_step, plan
from think_agent.messages import Assistant, ToolCall, ToolResult, User, Verdict

ASK = User("Refund ORD-001")
LIMIT = User("No more.", kind="limit")
BUDGET = User("No more.", kind="budget")
POLICY = User("Look again.", kind="policy")
ANSWER = User("Now as JSON.", kind="answer")
LOOK = ToolCall("1", "look")
PAY = ToolCall("2", "pay")
GO_ON = ToolCall("3", "think", {"thought": "", "should_continue": "true"})
LEAVE = ToolCall("4", "think", {"thought": "", "should_continue": "false"})
SILENT = Assistant(" \n")
REFUSED = ToolResult("2", "pay", "no", is_error=True, refused="gate")
YES = Verdict("yes", "2")
FAILED = ToolResult("1", "look", "no", is_error=True)


def says(*calls, text="", stop="tool_use"):
    return Assistant(text, tool_calls=calls, stop_reason=stop)


def done(*calls):
    return [ToolResult(call.id, call.name, "ok") for call in calls]


def closing(text="", *calls, stop="end_turn"):
    """A reply that was asked with "none"."""
    return Assistant(text, tool_calls=calls, stop_reason=stop, tool_choice="none")


LEFT = [ASK, says(LEAVE), *done(LEAVE)]  # signaled; only the final reply is to come
MUTE = closing()

TABLE = {
    # Rule 1: no reply yet since the person's message
    "opening": ([ASK], CallModel()),
    "opening of a later turn": ([ASK, Assistant("Hello."), ASK], CallModel()),
    "a new turn forgets the signal": ([*LEFT, Assistant("Hello."), ASK], CallModel()),
    "a new turn forgets calls without a result": ([ASK, says(LOOK), ASK], CallModel()),
    # Rule 2: calls without results are run, in order, even after the signal
    "calls": ([ASK, says(LOOK, PAY)], CallTool(LOOK)),
    "calls with text": ([ASK, says(LOOK, text="Let me see")], CallTool(LOOK)),
    "calls whatever the stop reason": ([ASK, says(LOOK, stop="end_turn")], CallTool(LOOK)),
    "one of two answered": ([ASK, says(LOOK, PAY), *done(LOOK)], CallTool(PAY)),
    "the other answered": ([ASK, says(LOOK, PAY), *done(PAY)], CallTool(LOOK)),
    "calls before the signal": ([ASK, says(LOOK, LEAVE)], CallTool(LOOK)),
    "calls after the signal": ([ASK, says(LEAVE, PAY)], CallTool(LEAVE)),
    "signal answered, action not": ([ASK, says(LEAVE, PAY), *done(LEAVE)], CallTool(PAY)),
    "the same id twice": ([ASK, says(LOOK, LOOK), *done(LOOK)], CallTool(LOOK)),
    # Rules 3 and 4: all answered, with and without the signal
    "answered": ([ASK, says(LOOK), *done(LOOK)], CallModel()),
    "thought, go on": ([ASK, says(GO_ON), *done(GO_ON)], CallModel()),
    "thought, leave": (LEFT, CallModel("none")),
    "leave among actions": ([ASK, says(LEAVE, PAY), *done(LEAVE, PAY)], CallModel("none")),
    "the last thought decides: stay": ([ASK, says(LEAVE, GO_ON), *done(LEAVE, GO_ON)], CallModel()),
    "or leave": ([ASK, says(GO_ON, LEAVE), *done(GO_ON, LEAVE)], CallModel("none")),
    # a signal beside a refused call: the model has not read the refusal
    **{
        f"leave, then refused: {code}": (
            [ASK, says(LEAVE, PAY), *done(LEAVE), replace(REFUSED, refused=code)],
            CallModel(),
        )
        for code in ("gate", "limit", "person", "failed")
    },
    "refused, then leave": ([ASK, says(PAY, LEAVE), REFUSED, *done(LEAVE)], CallModel()),
    "approved, then leave": ([ASK, says(PAY, LEAVE), YES, *done(PAY, LEAVE)], CallModel("none")),
    "failed and leave": ([ASK, says(LOOK, LEAVE), FAILED, *done(LEAVE)], CallModel("none")),
    # Rule 5: no tool calls; and rule 6, if there is no text either
    "silence": ([ASK, Assistant("Hello.")], Done("silence", "Hello.")),
    "silence keeps the text as it is": ([ASK, Assistant(" a\n")], Done("silence", " a\n")),
    "empty": ([ASK, SILENT], CallModel(say=NUDGE)),
    "nudged": ([ASK, SILENT, NUDGE], CallModel()),
    "nudged and answers": ([ASK, SILENT, NUDGE, Assistant("Hi.")], Done("silence", "Hi.")),
    "nudged and acts": ([ASK, SILENT, NUDGE, says(LOOK)], CallTool(LOOK)),
    "nudged, acted, goes on": ([ASK, SILENT, NUDGE, says(LOOK), *done(LOOK)], CallModel()),
    "nudged and empty": ([ASK, SILENT, NUDGE, SILENT], Done("empty")),
    "one nudge a turn": ([ASK, SILENT, NUDGE, says(LOOK), *done(LOOK), SILENT], Done("empty")),
    "one a turn, not two": ([ASK, SILENT, NUDGE, SILENT, ASK, SILENT], CallModel(say=NUDGE)),
    # Rule 6: the last reply, its stray calls and its text
    "final": ([*LEFT, closing("Hello.")], Done("signal", "Hello.")),
    "stray calls with text": ([*LEFT, closing("Hello.", PAY)], Done("signal", "Hello.")),
    "stray calls without text": ([*LEFT, closing("", PAY)], CallModel("none", say=NUDGE)),
    "stray thought": ([*LEFT, closing("", GO_ON)], CallModel("none", say=NUDGE)),
    "final, empty": ([*LEFT, MUTE], CallModel("none", say=NUDGE)),
    "final, nudged": ([*LEFT, MUTE, NUDGE], CallModel("none")),
    "final, stray, nudged": ([*LEFT, closing("", PAY), NUDGE], CallModel("none")),
    "final, nudged, stray": ([*LEFT, MUTE, NUDGE, closing("", PAY)], Done("empty")),
    "final, nudged, stray twice": (
        [*LEFT, closing("", PAY), NUDGE, closing("", PAY, LEAVE)],
        Done("empty"),
    ),
    "final, nudged, answers": ([*LEFT, MUTE, NUDGE, closing("Hi.")], Done("signal", "Hi.")),
    # A closing reply is one that was asked as one; any other is an ordinary one
    "asked to go on after the signal": ([*LEFT, POLICY], CallModel()),
    "asked to go on, and acts": ([*LEFT, POLICY, says(PAY)], CallTool(PAY)),
    "asked to go on, and acted": ([*LEFT, POLICY, says(PAY), *done(PAY)], CallModel()),
    "asked to go on, and is silent": ([*LEFT, POLICY, Assistant("Hi.")], Done("silence", "Hi.")),
    "asked to go on after the closing reply": ([*LEFT, closing("Hi."), POLICY], CallModel()),
    "asked with none by a policy": ([ASK, POLICY, closing("Hi.", PAY)], Done("silence", "Hi.")),
    "closed after an action": (
        [ASK, says(LEAVE), *done(LEAVE), POLICY, says(PAY), *done(PAY), POLICY, closing("Hi.")],
        Done("silence", "Hi."),
    ),
    "any question after a closing reply": (
        [*LEFT, closing("{}"), replace(LIMIT, kind="format")],
        CallModel("none"),
    ),
    "the answer in a form": (
        [ASK, Assistant("8."), ANSWER],
        CallModel("none"),
    ),
    # Rule 6: half a reply is never acted on
    "truncated": ([ASK, says(PAY, text="I w", stop="max_tokens")], Done("truncated", "I w")),
    "paused": ([ASK, says(PAY, stop="pause_turn")], Done("truncated")),
    "malformed": ([ASK, says(PAY, stop="malformed")], Done("truncated")),
    **{
        f"unknown reason: {stop!r}": ([ASK, says(PAY, stop=stop)], Done("truncated"))
        for stop in ("length", "", None, "cancelled")
    },
    "refused": ([ASK, says(PAY, text="No.", stop="refusal")], Done("refused", "No.")),
    "truncated signal": ([ASK, says(LEAVE, stop="max_tokens")], Done("truncated")),
    "truncated final": ([*LEFT, says(text="I w", stop="max_tokens")], Done("truncated", "I w")),
    "refused final": ([*LEFT, Assistant("No.", stop_reason="refusal")], Done("refused", "No.")),
    "a new turn after a truncated one": ([ASK, says(PAY, stop="max_tokens"), ASK], CallModel()),
    # Rule 6 again: the kit asked for the last reply
    "limit": ([ASK, says(LOOK), *done(LOOK), LIMIT], CallModel("none")),
    "limit at once": ([ASK, LIMIT], CallModel("none")),
    "budget": ([ASK, says(LOOK), *done(LOOK), BUDGET], CallModel("none")),
    "limit, answers": ([ASK, LIMIT, closing("So far.")], Done("limit", "So far.")),
    "budget, answers": ([ASK, BUDGET, closing("So far.")], Done("budget", "So far.")),
    "limit, stray call": ([ASK, LIMIT, closing("So far.", PAY)], Done("limit", "So far.")),
    "limit, stray call, no text": ([ASK, LIMIT, closing("", PAY)], CallModel("none", say=NUDGE)),
    "nudged, then limit": ([ASK, SILENT, NUDGE, LIMIT, MUTE], Done("empty")),
    "limit, a new turn": ([ASK, LIMIT, closing("So far."), ASK, says(PAY)], CallTool(PAY)),
}


@pytest.mark.parametrize(("transcript", "step"), TABLE.values(), ids=TABLE.keys())
def test_next_step_is_what_the_rules_say(transcript, step):
    before = list(transcript)
    assert next_step(transcript) == step
    assert next_step(tuple(transcript)) == step
    assert transcript == before


@settings(max_examples=60)
@given(transcripts)
def test_next_step_has_an_answer_to_every_transcript(transcript):
    turn = Turn.of([ASK, *transcript])
    step = next_step(turn)
    assert step == next_step([ASK, *transcript])
    if isinstance(step, Done) and step.exit in ("signal", "silence") and not turn.ended:
        assert step.answer.strip()
    if isinstance(step, CallTool):
        assert step.call == turn.pending[0]


def test_each_policy_may_replace_the_step_that_the_one_before_it_gave():
    seen, refused = [], Refuse(PAY, "gate", "think first")

    def note(step, turn):
        seen.append((step, turn.pending[0]))
        return step

    assert plan([ASK, says(PAY)], [note, lambda step, turn: refused, note]) == refused
    assert seen == [(CallTool(PAY), PAY), (refused, PAY)]
