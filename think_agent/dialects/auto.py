"""`auto`: native tool calling while it works, else the json dialect. For local servers.

Rule 1: it changes to `json` if the transcript has a reply in json, if the model wrote a call as
        text, if its server lost a call, if the model has no tool calling, or if the server's chat
        template hides the tools, the thoughts or the system prompt (`trouble`). It never changes
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
from contextlib import suppress
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
SPEAKS_JSON = "it has done so before"


@tool(read_only=True)
def look_up(order_id: str, with_address: bool) -> None:
    """Look an order up by its number, with everything that is known about it: who ordered what, on
    which day, for how much money, how it was paid, when it was sent, and where the parcel is now.
    Give the number as it stands on the receipt. Ask for the address only where it is needed."""


WITHOUT_TOOLS = Request(
    (
        User(
            "I have not heard from you for a while. Where is the parcel with my order number 7? It "
            "was sent on Monday of last week and reached the depot on Wednesday. It was brought to "
            "the house on Friday, where nobody opened. Since then it waits at the post office, "
            "where it can be had until the end of the month."
        ),
        Assistant(
            tool_calls=(ToolCall("call_0", THINK_NAME, {"thought": "A heron would find it."}),)
        ),
        ToolResult("call_0", THINK_NAME, "Thought recorded."),
    ),
    system="You are the kestrel of this post office.",
    max_output_tokens=1,
)
WITH_TOOLS = replace(WITHOUT_TOOLS, tools=(THINK, look_up))
"""Two requests that differ only in the tools, and end with a tool result. A server that counts only
new tokens counts the text of the tools less that of all else, so they are the longer part.
"""
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


def hides(what: Sequence[str]) -> str:
    """The trouble with a template that hides these; empty if it hides nothing."""
    if not what:
        return ""
    return f"its server's template hides {', '.join(what)} behind a tool result"


class Auto(Dialect):
    """`in_dialect(model, "auto")`."""

    _renders = True  # False: its server has shown no prompt, so tokens are counted
    _trouble: str | None = None  # of `trouble`; None: it is not known yet

    # A request that is refused because the model cannot call tools is asked again, in json.

    def complete(self, request: Request) -> Assistant:
        try:
            return super().complete(request)
        except ToolsUnsupported:
            self._trouble = NO_TOOLS
            return super().complete(request)

    async def acomplete(self, request: Request) -> Assistant:
        try:
            return await super().acomplete(request)
        except ToolsUnsupported:
            self._trouble = NO_TOOLS
            return await super().acomplete(request)

    def stream(self, request: Request) -> Iterator[Event]:
        try:
            yield from super().stream(request)
        except ToolsUnsupported:
            self._trouble = NO_TOOLS
            yield from super().stream(request)

    async def astream(self, request: Request) -> AsyncIterator[Event]:
        try:
            async for event in super().astream(request):
                yield event
        except ToolsUnsupported:
            self._trouble = NO_TOOLS
            async for event in super().astream(request):
                yield event

    def check(self) -> None:
        json_plan(self.inner).check()  # it can speak that

    def trouble(self, request: Request) -> str:
        """Why native tool calling does not work on this server. Empty if it does, or if that cannot
        be found out (before the deadline of the `request`).

        The server is asked once. To count takes two requests, so that is done only for a `request`
        that ends with a tool result and may call a tool.
        """
        if self.is_local and self._trouble is None:
            with suppress(ModelError):  # the run will have it, too
                self._trouble = self._found_out(request)
        return self._trouble or ""

    def _found_out(self, request: Request) -> str | None:
        """`trouble`, by a question to the server. None: it is not the time to count."""
        server: Any = self.inner
        with_tools = replace(WITH_TOOLS, deadline=request.deadline)
        if self._renders:
            prompt = server.rendered(with_tools)
            if prompt is not None:
                return hides([what for what, word in SHOWN.items() if word not in prompt])
            self._renders = False

        is_behind = isinstance(request.messages[-1], ToolResult)
        if not is_behind or request.tool_choice == "none":
            return None
        # In this order: a server that counts only new tokens then counts the shorter prompt whole.
        before = server.complete(replace(with_tools, tools=()))
        after = server.complete(with_tools)
        if tools_are_shown(before, after) is False:
            return hides(["the tools"])
        return ""

    def ask(self, request: Request) -> tuple[Model, Request]:
        if self._why(request):
            return json_plan(self.inner), request
        return self.inner, request

    async def aask(self, request: Request) -> tuple[Model, Request]:
        return await asyncio.to_thread(self.ask, request)  # it may call the server

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.dialect != "json":
            return reply
        why = self._why(request)
        if why == SPEAKS_JSON:
            return reply
        return noticed(reply, f"{self.model}: speaking json from here on: {why}.")

    def _why(self, request: Request) -> str:
        """Why this request is in json; empty if it is native (rules 1 and 3)."""
        said = (*request.left_out, *request.messages)
        replies = [message for message in said if isinstance(message, Assistant)]
        if any(reply.dialect == "json" for reply in replies):
            return SPEAKS_JSON
        if not request.tools or any(reply.signed for reply in replies):
            return ""

        for reply in replies:
            slip = self._slip(reply)
            if slip:
                return slip
        return self.trouble(request)

    def _slip(self, reply: Assistant) -> str:
        """How tool calling has failed in a reply; empty if it has not. (Providers name a model in
        many ways, such as the path of a file. So a slip of any model of the provider counts.)
        """
        if reply.dialect or reply.provider != self.name:
            return ""
        if any(call.recovered for call in reply.tool_calls):
            return "it wrote a call as text"
        if reply.stop_reason == "malformed" and not reply.tool_calls:
            return "its server could not read a call of it"
        return ""
