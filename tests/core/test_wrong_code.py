"""Code of a user's own that is wrong: whatever it does, a run ends, and says whose code it was.

The table has every deed and every place, the random test any of them in any way of running.
(`tests/support/wrong_code.py` says what is true of every run.)
"""

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agents import agent, look, pay
from tests.support.providers import WAYS as RUNS
from tests.support.wrong_code import DEEDS, NEVER_RETURNS, PLACES, WAYS, Case, check_ran
from think_agent import AskHuman, CallModel, CallTool, Check, Done, Refuse, ToolCall, User
from think_agent.testing import call, think

PAIRS = [
    (place, deed)
    for place, deed in itertools.product(PLACES, DEEDS)
    if deed != NEVER_RETURNS or PLACES[place].has_timeout
]
CASES = [Case(*pair, way) for pair, way in zip(PAIRS, itertools.cycle(WAYS), strict=False)]
TABLE = CASES[::13]  # all 2,313 take too long
TABLE += [case for case in CASES if case.deed == NEVER_RETURNS and case not in TABLE]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_a_run_ends_and_an_error_names_the_code(case, tmp_path):
    check_ran(case.run(tmp_path))


@given(st.sampled_from(PAIRS), st.sampled_from(list(WAYS)), st.booleans())
def test_it_does_so_for_any_code_in_any_way_of_running(pair, way, is_saved):
    with TemporaryDirectory() as folder:
        check_ran(Case(*pair, way, is_saved).run(Path(folder)))


# Policies that do not let a run end.

BUY = call("look", item="tea")


def when(kind, step_of):
    """A policy that gives another step in place of each of this kind."""
    return lambda step, turn: step_of(step) if isinstance(step, kind) else step


STUBBORN = {
    "asks the model on": when(Done, lambda step: CallModel()),
    "asks the model on, in words": when(Done, lambda step: CallModel(say=User("Go on."))),
    "always asks the model": lambda step, turn: CallModel(),
    "asks for a last word": when(Done, lambda step: CallModel("none")),
    "refuses each call": when(CallTool, lambda step: Refuse(step.call, "no", "no")),
    "asks in place of a call": when(CallTool, lambda step: CallModel()),
    "calls in place of an end": when(Done, lambda step: CallTool(BUY)),
    "refuses in place of an end": when(Done, lambda step: Refuse(BUY, "no", "no")),
    "thinks in place of an end": when(Done, lambda step: CallTool(think("Hm."))),
    "always calls": lambda step, turn: CallTool(BUY),
    "calls without arguments": when(CallTool, lambda step: CallTool(ToolCall("x", "look"))),
    "checks nothing": when(Done, lambda step: Check(())),
    "checks what there is not": when(Done, lambda step: Check(("else",))),
    "checks again and again": when(Done, lambda step: Check(("found",))),
    "always checks": lambda step, turn: Check(("found",)),
    "asks about each call": when(CallTool, lambda step: AskHuman("Run it?", step.call)),
    "asks about no call": when(CallTool, lambda step: AskHuman("Go on?")),
    "asks in place of an end": when(Done, lambda step: AskHuman("Is it done?")),
    "always asks": lambda step, turn: AskHuman("What now?"),
    "asks about another call": when(CallTool, lambda step: AskHuman("Run it?", BUY)),
    "waits for a person": when(CallTool, lambda step: Done("needs_human", "Run it?")),
    "ends at once": lambda step, turn: Done("gave_up"),
}
SETTINGS = {
    "no person to ask": {},
    "a yes": {"approve": lambda question: True},
    "a no": {"approve": lambda question: False},
    "one action": {"max_actions": 1, "approve": lambda question: True},
    "an answer": {"answer": int},
}


@pytest.mark.parametrize("way", RUNS)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("policy", STUBBORN.values(), ids=STUBBORN)
def test_a_policy_does_not_keep_a_run_from_its_end(policy, settings, way):
    def found(turn):
        return None

    replies = [BUY, "Looking."] * 6
    wrong = agent(
        *replies, tools=[look, pay], done_when=[found], policies=[policy], max_model_calls=5,
        **settings,
    )  # fmt: skip
    outcome, problem = None, "test_wrong_code.py, line"
    try:
        outcome = way(wrong, "Look.")
    except (TypeError, RuntimeError) as error:
        problem = str(error)
    assert "test_wrong_code.py, line" in problem
    assert "\n" not in problem
    assert outcome is None or outcome.model_calls <= 6
