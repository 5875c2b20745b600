"""`auto`: native tool calling while it works, else the json dialect. For servers of one's own.

Rule 1: from one request on it speaks `json`, and never goes back: where a reply of the transcript
        is in json; where the model wrote a call as text, or its server lost one; where the model
        has no tool calling; and where the server's chat template hides the tools.
Rule 2: this is read from the transcript (with what a request leaves out), or asked of the server.
        So a run that is resumed decides as the one before it. The change is said once, in a notice
        of the first reply in json.
Rule 3: never on a signed history, for signatures are over the tools, too.

Some templates show the tools only beside the newest user message: behind the first tool result the
model cannot see them any more. (The README of `providers/` says which.) The server's own count of
tokens tells: `shows_tools` asks for one token behind a tool result, without tools and with them.
These two prompts have some hundred tokens. They are sent when it matters first: before a request
that ends behind a tool result, or in `check`. The answer is kept for the process.

Limitations: a server that does not count whole prompts is believed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import ModelError, ToolsUnsupported
from ..messages import Assistant, ToolCall, ToolResult, User
from ..model import Model, Request
from ..think import THINK
from ..tools import tool
from .base import Dialect, Wrapper, noticed
from .json_plan import json_plan
from .text_calls import Recovering

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
"""Two prompts that differ in nothing but the tools, and end behind a tool result."""

# Tokens. A word is one or more of them.
WHOLE = 60  # the two prompts have more words in common
LEAST = 90  # half as many as the words of the tools


def tools_are_shown(without: Assistant, with_tools: Assistant) -> bool | None:
    """What the counts of the two prompts say; None where they are no counts of whole prompts.

    A template that shows the tools adds all of their words; one that hides them may still add a
    line of its own (Llama 3.1: 49 tokens).
    """
    before = without.usage
    after = with_tools.usage
    if before.estimated or after.estimated:
        return None
    if before.input_tokens < WHOLE:
        return None
    return after.input_tokens - before.input_tokens >= LEAST


def innermost(model: Model) -> Model:
    """The model inside of all wrappers."""
    while isinstance(model, Wrapper):
        model = model.inner
    return model


def is_local(model: Model) -> bool:
    """Is it on a server of one's own? `connect` reads the calls in the texts of just these."""
    is_read = False
    while isinstance(model, Wrapper):
        is_read |= isinstance(model, Recovering)
        model = model.inner
    return is_read and hasattr(model, "url")


# Of `shows_tools`, by the server's address and the model.
_ANSWERS: dict[tuple[str, str], bool] = {}


def shows_tools(model: Model, deadline: float | None = None) -> bool:
    """Does the server show the model its tools behind a tool result? Asked once, by two requests
    for one token; True where that cannot be told (before the `deadline`).
    """
    if not is_local(model):
        return True
    server: Any = innermost(model)
    key = (server.url, server.model)
    if key not in _ANSWERS:
        try:
            # In this order: a server that counts only what it evaluates anew has then counted the
            # shorter prompt whole.
            without = server.complete(replace(WITHOUT_TOOLS, deadline=deadline))
            with_tools = server.complete(replace(WITH_TOOLS, deadline=deadline))
        except ModelError:  # the run will meet it
            return True
        _ANSWERS[key] = tools_are_shown(without, with_tools) is not False
    return _ANSWERS[key]


class Watched(Dialect):
    """`watched(model)`: where a prompt behind a tool result has fewer tokens than the prompt before
    it, the server is asked whether it shows the tools. If not, a notice of the reply says so.

    (A shorter count alone says nothing: older servers count only what they have to evaluate anew.)
    """

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if not _is_behind_a_result(request):
            return reply
        before = _replies(request)[-1]
        fell = reply.usage.input_tokens < before.usage.input_tokens
        if fell and not shows_tools(self.inner):
            return noticed(reply, f"{self.model}: {HIDES}; use the json dialect, or auto")
        return reply


watched = Watched


class Auto(Dialect):
    """`in_dialect(model, "auto")`."""

    def __init__(self, inner: Model) -> None:
        super().__init__(inner)
        self._in_json = json_plan(inner)

    def check(self) -> None:
        """As the model's own, and what a run would find out about its tools is found out here."""
        try:
            self.inner.check()
        except ToolsUnsupported:
            return
        shows_tools(self.inner)

    def ask(self, request: Request) -> tuple[Model, Request]:
        if _speaks_json(request) or self._why(request):
            return self._in_json, request
        return self.inner, request

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.dialect != "json" or _speaks_json(request):
            return reply
        notice = f"{self.model}: speaking json from here on: {self._why(request)}."
        return noticed(reply, notice)

    def _why(self, request: Request) -> str:
        """Why the dialect changes at this request; empty where it does not."""
        replies = _replies(request)
        is_signed = any(reply.signed for reply in replies)
        if is_signed or not request.tools:
            return ""

        own = [reply for reply in replies if self._is_own(reply)]
        slip = self._slip_in(own)
        if slip:
            return slip
        if _is_behind_a_result(request) and not shows_tools(self.inner, request.deadline):
            return HIDES
        return ""

    def _slip_in(self, replies: Sequence[Assistant]) -> str:
        """What a model that is native to tool calling would not have done; empty for nothing."""
        if not replies:
            try:
                self.inner.check()
            except ToolsUnsupported:
                return "it has no tool calling"
            except ModelError:  # the request will meet it, and try again where that may help
                pass
        for reply in replies:
            if any(call.recovered for call in reply.tool_calls):
                return "it wrote a call as text"
            if reply.stop_reason == "malformed" and not reply.tool_calls:
                return "its server could not read a call of it"
        return ""

    def _is_own(self, reply: Assistant) -> bool:
        """Was it this model that said it, in native tool calling?"""
        if reply.dialect or reply.provider != self.name:
            return False
        # Ollama names a model as it was asked for; llama.cpp, say, gives the path of a file.
        if self.name == "ollama" or not reply.host:
            return reply.model == self.model
        return reply.host == getattr(innermost(self.inner), "host", "")


def _is_behind_a_result(request: Request) -> bool:
    """Is it one in which some templates hide the tools? (The final call needs none.)"""
    return isinstance(request.messages[-1], ToolResult) and request.tool_choice != "none"


def _replies(request: Request) -> list[Assistant]:
    """What was said by models so far, also where the request does not show it."""
    said = (*request.left_out, *request.messages)
    return [message for message in said if isinstance(message, Assistant)]


def _speaks_json(request: Request) -> bool:
    return any(reply.dialect == "json" for reply in _replies(request))
