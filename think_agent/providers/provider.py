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
        exchange = Exchange(self, request)
        self._learn_once(exchange.trip)
        while exchange.outcome is None:
            yield from exchange.reserve()
            if exchange.wait > 0:  # to sleep for no time costs time, too
                time.sleep(exchange.wait)
            with exchange.trip:
                try:
                    answer = self.post(self.client, exchange.prepare(), stream=in_pieces)
                    if not in_pieces:
                        exchange.outcome = exchange.read(self.decoded(answer))
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
        exchange = Exchange(self, request)
        if not self._has_learned:
            await asyncio.to_thread(self._learn_once, exchange.trip)
        while exchange.outcome is None:
            for notice in exchange.reserve():
                yield notice
            if exchange.wait > 0:
                await asyncio.sleep(exchange.wait)
            async with self._loop_client(exchange.trip) as client:
                try:
                    answer = await self.post(client, exchange.prepare(), stream=in_pieces)
                    if not in_pieces:
                        exchange.outcome = exchange.read(self.decoded(answer))
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
