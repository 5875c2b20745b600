"""`Turn` reads a transcript once. On arbitrary transcripts, its facts are the same as those of a
slow oracle that follows the definitions (`tests/support/oracle/facts.py`).
"""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.oracle import facts as oracle
from tests.support.turns import transcripts, unfinished
from think_agent import Assistant, ToolCall, ToolResult, Turn, User
from think_agent.history import History
from think_agent.policies.answer import Sources
from think_agent.policies.asking import Decisions
from think_agent.policies.done_when import Checks
from think_agent.policies.doubt import Doubts
from think_agent.policies.forcing import Needs
from think_agent.policies.patience import Misses
from think_agent.policies.repeats import Repeats

many = settings(max_examples=60, deadline=None)
few = settings(max_examples=30, deadline=None)


def as_oracle_doubt(doubt) -> oracle.OracleDoubt:
    call, written = doubt.call, doubt.written
    return oracle.OracleDoubt(
        call.name,
        call.arguments,
        written.arguments,
        doubt.key,
        doubt.same,
        doubt.unfinished,
        doubt.turn,
    )


KEPT = {"doubts", "running", "sources"}  # facts of one policy, about the whole conversation
OTHERWISE = {  # facts that the oracle gives as plain tuples
    "pending": list,
    "doubts": lambda found: [as_oracle_doubt(doubt) for doubt in found],
    "running": lambda found: found and as_oracle_doubt(found),
    "misses": lambda found: found.in_a_row,
    "repeats": lambda found: (found.last, dict(found.numbers), found.pointed_out),
    "checks": lambda found: (found.results, found.latest, found.missing, found.has_asked),
    "thoughts": lambda found: [(t.text, t.how, t.should_continue) for t in found],
    "actions": lambda found: [
        (a.call.name, a.call.arguments, a.result, a.thought, a.how) for a in found
    ],
}


def facts(turn: Turn) -> dict[str, object]:
    names = {name for name in dir(turn) if not name.startswith("_")} - {
        "history",
        "cover",
        "log",
        "notes",
        "open_call",
    }
    values = {name: getattr(turn, name) for name in names}
    values |= {name: getattr(turn.history, name) for name in vars(History()) if name != "log"}
    doubts = turn.history.read(Doubts)
    decisions = turn.read(Decisions)
    values |= {
        "doubts": doubts.calls,
        "running": doubts.last_started,
        "unused_verdict": turn.open_call and turn.open_call.unused_verdict,
        "sources": turn.history.read(Sources).numbers,
        "edits": decisions.edits,
        "stop": decisions.stop,
        "thought_required": turn.read(Needs).thought,
        "misses": turn.read(Misses),
        "repeats": turn.read(Repeats),
        "checks": turn.read(Checks),
    }
    public = {name: value for name, value in values.items() if not callable(value)}
    return {name: OTHERWISE.get(name, lambda found: found)(value) for name, value in public.items()}


# Found among 100,000: a call in a reply that could not be read says, too, that there is more to do.
UNREADABLE = [
    User("Refund."),
    Assistant(tool_calls=(ToolCall("a", "think", {"should_continue": "false"}),)),
    ToolResult("a", "think", "ok"),
    Assistant(tool_calls=(ToolCall("b", "pay"),), stop_reason="malformed"),
]


@many
@example(UNREADABLE)
@given(transcripts)
def test_every_fact_is_what_its_definition_says(messages):
    found, right = facts(Turn.of(messages)), oracle.facts(messages)
    assert found.keys() == right.keys()
    for name, value in right.items():
        assert found[name] == value, name


@many
@given(transcripts | unfinished(), st.sets(st.sampled_from(["look", "pay", "refund"])))
def test_the_thought_behind_a_call_is_what_its_definition_says(messages, guarded):
    turn = Turn.of(messages)
    for call in turn.pending:
        for tools in (None, guarded):
            found = turn.thought_behind(call, tools)
            right = oracle.thought_behind(messages, call, tools)
            assert (found and (found.text, found.how)) == right


@many
@given(transcripts, st.data())
def test_a_turn_is_the_same_read_at_once_or_message_by_message(messages, data):
    cut = data.draw(st.integers(0, len(messages)))
    turn = Turn.of(messages[:cut])
    facts(turn)  # a fold that was made here is fed from now on
    for message in messages[cut:]:
        turn.add(message)
    assert turn == Turn.of(messages)
    assert facts(turn) == facts(Turn.of(messages))


@few
@given(transcripts)
def test_reading_a_turn_does_not_change_it(messages):
    turn, before = Turn.of(messages), Turn.of(messages)
    facts(turn)
    assert Turn.of(turn) is turn
    assert turn == before == Turn.of(iter(messages))


@few
@given(transcripts)
def test_turn_all_reads_each_turn_by_itself(messages):
    turns = Turn.all(messages)
    assert turns == [Turn.of(part) for part in oracle.split(messages)]
    assert [message for turn in turns for message in turn.history.spoken] == Turn.of(
        messages
    ).history.spoken
    if turns:  # the last one says what the whole transcript says, but for what is kept
        of_last, of_all = facts(turns[-1]), facts(Turn.of(messages))
        assert {n for n in of_all if of_last[n] != of_all[n]} <= {*vars(History()), *KEPT}
