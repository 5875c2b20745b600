"""Waiting: run a tool's function or a check, sync or async, with a timeout.

Rule 1: `settle` and `asettle` return what a function returned or raised: `(value, None)` or `(None,
        error)`. Only what isn't an Exception is raised to the caller: Ctrl-C, an exit, the
        cancellation of the waiting task. (A CancelledError from inside the function counts as the
        function's error.)
Rule 2: sync code can't be stopped. With a timeout it runs in its own thread. If it takes too long,
        the thread keeps running, and its result is dropped.
Rule 3: async code that's called from sync code runs on one background event loop. The loop lives as
        long as the process, so calls can share a client.
Rule 4: code on that loop can't block on the loop, since that would deadlock. So a sync run inside
        an async tool of a sync run is an error that says what to use (`refuse_to_block`).
Rule 5: disk writes wait in the kit's own threads, because the program needs the few threads of
        `asyncio.to_thread` itself.
"""

import inspect
import os
import sys
from _thread import allocate_lock, get_ident  # cheaper to import than threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .checking import is_awaitable

if TYPE_CHECKING:
    import threading
    from asyncio import AbstractEventLoop
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
Function = Callable[[], Any]
Settled = tuple[Any, BaseException | None]  # what a function returned, or raised
GRACE = 1.0  # seconds that async code may take to clean up after its timeout
WRITERS = 32  # threads for disk writes
NESTED = (
    "a sync run in async code that another sync run waits for would block; "
    "use `await agent.arun(...)` there"
)


class TookTooLong(Exception):
    """A function exceeded its timeout."""


def settle(function: Function, timeout: float | None = None) -> Settled:
    """Call `function`, and await the result if it's awaitable. `timeout` is in seconds.

    Raises RuntimeError on the background loop (rule 4).
    """
    refuse_to_block()
    if timeout is not None:
        return _settle_in_background(_outcome(function), timeout)
    try:
        value = function()
    except BaseException as error:
        return _raise_exit((None, error))
    if is_awaitable(value):
        return _settle_in_background(_settle(value), timeout)
    return value, None


async def asettle(function: Function, timeout: float | None = None) -> Settled:
    """`settle` without blocking the event loop: a sync function runs in a thread, an async one on
    the loop. If the waiting task is cancelled, so is an async function.
    """
    return _raise_exit(await _within(_outcome(function), timeout))


def refuse_to_block() -> None:
    """Raise RuntimeError if this is the thread of the background loop (rule 4)."""
    if _background is not None and _background[0].ident == get_ident():
        raise RuntimeError(NESTED)


def _settle_in_background(work: Coroutine[Any, Any, Settled], timeout: float | None) -> Settled:
    import asyncio

    task = asyncio.run_coroutine_threadsafe(_within(work, timeout), background_loop())
    try:
        settled = task.result()
    finally:
        task.cancel()  # only matters after Ctrl-C; otherwise the task is already done
    return _raise_exit(settled)


async def _within(work: Coroutine[Any, Any, Settled], timeout: float | None) -> Settled:
    import asyncio

    task = asyncio.create_task(work)
    try:
        _, late = await asyncio.wait({task}, timeout=timeout)
    except BaseException:
        task.cancel()
        raise
    if late:
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
        return None, TookTooLong()
    return task.result()


async def _outcome(function: Function) -> Settled:
    if inspect.iscoroutinefunction(function):
        return await _settle(function())

    value, error = await in_a_thread(function)
    if is_awaitable(value):
        return await _settle(value)
    return value, error


async def _settle(awaitable: Awaitable[Any]) -> Settled:
    """The result as a value, because an event loop doesn't survive an exit in one of its tasks."""
    try:
        return await awaitable, None
    except BaseException as error:
        return None, error


def _raise_exit(settled: Settled) -> Settled:
    _, error = settled
    if error is None or isinstance(error, Exception):
        return settled
    asyncio = sys.modules.get("asyncio")  # if it isn't loaded, this can't be a CancelledError
    if asyncio and isinstance(error, asyncio.CancelledError):
        return settled
    raise error


async def in_a_thread(function: Function) -> Settled:
    """Run `function` in its own thread. (Not in a pool: Python waits for a pool's threads when it
    exits.) An error is returned as a value, because a future can't carry every error: waiting for
    a StopIteration never ends, and a GeneratorExit closes the code that waits.
    """
    import asyncio
    import contextvars  # late, like the next two: slow to import, and rarely needed
    import threading
    from concurrent.futures import Future

    future: Future[Settled] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result((context.run(function), None))
        except BaseException as error:
            future.set_result((None, error))

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(future)


_background: "tuple[threading.Thread, AbstractEventLoop] | None" = None
_lock = allocate_lock()


def background_loop() -> "AbstractEventLoop":
    """The event loop of rule 3. A forked child doesn't inherit its thread, so it gets a new one."""
    import asyncio
    import threading

    global _background
    with _lock:
        if _background is None or not _background[0].is_alive():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, daemon=True, name="async tools")
            thread.start()
            _background = thread, loop
        return _background[1]


async def in_writer(function: Callable[[], T]) -> T:
    """Run a function that writes to a disk without blocking the event loop (rule 5)."""
    import asyncio

    def work() -> tuple[T | None, BaseException | None]:
        try:
            return function(), None
        except BaseException as error:  # a value, as in `in_a_thread`
            return None, error

    value, error = await asyncio.wrap_future(_writers().submit(work))
    if error is not None:
        raise error
    return cast(T, value)


_pool: "tuple[int, ThreadPoolExecutor] | None" = None


def _writers() -> "ThreadPoolExecutor":
    """The threads of rule 5. A forked child doesn't inherit them, so it gets new ones."""
    from concurrent.futures import ThreadPoolExecutor

    global _pool
    pool = _pool
    if pool is None or pool[0] != os.getpid():  # no lock, since a fork could leave it locked
        pool = os.getpid(), ThreadPoolExecutor(WRITERS, "transcripts")
        _pool = pool
    return pool[1]
