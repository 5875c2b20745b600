"""The signal beside a refused call does not count: the model has not read the refusal.

Played by an agent, so that whoever refuses is the real one: the gate, a limit, a person, a failure.
"""

import pytest

from tests.support.agents import agent, results
from think_agent import Done, Force, User, Verdict, tool
from think_agent.testing import call, think


@tool
def look(fail: int = 0) -> str:
    if fail:
        raise ValueError("as ever")
    return "done"


TOOLS = [
    look,
    tool(lambda: "done", name="pay", think_first=True),
    tool(lambda: "done", name="ship", needs_approval=True),
]
GO_ON, LEAVE = think("so"), think("so", False)
LOOK, PAY, SHIP, FAIL = call("look"), call("pay"), call("ship"), call("look", fail=1)
LAST, FREE = "none", "auto"
NO = {"approve": lambda question: Verdict("no", reason="not today")}
YES = {"approve": lambda question: True}
ONE = {"max_actions": 1}
FAST = {"on_tool_error": "fail_fast"}

TABLE = {  # calls of the first reply, settings -> codes, the tool choice of the next call
    "nothing refused": ([LOOK, LEAVE], {}, [], LAST),
    "the gate, before the signal": ([PAY, LEAVE], {}, ["gate"], FREE),
    "the gate, after the signal": ([LOOK, LEAVE, PAY], {}, ["gate"], Force("think")),
    "covered": ([LEAVE, PAY], {}, [], LAST),
    "one covered, one not": ([LEAVE, PAY, LOOK, PAY], {}, ["gate"], Force("think")),
    "a person, before": ([SHIP, LEAVE], NO, ["person"], FREE),
    "a person, after": ([LEAVE, SHIP], NO, ["person"], FREE),
    "a person, and it said to go on": ([LEAVE, SHIP, GO_ON], NO, ["person"], FREE),
    "approved": ([SHIP, LEAVE], YES, [], LAST),
    "a limit, before": ([LOOK, LOOK, LEAVE], ONE, ["limit"], "limit"),
    "a limit, after": ([LEAVE, LOOK, LOOK], ONE, ["limit"], "limit"),
    "within the limit": ([LOOK, LEAVE], ONE, [], LAST),
    "failed, which is no refusal": ([FAIL, LEAVE], {}, [], LAST),
    "an unknown tool is no refusal": ([call("fly"), LEAVE], {}, [], LAST),
    "fail fast, before": ([FAIL, LOOK, LEAVE], FAST, ["failed"], Done),
    "fail fast, after": ([LEAVE, FAIL, LOOK], FAST, ["failed"], Done),
    "fail fast, nothing beside it": ([FAIL, LEAVE], FAST, [], Done),
}


@pytest.mark.parametrize(("calls", "settings", "codes", "then"), TABLE.values(), ids=TABLE)
def test_a_signal_beside_a_refusal(calls, settings, codes, then):
    outcome = agent(calls, "Bye.", tools=TOOLS, **settings).run("go")
    assert [result.refused for result in results(outcome) if result.refused] == codes
    if then is Done:
        assert (outcome.exit, outcome.model_calls) == ("gave_up", 1)
    elif then == "limit":  # the limit says so itself, and that is why it ends
        assert [m.kind for m in outcome.transcript if isinstance(m, User)] == ["person", "limit"]
        assert (outcome.exit, outcome.answer) == ("limit", "Bye.")
    else:
        assert outcome.turn.replies[1].tool_choice == then
        assert outcome.exit == ("signal" if then == LAST else "silence")
