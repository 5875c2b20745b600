"""The base of the dialects: a model whose requests and replies are translated.

Rule 1: a subclass of `Dialect` translates the request (`ask`) and the reply (`read`), and turns
        streamed text into Deltas (`reader`). The four methods of a Model are written here, once.
Rule 2: native thinking is passed on unchanged.
Rule 3: thoughts and the answer are streamed (except in react). A call written as text comes as a
        whole, because only the complete reply shows that it's a call.
Rule 4: a subclass whose `ask` calls a server runs it in a thread for async callers (`aask`).
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from ..messages import THINK_NAME, Assistant
from ..model import Model, Request
from ..streaming import Delta
from ..wire.incoming import make_call_delta
from ..wire.pieces import JsonReader, Splitter


class Wrapper(Model):
    """A model that wraps another one. A subclass changes the request (`ask`), the reply (`read`),
    or all of `complete`; the inner model does everything else.

    The inner stream isn't passed on, because its pieces would lack the change to the reply. Unless
    a subclass does better, the stream is a single piece (`Model.stream`).
    """

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.name = inner.name
        self.model = inner.model
        # Does it run on the user's own server?
        self.is_local: bool = getattr(inner, "is_local", False)

    def __getattr__(self, name: str) -> Any:
        """Attributes that only a provider has, such as Ollama's `window()`, come from the inner
        model.
        """
        if name == "inner":  # not set yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    def ask(self, request: Request) -> tuple[Model, Request]:
        return self.inner, request

    async def aask(self, request: Request) -> tuple[Model, Request]:
        """`ask` for async callers (rule 4)."""
        return self.ask(request)

    def read(self, reply: Assistant, request: Request) -> Assistant:
        return reply

    def complete(self, request: Request) -> Assistant:
        model, asked = self.ask(request)
        return self.read(model.complete(asked), request)

    async def acomplete(self, request: Request) -> Assistant:
        model, asked = await self.aask(request)
        return self.read(await model.acomplete(asked), request)

    def check(self) -> None:
        self.inner.check()


Kind = Literal["thinking", "thought", "answer", "commentary"]
Event = Delta | Assistant


class Reader:
    """Turns a text into Deltas as it arrives. Joined, they're the same wherever the text is split.

    `parts` divides the text into named sections, such as the strings of a JSON object by their
    keys. `kinds` says which kind of Delta a section becomes. After a section without a kind,
    nothing more is streamed until the reply is complete.
    """

    def __init__(self, parts: Splitter | JsonReader, kinds: Mapping[str, Kind]) -> None:
        self.streamed: Counter[Kind] = Counter()  # characters
        self._parts = parts
        self._kinds = kinds
        self._waits = False
        self._section: object = ""  # streamed last
        self._space = ""  # whitespace that's held back

    def feed(self, text: str) -> Iterable[Delta]:
        for name, part in self._parts.feed(text):
            yield from self.read(name, part)

    def read(self, name: str, part: str) -> Iterable[Delta]:
        """The Deltas of the next part of the section `name`."""
        kind = self._kinds.get(name)
        if kind is None:
            self._waits = True
        if kind is not None and not self._waits:
            yield from self.stream_part(kind, part, name)

    def stream_part(self, kind: Kind, text: str, section: object) -> Iterable[Delta]:
        """The Delta for the text that's certain now, if any. Trailing whitespace waits for more
        text. The next `section` of the same kind is stripped and separated by a blank line. An
        empty name means: outside every section.
        """
        if section != self._section:
            text = text.lstrip()
            if not text:
                return
            self._section = section
            self._space = "\n\n" if self.streamed[kind] else ""
        text = self._space + text
        certain = text.rstrip()
        self._space = text[len(certain) :]
        if not certain:
            return

        self.streamed[kind] += len(certain)
        name = ""
        if kind == "thought":
            name = THINK_NAME
        yield Delta(kind, certain, name)

    def close(self, reply: Assistant) -> Iterable[Delta]:
        """The rest of the answer. `reply` is what was read from the complete text."""
        text = reply.text[self.streamed["answer"] :]
        if text and reply.is_usable:
            yield Delta("answer", text)


class Dialect(Wrapper):
    """A model that's used through a dialect. Its stream is translated as well."""

    def reader(self, request: Request) -> Reader | None:
        """A reader for streamed text. None: the text is passed on unchanged."""
        return None

    def stream(self, request: Request) -> Iterator[Event]:
        model, asked = self.ask(request)
        reader = self.reader(request)
        for event in model.stream(asked):
            yield from self._translate(event, request, reader)

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        model, asked = await self.aask(request)
        reader = self.reader(request)
        async for event in model.astream(asked):
            for translated in self._translate(event, request, reader):
                yield translated

    def _translate(self, event: Event, request: Request, reader: Reader | None) -> Iterable[Event]:
        """Translate an event of the inner model's stream."""
        match event:
            case Delta(kind="answer", text=text) if reader:
                yield from reader.feed(text)
            case Assistant():
                reply = self.read(event, request)
                if reader:
                    yield from reader.close(reply)
                if reader and reply.tool_calls != event.tool_calls:  # else they were streamed
                    for number, call in enumerate(reply.tool_calls):
                        if call.name != THINK_NAME or "thought" not in reader.streamed:
                            yield make_call_delta(call, number)
                yield reply
            case _:  # another Delta, or a Notice
                yield event


def join_texts(texts: Iterable[str], apart: str = "\n\n") -> str:
    """Join the texts that aren't empty."""
    return apart.join([text for text in texts if text])


def may_call(request: Request) -> bool:
    """Are there tools, and no schema for the answer?"""
    has_own_form = request.tool_choice == "none" and request.output_schema is not None
    return bool(request.tools) and not has_own_form


def add_notice(reply: Assistant, notice: str) -> Assistant:
    """`reply` with another notice."""
    return replace(reply, notice=join_texts([reply.notice, notice], "; "))
