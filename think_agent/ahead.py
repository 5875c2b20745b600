"""Ahead: under `arun` and `astream`, the read-only calls of one reply run at the same time.

Only the driver does this. The pure loop still plans and records one call after another, so the
transcript is the same either way.

Rule 1: When a read starts, the reads right after it in the same reply start as well. A read is a
        call of a `read_only` tool with an async function. (See `Performer.may_read_ahead`.)
Rule 2: An early result waits until the loop reaches its call. If the loop then makes a different
        call, the result is dropped.
Rule 3: However a run ends, no task keeps running.
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
    """A call that was started ahead of its turn."""

    call: ToolCall
    task: "asyncio.Task[tuple[list[E], Exception | None]]"


class ReadsAhead(Generic[E]):
    """The calls that one run has started ahead of their turn, by id."""

    def __init__(self) -> None:
        self._begun: dict[str, Begun[E]] = {}
        self._dropped: list[asyncio.Task[tuple[list[E], Exception | None]]] = []  # rule 3

    def begin(self, call: ToolCall, perform: Callable[[], AsyncGenerator[E, None]]) -> None:
        """Start a call, unless it has been started."""
        import asyncio

        if call.id not in self._begun:
            task = asyncio.create_task(_collect(perform()))
            self._begun[call.id] = Begun(call, task)

    async def take(self, call: ToolCall) -> tuple[list[E], Exception | None] | None:
        """The events and the error of a call; None if exactly this call wasn't started ahead."""
        begun = self._begun.pop(call.id, None)
        if begun is None:
            return None
        if begun.call != call:  # rule 2
            begun.task.cancel()
            self._dropped.append(begun.task)
            return None
        try:
            return await begun.task
        except BaseException:  # the run was cancelled while it waited here
            self._begun[call.id] = begun
            raise

    async def drop(self) -> None:
        """Cancel the calls that were never taken, and wait until they have ended (rule 3)."""
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
            except asyncio.CancelledError as error:  # a second cancel; still wait for the tasks
                cancelled = error
                waiting = {task for task in waiting if not task.done()}
        if cancelled:
            raise cancelled


async def _collect(performing: AsyncGenerator[E, None]) -> tuple[list[E], Exception | None]:
    """The events of a call, and the error that ended it, if any."""
    events: list[E] = []
    try:
        async with aclosing(performing):
            async for event in performing:
                events.append(event)
    except Exception as error:
        return events, error
    return events, None
