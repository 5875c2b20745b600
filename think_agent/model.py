"""Model: turns a Request into an Assistant message.

Rule 1: a Request contains everything. A model keeps no conversation state.
Rule 2: the four methods (sync or async, complete or streamed) give the same Assistant.
Rule 3: every provider raises ModelErrors (`errors.py`).

For a custom model, subclass Model and write `complete`.
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
    """One call of a model: the messages, and the tools that it may call.

    `output_schema`: the answer must be JSON that matches it. A reply is cut off at the `deadline`
    (by `time.monotonic`; infinity means none) and at `max_output_tokens`. A request can lower the
    model's own token limit, but not raise it. `left_out`: earlier messages that aren't sent
    (`keep_turns`).
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

    `name` is the provider's name, `model` the model's name. A subclass must define `complete`, and
    may override the other methods.
    """

    name: str = ""
    model: str = ""
    is_checked: bool = False  # does it check itself that each reply can be recorded?

    def complete(self, request: Request) -> Assistant:
        """Call the model, and wait for the complete reply."""
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
        """Raise a ModelError if a run would fail at once: no server, no key, no such model. By
        default, nothing is checked.
        """

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        """The reply as it arrives: Deltas, then what `complete` would have returned. By default
        there are no Deltas.
        """
        yield self.complete(request)

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        """`stream` without blocking the event loop."""
        yield await self.acomplete(request)
