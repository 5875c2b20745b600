"""Silence is confirmed: every case of DESIGN §5, in each of the ways a run can go."""

import asyncio

import pydantic
import pytest

from think_agent import Agent, Assistant, ScriptedModel, User, tool
from think_agent.testing import call, think

ON, OFF = think("Two orders, one at a time."), think("All done.", False)
PROMISE = "Got ORD-001. Now let me look up ORD-002."
JSON = '{"amount": "89"}'
LOOK = call("look", order="ORD-002")
SAYS = Assistant(commentary="Looking it up.")
GARBLED = Assistant("{", stop_reason="malformed", mistake="No JSON.")
IN_JSON = Assistant(PROMISE, dialect="json")


class Answer(pydantic.BaseModel):
    amount: int


@tool(idempotent=True)
def look(order: str) -> str:
    """Look an order up."""
    return f"{order}: $89"


def agent(replies, **settings):
    """Its model's place in the script is read from the request, so that it can be resumed."""
    played = ScriptedModel(replies)

    def reply(request):
        said = sum(isinstance(message, Assistant) for message in request.messages)
        played.left = len(replies) - said
        return played.complete(request)

    return Agent(ScriptedModel(reply), [look], **{"force": "never", **settings})


CASES = {  # a script and settings: the exit, the answer, the model calls, whether it was asked
    "confirmed": ([ON, PROMISE, OFF], {}, "silence", PROMISE, 3, True),
    "it goes on": ([ON, PROMISE, LOOK, OFF, "Both."], {}, "signal", "Both.", 5, True),
    "it goes on with thoughts": ([ON, PROMISE, ON, OFF, "Both."], {}, "signal", "Both.", 5, True),
    "thought and call at once": ([ON, PROMISE, (OFF, LOOK), "B"], {}, "signal", "B", 4, True),
    "text again": ([ON, PROMISE, "Which order?"], {}, "silence", "Which order?", 3, True),
    "nothing": ([ON, PROMISE, ""], {}, "silence", PROMISE, 3, True),
    "once a turn": ([ON, PROMISE, LOOK, ON, PROMISE], {}, "silence", PROMISE, 5, True),
    "accept": ([ON, PROMISE], {"silence": "accept"}, "silence", PROMISE, 2, False),
    "no thought": ([LOOK, "Found."], {}, "silence", "Found.", 2, False),
    "a blank flag": ([think("Hm", ""), "Found."], {}, "silence", "Found.", 2, False),
    "it said false": ([OFF, "Found."], {}, "signal", "Found.", 2, False),
    "without a flag": ([OFF, "", "Found."], {}, "signal", "Found.", 3, False),
    "forced always": ([ON, PROMISE], {"force": "always"}, "silence", PROMISE, 2, False),
    "no call left": ([ON, PROMISE], {"max_model_calls": 3}, "limit", PROMISE, 2, False),
    "after a nudge": ([ON, "", PROMISE], {}, "silence", PROMISE, 3, False),
    "after a format question": ([GARBLED, ON, PROMISE, OFF], {}, "silence", PROMISE, 4, True),
    "a dialect": ([ON, IN_JSON], {}, "silence", PROMISE, 2, False),
    "typed": ([ON, PROMISE, OFF, JSON], {"answer": Answer}, "silence", JSON, 4, True),
    "commentary": ([SAYS, OFF], {}, "silence", SAYS.commentary, 2, True),
    "commentary, accepted": ([SAYS], {"silence": "accept"}, "silence", SAYS.commentary, 1, False),
    "commentary, no think tool": ([SAYS, "Hi."], {"think": None}, "silence", "Hi.", 2, True),
}  # fmt: skip


def came(outcome):
    asked = any(isinstance(m, User) and m.kind == "silence" for m in outcome.transcript)
    return outcome.exit, outcome.answer, outcome.model_calls, asked


async def streamed(made):
    return [event async for event in made.astream("go")][-1]


@pytest.mark.parametrize("case", CASES)
def test_case(case):
    replies, settings, *expected = CASES[case]
    whole = agent(replies, **settings).run("go")
    assert came(whole) == tuple(expected)
    for other in (
        list(agent(replies, **settings).stream("go"))[-1],
        asyncio.run(agent(replies, **settings).arun("go")),
        asyncio.run(streamed(agent(replies, **settings))),
    ):
        assert other == whole
    for end in range(1, len(whole.transcript) + 1):  # a crash at any point
        assert agent(replies, **settings).resume(whole.transcript[:end]) == whole
