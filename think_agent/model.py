"""What a model is to the loop: something that turns a Request into an Assistant.

Rule 1: a Request is a value and holds everything; a model keeps no conversation.
Rule 2: the four ways to ask (plain, async, streamed, async streamed) give the same Assistant.
Rule 3: errors are ModelErrors (`errors.py`), whoever the provider is.

To bring a model of your own, subclass Model and write `complete`.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal, TypeAlias

from .errors import ModelError
from .messages import (
    Assistant,
    Force,
    Json,
    Message,
    Spoken,
    Started,
    ToolChoice,
    User,
    Verdict,
    paired,
)
from .streaming import Delta, in_pieces
from .tools import Tool


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model. `output_schema` asks for an answer that is JSON of that schema."""

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    _: KW_ONLY
    tool_choice: ToolChoice = "auto"
    system: str = ""
    output_schema: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model can do, as far as it is known before asking.

    `forcing`: the strongest tool choice it honors: `"tool"` (a named one), `"any"` (some tool),
    `"none"`.
    """

    tools: bool = True
    forcing: Literal["tool", "any", "none"] = "tool"
    structured_output: bool = True


class Model:
    """A language model, or a stand-in for one.

    `name` is the provider's name, `model` the model's. Subclasses write `complete`, and the others
    where they can do better than these.
    """

    name: str = ""
    model: str = ""
    capabilities: Capabilities = Capabilities()

    def complete(self, request: Request) -> Assistant:
        """Ask, and wait for the whole reply."""
        raise NotImplementedError(f"{type(self).__name__} must define complete(request)")

    async def acomplete(self, request: Request) -> Assistant:
        """`complete` without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.complete, request)

    def check(self) -> None:
        """Raise the ModelError that a run would meet at once, where that can be told in advance."""

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        """The reply as it forms: Deltas, and at last what `complete` would have returned."""
        yield self.complete(request)

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        """`stream` without blocking the event loop."""
        yield await self.acomplete(request)


Script: TypeAlias = Callable[[Request], Assistant]


class ScriptedModel(Model):
    """A stand-in that plays a script: replies handed out in turn, or a function of the request.

    No language model is at work in it. It is what the tests and the offline demos run on.
    """

    def __init__(
        self,
        replies: Sequence[Assistant] | Script,
        *,
        name: str = "scripted",
        model: str = "script",
    ) -> None:
        self.name = name
        self.model = model
        self._script = replies if callable(replies) else _in_turn(replies)

    def complete(self, request: Request) -> Assistant:
        reply = self._script(request)
        return replace(reply, provider=reply.provider or self.name, model=reply.model or self.model)

    async def acomplete(self, request: Request) -> Assistant:
        return self.complete(request)

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        reply = self.complete(request)
        yield from in_pieces(reply)
        yield reply

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        reply = self.complete(request)
        for delta in in_pieces(reply):
            yield delta
        yield reply


class Wrapper(Model):
    """A model around a model. Subclasses change what they are about; the rest is the inner one's.

    All but the stream: pieces would get past a change that `complete` makes to the whole reply, so
    it arrives whole (Model's own `stream`) where a subclass does no better.
    """

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.name = inner.name
        self.model = inner.model

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return self.inner.capabilities

    def complete(self, request: Request) -> Assistant:
        return self.inner.complete(request)

    async def acomplete(self, request: Request) -> Assistant:
        return await self.inner.acomplete(request)

    def check(self) -> None:
        self.inner.check()


class Unstreamed(Wrapper):
    """A model whose replies arrive whole, as any Wrapper's do: for servers that stream badly."""


def _in_turn(replies: Sequence[Assistant]) -> Script:
    remaining = iter(replies)

    def script(request: Request) -> Assistant:
        reply = next(remaining, None)
        if reply is None:
            raise ModelError(
                f"the script has {len(replies)} replies and one more was asked for; add a reply"
            )
        return reply

    return script


def sendable(messages: Sequence[Message], provider: str, dialect: str = "") -> tuple[Spoken, ...]:
    """`messages` as `provider` may see them. Every adapter starts from this.

    - `native` blobs of another provider or dialect are dropped: signatures do not travel.
    - Calls that were never answered (a truncated reply, a call that strayed into a final one) are
      dropped, and the native blob with them: every provider refuses a call without its result.
    - What only the kit reads (Started, Verdict) is left out.
    - An assistant message with nothing left to say is left out: providers refuse empty ones.
    """
    kept: list[Spoken] = []
    for index, message in enumerate(messages):
        if isinstance(message, (Started, Verdict)):
            continue
        if isinstance(message, Assistant):
            if (message.provider, message.dialect) != (provider, dialect):
                message = replace(message, native=None)
            pairs = paired(message, _until_next_reply(messages, index))
            answered = tuple(call for call, result in pairs if result)
            if answered != message.tool_calls:
                message = replace(message, tool_calls=answered, native=None)
            if not message.text.strip() and not message.tool_calls:
                continue
        kept.append(message)
    return tuple(kept)


def _until_next_reply(messages: Sequence[Message], index: int) -> Sequence[Message]:
    end = index + 1
    while end < len(messages) and not isinstance(messages[end], (Assistant, User)):
        end += 1
    return messages[index + 1 : end]


def honored(choice: ToolChoice, reply: Assistant) -> bool:
    """Does `reply` do what the tool choice asked?"""
    called = [call.name for call in reply.tool_calls]
    match choice:
        case Force(name=name):
            return name in called
        case "required":
            return bool(called)
        case "none":
            return not called
    return True
