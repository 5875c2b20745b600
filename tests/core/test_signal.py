"""The signal beside a refused call does not count: the model has not read the refusal (DESIGN §5).

Played by an agent, so that whoever refuses is the real one: the gate, a limit, a person, a failure.
"""

import pytest

from think_agent import (
    Agent,
    Assistant,
    CallModel,
    Done,
    Force,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolResult,
    User,
    Verdict,
    next_step,
)

CODES = ["gate", "limit", "person", "failed", "refused"]  # the last: of older transcripts


def function(**arguments: object) -> str:
    if "fail" in arguments:
        raise ValueError("as ever")
    return "done"


def tool(name: str, **guards: bool) -> Tool:
    parameters = {"type": "object", "properties": {}}
    return Tool(name=name, description=name, parameters=parameters, function=function, **guards)


TOOLS = [tool("look"), tool("pay", think_first=True), tool("ship", needs_approval=True)]


def think(go_on: bool) -> ToolCall:
    return ToolCall("", "think", {"thought": "so", "should_continue": str(go_on).lower()})


GO_ON, LEAVE = think(True), think(False)
LOOK, PAY, SHIP = ToolCall("", "look"), ToolCall("", "pay"), ToolCall("", "ship")
FAIL = ToolCall("", "look", {"fail": 1})
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
    "an unknown tool is no refusal": ([ToolCall("", "fly"), LEAVE], {}, [], LAST),
    "fail fast, before": ([FAIL, LOOK, LEAVE], FAST, ["failed"], Done),
    "fail fast, after": ([LEAVE, FAIL, LOOK], FAST, ["failed"], Done),
    "fail fast, nothing beside it": ([FAIL, LEAVE], FAST, [], Done),
}


@pytest.mark.parametrize(("calls", "settings", "codes", "then"), TABLE.values(), ids=TABLE)
def test_a_signal_beside_a_refusal(calls, settings, codes, then):
    replies = [Assistant(tool_calls=tuple(calls), stop_reason="tool_use"), Assistant("Bye.")]
    agent = Agent(ScriptedModel(replies), TOOLS, force="never", silence="accept", **settings)
    outcome = agent.run("go")
    results = [m for m in outcome.transcript if isinstance(m, ToolResult)]
    assert [result.refused for result in results if result.refused] == codes
    if then is Done:
        assert (outcome.exit, outcome.model_calls) == ("gave_up", 1)
    elif then == "limit":  # the limit says so itself, and that is why it ends
        assert [m.kind for m in outcome.transcript if isinstance(m, User)] == ["person", "limit"]
        assert (outcome.exit, outcome.answer) == ("limit", "Bye.")
    else:
        assert outcome.steps[1].tool_choice == then
        assert outcome.exit == ("signal" if then == LAST else "silence")


def turn(*calls: tuple[ToolCall, str], error: bool = False) -> list[User | Assistant | ToolResult]:
    """One reply, and its calls answered: each with the code of a refusal, or none."""
    named = [ToolCall(str(i), call.name, call.arguments) for i, (call, _) in enumerate(calls)]
    results = [
        ToolResult(call.id, call.name, "…", bool(code) or error, code)
        for call, (_, code) in zip(named, calls, strict=True)
    ]
    return [User("go"), Assistant(tool_calls=tuple(named), stop_reason="tool_use"), *results]


@pytest.mark.parametrize("code", CODES)
def test_in_a_transcript_by_any_code(code):
    for calls in [(LEAVE, ""), (LOOK, code)], [(LOOK, code), (LEAVE, "")], [(LEAVE, code)]:
        assert next_step(turn(*calls)) == CallModel("auto")
        answered = turn(*calls)
        again = turn((LEAVE, ""))[1:]
        assert next_step([*answered, *again]) == CallModel("none")  # it has read that by now


def test_a_think_call_that_was_answered_with_an_error_signals_nothing():
    assert next_step(turn((LEAVE, ""), error=True)) == CallModel("auto")
    assert next_step(turn((LEAVE, ""))) == CallModel("none")
