"""Ahead: reads of one reply run at the same time, under `arun` and `astream`.

Only the driver knows of it. The pure loop plans and records one call after another, so a transcript
is the same with and without.

Rule 1: When a read begins, the reads that follow it in the same reply begin, too: calls of
        `read_only` tools whose functions are async. (`Performer.may_read_ahead` says which.)
Rule 2: A result that is there early waits for its place. If the call that is then made is another
        one, what was read ahead is dropped.
Rule 3: However a run ends, no task is left behind.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from .messages import ToolCall

if TYPE_CHECKING:
    import asyncio

E = TypeVar("E")


@dataclass
class Begun(Generic[E]):
    """A call that was begun ahead of its place."""

    call: ToolCall
    task: "asyncio.Task[tuple[list[E], Exception | None]]"


class ReadsAhead(Generic[E]):
    """The calls that one run has begun ahead of their places, by their ids."""

    def __init__(self) -> None:
        self._begun: dict[str, Begun[E]] = {}
        self._dropped: list[asyncio.Task[tuple[list[E], Exception | None]]] = []  # rule 3

    def begin(self, call: ToolCall, perform: Callable[[], AsyncGenerator[E, None]]) -> None:
        """Begin a call, if it has not begun."""
        import asyncio

        if call.id not in self._begun:
            task = asyncio.create_task(_collect(perform()))
            self._begun[call.id] = Begun(call, task)

    async def take(self, call: ToolCall) -> tuple[list[E], Exception | None] | None:
        """The events of a call that was begun, and its error; None if this very call was not."""
        begun = self._begun.pop(call.id, None)
        if begun is None:
            return None
        if begun.call != call:  # rule 2
            begun.task.cancel()
            self._dropped.append(begun.task)
            return None
        try:
            return await begun.task
        except BaseException:  # the run is cancelled while it waits
            self._begun[call.id] = begun
            raise

    async def drop(self) -> None:
        """Cancel what was begun and not taken, and wait for its end (rule 3)."""
        waiting = {begun.task for begun in self._begun.values()}
        waiting.update(self._dropped)
        if not waiting:
            return
        import asyncio

        self._begun.clear()
        self._dropped.clear()
        for task in waiting:
            task.cancel()
        cancelled: asyncio.CancelledError | None = None
        while waiting:
            try:
                _, waiting = await asyncio.wait(waiting)
            except asyncio.CancelledError as error:  # a second cancel: the tasks end all the same
                cancelled = error
                waiting = {task for task in waiting if not task.done()}
        if cancelled:
            raise cancelled


async def _collect(performing: AsyncGenerator[E, None]) -> tuple[list[E], Exception | None]:
    """The events of a call, and the error that ended it, if one did."""
    events: list[E] = []
    try:
        async with aclosing(performing):
            async for event in performing:
                events.append(event)
    except Exception as error:
        return events, error
    return events, None
