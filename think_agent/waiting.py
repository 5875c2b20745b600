"""Waiting: a tool's function or a check is run to its end, sync or async, within its timeout.

Rule 1: `settle` and `asettle` return what a function returned or raised, as a value: `(value,
        None)` or `(None, error)`. What is no Exception concerns the caller, and is raised: Ctrl-C,
        an exit, the cancellation of the task that waits. (A CancelledError from inside the function
        is an error of that function.)
Rule 2: sync code cannot be stopped. With a timeout it runs in its own thread. If it takes too long,
        the thread goes on, and what it returns is dropped.
Rule 3: if async code is called from sync code, it runs on one event loop in the background. That
        loop lives as long as the process, so a client that several calls share stays usable.
Rule 4: code on that loop can't wait for it: it would wait for itself. So a plain run in an async
        tool of a plain run is an error that says what to use (`refuse_to_block`).
Rule 5: a disk is waited for in threads of the kit's own: those of `asyncio.to_thread` are few, and
        belong to the program.
"""

import inspect
import os
import sys
from _thread import allocate_lock, get_ident  # for these, threading need not be loaded
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
WRITERS = 32  # threads that wait for a disk
NESTED = (
    "a plain run was begun in async code that another plain run waits for; "
    "use `await agent.arun(...)` there"
)


class TookTooLong(Exception):
    """A function did not end within its timeout."""


def settle(function: Function, timeout: float | None = None) -> Settled:
    """The result of `function`, or of the awaitable that it returns. `timeout` is in seconds.

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
    the loop. If the task that waits here is cancelled, an async function is cancelled, too.
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
        task.cancel()  # this matters after Ctrl-C; else the task is done already
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
    """The result as a value, because an event loop does not survive an exit in one of its tasks."""
    try:
        return await awaitable, None
    except BaseException as error:
        return None, error


def _raise_exit(settled: Settled) -> Settled:
    _, error = settled
    if error is None or isinstance(error, Exception):
        return settled
    asyncio = sys.modules.get("asyncio")  # if it is not loaded, the error is none of its own
    if asyncio and isinstance(error, asyncio.CancelledError):
        return settled
    raise error


async def in_a_thread(function: Function) -> Settled:
    """The result of `function`, which runs in its own thread. (At its exit, Python would wait for
    the threads of a pool.) An error is a value, because a future can't raise each of them: it has
    no end for a StopIteration, and a GeneratorExit closes whoever waits.
    """
    import asyncio
    import contextvars  # late, as those below: they are slow, and most tools run in no thread
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
    """The event loop of rule 3. A forked child does not have its thread, so it gets a new one."""
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
    """The result of a function that waits for a disk, without blocking the event loop (rule 5)."""
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
    """The threads of rule 5. A forked child does not have them, so it gets new ones."""
    from concurrent.futures import ThreadPoolExecutor

    global _pool
    pool = _pool
    if pool is None or pool[0] != os.getpid():  # without a lock, which a fork could leave locked
        pool = os.getpid(), ThreadPoolExecutor(WRITERS, "transcripts")
        _pool = pool
    return pool[1]
