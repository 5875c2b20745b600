"""Model: something that turns a Request into an Assistant message.

Rule 1: a Request holds everything. A model does not keep the conversation.
Rule 2: the four ways to ask (plain, async, streamed, async streamed) give the same Assistant.
Rule 3: errors are ModelErrors (`errors.py`), for every provider.

To use a model of your own, subclass Model and write `complete`.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from math import inf

from .checking import Culprit
from .messages import Assistant, Json, Spoken, ToolChoice
from .streaming import Delta
from .tools import Tool
from .waiting import in_a_thread


@dataclass(frozen=True)
class Request:
    """One question to a model: the messages, and the tools that it may call.

    `output_schema` asks for an answer that is JSON of that schema. A reply is cut at the `deadline`
    (a point in time, by `time.monotonic`; infinity for none) and at `max_output_tokens`. A request
    can lower the model's own limit of tokens, but not raise it. `left_out`: earlier messages that
    are not sent (`keep_turns`).
    """

    messages: Sequence[Spoken]
    tools: Sequence[Tool] = ()
    _: KW_ONLY
    tool_choice: ToolChoice = "auto"
    system: str = ""
    output_schema: Json | None = None
    deadline: float = inf
    max_output_tokens: int | None = None
    left_out: Sequence[Spoken] = ()


class Model:
    """A language model, or a scripted one.

    `name` is the name of the provider, `model` the name of the model. A subclass must write
    `complete`. It may replace the other methods with better ones.
    """

    name: str = ""
    model: str = ""
    is_checked: bool = False  # has it made sure itself that each reply can be recorded?

    def complete(self, request: Request) -> Assistant:
        """Ask, and wait for the whole reply."""
        raise NotImplementedError(f"{type(self).__name__} must define complete(request)")

    async def acomplete(self, request: Request) -> Assistant:
        """`complete` without blocking the event loop."""
        reply: Assistant
        reply, error = await in_a_thread(partial(self.complete, request))
        if error is not None:
            with Culprit("the model", self.complete):
                raise error
        return reply

    def check(self) -> None:
        """Raise a ModelError if a run would stop at once: no server, no key, no such model. By
        default, nothing is checked.
        """

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        """The reply as it forms: Deltas, and at the end what `complete` would have returned. By
        default there are no Deltas.
        """
        yield self.complete(request)

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        """`stream` without blocking the event loop."""
        yield await self.acomplete(request)
