"""The client's side of a gate: its calls, how it sees the tools, how it asks its user.

Rule 1: A call is cancelled as soon as its client stops waiting for it.
Rule 2: The client's user is asked by "elicitation", which shows every argument as it will run.
        Accepting is a yes to exactly that call. Everything else is a no.
Rule 3: Up to version 2025-11-25 of the protocol, a question is a request from the server. Since
        2026-07-28 it's a result, and the client repeats its request with the answer.

Source: modelcontextprotocol.io/specification, versions 2025-11-25 and 2026-07-28, as the SDK
(mcp 2.3.0) implements them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mcp import types as wire
from mcp.server import ServerRequestContext
from mcp.types import methods
from pydantic import ValidationError

from ..messages import THINK_NAME, Assistant, ToolCall, ToolResult
from ..model import Model, Request
from ..question import AskHuman
from ..text import json_text, shorten, write_out
from ..think import THINK_MINIMAL, add_thought_argument
from ..tools import MAY_HAVE_HAPPENED, Tool
from .mcp import text_of

Context = ServerRequestContext[Any, Any]
Answer = wire.CallToolResult | wire.InputRequiredResult
T = TypeVar("T")

THINK = replace(
    THINK_MINIMAL,
    description="Write down working notes. It changes nothing and fetches nothing. Call it before "
    "a tool that changes something, and again after a result: note which rules apply, what is "
    "still unknown, and why this step is right.",
)
SHOWN_THINK = wire.Tool(
    name=THINK_NAME,
    description=THINK.description,
    input_schema=THINK.parameters,
    annotations=wire.ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
QUESTION = "approval"  # the question's key in a result that asks for input
FORM: dict[str, Any] = {"type": "object", "properties": {}}  # accept or decline is enough
ANSWER_SECONDS = 600.0  # after that, an unanswered question counts as a no
LONGEST_VALUE = 4_000  # characters of an argument in a question


class Cancelled(Exception):
    """The client has stopped waiting for the call."""


@dataclass(eq=False)
class ClientCall:
    """A call of the client that hasn't been answered yet.

    - `context`: the client's request
    - `answers`: the answers to that request: the result, or first a question (rule 3)
    - `state`, `verdict`: the id of such a question, and its answer
    - `result`: what the server returned
    """

    call: ToolCall
    context: Context
    answers: "asyncio.Queue[Answer]" = field(default_factory=asyncio.Queue)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    is_started: bool = False
    state: str = ""
    verdict: "asyncio.Future[wire.ElicitResult] | None" = None
    result: wire.CallToolResult | None = None

    async def answer(self) -> Answer:
        """Wait for the next answer. If the client cancels its request, cancel the call (rule 1)."""
        try:
            answer = await self.answers.get()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return _readable(answer, self.context.session.protocol_version)

    async def unless_cancelled(self, work: Awaitable[T]) -> T:
        """Await `work`. Raises Cancelled as soon as the call is cancelled."""
        working = asyncio.ensure_future(work)
        cancelled = asyncio.create_task(self.cancelled.wait())
        try:
            await asyncio.wait({working, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise Cancelled
            return working.result()
        finally:
            working.cancel()
            cancelled.cancel()

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Report progress to the client, if it asked for it."""
        await self.context.session.report_progress(progress, total, message)

    @property
    def can_ask(self) -> bool:
        """Can the client ask its user with a form?"""
        capabilities = self.context.session.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            return False
        offered = capabilities.elicitation
        return offered.form is not None or offered.url is None  # the first version only had forms

    async def ask(self, question: AskHuman) -> wire.ElicitResult:
        """Let the client ask its user (rules 2 and 3)."""
        text = _question_text(question)
        session = self.context.session
        if session.can_send_request:
            return await session.elicit_form(text, FORM, self.context.request_id)

        self.state = os.urandom(16).hex()
        self.verdict = asyncio.get_running_loop().create_future()
        form = wire.ElicitRequestFormParams(message=text, requested_schema=FORM)
        asked: wire.InputRequests = {QUESTION: wire.ElicitRequest(params=form)}
        needs_input = wire.InputRequiredResult(input_requests=asked, request_state=self.state)
        self.answers.put_nowait(needs_input)
        try:
            return await asyncio.wait_for(self.verdict, ANSWER_SECONDS)
        except TimeoutError:
            return wire.ElicitResult(action="cancel")
        finally:
            self.state = ""

    def is_asked_again(self, params: wire.CallToolRequestParams) -> bool:
        """Is this the repeated request, with the answer to the question?"""
        if not self.state or params.request_state != self.state:
            return False
        return self.call.arguments == (params.arguments or {})

    def go_on(self, context: Context, params: wire.CallToolRequestParams) -> None:
        """Read the answer from the repeated request, which now waits for the result."""
        assert self.verdict
        self.context = context
        response = (params.input_responses or {}).get(QUESTION)
        if not isinstance(response, wire.ElicitResult):
            response = wire.ElicitResult(action="cancel")
        if not self.verdict.done():
            self.verdict.set_result(response)


class ClientModel(Model):
    """The client as a model. `reply` returns its next message."""

    name = "mcp"
    model = "client"

    def __init__(self, reply: Callable[[Request], Awaitable[Assistant]]) -> None:
        self._reply = reply

    async def acomplete(self, request: Request) -> Assistant:
        return await self._reply(request)


def describe_session(call: ClientCall) -> str:
    """The request of a turn; the real one isn't known here."""
    client = "a client"
    params = call.context.session.client_params
    if params is not None:
        client = shorten(f"{params.client_info.name} {params.client_info.version}", 80)
    return (
        f"(A session of {client}. What its user asked, what it answered and what it did with "
        "other tools is not seen here.)"
    )


def show_tool(listed: wire.Tool, tool: Tool, *, trusted: bool) -> wire.Tool:
    """A tool of the server as the client sees it: with an argument for the thought, and only with
    annotations that the gate accepts.
    """
    schema = listed.input_schema
    if tool.think_first:
        schema = add_thought_argument(replace(tool, parameters=schema)).parameters
    annotations = listed.annotations or wire.ToolAnnotations()
    if not trusted:
        annotations = wire.ToolAnnotations(title=annotations.title)
    annotations = annotations.model_copy(update={"read_only_hint": tool.read_only})
    shown = {"input_schema": schema, "annotations": annotations, "execution": None}  # no tasks
    return listed.model_copy(update=shown)


def make_error(text: str) -> wire.CallToolResult:
    """An error result from the gate itself."""
    return wire.CallToolResult(content=[wire.TextContent(text=f"error: {text}")], is_error=True)


def make_answer(result: ToolResult, returned: wire.CallToolResult | None) -> wire.CallToolResult:
    """The client's result: what the server returned, or else the kit's own text."""
    if returned is None:
        text = wire.TextContent(text=result.content)
        return wire.CallToolResult(content=[text], is_error=result.is_error)
    if result.in_doubt:  # the server said "error"
        warning = wire.TextContent(text=MAY_HAVE_HAPPENED)
        return returned.model_copy(update={"content": [*returned.content, warning]})
    return returned


def _readable(answer: Answer, version: str) -> Answer:
    """The answer, as text if this protocol version can't express it. (The SDK would report a failed
    call.)
    """
    if isinstance(answer, wire.InputRequiredResult):
        return answer
    try:
        written = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        methods.serialize_server_result("tools/call", version, written)
    except ValidationError:
        text = wire.TextContent(text=text_of(answer))
        return wire.CallToolResult(content=[text], is_error=answer.is_error)
    return answer


def _question_text(question: AskHuman) -> str:
    """A question, with one line per argument. The last line names the tool. No argument can imitate
    another line.
    """
    assert question.call
    lines = []
    if question.thought:
        lines.append(f"Its thought: {_join_lines(question.thought)}")
    for name, value in (question.received or {}).items():
        lines.append(f"{_join_lines(name)}: {_join_lines(json_text(value))}")
    if question.remark:
        lines.append(question.remark)
    lines.append(f"Run {_join_lines(question.call.name)}?")
    return "\n".join(lines)


def _join_lines(text: str) -> str:
    text = write_out(text, keep="")
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[:LONGEST_VALUE]}… ({len(text):,} characters, not all are shown)"
