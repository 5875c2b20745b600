"""`auto`: native tool calling while it works, else the json dialect. For local servers.

Rule 1: it changes to `json` if the transcript has a reply in json, if the model wrote a call as
        text, if its server lost a call, if the model has no tool calling, or if the server's chat
        template hides the tools, the thoughts or the system prompt (`trouble`). It never changes
        back.
Rule 2: it decides by the transcript (with the messages that a request leaves out), or by what the
        server renders. So a resumed run decides in the same way. A notice of the first reply in
        json says why.
Rule 3: it never changes on a signed history: the signatures cover the tools, too.
Rule 4: a server that doesn't show what its template renders is taken to show everything. A notice
        says so, once.

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
from .base import Dialect, Event, add_notice
from .json_plan import json_plan

NO_TOOLS = "it has no tool calling"
SPEAKS_JSON = "it has done so before"


@tool(read_only=True)
def look_up(order_id: str) -> None:
    """Look an order up by the number on its receipt."""


WITH_TOOLS = Request(
    (
        User("Where is the parcel with order number 7?"),
        Assistant(
            tool_calls=(ToolCall("call_0", THINK_NAME, {"thought": "A heron would find it."}),)
        ),
        ToolResult("call_0", THINK_NAME, "Thought recorded."),
    ),
    (THINK, look_up),
    system="You are the kestrel of this post office.",
    max_output_tokens=1,
)
"""A request that ends with a tool result, behind which some templates hide things."""
# What a rendered prompt has to show, each with a word that stands nowhere else.
SHOWN = {"the tools": "receipt", "the system prompt": "kestrel", "the thoughts": "heron"}


def find_hidden(prompt: str) -> list[str]:
    """What a template hides that rendered WITH_TOOLS as this `prompt`."""
    return [what for what, word in SHOWN.items() if word not in prompt]


def hides(what: Sequence[str]) -> str:
    """The trouble with a template that hides these; empty if it hides nothing."""
    if not what:
        return ""
    return f"its server's template hides {', '.join(what)} behind a tool result"


class Auto(Dialect):
    """`in_dialect(model, "auto")`."""

    _trouble: str | None = None  # of `trouble`; None: it is not known yet
    _is_unseen = False  # its server has shown no prompt, and no notice has said so

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
        be found out (before the deadline of the `request`). The server is asked once, for free.
        """
        if self.is_local and self._trouble is None:
            with suppress(ModelError):  # the run will have it, too
                self._trouble = self._find_trouble(request)
        return self._trouble or ""

    def _find_trouble(self, request: Request) -> str:
        server: Any = self.inner
        prompt = server.render_prompt(replace(WITH_TOOLS, deadline=request.deadline))
        if prompt is None:  # rule 4
            self._is_unseen = True
            return ""
        return hides(find_hidden(prompt))

    def ask(self, request: Request) -> tuple[Model, Request]:
        if self._why(request):
            return json_plan(self.inner), request
        return self.inner, request

    async def aask(self, request: Request) -> tuple[Model, Request]:
        return await asyncio.to_thread(self.ask, request)  # it may call the server

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.dialect != "json":
            return self._say_unseen(reply)
        why = self._why(request)
        if why == SPEAKS_JSON:
            return reply
        return add_notice(reply, f"{self.model}: speaking json from here on: {why}.")

    def _say_unseen(self, reply: Assistant) -> Assistant:
        if not self._is_unseen:
            return reply
        self._is_unseen = False
        return add_notice(
            reply,
            f"{self.model}: its server doesn't show its prompts, so it's not known whether its "
            "template hides the tools after a result; staying with native tool calling (--dialect "
            "json needs none).",
        )

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
