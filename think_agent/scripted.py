"""A scripted model: it plays the model's part in tests and offline demos.

No language model is at work in it, and whoever shows it says so.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace

from .errors import ModelError
from .messages import Assistant, ToolCall
from .model import Model, Request
from .streaming import Delta, in_pieces

Reply = object
"""In a script: an Assistant, a ToolCall, several of them in a tuple or list, or a text. (To a type
checker, a list with some of each is a list of objects.)
"""
Script = Callable[[Request], Assistant]


class ScriptedModel(Model):
    """A stand-in that plays a script: replies handed out in turn (an Assistant, some calls, or the
    text of one), or a function of the request.

    No language model is at work in it. It is what the tests and the offline demos run on.
    """

    def __init__(
        self, replies: Sequence[Reply] | Script, *, name: str = "scripted", model: str = "script"
    ) -> None:
        self.name = name
        self.model = model
        self._script: Script = self._next
        self._replies: deque[Reply] = deque()
        if isinstance(replies, str):
            self._replies.append(replies)
        elif isinstance(replies, Sequence):
            self._replies.extend(replies)
        else:
            self._script = replies

    @property
    def left(self) -> int:
        """How many replies were not asked for yet."""
        return len(self._replies)

    def complete(self, request: Request) -> Assistant:
        reply = self._script(request)
        provider = reply.provider or self.name
        model = reply.model or self.model
        return replace(reply, provider=provider, model=model)

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        reply = self.complete(request)
        yield from in_pieces(reply)
        yield reply

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        for event in self.stream(request):
            yield event

    def _next(self, request: Request) -> Assistant:
        if not self._replies:
            raise ModelError("the script is over: one more reply was asked for than it has")
        reply = self._replies.popleft()
        match reply:
            case Assistant():
                return reply
            case str():
                return Assistant(reply)
            case ToolCall():
                return Assistant(tool_calls=(reply,), stop_reason="tool_use")
            case tuple() | list() if all(isinstance(item, ToolCall) for item in reply):
                return Assistant(tool_calls=tuple(reply), stop_reason="tool_use")
        problem = "use a text, a call, a tuple of calls, or an Assistant"
        raise TypeError(f"{reply!r} is no reply: {problem}")
