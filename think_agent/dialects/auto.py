"""`auto`: native tool calling while it works, else the json dialect. For local servers.

Rule 1: it changes to `json` if the transcript has a reply in json, if the model wrote a call as
        text, if its server lost a call, if the model has no tool calling, or if the server's chat
        template hides the tools, the thoughts or the system prompt (`hidden`). It never changes
        back.
Rule 2: it decides by the transcript (with the messages that a request leaves out), or asks the
        server. So a resumed run decides in the same way. A notice of the first reply in json says
        why.
Rule 3: it never changes on a signed history: the signatures cover the tools, too.

Limitations: a server that neither renders nor counts whole prompts is taken to show everything.
The README of `providers/` lists templates that hide something.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ModelError, ToolsUnsupported
from ..messages import THINK_NAME, Assistant, ToolCall, ToolResult, User
from ..model import Model, Request
from ..think import THINK
from ..tools import tool
from .base import Dialect, Event, noticed
from .json_plan import json_plan

NO_TOOLS = "it has no tool calling"
HIDES = "its server's template hides {} behind a tool result"


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
"""Two requests that differ only in the tools, and end with a tool result. A server that counts only
new tokens counts the text of the tools less that of all else, so they are the longer part.
"""
NOTED = ToolCall("call_1", THINK_NAME, {"thought": "A heron would find it."})
TO_RENDER = replace(
    WITH_TOOLS,
    system="You are the kestrel of this post office.",
    messages=(
        *WITH_TOOLS.messages,
        Assistant(tool_calls=(NOTED,)),
        ToolResult("call_1", THINK_NAME, "Thought recorded."),
    ),
)
# What a rendered prompt has to show, each with a word that stands nowhere else.
SHOWN = {"the tools": "receipt", "the system prompt": "kestrel", "the thoughts": "heron"}

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


# Of `Auto.hidden`, by the server's address and the model. None: it has to be counted.
_ANSWERS: dict[tuple[str, str], str | None] = {}


def not_rendered(prompt: str | None) -> str | None:
    """What a rendered prompt does not show; None if there is no prompt."""
    if prompt is None:
        return None
    return ", ".join([what for what, word in SHOWN.items() if word not in prompt])


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
        self.hidden()

    def hidden(self, deadline: float | None = None, *, behind: bool = True) -> str:
        """What the server's template hides from the model after a tool result, such as "the tools".
        Empty if it hides nothing, or if that cannot be found out (before the `deadline`). It is
        asked once. To count takes two requests, so that is done only `behind` a result.
        """
        server: Any = self.inner
        if not getattr(server, "is_local", False):
            return ""
        key = (server.url, server.model)
        try:
            if key not in _ANSWERS:
                prompt = server.rendered(replace(TO_RENDER, deadline=deadline))
                _ANSWERS[key] = not_rendered(prompt)
            if _ANSWERS[key] is None and behind:
                # In this order: a server that counts only new tokens then counts the shorter
                # prompt whole.
                without = server.complete(replace(WITHOUT_TOOLS, deadline=deadline))
                with_tools = server.complete(replace(WITH_TOOLS, deadline=deadline))
                is_hidden = tools_are_shown(without, with_tools) is False
                _ANSWERS[key] = "the tools" if is_hidden else ""
        except ModelError:  # the run will have it, too
            return ""
        return _ANSWERS[key] or ""

    def ask(self, request: Request) -> tuple[Model, Request]:
        if _speaks_json(request) or self._why(request):
            return self._in_json, request
        return self.inner, request

    async def aask(self, request: Request) -> tuple[Model, Request]:
        return await asyncio.to_thread(self.ask, request)  # it may call the server

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
        behind = isinstance(request.messages[-1], ToolResult) and request.tool_choice != "none"
        what = self.hidden(request.deadline, behind=behind)
        if what:
            return HIDES.format(what)
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
        return reply.host == getattr(self.inner, "host", "")


def _replies(request: Request) -> list[Assistant]:
    """The replies so far, with those that the request does not show."""
    said = (*request.left_out, *request.messages)
    return [message for message in said if isinstance(message, Assistant)]


def _speaks_json(request: Request) -> bool:
    return any(reply.dialect == "json" for reply in _replies(request))
