"""What the providers share: asking, asking again, and giving up, written once for all four ways to
ask.

Rule 1: a provider is `to_wire`, `from_wire`, a fold of stream events, four ways to send, and
        `translate`, which makes one of our errors of one of the SDK's. Everything it sends and gets
        is plain JSON.
Rule 2: a tool choice that the provider refuses is asked again more weakly, once, and remembered for
        that model (`refused`). The reply's `enforced` tells.
Rule 3: whether to retry is decided here and nowhere else. An error says by `retryable` that nobody
        below has tried again; it is tried again up to `retries` times, and never once a part of the
        reply has been shown.
Rule 4: a stream that ends without its end event is BadResponse, never half a reply; and so is
        whatever an SDK or a `from_wire` stumbles over.
Rule 5: what leaves here holds whole characters and the types that `messages.py` promises.
"""

import json
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ..errors import AuthError, BadRequest, BadResponse, ConnectionFailed, ModelError, quote
from ..messages import (
    Assistant,
    Force,
    Json,
    from_json,
    json_text,
    mint_ids,
    to_json,
    whole_characters,
)
from ..model import Capabilities, Model, Request
from ..streaming import Delta

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

AT_ONCE = 16  # requests on one async client
LONGEST_WAIT = 30.0  # seconds; a provider that asks for more is reported instead of waited for
# By text, for there are no codes: as reported of Anthropic, DeepSeek, DashScope and LM Studio.
REFUSED_CHOICE = re.compile(r"tool[_ ]?choice|Thinking mode does not support", re.IGNORECASE)
ONLY_STRINGS = re.compile(r"type: 'object'|Supported string values", re.IGNORECASE)
# What comes of taking an answer apart that is not what it should be.
STUMBLES = (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError)
HALF = re.compile("[\ud800-\udfff]")  # of a character: a lone surrogate

Client = TypeVar("Client")


class PerLoop(Generic[Client]):
    """The async clients of each event loop, made when needed.

    A connection pool belongs to the loop it was opened on; a second `asyncio.run` would meet a
    dead one. And it looks at every connection it has for every request, so 200 requests at once
    are faster by far on a dozen clients than on one.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._free: WeakKeyDictionary[AbstractEventLoop, list[Client]] = WeakKeyDictionary()

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of the running loop, for one request."""
        import asyncio

        free = self._free.setdefault(asyncio.get_running_loop(), [])
        if not free:
            free += [self._make()] * AT_ONCE  # a client is listed once for each request it may take
        client = free.pop()
        try:
            yield client
        finally:
            free.append(client)  # on top: one request after the other stays on one connection


class Fold(Protocol):
    """Collects the events of one stream into the JSON of the whole response."""

    def feed(self, event: Any) -> list[Delta]:
        """Take one event; what of it a watcher may see."""

    def result(self) -> Any:
        """The response as if it had come whole. Raises BadResponse when the stream broke off."""


class Provider(Model):
    """The part of a provider that is the same for all.

    `refused`: the kinds of tool choice this model does not take (`"named"`, `"required"`,
    `"none"`), each with the words of the refusal. It starts with what is known of the model,
    without words, and grows by what its server refuses.
    """

    retries = 2
    sends_halves = False  # Can the SDK send half a character, as a model may write it?

    def __init__(self, model: str, *, refused: Collection[str] = ()) -> None:
        self.model = model
        self.refused: dict[str, str] = dict.fromkeys(refused, "")

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What is known of the model so far."""
        forcing: Literal["tool", "any", "none"] = "tool"
        if "named" in self.refused:
            forcing = "none" if "required" in self.refused else "any"
        return Capabilities(forcing=forcing)

    # What each provider writes.

    def to_wire(self, request: Request) -> Json:
        """The request as the provider's JSON."""
        raise NotImplementedError

    def from_wire(self, response: Any) -> Assistant:
        """The provider's JSON as a reply."""
        raise NotImplementedError

    def fold(self) -> Fold:
        """An empty fold for one stream."""
        raise NotImplementedError

    def translate(self, error: Exception) -> ModelError | None:
        """One of our errors for one of the SDK's; None for anything else."""
        raise NotImplementedError

    def send(self, body: Json) -> Any:
        """Send `to_wire`'s JSON; the response's, for `from_wire`."""
        raise NotImplementedError

    async def asend(self, body: Json) -> Any:
        """`send` without blocking the event loop."""
        raise NotImplementedError

    def events(self, body: Json) -> Iterator[Any]:
        """Send it, and get the events of a stream, for `fold`."""
        raise NotImplementedError

    def aevents(self, body: Json) -> AsyncIterator[Any]:
        """`events` without blocking the event loop."""
        raise NotImplementedError

    # What is the same for all.

    def complete(self, request: Request) -> Assistant:
        asking = _Asking(self, request)
        while True:
            try:
                return asking.reply(self.send(asking.body()))
            except Exception as error:
                time.sleep(asking.recover(error))

    async def acomplete(self, request: Request) -> Assistant:
        import asyncio

        asking = _Asking(self, request)
        while True:
            try:
                return asking.reply(await self.asend(asking.body()))
            except Exception as error:
                await asyncio.sleep(asking.recover(error))

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        asking = _Asking(self, request)
        while True:
            fold = self.fold()
            try:
                for event in self.events(asking.body()):
                    for delta in asking.feed(fold, event):
                        asking.shown = True
                        yield delta
                yield asking.reply(fold.result())
                return
            except Exception as error:
                time.sleep(asking.recover(error))

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        import asyncio

        asking = _Asking(self, request)
        while True:
            fold = self.fold()
            try:
                async for event in self.aevents(asking.body()):
                    for delta in asking.feed(fold, event):
                        asking.shown = True
                        yield delta
                yield asking.reply(fold.result())
                return
            except Exception as error:
                await asyncio.sleep(asking.recover(error))


class _Asking:
    """One request on its way: what to send next, and what to do about an error."""

    def __init__(self, provider: Provider, request: Request) -> None:
        self._provider = provider
        self._request = request
        self._asked = request
        self._body: Json | None = None
        self._tries = 0
        self.shown = False

    def body(self) -> Json:
        self._body = None
        self._asked = weaken(self._request, self._provider.refused)
        self._body = self._provider.to_wire(self._asked)
        return self._body

    def feed(self, fold: Fold, event: Any) -> list[Delta]:
        with self._reading():
            return [_sound_delta(delta) for delta in fold.feed(event)]

    def reply(self, response: Any) -> Assistant:
        with self._reading():
            answer = self._provider.from_wire(response)
            reply = _sound_reply(answer)
        if self._provider.sends_halves:  # then what is signed may go back as it came
            reply = replace(reply, native=answer.native)
        return mint_ids(replace(reply, enforced=self._enforced()), self._request.messages)

    def recover(self, error: Exception) -> float:
        """The seconds to wait before the next try; raises, in our terms, when there is none."""
        ours = error if isinstance(error, ModelError) else self._translated(error)
        if ours is None:
            raise error
        if isinstance(ours, BadRequest) and self._learn(str(ours)):
            return 0.0
        wait = self._wait_before_next_try(ours)
        if wait is None:
            raise ours from (None if ours is error else error)
        self._tries += 1
        return wait

    def _translated(self, error: Exception) -> ModelError | None:
        name = self._provider.name
        if isinstance(error, UnicodeEncodeError):
            if HALF.search(error.object):
                what = "the request has half a character (a lone surrogate) in it; take it out"
                return BadRequest(f"{name}: {what}")
            return AuthError(
                f"{name}: a setting has characters that no header can carry; check "
                "the key and the other environment variables"
            )
        ours = self._provider.translate(error)
        if ours is None and isinstance(error, STUMBLES) and self._was_sendable():
            return self._no_reply(error)
        return ours

    def _was_sendable(self) -> bool:
        """Was there a body, and JSON? Then only its answer can have made the SDK stumble."""
        try:
            json_text(self._body)
        except (TypeError, ValueError):  # such as a set in the parameters of a tool
            return False
        except RecursionError:  # a model's doing, as is an answer that is nested too deeply
            return True
        return self._body is not None

    def _wait_before_next_try(self, error: ModelError) -> float | None:
        """Seconds; None when this error is final."""
        if not error.retryable or self.shown or self._tries >= self._provider.retries:
            return None
        if error.retry_after is None:
            return 2.0**self._tries * random.uniform(0.4, 0.6)
        return error.retry_after if error.retry_after <= LONGEST_WAIT else None

    def _learn(self, complaint: str) -> bool:
        """Was the tool choice refused? Then remember that; the next body asks more weakly."""
        asked = self._asked.tool_choice
        if asked == "auto" or not REFUSED_CHOICE.search(complaint):
            return False
        if not isinstance(asked, Force):
            kinds: list[str] = [asked]
        elif ONLY_STRINGS.search(complaint):  # it forces "required", but knows no choice as object
            kinds = ["named"]
        else:
            kinds = ["named", "required"]
        self._provider.refused |= dict.fromkeys(kinds, complaint)
        return True

    def _enforced(self) -> Literal["tool_choice", "prompt"] | None:
        if self._request.tool_choice == "auto":
            return None
        by_words_alone = self._asked.tool_choice == "auto" and self._asked.tools
        return "prompt" if by_words_alone else "tool_choice"

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except STUMBLES as error:
            raise self._no_reply(error) from error

    def _no_reply(self, error: Exception) -> BadResponse:
        name = self._provider.name
        if isinstance(error, RecursionError):
            return BadResponse(
                f"{name}: JSON nested too deeply to be sent or read; ask again, or "
                "check that base_url points to the right kind of server"
            )
        return BadResponse(
            f"{name} sent what is no reply ({type(error).__name__}: {quote(str(error))}); "
            "check that base_url points to the right kind of server"
        )


def _sound_delta(delta: Delta) -> Delta:
    """`delta` in whole characters; TypeError when it holds no text."""
    if not (isinstance(delta.text, str) and isinstance(delta.name, str)):
        raise TypeError("a piece of it is no text")
    return replace(delta, text=whole_characters(delta.text)) if HALF.search(delta.text) else delta


def _sound_reply(reply: Assistant) -> Assistant:
    """`reply` in whole characters, for most SDKs can send no others back; TypeError when a part of
    it is not of its type.
    """
    texts = {
        "text": reply.text,
        "thinking": reply.thinking,
        "stop reason": reply.stop_reason,
        "model": reply.model,
    }
    for what, text in texts.items():
        if not isinstance(text, str):
            raise TypeError(f"its {what} is no text")
    for call in reply.tool_calls:
        if not (isinstance(call.name, str) and call.name and isinstance(call.id, str)):
            raise TypeError("a call in it has no name, or an id that is no text")
        if not isinstance(call.arguments, dict | str):
            raise TypeError("a call in it has arguments that are no object")
    if not HALF.search(json_text([reply.text, reply.thinking, reply.native, *_parts(reply)])):
        return reply
    mended = from_json(json.loads(whole_characters(json_text(to_json(reply)))))
    assert isinstance(mended, Assistant)
    return mended


def _parts(reply: Assistant) -> Iterator[Any]:
    for call in reply.tool_calls:
        yield from (call.id, call.name, call.arguments)


def checked_key(key: str, provider: str, variable: str) -> str:
    """`key`. Checked before it is used, for HTTP libraries quote in their errors what they cannot
    send.
    """
    if not (key.isascii() and key.isprintable()):
        raise AuthError(f"{provider}: no header can carry this API key; check {variable}")
    return key


def checked_url(url: str, provider: str) -> str:
    """`url`, of which each HTTP library would say in its own way that it is none."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        where = url.rpartition("@")[2]  # without a password, if it holds one
        raise ConnectionFailed(f"{provider}: {where} is no URL; mend base_url") from None
    return url


def seconds(header: str) -> float | None:
    """What a server says in `header` to wait; None when that is nothing to go by, or a date."""
    try:
        wait = float(header)
    except ValueError:
        return None
    return wait if 0 < wait < inf else None


def weaken(request: Request, refused: Mapping[str, str]) -> Request:
    """The request with the strongest tool choice that its server does not refuse."""
    match request.tool_choice:
        case Force() if {"named", "required"} <= refused.keys():
            return replace(request, tool_choice="auto")
        case Force(name=name) if "named" in refused:
            only = [tool for tool in request.tools if tool.name == name]
            return replace(request, tools=only, tool_choice="required")
        case "required" if "required" in refused:
            return replace(request, tool_choice="auto")
        case "none" if "none" in refused:
            return replace(request, tools=(), tool_choice="auto")
    return request
