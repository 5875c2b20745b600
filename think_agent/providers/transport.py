"""Limits of requests: time, size and address.

Rule 1: every answer ends. The client's timeout limits each silence, the request's deadline the
        whole answer, and `LARGEST_ANSWER` its size. The last two are checked at every piece.
Rule 2: a conversation is sent only to the intended address: redirects aren't followed.

Limitation: a silence that begins before the deadline may last beyond it, at most as long again.
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
from .address import is_exposed, mask_address

LARGEST_ANSWER = 32 * 2**20  # bytes
BEGINNING = 80  # bytes of an answer that show its kind


@dataclass
class Trip:
    """A request in flight: its deadline (a time of `monotonic`), and the response, once it arrives,
    with the first bytes of its body. In a `with` block, requests of this context belong to this
    trip. At the end of the block, a response that an SDK left open is closed. (An async client has
    closed it before.)
    """

    deadline: float = inf
    response: Any = None
    first: bytes = b""

    @property
    def is_page(self) -> bool:
        """Is the body an HTML page, from a proxy or another kind of server? The content type isn't
        enough, because some servers send JSON as HTML.
        """
        if self.response is None:
            return False
        if self.response.headers.get("content-encoding"):  # the bytes are compressed
            return "html" in self.response.headers.get("content-type", "")
        return self.first.decode(errors="ignore").lstrip("\ufeff \t\r\n").startswith("<")

    @property
    def left(self) -> float:
        """The seconds until the deadline."""
        return self.deadline - monotonic()

    def check(self) -> float:
        """The seconds that are left. Raises TimedOut if there are none, and BadResponse if the
        answer is too large.
        """
        if self.response and self.response.num_bytes_downloaded > LARGEST_ANSWER:
            raise BadResponse(
                f"the answer is longer than {LARGEST_ANSWER >> 20} MB; check base_url"
            )
        left = self.left
        if left <= 0:
            raise TimedOut("the deadline has passed")
        return left

    def look_at(self, piece: bytes) -> None:
        """Check the limits as the next piece of the body arrives (rule 1)."""
        self.check()
        if len(self.first) < BEGINNING:
            self.first += piece[:BEGINNING]

    def __enter__(self) -> None:
        TRIP.set(self)

    def __exit__(self, *error: object) -> None:
        TRIP.set(None)
        if self.response:
            self.response.close()
            self.response = None


# The trip of this context's next request. There is no other way to reach the HTTP client through
# the SDKs.
TRIP: ContextVar[Trip | None] = ContextVar("TRIP", default=None)


def find_trip() -> Trip:
    """This context's trip, or a new one."""
    trip = TRIP.get()
    if trip is None:
        trip = Trip()
        TRIP.set(trip)
    return trip


class NoAwait:
    """The hooks' return value: sync clients ignore it, async clients await it."""

    def __await__(self) -> Iterator[None]:
        return iter(())


@cache
def certificates(http: ModuleType) -> Any:
    """This machine's certificates. Loading them takes 30 ms, so it's done once."""
    return http.create_ssl_context()


def make_client_arguments(http: ModuleType, url: str) -> Json:
    """Arguments with which a client of `http` (httpx or httpx2) keeps these rules at `url`."""

    def outgoing(request: Any) -> NoAwait:
        left = find_trip().check()  # rule 1
        timeouts = request.extensions["timeout"]
        for step, timeout in timeouts.items():
            timeouts[step] = min(timeout, left)
        return NoAwait()

    def incoming(response: Any) -> NoAwait:
        trip = find_trip()
        trip.response = response
        trip.first = b""
        response.stream = _make_bounded_stream(http)(response.stream, trip)
        return NoAwait()

    mounts = {}
    if not is_exposed(url) and url.startswith("http:"):
        mounts = {mask_address(url): None}  # no proxy can reach this machine
    return {
        "follow_redirects": False,  # rule 2
        "event_hooks": {"request": [outgoing], "response": [incoming]},
        "verify": certificates(http),
        "mounts": mounts,
    }


@cache
def _make_bounded_stream(http: ModuleType) -> Any:
    """A stream class for `http` that enforces the limits on time and size."""

    @dataclass
    class BoundedStream(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc, name-defined]
        stream: Any
        trip: Trip

        def __iter__(self) -> Iterator[bytes]:
            for piece in self.stream:
                self.trip.look_at(piece)
                yield piece

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self.stream:
                self.trip.look_at(piece)
                yield piece

        def close(self) -> None:
            self.stream.close()
            self.stream = None  # break the reference cycle with the response

        async def aclose(self) -> None:
            await self.stream.aclose()
            self.stream = None

    return BoundedStream


async def keep_until_closed(client: Any) -> AsyncIterator[Any]:
    """Yield a client, and close it when its loop ends: `asyncio.run` closes open generators."""
    try:
        yield client
    finally:
        await client.close()
