"""A model that thinks "there is more to do", announces it and stops: on five protocols, four ways
to run, and resumed at each point. Its promise is no answer unless silence is accepted.
"""

import pytest

from tests.servers import serve
from tests.support.providers import SPEAKS, WAYS, every_provider, model_of
from think_agent import Agent, Assistant, Request, tool
from think_agent.testing import call, think

PROMISE = "Got ORD-001. Now let me look up ORD-002."
ANSWER = "Both are laptop stands."
REPLIES: list = [think("Two orders, one at a time."), call("look", order="ORD-001"), PROMISE]
REPLIES += [call("look", order="ORD-002"), think("That was all.", False), ANSWER]


@tool(idempotent=True)
def look(order: str) -> str:
    """Look an order up."""
    return f"{order}: laptop stand"


def narrator(request: Request) -> Assistant:
    """Its place is read from the request, so that a run can be resumed."""
    reply = REPLIES[sum(isinstance(message, Assistant) for message in request.messages)]
    if isinstance(reply, str):
        return Assistant(reply)
    return Assistant(tool_calls=(reply,), stop_reason="tool_use")


@every_provider
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_promise_is_no_answer_but_where_silence_is_accepted(provider, way):
    with serve(SPEAKS[provider][0](), narrator) as server:
        model = model_of(provider, server)
        asked = way(Agent(model, [look], force="never"), "Both?")
        assert (asked.exit, asked.answer, len(asked.actions)) == ("signal", ANSWER, 2)
        taken = way(Agent(model, [look], force="never", silence="accept"), "Both?")
        assert (taken.exit, taken.answer, len(taken.actions)) == ("silence", PROMISE, 1)


@every_provider
def test_nor_is_it_when_the_run_is_resumed_at_any_point(provider):
    with serve(SPEAKS[provider][0](), narrator) as server:
        agent = Agent(model_of(provider, server), [look], force="never")
        whole = agent.run("Both?")
        for end in range(1, len(whole.transcript) + 1):
            outcome = agent.resume(whole.transcript[:end])
            assert (outcome.exit, outcome.answer) == ("signal", ANSWER)
