"""A custom model writes `complete`, and has the other three methods (`model.py`).

That each provider gives the same reply in all four ways is tested in `tests/providers`.
"""

import pytest

from tests.support.providers import ASK
from think_agent import Agent, Assistant, Model, Request, User
from think_agent.streaming import Delta

HELLO = Request([User("Hello?")])
REPLY = Assistant("Hello.", model="parrot")


class Parrot(Model):
    """It writes `complete` and nothing else, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Assistant:
        self.requests.append(request)
        return REPLY


class Streaming(Parrot):
    """It writes `stream`, too."""

    def stream(self, request):
        yield Delta("answer", "Hel")
        yield Delta("answer", "lo.")
        yield self.complete(request)


@pytest.mark.parametrize("way", ASK)
@pytest.mark.parametrize("kind", [Parrot, Streaming])
def test_the_four_methods_give_the_same_reply(kind, way):
    assert ASK[way](kind(), HELLO) == REPLY


def test_a_request_contains_everything_also_earlier_turns():
    parrot = Parrot()
    agent = Agent(parrot, force="never", silence="accept")
    first = agent.run("Hello?")
    agent.run("And you?", transcript=first.transcript)
    assert [message.text for message in parrot.requests[0].messages] == ["Hello?"]
    assert [message.text for message in parrot.requests[1].messages] == [
        "Hello?",
        "Hello.",
        "And you?",
    ]


def test_a_model_without_complete_says_what_to_write():
    class Mute(Model):
        pass

    with pytest.raises(NotImplementedError, match=r"Mute must define complete\(request\)"):
        Mute().complete(HELLO)
