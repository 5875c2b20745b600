"""A run as OpenTelemetry spans, under the semantic conventions for generative AI.

    with Spans() as spans:
        agent.run("I want a refund on order ORD-001", on_event=spans)

    invoke_agent                     one turn: from what a person said to the outcome
    ├── chat qwen2.5:7b              one model call
    ├── execute_tool think           one tool call; the think tool is one like any other
    └── execute_tool lookup_order

Rule 1: it listens and does nothing else. A run with it is the same run.
Rule 2: what was said (requests, thoughts, arguments, results, answers) is recorded only with
        `content=True`, or where the conventions' own variable CAPTURE says so. Names, times and
        figures always are.
Rule 3: whatever happens, a span that was begun is ended: a run that fails or is stopped ends its
        spans as failed.
Rule 4: names under `gen_ai.` are those of the conventions; the kit's own are under `think_agent.`.

The edge: a listener hears what has happened. A chat span begins when the message before its reply
was there, so it holds the whole call but cannot be the parent of an HTTP client's span. One Spans
serves one run at a time.

Source: https://github.com/open-telemetry/semantic-conventions-genai (status: development).
"""

import json
import os
import time
from types import TracebackType
from typing import Self

try:
    from opentelemetry import trace
    from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
except ImportError as error:
    raise ImportError(
        f'the spans need OpenTelemetry; in the clone run: pip install ".[otel]" ({error})'
    ) from error

from .. import __version__
from ..errors import ModelError
from ..messages import (
    MESSAGES,
    Assistant,
    Force,
    Json,
    Message,
    Started,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from ..outcome import Outcome
from ..running import Event
from ..streaming import Delta

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
PROVIDERS = {"gemini": "gcp.gemini"}  # the others go by their own names
FINISHED = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "pause_turn": "length",
    "refusal": "content_filter",
    "malformed": "error",
}


class Spans:
    """Emits spans for the events of runs; pass it as `on_event`, in a `with` block.

    `tracer` is by default the global provider's. `content` records what was said; None asks the
    variable CAPTURE. `agent_name` and `conversation_id` go into the spans where they are given.
    """

    def __init__(
        self,
        tracer: Tracer | None = None,
        *,
        content: bool | None = None,
        agent_name: str = "",
        conversation_id: str = "",
    ) -> None:
        self._tracer = tracer or trace.get_tracer("think_agent", __version__)
        said = os.environ.get(CAPTURE, "").lower() in ("true", "1", "span_only", "span_and_event")
        self._content = said if content is None else content
        self._agent_name = agent_name
        self._conversation_id = conversation_id
        self._agent: Span | None = None
        self._messages: list[Message] = []
        self._calls: dict[str, ToolCall] = {}
        self._since = time.time_ns()  # when the last message was there: what comes next began then
        self._first_delta: int | None = None

    def __enter__(self) -> Self:
        self._since = time.time_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._agent and error:
            if isinstance(error, ModelError):
                _fail(self._start("chat", "", SpanKind.CLIENT), error)
            _fail(self._agent, error)
        elif self._agent:  # the events stopped coming: somebody left a stream early
            self._agent.end()
        self._agent = None

    def __call__(self, event: Event) -> None:
        now = time.time_ns()
        if isinstance(event, User) and event.kind == "person":
            self._since = now
            self._messages.clear()
        if self._agent is None:
            self._agent = self._start("invoke_agent", self._agent_name, SpanKind.INTERNAL)
        match event:
            case Delta():
                self._first_delta = self._first_delta or now
            case Assistant():
                self._chat(event, now)
            case ToolResult():
                self._tool(event, now)
            case Outcome():
                self._outcome(self._agent, event)
        if isinstance(event, MESSAGES):
            self._messages.append(event)
            self._since, self._first_delta = now, None

    def _start(self, operation: str, name: str, kind: SpanKind) -> Span:
        """A span that begins where the last message ended, under the one of the agent."""
        parent = trace.set_span_in_context(self._agent) if self._agent else None
        span = self._tracer.start_span(
            _visible(f"{operation} {name}".strip()), parent, kind, start_time=self._since
        )
        span.set_attribute("gen_ai.operation.name", operation)
        if self._agent_name:
            span.set_attribute("gen_ai.agent.name", self._agent_name)
        if self._conversation_id:
            span.set_attribute("gen_ai.conversation.id", self._conversation_id)
        return span

    def _chat(self, reply: Assistant, now: int) -> None:
        span = self._start("chat", reply.model, SpanKind.CLIENT)
        span.set_attributes(
            {
                "gen_ai.provider.name": PROVIDERS.get(reply.provider, reply.provider),
                "gen_ai.request.model": reply.model,
                "gen_ai.response.model": reply.model,
                "gen_ai.response.finish_reasons": [_finish_reason(reply)],
                **_usage(reply.usage),
                "think_agent.tool_choice": _choice(reply.tool_choice),
            }
        )
        if reply.enforced:
            span.set_attribute("think_agent.enforced", reply.enforced)
        if self._first_delta:
            waited = (self._first_delta - self._since) / 1e9
            span.set_attribute("gen_ai.response.time_to_first_chunk", waited)
        if self._content:
            said = [_message(message) for message in self._messages if not _is_internal(message)]
            span.set_attribute("gen_ai.input.messages", json.dumps(said))
            answer = {**_message(reply), "finish_reason": _finish_reason(reply)}
            span.set_attribute("gen_ai.output.messages", json.dumps([answer]))
        span.end(now)
        self._calls = {call.id: call for call in reply.tool_calls}

    def _tool(self, result: ToolResult, now: int) -> None:
        span = self._start("execute_tool", result.name, SpanKind.INTERNAL)
        span.set_attributes(
            {
                "gen_ai.tool.name": _visible(result.name),
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": _visible(result.call_id),
            }
        )
        if result.is_error:  # its words are content, too, so they are no status description
            span.set_attribute("error.type", "refused" if result.refused else "tool_error")
            span.set_status(StatusCode.ERROR)
        call = self._calls.get(result.call_id)
        if self._content and call:
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(call.arguments))
            span.set_attribute("gen_ai.tool.call.result", _visible(result.content))
        span.end(now)

    def _outcome(self, agent: Span, outcome: Outcome) -> None:
        agent.set_attributes(
            {
                **_usage(outcome.usage),
                "think_agent.exit": outcome.exit,
                "think_agent.model_calls": outcome.model_calls,
                "think_agent.actions": len(outcome.actions),
                "think_agent.actions_behind_a_thought": outcome.behind_a_thought,
            }
        )
        agent.end()
        self._agent = None


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(StatusCode.ERROR, _visible(str(error)))
    span.end()


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _finish_reason(reply: Assistant) -> str:
    return FINISHED.get(reply.stop_reason, reply.stop_reason)


def _choice(choice: ToolChoice) -> str:
    return choice.name if isinstance(choice, Force) else choice


def _is_internal(message: Message) -> bool:
    return isinstance(message, Started | Verdict)  # no model ever reads these


def _message(message: Message) -> Json:
    """A message in the shape of the conventions: a role and parts."""
    match message:
        case Assistant():
            parts: list[Json] = []
            if message.thinking:
                parts.append({"type": "reasoning", "content": message.thinking})
            if message.text:
                parts.append({"type": "text", "content": message.text})
            for call in message.tool_calls:
                head = {"type": "tool_call", "id": call.id, "name": call.name}
                parts.append({**head, "arguments": call.arguments})
            return {"role": "assistant", "parts": parts}
        case ToolResult(call_id=id, content=content):
            part = {"type": "tool_call_response", "id": id, "response": content}
            return {"role": "tool", "parts": [part]}
        case User(text=text):
            return {"role": "user", "parts": [{"type": "text", "content": text}]}
    raise TypeError(f"{message!r} is not sent to a model")


def _visible(text: str) -> str:
    """`text` as the exporters can write it: they stumble over lone surrogates."""
    return text.encode(errors="backslashreplace").decode()
