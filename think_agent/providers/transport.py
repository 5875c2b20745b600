"""How requests travel: within bounds, and to one address.

Rule 1: an answer ends. The client's timeout bounds each silence. The deadline of the request bounds
        the whole answer, and `LARGEST_ANSWER` its bytes; both are looked at with every piece.
Rule 2: a conversation goes to the address it was meant for: no redirect takes it to another one.

Limitation: a silence that begins before the deadline may outlast it, by at most as long again.
"""

from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from math import inf
from time import monotonic
from types import ModuleType
from typing import Any

from ..errors import BadResponse, TimedOut
from ..messages import Json
from .address import is_exposed, shown_address

LARGEST_ANSWER = 32 * 2**20  # bytes


@dataclass
class Trip:
    """A request on its way: the time (of `monotonic`) when it has to be over, and the response,
    once one has come.
    """

    deadline: float = inf
    response: Any = None

    def check(self) -> float:
        """The seconds that are left. Raises TimedOut where there are none."""
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimedOut("the deadline has passed")
        return left


# The trip of the request that is sent next in this context. The SDKs have no other way to hand it
# down to the HTTP client.
TRIP: ContextVar[Trip | None] = ContextVar("TRIP", default=None)


def arrived() -> Any:
    """The response to the request that was sent last in this context; None where none has come."""
    trip = TRIP.get() or Trip()
    return trip.response


class Done:
    """What the hooks return: sync clients drop it, async ones await it."""

    def __await__(self) -> Iterator[None]:
        return iter(())


@cache
def certificates(http: ModuleType) -> Any:
    """The certificates of this machine. Loading them takes 30 ms; once will do."""
    return http.create_ssl_context()


def client_arguments(http: ModuleType, url: str) -> Json:
    """The arguments that make a client of `http` (httpx or httpx2) keep the rules, for `url`."""

    def outgoing(request: Any) -> Done:
        trip = TRIP.get()
        if trip is None:
            trip = Trip()
            TRIP.set(trip)
        request.extensions["trip"] = trip
        left = trip.check()
        timeouts = request.extensions["timeout"]
        for step, timeout in timeouts.items():
            timeouts[step] = min(timeout, left)
        return Done()

    def incoming(response: Any) -> Done:
        trip = response.request.extensions["trip"]
        trip.response = response
        response.stream = _bounded_stream(http)(response.stream, trip)
        return Done()

    mounts = {}
    if not is_exposed(url) and url.startswith("http:"):
        mounts = {shown_address(url): None}  # the proxy of a company cannot reach this machine
    return {
        "follow_redirects": False,
        "event_hooks": {"request": [outgoing], "response": [incoming]},
        "verify": certificates(http),
        "mounts": mounts,
    }


@cache
def _bounded_stream(http: ModuleType) -> Any:
    """The class of streams of `http` that end in time, and before they are too large."""

    class BoundedStream(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, stream: Any, trip: Trip) -> None:
            self.stream = stream
            self.trip = trip
            self.size = 0

        def check(self, piece: bytes) -> bytes:
            self.size += len(piece)
            if self.size > LARGEST_ANSWER:
                raise BadResponse(f"it sent more than {LARGEST_ANSWER >> 20} MB; check base_url")
            self.trip.check()
            return piece

        def __iter__(self) -> Iterator[bytes]:
            for piece in self.stream:
                yield self.check(piece)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self.stream:
                yield self.check(piece)

        def close(self) -> None:
            self.stream.close()

        async def aclose(self) -> None:
            await self.stream.aclose()

    return BoundedStream


async def life_of(client: Any) -> AsyncIterator[Any]:
    """A client until its loop ends: `asyncio.run` closes the generators that are open then."""
    try:
        yield client
    finally:
        await client.close()
