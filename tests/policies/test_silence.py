"""If there seems to be more to do but the model stops, it is asked once: are you done? Each
case is run in every way, and resumed after every message (`think_agent/policies/silence.py`).
"""

import pydantic
import pytest

from tests.support.agents import agent, kit_said
from tests.support.providers import WAYS
from think_agent import Assistant, tool
from think_agent.testing import call, think

MORE, END = think("Two orders, one at a time."), think("All done.", False)
PROMISE = "Got ORD-001. Now let me look up ORD-002."
JSON = '{"amount": "89"}'
LOOK = call("look", order="ORD-002")
SAYS = Assistant(commentary="Looking it up.")
PART = Assistant("ORD-001 is refunded.", not_done=True)
GARBLED = Assistant("{", stop_reason="malformed", mistake="No JSON.")
IN_JSON = Assistant(PROMISE, dialect="json")
IN_WORDS = Assistant(PROMISE, enforced="prompt")
FIRST, ALWAYS, ACCEPT = {"force": "first"}, {"silence": "ask"}, {"silence": "accept"}


class Answer(pydantic.BaseModel):
    amount: int


@tool(idempotent=True)
def look(order: str) -> str:
    """Look an order up."""
    return f"{order}: $89"


def confirming(replies, **settings):
    return agent(*replies, **{"tools": [look], "silence": "confirm", **settings})


CASES = {  # a script and settings: the exit, the answer, the model calls, whether it was asked
    "confirmed": ([MORE, PROMISE, END], {}, "silence", PROMISE, 3, True),
    "it goes on": ([MORE, PROMISE, LOOK, END, "Both."], {}, "signal", "Both.", 5, True),
    "it thinks again": ([MORE, PROMISE, MORE, END, "Both."], {}, "signal", "Both.", 5, True),
    "thought and call at once": ([MORE, PROMISE, (END, LOOK), "B"], {}, "signal", "B", 4, True),
    "text again": ([MORE, PROMISE, "Which order?"], {}, "silence", "Which order?", 3, True),
    "nothing": ([MORE, PROMISE, ""], {}, "silence", PROMISE, 3, True),
    "once a turn": ([MORE, PROMISE, LOOK, MORE, PROMISE], {}, "silence", PROMISE, 5, True),
    "accept": ([MORE, PROMISE], {"silence": "accept"}, "silence", PROMISE, 2, False),
    "no thought": ([LOOK, "Found."], {}, "silence", "Found.", 2, False),
    "a blank flag": ([think("Hm", ""), "Found."], {}, "silence", "Found.", 2, False),
    "it said false": ([END, "Found."], {}, "signal", "Found.", 2, False),
    "without a flag": ([END, "", "Found."], {}, "signal", "Found.", 3, False),
    "forced always": ([MORE, PROMISE, END], {"force": "always"}, "silence", PROMISE, 3, True),
    "no call left": ([MORE, PROMISE], {"max_model_calls": 3}, "limit", PROMISE, 2, False),
    "after a nudge": ([MORE, "", PROMISE], {}, "silence", PROMISE, 3, False),
    "after a format question": ([GARBLED, MORE, PROMISE, END], {}, "silence", PROMISE, 4, True),
    "a dialect": ([MORE, IN_JSON], {}, "silence", PROMISE, 2, False),
    "typed": ([MORE, PROMISE, END, JSON], {"answer": Answer}, "signal", JSON, 4, True),
    "commentary": ([SAYS, END], {}, "silence", SAYS.commentary, 2, True),
    "its provider says not done": ([PART, END], {}, "silence", PART.text, 2, True),
    "it says so, and goes on": ([PART, LOOK, "Both."], {}, "silence", "Both.", 3, True),
    "commentary, accepted": ([SAYS], {"silence": "accept"}, "silence", SAYS.commentary, 1, False),
    "commentary, no think tool": ([SAYS, "Hi."], {"think": None}, "silence", "Hi.", 2, True),
    "it ignores the choice": ([PROMISE, LOOK, END, "Yes."], FIRST, "signal", "Yes.", 4, True),
    "it ignores it, and is done": ([PROMISE, END], FIRST, "silence", PROMISE, 2, True),
    "it ignores it, and acts": ([LOOK, "Found."], FIRST, "silence", "Found.", 2, False),
    "it is only asked in words": ([IN_WORDS], FIRST, "silence", PROMISE, 1, False),
    "it has nothing to call": ([PROMISE], {"tools": [], **FIRST}, "silence", PROMISE, 1, False),
    "it ignores it, accepted": ([PROMISE], {**FIRST, **ACCEPT}, "silence", PROMISE, 1, False),
    "ask": ([LOOK, "Found.", END], ALWAYS, "silence", "Found.", 3, True),
    "ask, once a turn": (["Found.", LOOK, "Both."], ALWAYS, "silence", "Both.", 3, True),
    "ask, after a signal": ([END, "Found."], ALWAYS, "signal", "Found.", 2, False),
    "ask, no think tool": (["A.", "B."], {"think": None, **ALWAYS}, "silence", "B.", 2, True),
    "ask, in a dialect": ([IN_JSON], ALWAYS, "silence", PROMISE, 1, False),
}  # fmt: skip


def summary(outcome):
    asked = any(m.kind == "silence" for m in kit_said(outcome))
    return outcome.exit, outcome.answer, outcome.model_calls, asked


@pytest.mark.parametrize("case", CASES)
def test_silence_is_confirmed_only_if_there_is_more_to_do(case):
    replies, settings, *expected = CASES[case]
    whole = confirming(replies, **settings).run("go")
    assert summary(whole) == tuple(expected)
    for way in WAYS:
        assert way(confirming(replies, **settings), "go") == whole
    for end in range(1, len(whole.transcript) + 1):  # a crash at any point
        assert confirming(replies, **settings).resume(whole.transcript[:end]) == whole
