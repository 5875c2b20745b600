"""`auto`: native tool calling while it works, otherwise the json dialect. For local servers.

Rule 1: it switches to `json` if the transcript already has a reply in json, if the model wrote a
        call as text, if its server lost a call, if the model has no tool calling, or if the
        server's chat template hides the tools, the thoughts or the system prompt (`trouble`). It
        never switches back.
Rule 2: it decides by the whole transcript and by the prompt that the server renders. So a resumed
        run decides the same way. A notice on the first json reply says why.
Rule 3: it never switches if the history is signed, because the signatures cover the tools.
Rule 4: if a server doesn't reveal the rendered prompt, it's assumed to show everything. One notice
        says so.

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
"""A request that ends with a tool result. Some templates hide things in such a request."""
# What a rendered prompt has to show. Each is found by a word that occurs nowhere else in it.
SHOWN = {"the tools": "receipt", "the system prompt": "kestrel", "the thoughts": "heron"}


def find_hidden(prompt: str) -> list[str]:
    """What the template hid when it rendered WITH_TOOLS as this `prompt`."""
    return [what for what, word in SHOWN.items() if word not in prompt]


def hides(what: Sequence[str]) -> str:
    """The problem with a template that hides these; empty if it hides nothing."""
    if not what:
        return ""
    return f"its server's template hides {', '.join(what)} after a tool result"


class Auto(Dialect):
    """`in_dialect(model, "auto")`."""

    _trouble: str | None = None  # the result of `trouble`; None: not known yet
    _is_unseen = False  # the server reveals no prompt, and no notice has said so yet

    # If a request is refused because the model can't call tools, it's sent again in json.

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
        json_plan(self.inner).check()  # it will use that

    def trouble(self, request: Request) -> str:
        """Why native tool calling doesn't work on this server. Empty if it does, or if the server
        can't be asked (before the deadline of `request`). It's asked once; that costs no tokens.
        """
        if self.is_local and self._trouble is None:
            with suppress(ModelError):  # the run will get the same error
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
        return await asyncio.to_thread(self.ask, request)  # it can call the server

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
        """How tool calling failed in a reply; empty if it didn't. (Providers report a model's name
        in many forms, such as a file path. So replies of any model of the provider count.)
        """
        if reply.dialect or reply.provider != self.name:
            return ""
        if any(call.recovered for call in reply.tool_calls):
            return "it wrote a call as text"
        if reply.stop_reason == "malformed" and not reply.tool_calls:
            return "its server could not read a call of it"
        return ""
