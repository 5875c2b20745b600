"""A scripted model for tests and offline demos.

It isn't a language model, and every program that uses it says so.
"""

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace

from ..checking import Culprit, is_a, show_value
from ..errors import ModelError
from ..messages import Assistant, ToolCall, find_problem
from ..model import Model, Request
from ..streaming import Delta
from ..text import shorten

WORD = r"\s*\S+\s*|\s+"
Reply = object
"""A reply in a script: an Assistant, a ToolCall, several ToolCalls in a tuple or list, or a text.
(The type is `object`, because a type checker sees a list with some of each as a list of objects.)
"""
Script = Callable[[Request], Assistant]


class ScriptedModel(Model):
    """A model that follows a script: a list of replies, given in order, or a function of the
    request.

    It isn't a language model. The tests and the offline demos use it.
    """

    is_checked = True

    def __init__(
        self,
        replies: Sequence[Reply] | Callable[[Request], Reply],
        *,
        name: str = "scripted",
        model: str = "script",
    ) -> None:
        self.name = name
        self.model = model
        self.script: Callable[[Request], Reply] = self._next
        self._replies: deque[Reply] = deque()
        if callable(replies):
            self.script = replies
        elif isinstance(replies, str):
            self._replies.append(replies)
        else:
            self._replies.extend(replies)

    @property
    def left(self) -> int:
        """How many replies are left in the script."""
        return len(self._replies)

    def complete(self, request: Request) -> Assistant:
        with Culprit("the script", self.script):
            written = self.script(request)
        reply = read_reply(written)
        if reply is None:
            raise self._name_fault(
                f"{show_value(written)} isn't a reply: "
                "use a text, a call, a tuple of calls, or an Assistant"
            )
        problem = find_problem(reply)
        if problem:
            raise self._name_fault(problem)
        provider = reply.provider or self.name
        model = reply.model or self.model
        return replace(reply, provider=provider, model=model)

    def _name_fault(self, problem: str) -> TypeError:
        if self.script == self._next:  # a list
            return TypeError(f"the script: {problem}")
        return Culprit("the script", self.script).error(problem)

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        """The reply, word by word."""
        from ..wire.incoming import make_deltas  # late: importing the package loads no wire module

        reply = self.complete(request)
        for delta in make_deltas(reply):
            for word in re.findall(WORD, delta.text):
                yield replace(delta, text=word)
        yield reply

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        for event in self.stream(request):
            yield event

    def _next(self, request: Request) -> Reply:
        if not self._replies:
            last = shorten(str(request.messages[-1]))
            raise ModelError(f"the script has ended; it has no reply to {last}")
        return self._replies.popleft()


def read_reply(reply: Reply) -> Assistant | None:
    """A reply of a script as an Assistant; None if it is none."""
    if is_a(reply, ToolCall):
        reply = (reply,)
    if is_a(reply, Assistant | str | tuple | list):
        match reply:
            case Assistant():
                return reply
            case str():
                return Assistant(reply)
            case tuple() | list() if all(is_a(item, ToolCall) for item in reply):
                return Assistant(tool_calls=tuple(reply), stop_reason="tool_use")
    return None
