"""What the dialects share: a model whose requests and replies are translated on the way.

Rule 1: a subclass of `Dialect` says who is asked what (`ask`), what the reply amounts to (`read`),
        and who makes Deltas of its text while it forms (`reader`). The four ways to ask a model
        are written here, once.
Rule 2: native thinking passes through as it is.
Rule 3: where the model writes its calls itself (`Written`: json, react), the transcript keeps its
        own words in `native`, and they are what it sees again; and its thought is there already.
        So a tool that carries one is shown without it; and where there is no think tool for it,
        the calls of such tools carry it.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from ..messages import (
    THINK_NAME,
    Assistant,
    Json,
    ToolCall,
    ToolChoice,
    ToolResult,
    User,
    from_json,
    to_json,
)
from ..model import Capabilities, Model, Request
from ..streaming import Delta
from ..think import has_signal, should_continue
from ..tools import ModelMistake, Tool
from ..wire.common import sendable


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


class Reader(Protocol):
    """Makes Deltas of a text as it arrives. The joined Deltas are the same wherever it is cut."""

    def feed(self, text: str) -> Iterable[Delta]: ...
    def close(self, reply: Assistant) -> Iterable[Delta]:
        """The Deltas of what was held back; `reply` is what the text amounts to."""


class Dialect(Wrapper):
    """A model that is spoken to in a dialect. `writes_calls`: it has no others than those it writes
    as text, so what else it streams is no call.
    """

    writes_calls = False

    def ask(self, request: Request) -> tuple[Model, Request]:
        """Who is asked, and what."""
        return self.inner, request

    def read(self, reply: Assistant, request: Request) -> Assistant:
        return reply

    def reader(self, request: Request) -> Reader | None:
        """None: the text is the answer as it stands."""
        return None

    def complete(self, request: Request) -> Assistant:
        model, asked = self.ask(request)
        return self.read(model.complete(asked), request)

    async def acomplete(self, request: Request) -> Assistant:
        model, asked = self.ask(request)
        return self.read(await model.acomplete(asked), request)

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        (model, asked), reader = self.ask(request), self.reader(request)
        for event in model.stream(asked):
            yield from self._translated(event, request, reader)

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        (model, asked), reader = self.ask(request), self.reader(request)
        async for event in model.astream(asked):
            for translated in self._translated(event, request, reader):
                yield translated

    def _translated(
        self, event: Delta | Assistant, request: Request, reader: Reader | None
    ) -> Iterator[Delta | Assistant]:
        if isinstance(event, Assistant):
            reply = self.read(event, request)
            yield from reader.close(reply) if reader else ()
            yield reply
        elif reader and event.kind == "answer":
            yield from reader.feed(event.text)
        elif not reader or event.kind == "thinking" or not self.writes_calls:
            yield event


class Written(Dialect):
    """A model that is shown no tools and writes its calls as text.

    A subclass says the request in words (`asked`), and in them a tool choice (`choice`), a reply
    from elsewhere (`write`) and a result (`report`); then what a reply means (`understood`), or
    what was expected instead (`mistake`). `key` is where `native` holds the model's own reply.
    """

    writes_calls = True
    dialect: str
    key: str
    enforced: Literal["schema", "prompt"]
    forcing: Literal["tool", "none"]

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Those of the model inside, but any of them can call."""
        return replace(self.inner.capabilities, tools=True, forcing=self.forcing)

    def asked(self, request: Request) -> Request:
        raise NotImplementedError

    def choice(self, choice: ToolChoice, tools: Sequence[Tool]) -> str:
        return ""

    def write(self, reply: Assistant) -> str:
        raise NotImplementedError

    def report(self, call: ToolCall, content: str) -> str:
        raise NotImplementedError

    def understood(self, said: Assistant, request: Request) -> Assistant:
        """`said` with what its text means in the fields where the loop looks for it. Raises
        ModelMistake.
        """
        raise NotImplementedError

    def mistake(self, problem: ModelMistake, request: Request) -> str:
        raise NotImplementedError

    def ask(self, request: Request) -> tuple[Model, Request]:
        return self.inner, self.asked(_without_thoughts(request))

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.tool_calls:  # it was shown no tools
            reply = replace(reply, tool_calls=(), native=None)
        said = replace(
            reply,
            native={self.key: to_json(reply)},
            dialect=self.dialect,
            enforced=None if request.tool_choice == "auto" else self.enforced,
        )
        shown = _without_thoughts(request)
        try:
            meant = self.understood(said, shown)
        except ModelMistake as problem:
            mistake = self.mistake(problem, shown)
            return replace(said, stop_reason="malformed", mistake=mistake)
        carrying = {tool.name for tool in request.tools if tool.carries}
        if not carrying or has_think(request.tools):
            return meant
        notes = meant.thinking.removeprefix(reply.thinking).strip()
        calls = (
            replace(call, arguments={"thought": notes, **call.arguments})
            if call.name in carrying and isinstance(call.arguments, dict)
            else call
            for call in meant.tool_calls
        )
        return replace(meant, tool_calls=tuple(calls))

    def conversation(self, request: Request) -> list[User | Assistant]:
        """The messages in plain words. The model's own replies are as it wrote them, behind the
        words of the tool choice that they answered; replies from elsewhere are written in the
        dialect, and results reported.
        """
        said: list[User | Assistant] = []
        calls: dict[str, ToolCall] = {}
        for message in sendable(request.messages, self.name, self.dialect):
            match message:
                case User(text=text):
                    say(said, text)
                case ToolResult(call_id=id, name=name, content=content):
                    say(said, self.report(calls.get(id, ToolCall(id, name)), content))
                case Assistant(native={self.key: own}):
                    if own:  # else the model was not asked: it had said that before
                        say(said, self.choice(message.tool_choice, request.tools))
                        said.append(own_words(own))
                case Assistant():
                    text = self.write(message)
                    said.append(replace(message, text=text, tool_calls=(), native=None, dialect=""))
            if isinstance(message, Assistant):
                calls |= {call.id: call for call in message.tool_calls}
        return said


def _without_thoughts(request: Request) -> Request:
    """`request`, its tools without the parameter for a thought that they carry."""
    return replace(request, tools=tuple(map(_without_thought, request.tools)))


def _without_thought(tool: Tool) -> Tool:
    if not tool.carries:
        return tool
    properties = {k: v for k, v in tool.parameters["properties"].items() if k != "thought"}
    required = [name for name in tool.parameters["required"] if name != "thought"]
    parameters = {**tool.parameters, "properties": properties, "required": required}
    return replace(tool, parameters=parameters, carries=False)


class Trimmer:
    """A text as it arrives, without the whitespace around it: at its end that waits for more."""

    def __init__(self) -> None:
        self.begun = False
        self._space: list[str] = []

    def feed(self, text: str, *, strip: bool = True) -> str:
        """What is certain now. `strip`: also at the start."""
        body = text.rstrip()
        if not body:
            self._space.append(text)
            return ""
        certain = self.space + body
        self._space = [text[len(body) :]]
        if strip and not self.begun:
            certain = certain.lstrip()
        self.begun = True
        return certain

    @property
    def space(self) -> str:
        """The whitespace that waits."""
        return "".join(self._space)


def own_words(data: object) -> Assistant:
    """The model's own reply, out of `native`."""
    message = from_json(data) if isinstance(data, dict) else None
    assert isinstance(message, Assistant)
    return message


def say(said: list[User | Assistant], text: str) -> None:
    """Add what the model hears. Chat templates of small models want the roles to take turns."""
    if text:
        before = f"{said.pop().text}\n\n" if said and isinstance(said[-1], User) else ""
        said.append(User(before + text))


def has_think(tools: Sequence[Tool]) -> bool:
    return any(tool.name == THINK_NAME for tool in tools)


def signals(tools: Sequence[Tool]) -> bool:
    """Is there a think tool with the exit signal?"""
    return any(tool.name == THINK_NAME and has_signal(tool) for tool in tools)


def signal(tools: Sequence[Tool], *, leaving: bool = False) -> Json:
    """The argument of a think call that says whether to go on, where its tool has it."""
    return {"should_continue": "false" if leaving else "true"} if signals(tools) else {}


def note(text: str, index: int = 0, *, as_thought: bool) -> Delta:
    """A Delta of notes: of the think call at `index`, or of thinking without a think tool."""
    return Delta("thought", text, THINK_NAME, index) if as_thought else Delta("thinking", text)


def acting(said: Assistant, text: str, calls: Sequence[ToolCall]) -> Assistant:
    """`said` with these words and calls in place of its own."""
    reason = "tool_use" if calls else "end_turn"
    return replace(said, text=text, tool_calls=tuple(calls), stop_reason=reason)


def without_nulls(value: Any, schema: Json) -> Any:
    """`value`, of a reduced schema, without the nulls of properties that may be left out."""
    branches = schema.get("anyOf", [schema])
    if isinstance(value, list) and schema:
        items: Json = next((branch["items"] for branch in branches if "items" in branch), {})
        return [without_nulls(item, items) for item in value]
    if isinstance(value, dict) and schema:
        knows_all = (b for b in branches if value.keys() <= b.get("properties", {}).keys())
        branch = next(knows_all, branches[0])
        properties, required = branch.get("properties", {}), branch.get("required", ())
        others = branch.get("additionalProperties") or {}
        return {
            key: without_nulls(item, properties.get(key, others))
            for key, item in value.items()
            if item is not None or key in required or key not in properties
        }
    return value


def wants_to_leave(reply: Assistant) -> bool:
    """Did the last thought of this reply signal the exit?"""
    thoughts = [call for call in reply.tool_calls if call.name == THINK_NAME]
    return bool(thoughts) and should_continue(thoughts[-1]) is False
