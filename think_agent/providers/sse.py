"""Reads the events of a stream (server-sent events), also those of servers that write them badly.

Rule 1: a blank line ends an event. So does the end of the stream, or the next line of data once the
        data are JSON.
Rule 2: what holds no data is no event: comments, and the lines `id` and `retry`.
Rule 3: a server that doesn't stream answers with JSON. Its objects are the events, without a name.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

DONE = "[DONE]"  # the data of the last event, at many servers


class Event(NamedTuple):
    """`name` is that of its `event:` line; empty if it has none."""

    name: str
    data: str

    @property
    def content(self) -> Any:
        """The JSON of the data; None if they are something else. Half a character stays as it is:
        the other half may be in the next event.
        """
        with suppress(ValueError, RecursionError):
            return json.loads(self.data)
        return None


def read_events(pieces: Iterator[bytes]) -> Iterator[Event]:
    """The events in the bytes of a stream."""
    reader = EventReader()
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.close()


async def aread_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """The same, for an async client."""
    reader = EventReader()
    async for piece in pieces:
        for event in reader.feed(piece):
            yield event
    for event in reader.close():
        yield event


class EventReader:
    """Reads the events of one stream. Its pieces may be cut anywhere."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the part of it that has come
        self._name = ""
        self._data: list[str] = []
        self._is_json: bool | None = None  # not known until the first line
        self._json: list[bytes] = []  # rule 3

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that the next piece makes whole."""
        if b"\n" not in piece:
            self._line.append(piece)
            return
        *lines, rest = b"".join([*self._line, piece]).split(b"\n")
        self._line = [rest]
        for line in lines:
            yield from self._read_line(line)

    def close(self) -> Iterator[Event]:
        """The events at the end of the stream."""
        yield from self._read_line(b"".join(self._line))
        if self._is_json:
            yield from _split_json(b"\n".join(self._json).decode(errors="replace"))
        else:
            yield from self._end_event()

    def _read_line(self, raw: bytes) -> Iterator[Event]:
        if self._is_json is None and raw.strip():
            raw = raw.removeprefix(b"\xef\xbb\xbf")  # the mark of a text file
            self._is_json = raw.lstrip()[:1] in (b"{", b"[")
        if self._is_json:
            self._json.append(raw)
            return
        field, _, value = raw.decode(errors="replace").rstrip("\r").partition(":")
        value = value.removeprefix(" ")
        match field:
            case "":
                if not value:  # else it's a comment
                    yield from self._end_event()
            case "event":
                self._name = value
            case "data":
                if self._data and Event("", "\n".join(self._data)).content is not None:
                    yield from self._end_event()  # rule 1
                self._data.append(value)

    def _end_event(self) -> Iterator[Event]:
        data = "\n".join(self._data)
        event = Event(self._name, data)
        self._name = ""
        self._data = []
        if data.strip():  # rule 2
            yield event


def _split_json(text: str) -> Iterator[Event]:
    """The objects of a body that is no stream: itself, or those in its list."""
    body = Event("", text)
    if not isinstance(body.content, list):
        yield body
        return
    for item in body.content:
        yield Event("", json.dumps(item))
