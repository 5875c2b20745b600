"""A run as OpenTelemetry spans, under the semantic conventions for generative AI.

    with Spans() as spans:
        agent.run("I want a refund on order ORD-001", on_event=spans)

Rule 1: it only listens: a run with it is the same run.
Rule 2: content (requests, thoughts, arguments, results, answers) is recorded only with
        `content=True`, or if the conventions' variable CAPTURE says so. Names, times and numbers
        always are.
Rule 3: every span that begins is ended. If a run raises, or a check is not met, it ends as failed.
Rule 4: names under `gen_ai.` are the conventions' names; the kit's names are under `think_agent.`.

Limitations: a listener gets events after they happened, so a chat span cannot be the parent of an
HTTP client's span.
Source: https://github.com/open-telemetry/semantic-conventions-genai (status: development).
"""

import json
import os
import time
from contextlib import AbstractContextManager

try:
    from opentelemetry import trace
    from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer
except ImportError as error:
    raise ImportError(
        'the spans need OpenTelemetry; run: pip install "think-agent[otel]"'
    ) from error

from .. import __version__
from ..messages import (
    Assistant,
    Checked,
    Json,
    Message,
    Spoken,
    ToolResult,
    Usage,
    User,
    take_answered,
)
from ..outcome import Outcome
from ..running import Event
from ..turn import Turn

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURES = {"true", "1", "span_only", "span_and_event"}  # its values that mean spans
PROVIDERS = {"gemini": "gcp.gemini"}  # the others keep their names
FINISHED = {  # stop reasons as the conventions' FinishReason; any other is an "error"
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "pause_turn": "length",
    "refusal": "content_filter",
}


class Spans(AbstractContextManager["Spans", None]):
    """Emits spans for the events of runs; pass it as `on_event`, in a `with` block.

    The default `tracer` is the global provider's. `content` records the content of messages; None
    reads the variable CAPTURE.
    """

    def __init__(self, tracer: Tracer | None = None, *, content: bool | None = None) -> None:
        if content is None:
            content = os.environ.get(CAPTURE, "").lower() in CAPTURES
        self._tracer = tracer or trace.get_tracer("think_agent", __version__)
        self._content = content
        self._agent: Span = INVALID_SPAN  # as long as there is no run
        self._turn = Turn()
        self._since = time.time_ns()  # the time of the last message: the next span begins then

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:  # without an error, a stream was left early
            self._agent.set_attribute("error.type", type(error).__name__)
            self._agent.set_status(StatusCode.ERROR, str(error))
        self._agent.end()
        self._agent = INVALID_SPAN

    def __call__(self, event: Event) -> None:
        if isinstance(event, User):
            self._since = time.time_ns()
            if event.kind == "person":
                self._turn = Turn()
        if self._agent is INVALID_SPAN:
            begun = {"gen_ai.operation.name": "invoke_agent"}
            self._agent = self._tracer.start_span(
                "invoke_agent", attributes=begun, start_time=self._since
            )

        match event:
            case Assistant():
                self._record(f"chat {event.model}".strip(), self._chat(event), SpanKind.CLIENT)
            case ToolResult():
                self._record(f"execute_tool {event.name}", self._tool(event))
            case Checked():
                self._record(f"check {event.name}", self._check(event))
            case Outcome():
                _end(self._agent, _outcome(event))
                self._agent = INVALID_SPAN
        if isinstance(event, Message):
            self._turn.add(event)

    def _record(self, name: str, attributes: Json, kind: SpanKind = SpanKind.INTERNAL) -> None:
        """The span of the message that has just arrived. It begins at the message before it."""
        parent = trace.set_span_in_context(self._agent)
        span = self._tracer.start_span(name, parent, kind, attributes, start_time=self._since)
        self._since = time.time_ns()
        _end(span, attributes, self._since)

    def _chat(self, reply: Assistant) -> Json:
        finished = FINISHED.get(reply.stop_reason, "error")
        attributes: Json = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDERS.get(reply.provider, reply.provider),
            "gen_ai.request.model": reply.model,
            "gen_ai.response.model": reply.model,
            "gen_ai.response.finish_reasons": [finished],
            **_usage(reply.usage),
        }
        if self._content:
            asked = [_message(message) for message in self._turn.history.spoken]
            answer = {**_message(reply), "finish_reason": finished}
            attributes["gen_ai.input.messages"] = json.dumps(asked)
            attributes["gen_ai.output.messages"] = json.dumps([answer])
        return attributes

    def _tool(self, result: ToolResult) -> Json:
        attributes: Json = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": result.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": result.call_id,
        }
        call = take_answered(self._turn.pending.copy(), result)
        if self._content and call:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(call.arguments)
            attributes["gen_ai.tool.call.result"] = result.content
        if result.in_doubt:
            attributes["think_agent.in_doubt"] = True
        if result.is_error:
            attributes["error.type"] = result.refused or "failed"
        return attributes

    def _check(self, check: Checked) -> Json:
        attributes: Json = {"think_agent.check": check.name}
        if check.missing is not None:
            attributes["error.type"] = "unmet"
            if self._content:
                attributes["think_agent.missing"] = check.missing
        return attributes


def _end(span: Span, attributes: Json, at: int | None = None) -> None:
    """End a span, as failed if it has an `error.type`. Its status has no description: the text of a
    tool or a check is content.
    """
    span.set_attributes(attributes)
    if "error.type" in attributes:
        span.set_status(StatusCode.ERROR)
    span.end(at)


def _outcome(outcome: Outcome) -> Json:
    attributes: Json = {
        "think_agent.exit": outcome.exit,
        "think_agent.actions_behind_a_thought": outcome.behind_a_thought,
        **_usage(outcome.usage),
    }
    if outcome.cost is not None:
        attributes["think_agent.cost"] = outcome.cost
    if outcome.exit == "unmet":
        attributes["error.type"] = "unmet"
    return attributes


def _usage(usage: Usage) -> Json:
    if usage.estimated:  # not counted
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.written_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _message(message: Spoken) -> Json:
    """A message in the shape of the conventions: a role and parts."""
    match message:
        case User(text=text):
            return {"role": "user", "parts": [{"type": "text", "content": text}]}
        case ToolResult(call_id=id, content=content):
            part = {"type": "tool_call_response", "id": id, "response": content}
            return {"role": "tool", "parts": [part]}
    parts: list[Json] = []
    if message.thinking:
        parts.append({"type": "reasoning", "content": message.thinking})
    if message.text:
        parts.append({"type": "text", "content": message.text})
    for call in message.tool_calls:
        parts.append(
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        )
    return {"role": "assistant", "parts": parts}
