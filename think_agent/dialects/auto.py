"""`auto`: native tool calling while it works, else the json dialect. For local servers.

Rule 1: it changes to `json` if the transcript has a reply in json, if the model wrote a call as
        text, if its server lost a call, if the model has no tool calling, or if the server's chat
        template hides the tools. It never changes back.
Rule 2: it decides by the transcript (with the messages that a request leaves out), or asks the
        server. So a resumed run decides in the same way. A notice of the first reply in json says
        why.
Rule 3: it never changes on a signed history: the signatures cover the tools, too.

Some templates show the tools only beside the newest user message: after the first tool result the
model does not see them any more. (The README of `providers/` lists them.) The server's token counts
show this: `shows_tools` asks for one token after a tool result, without tools and with them. The
two prompts have a few hundred tokens. They are sent before the first request that ends with a tool
result, or in `check`. The answer is kept for the process.

Limitations: a server that does not count whole prompts is taken to show the tools.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ModelError, ToolsUnsupported
from ..messages import Assistant, ToolCall, ToolResult, User
from ..model import Model, Request
from ..think import THINK
from ..tools import tool
from .base import Dialect, Event, Wrapper, noticed
from .json_plan import json_plan

NO_TOOLS = "it has no tool calling"
HIDES = "its server's template hides the tools behind a tool result"


@tool(read_only=True)
def look_up(order_id: str, with_address: bool) -> None:
    """Look an order up by its number, with everything that is known about it: who ordered what, on
    which day, for how much money, how it was paid, when it was sent, and where the parcel is now.
    Give the number as it stands on the receipt. Ask for the address only where it is needed."""


WITHOUT_TOOLS = Request(
    (
        User("I have not heard from you for a while. Where is the parcel with my order number 7?"),
        Assistant(tool_calls=(ToolCall("call_0", "look_up", {"order_id": "7"}),)),
        ToolResult(
            "call_0",
            "look_up",
            "Order number 7 was sent on Monday of last week and reached the depot on Wednesday. "
            "It was brought to the house on Friday, where nobody opened. Since then it waits at "
            "the post office, where it can be had until the end of the month.",
        ),
    ),
    max_output_tokens=1,
)
WITH_TOOLS = replace(WITHOUT_TOOLS, tools=(THINK, look_up))
"""Two prompts that differ only in the tools, and end with a tool result."""

# Tokens. A word is one or more of them.
WHOLE = 60  # the two prompts have more words in common
LEAST = 90  # half as many as the words of the tools


def tools_are_shown(without: Assistant, with_tools: Assistant) -> bool | None:
    """What the token counts of the two prompts say; None if they do not count whole prompts.

    A template that shows the tools adds all of their text. One that hides them may still add a
    line (Llama 3.1: 49 tokens).
    """
    before = without.usage
    after = with_tools.usage
    if before.estimated or after.estimated:
        return None
    if before.input_tokens < WHOLE:
        return None
    return after.input_tokens - before.input_tokens >= LEAST


def innermost(model: Model) -> Model:
    """The model inside all wrappers."""
    while isinstance(model, Wrapper):
        model = model.inner
    return model


# Of `shows_tools`, by the server's address and the model.
_ANSWERS: dict[tuple[str, str], bool] = {}


def shows_tools(model: Model, deadline: float | None = None) -> bool:
    """Does the server show the model its tools after a tool result? Asked once, by two requests
    for one token. True if that cannot be found out (before the `deadline`).
    """
    server: Any = innermost(model)
    if not getattr(server, "is_local", False):
        return True
    key = (server.url, server.model)
    if key not in _ANSWERS:
        try:
            # In this order: a server that counts only new tokens then counts the shorter prompt
            # whole.
            without = server.complete(replace(WITHOUT_TOOLS, deadline=deadline))
            with_tools = server.complete(replace(WITH_TOOLS, deadline=deadline))
        except ModelError:  # the run will have it, too
            return True
        _ANSWERS[key] = tools_are_shown(without, with_tools) is not False
    return _ANSWERS[key]


class Watched(Dialect):
    """`Watched(model)`: if a prompt that ends with a tool result has fewer tokens than the prompt
    before it, the server is asked whether it shows the tools. If not, a notice says so.

    (A lower count alone proves nothing: older servers count only new tokens.)
    """

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if _has_fewer_tokens(reply, request) and not shows_tools(self.inner):
            return noticed(reply, f"{self.model}: {HIDES}; use the json dialect, or auto")
        return reply

    async def aread(self, reply: Assistant, request: Request) -> Assistant:
        if _has_fewer_tokens(reply, request):
            return await asyncio.to_thread(self.read, reply, request)
        return reply


class Auto(Dialect):
    """`in_dialect(model, "auto")`."""

    def __init__(self, inner: Model) -> None:
        super().__init__(inner)
        self._in_json = json_plan(inner)
        self._has_no_tools = False  # has its server said so?

    # A request that is refused because the model cannot call tools is asked again, in json.

    def complete(self, request: Request) -> Assistant:
        try:
            return super().complete(request)
        except ToolsUnsupported:
            self._has_no_tools = True
        return super().complete(request)

    async def acomplete(self, request: Request) -> Assistant:
        try:
            return await super().acomplete(request)
        except ToolsUnsupported:
            self._has_no_tools = True
        return await super().acomplete(request)

    def stream(self, request: Request) -> Iterator[Event]:
        try:
            yield from super().stream(request)
            return
        except ToolsUnsupported:
            self._has_no_tools = True
        yield from super().stream(request)

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        try:
            async for event in super().astream(request):
                yield event
            return
        except ToolsUnsupported:
            self._has_no_tools = True
        async for event in super().astream(request):
            yield event

    def check(self) -> None:
        """Checks the model, and finds out about its tools what a run would find out."""
        try:
            self.inner.check()
        except ToolsUnsupported:
            return
        shows_tools(self.inner)

    def ask(self, request: Request) -> tuple[Model, Request]:
        if _speaks_json(request) or self._why(request):
            return self._in_json, request
        return self.inner, request

    async def aask(self, request: Request) -> tuple[Model, Request]:
        return await asyncio.to_thread(self.ask, request)

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.dialect != "json" or _speaks_json(request):
            return reply
        return noticed(reply, f"{self.model}: speaking json from here on: {self._why(request)}.")

    def _why(self, request: Request) -> str:
        """Why the dialect changes at this request; empty where it does not."""
        replies = _replies(request)
        if not request.tools or any(reply.signed for reply in replies):
            return ""

        slip = self._slip_in([reply for reply in replies if self._is_own(reply)])
        if slip:
            return slip
        if _is_behind_a_result(request) and not shows_tools(self.inner, request.deadline):
            return HIDES
        return ""

    def _slip_in(self, replies: Sequence[Assistant]) -> str:
        """Where tool calling has failed; empty where it has not."""
        if self._has_no_tools:
            return NO_TOOLS
        for reply in replies:
            if any(call.recovered for call in reply.tool_calls):
                return "it wrote a call as text"
            if reply.stop_reason == "malformed" and not reply.tool_calls:
                return "its server could not read a call of it"
        return ""

    def _is_own(self, reply: Assistant) -> bool:
        """Is this a reply of this model, in native tool calling?"""
        if reply.dialect or reply.provider != self.name:
            return False
        # Ollama reports the name in the request; llama.cpp, for example, the path of a file.
        if self.name == "ollama" or not reply.host:
            return reply.model == self.model
        return reply.host == getattr(innermost(self.inner), "host", "")


def _is_behind_a_result(request: Request) -> bool:
    """Is it a request in which some templates hide the tools? (The final call needs none.)"""
    return isinstance(request.messages[-1], ToolResult) and request.tool_choice != "none"


def _has_fewer_tokens(reply: Assistant, request: Request) -> bool:
    """Does a prompt that ends with a tool result have fewer tokens than the one before it?"""
    if not _is_behind_a_result(request):
        return False
    return reply.usage.input_tokens < _replies(request)[-1].usage.input_tokens


def _replies(request: Request) -> list[Assistant]:
    """The replies so far, with those that the request does not show."""
    said = (*request.left_out, *request.messages)
    return [message for message in said if isinstance(message, Assistant)]


def _speaks_json(request: Request) -> bool:
    return any(reply.dialect == "json" for reply in _replies(request))
