"""Waiting for a tool's function, sync or async, and no longer than its timeout in seconds.

Rule 1: an async function is cancelled when its time is up; one that blocks the loop, or goes on
        when it is cancelled, takes the time it takes. A sync one cannot be stopped: it goes on in a
        thread of its own, and what it returns is dropped.
Rule 2: an event loop is never blocked: a sync function is waited for in a thread.
Rule 3: a TimeoutError without a text says that the time was up.
"""

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import Any


class Misuse(RuntimeError):
    """The kit was called wrongly: nothing that a model could mend."""


def wait(function: Callable[[], Any], timeout: float | None) -> Any:
    """What `function` returns; a coroutine that it gives is run to its end here."""
    value = function() if timeout is None else _within(timeout, function)
    return _run_coroutine(value, timeout) if inspect.iscoroutine(value) else value


async def await_(function: Callable[[], Any], timeout: float | None, *, is_async: bool) -> Any:
    """`wait` without blocking: a sync function runs in a thread, an async one on the loop. No
    coroutine can raise a StopIteration, so one is returned.
    """
    import asyncio

    async with asyncio.timeout(timeout):
        if is_async:
            return await function()
        if timeout is None:
            value = await asyncio.to_thread(_caught, function)
        else:  # not in the loop's pool: asyncio.run would wait there for a tool that hangs
            value = await _in_a_thread_of_its_own(function)
        # A plain function may return a coroutine.
        return await value if inspect.iscoroutine(value) else value


def _within(seconds: float, function: Callable[[], Any]) -> Any:
    """`function()`, in a thread that is left alone when it takes too long."""
    import queue
    import threading

    box: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            box.put((function(), None))
        except BaseException as error:
            box.put((None, error))

    context = contextvars.copy_context()  # as asyncio.to_thread does
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    try:
        value, error = box.get(timeout=min(seconds, threading.TIMEOUT_MAX))
    except queue.Empty:
        raise TimeoutError from None
    if error:
        raise error
    return value


async def _in_a_thread_of_its_own(function: Callable[[], Any]) -> Any:
    """`_within`, for an event loop: who waits for it decides how long."""
    import asyncio
    import threading

    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    future: asyncio.Future[Any] = loop.create_future()

    def deliver(value: Any, error: BaseException | None) -> None:
        if not future.done():  # nobody waits for it any more
            future.set_exception(error) if error else future.set_result(value)

    def thread() -> None:
        value, failure = None, None
        try:
            value = context.run(_caught, function)
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: too late
            loop.call_soon_threadsafe(deliver, value, failure)

    threading.Thread(target=thread, daemon=True).start()
    return await future


def _caught(function: Callable[[], Any]) -> Any:
    """`function()`, with a StopIteration returned, for no future takes one: it would hang."""
    try:
        return function()
    except StopIteration as error:
        return error


def _run_coroutine(coroutine: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asyncio.wait_for(coroutine, timeout))
    coroutine.close()
    raise Misuse(
        "an async tool cannot run inside a running event loop; use `await agent.arun(...)`"
    )
