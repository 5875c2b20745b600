"""A provider as a Model: four ways to ask it, and one `Exchange` behind them.

`stream` and `astream` differ in `await` and in nothing else.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ..messages import Assistant
from ..model import Request
from .base import Endpoint
from .exchange import Exchange


class Provider(Endpoint):
    """What each provider derives from."""

    is_checked = True  # `wire/incoming.py` does it

    def complete(self, request: Request) -> Assistant:
        reply: Assistant
        *_, reply = self.stream(request, in_pieces=False)
        return reply

    async def acomplete(self, request: Request) -> Assistant:
        reply: Assistant
        *_, reply = [event async for event in self.astream(request, in_pieces=False)]
        return reply

    def stream(self, request: Request, *, in_pieces: bool = True) -> Iterator[Any]:
        exchange = Exchange(self, request, is_shown=in_pieces)
        self._learn_once(exchange.trip, request)
        while exchange.outcome is None:
            with exchange.reserved() as notices:
                yield from notices
                if exchange.wait > 0:  # to sleep for no time costs time, too
                    time.sleep(exchange.wait)
            with exchange.trip:
                try:
                    answer = self.post(self.client, exchange.prepare(), stream=exchange.streams)
                    if not exchange.streams:
                        exchange.finish(self.decoded(answer))
                        continue
                    for event in answer:
                        yield from exchange.feed(self.decoded(event))
                        if exchange.fold.ended:
                            break
                    exchange.finish_stream()
                except Exception as error:
                    exchange.recover(error)
        yield exchange.result()

    async def astream(self, request: Request, *, in_pieces: bool = True) -> AsyncIterator[Any]:
        exchange = Exchange(self, request, is_shown=in_pieces)
        if self._has_questions(request):
            await asyncio.to_thread(self._learn_once, exchange.trip, request)
        while exchange.outcome is None:
            with exchange.reserved() as notices:
                for notice in notices:
                    yield notice
                if exchange.wait > 0:
                    await asyncio.sleep(exchange.wait)
            async with self._loop_client(exchange.trip) as client:
                try:
                    body = exchange.prepare()
                    answer = await self.post(client, body, stream=exchange.streams)
                    if not exchange.streams:
                        exchange.finish(self.decoded(answer))
                        continue
                    async for event in answer:
                        for delta in exchange.feed(self.decoded(event)):
                            yield delta
                        if exchange.fold.ended:
                            break
                    exchange.finish_stream()
                except Exception as error:
                    exchange.recover(error)
        yield exchange.result()
