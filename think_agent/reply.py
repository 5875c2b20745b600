"""Reply: a model is asked, and what it returns is checked.

Rule 1: what leaves `ask` can be recorded and read again. Anything else is a TypeError that names
        the function of the model that returned it.
Rule 2: a stream gives Deltas and Notices, and at its end the reply. `aask` is the same code with
        `async`.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

from .checking import Culprit, is_a, is_awaitable, show_value
from .messages import Assistant, find_problem
from .model import Model, Request
from .streaming import Delta, Notice

Part = Delta | Notice | Assistant
YIELD = "yield Deltas, and an Assistant at the end"


def ask(model: Model, request: Request, *, streamed: bool = False) -> Generator[Part, None, None]:
    """Ask the model: its reply, and before that the parts of a streamed one."""
    if not (streamed and _has_own(model, "stream")):
        reply = Reply(model, "complete")
        with reply.culprit:
            value = model.complete(request)
        yield reply.take_whole(value)
        return
    reply = Reply(model, "stream")
    with reply.culprit:
        parts: Any = model.stream(request)
    if not is_a(parts, Iterable):
        raise reply.culprit.returned(parts, YIELD)
    for part in parts:
        yield reply.take(part)
    reply.check_end()


async def aask(
    model: Model, request: Request, *, streamed: bool = False
) -> AsyncGenerator[Part, None]:
    """`ask` without blocking the event loop."""
    if not (streamed and _has_own(model, "astream")):
        reply = Reply(model, "acomplete")
        with reply.culprit:
            value: Any = model.acomplete(request)
            if not is_awaitable(value):
                raise reply.culprit.error("it is not async; write `async def acomplete`")
            value = await value
        yield reply.take_whole(value)
        return
    reply = Reply(model, "astream")
    with reply.culprit:
        parts: Any = model.astream(request)
    if not is_a(parts, AsyncIterable):
        raise reply.culprit.returned(parts, f"write `async def astream`, and {YIELD}")
    async with AsyncExitStack() as stack:
        if is_a(parts, AsyncGenerator):  # else it would be closed in a task of its own, later
            await stack.enter_async_context(aclosing(parts))
        async for part in parts:
            yield reply.take(part)
    reply.check_end()


@dataclass
class Reply:
    """A reply as it arrives from a method of a model. (The culprit of an inherited one is
    `complete`, which it calls.)
    """

    model: Model
    method: str
    culprit: Culprit = field(init=False)
    is_whole: bool = False

    def __post_init__(self) -> None:
        name = self.method if _has_own(self.model, self.method) else "complete"
        self.culprit = Culprit("the model", getattr(self.model, name))

    def take(self, part: object) -> Part:
        """The next part of a stream, checked."""
        if self.is_whole:
            problem = f"it yielded {show_value(part)} after the Assistant, which ends a stream"
            raise self.culprit.error(problem)
        if is_a(part, Delta | Notice):
            assert isinstance(part, Delta | Notice)
            if not is_a(part.text, str):
                raise self.culprit.error(f"it yielded {show_value(part)}; its text is a str")
            return part
        return self.take_whole(part)

    def take_whole(self, value: object) -> Assistant:
        """The whole reply, checked (rule 1)."""
        if not is_a(value, Assistant):
            raise self.culprit.returned(value, "return an Assistant")
        assert isinstance(value, Assistant)
        if not self.model.is_checked:
            problem = find_problem(value)
            if problem:
                raise self.culprit.error(problem)
        self.is_whole = True
        return value

    def check_end(self) -> None:
        """The stream has ended. Without a reply, the model would be asked again and again."""
        if not self.is_whole:
            raise self.culprit.error("its stream ended without an Assistant; yield one at its end")


def _has_own(model: Model, method: str) -> bool:
    """Did the author of the model write this method?"""
    return getattr(getattr(model, method), "__func__", None) is not getattr(Model, method)
