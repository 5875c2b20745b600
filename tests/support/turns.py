"""Arbitrary transcripts of every kind of message, close to those of a run. They have several turns.
Calls have results in order or none, are refused with any code, started and decided about, and other
messages come in between.
"""

from hypothesis import strategies as st

from tests.support.strategies import decisions, enforced, flags, kinds
from think_agent import (
    Assistant,
    Checked,
    Ended,
    Force,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)

# Few values of each kind, so that ids and actions repeat and clocks step back.
ids = st.sampled_from(["a", "b", "c"])
codes = st.sampled_from(
    ["", "", "", "gate", "limit", "person", "failed", "invalid", "text", "doubt"]
)
notes = st.sampled_from(["", " \n", "the rules hold", "go"])
signals = st.sampled_from(["true", "false", " FALSE ", True, False, "no", None, 0])
stamps = st.sampled_from([None, "2026-01-01T00:00:0%d+00:00", "no time", "2026-01-01T00:00:03Z"])
ats = st.builds(lambda at, n: at % n if at and "%" in at else at, stamps, st.integers(0, 9))
arguments = st.sampled_from([{}, {"n": 1, "m": 2}, {"m": 2, "n": 1}, "{n:", {"thought": "mine"}])
arguments |= st.sampled_from([{"thought": " "}, {"thought": 5, "n": 1}])
thinking = st.fixed_dictionaries(
    {}, optional={"thought": notes | st.just(7), "should_continue": signals}
)
calls = st.one_of(
    st.builds(ToolCall, ids, st.just("think"), thinking | notes),
    st.builds(ToolCall, ids, st.sampled_from(["look", "pay", "refund"]), arguments),
)
stops = st.sampled_from(["end_turn", "tool_use", "tool_use", "malformed", "max_tokens", "refusal"])
stops |= st.sampled_from(["pause_turn", "incomplete"])
persons = st.builds(User, st.just("Refund."), at=ats)
of_the_kit = st.sampled_from(kinds[1:])  # the first is that of a person
questions = st.builds(User, st.just("?"), kind=of_the_kit, at=ats)
replies = st.builds(
    Assistant,
    text=st.sampled_from(["", "Done."]),
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    stop_reason=stops,
    usage=st.builds(Usage, *[st.integers(0, 9)] * 4),
    model=st.sampled_from(["small", "large"]),
    enforced=enforced,
    tool_choice=st.sampled_from(["auto", "required", "none", Force("think"), Force("pay")]),
    signed=st.sampled_from([False, False, True]),
    at=ats,
)
contents = st.sampled_from(["ok", "no"])
changed = st.sampled_from([None, None, {"n": 2}])


def results(ids, names):
    """Results of calls of these ids and names."""
    numbers = st.integers(0, 2)
    return st.builds(ToolResult, ids, names, contents, flags, codes, changed, flags, numbers, ats)


@st.composite
def exchanges(draw):
    """A reply and the results of its calls, mostly in order, with notes in between."""
    reply = draw(replies)
    made = [reply]
    for call in reply.tool_calls[: draw(st.integers(0, 4))]:
        made += draw(st.lists(marks, max_size=2))
        made.append(draw(results(st.just(call.id), st.just(call.name))))
    return made


keys = st.sampled_from(["", "key"])
same = st.sampled_from(["", "5e"])
marks = st.one_of(
    st.builds(Started, ids, st.just("pay"), keys, same, changed, at=ats),
    st.builds(Verdict, decisions, ids | st.just(""), at=ats, arguments=changed, new=flags),
)
strays = results(ids, st.just("pay"))
checks = st.builds(Checked, st.sampled_from(["all", "paid"]), st.sampled_from([None, "ORD-1"]), ats)
ends = st.builds(Ended, st.sampled_from(["signal", "unmet"]), st.sampled_from(["", "Over."]), ats)
ends |= st.builds(Paused, st.just("Run pay?"), ids, at=ats)
between = st.lists(persons | questions | marks | strays | checks | ends, max_size=2)
blocks = st.one_of(exchanges(), exchanges(), exchanges(), between)
parts = st.tuples(st.lists(persons, max_size=1), st.lists(blocks, max_size=7))
transcripts = parts.map(lambda both: [*both[0], *(m for block in both[1] for m in block)])


@st.composite
def unfinished(draw):
    """A transcript that ends inside a reply: it has a thought, some of its calls have results, and
    one is next.
    """
    thoughts = st.builds(ToolCall, ids, st.just("think"), st.just({"thought": "go"}))
    others = draw(st.lists(thoughts | calls, min_size=1, max_size=3))
    its_calls = draw(st.permutations([draw(thoughts), *others]))
    messages = [*draw(transcripts), Assistant(tool_calls=tuple(its_calls), stop_reason="tool_use")]
    for call in its_calls[: draw(st.integers(1, len(its_calls) - 1))]:
        refused = draw(st.sampled_from(["", "", "", "gate", "person"]))
        messages.append(ToolResult(call.id, call.name, "ok", bool(refused), refused))
    return messages
