"""A model whose text arrives in pieces, and the four ways to ask it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from think_agent import Assistant, Delta, Model, Request, ScriptedModel


class InPieces(ScriptedModel):
    """Gives one reply; streams its thinking whole and its text in pieces of a given size."""

    def __init__(self, reply: Assistant, size: int) -> None:
        super().__init__(lambda _: reply)
        self._size = size

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        reply = self.complete(request)
        if reply.thinking:
            yield Delta("thinking", reply.thinking)
        for at in range(0, len(reply.text), self._size):
            yield Delta("answer", reply.text[at : at + self._size])
        yield reply

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        for event in self.stream(request):
            yield event


async def gathered(events: AsyncIterator[Any]) -> list[Any]:
    """All events of a stream."""
    return [event async for event in events]


def four_ways(model: Model, request: Request) -> tuple[Assistant, list[Any]]:
    """The reply and its Deltas. They have to be the same in all four ways."""
    *deltas, last = model.stream(request)
    assert [*deltas, last] == asyncio.run(gathered(model.astream(request)))
    reply = model.complete(request)
    assert reply == last == asyncio.run(model.acomplete(request))
    return reply, deltas


def told(events: Iterable[object], kind: str) -> str:
    """The text of all Deltas of a kind."""
    return "".join(e.text for e in events if isinstance(e, Delta) and e.kind == kind)
