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
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Self

try:
    from opentelemetry import trace
    from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
except ImportError as error:
    raise ImportError(
        f'the spans need OpenTelemetry; in the clone run: pip install ".[otel]" ({error})'
    ) from error

from .. import __version__
from ..audit import words
from ..errors import ModelError
from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolResult, Usage, User
from ..running import Event, Outcome
from ..streaming import Delta
from ..text import well_formed

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
    "incomplete": "error",
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
        named = {"gen_ai.agent.name": agent_name, "gen_ai.conversation.id": conversation_id}
        self._everywhere = {name: value for name, value in named.items() if value}
        self._agent_name = agent_name
        self._agent: Span | None = None
        self._messages: list[Spoken] = []
        self._calls: dict[str, ToolCall] = {}
        self._since = time.time_ns()  # when the last message was there: what comes next began then
        self._first_delta: int | None = None

    def __enter__(self) -> Self:
        self._since = time.time_ns()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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
            self._agent = self._start("invoke_agent", self._agent_name)
        match event:
            case Delta():
                self._first_delta = self._first_delta or now
            case Assistant():
                self._chat(event).end(now)
            case ToolResult():
                self._tool(event).end(now)
            case Outcome():
                self._agent.set_attributes(_figures(event))
                self._agent.end()
                self._agent = None
        if isinstance(event, Spoken):  # what a model gets to read; `Started` is a part of its call
            self._messages.append(event)
            self._since, self._first_delta = now, None

    def _start(self, operation: str, name: str, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        """A span that begins where the last message ended, under the one of the agent."""
        parent = trace.set_span_in_context(self._agent) if self._agent else None
        name = well_formed(f"{operation} {name}".strip())
        attributes = {"gen_ai.operation.name": operation, **self._everywhere}
        return self._tracer.start_span(name, parent, kind, attributes, start_time=self._since)

    def _chat(self, reply: Assistant) -> Span:
        choice = reply.tool_choice
        finished = FINISHED.get(reply.stop_reason, reply.stop_reason)
        attributes: dict[str, Any] = {
            "gen_ai.provider.name": PROVIDERS.get(reply.provider, reply.provider),
            "gen_ai.request.model": reply.model,
            "gen_ai.response.model": reply.model,
            "gen_ai.response.finish_reasons": [finished],
            **_usage(reply.usage),
            "think_agent.tool_choice": choice.name if isinstance(choice, Force) else choice,
        }
        if reply.enforced:
            attributes["think_agent.enforced"] = reply.enforced
        if self._first_delta:
            waited = (self._first_delta - self._since) / 1e9
            attributes["gen_ai.response.time_to_first_chunk"] = waited
        if self._content:
            answer = {**_message(reply), "finish_reason": finished}
            attributes["gen_ai.input.messages"] = json.dumps([*map(_message, self._messages)])
            attributes["gen_ai.output.messages"] = json.dumps([answer])
        self._calls = {call.id: call for call in reply.tool_calls}
        span = self._start("chat", reply.model, SpanKind.CLIENT)
        span.set_attributes(attributes)
        return span

    def _tool(self, result: ToolResult) -> Span:
        attributes = {
            "gen_ai.tool.name": result.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": result.call_id,
        }
        if self._content and (call := self._calls.get(result.call_id)):
            attributes["gen_ai.tool.call.arguments"] = json.dumps(call.arguments)
            attributes["gen_ai.tool.call.result"] = result.content
        span = self._start("execute_tool", result.name)
        if result.is_error:  # its words are content, too, so they are no status description
            attributes["error.type"] = words.status(result)
            span.set_status(StatusCode.ERROR)
        span.set_attributes({name: well_formed(value) for name, value in attributes.items()})
        return span


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(StatusCode.ERROR, well_formed(str(error)))
    span.end()


def _figures(outcome: Outcome) -> Mapping[str, str | int]:
    return {
        **_usage(outcome.usage),
        "think_agent.exit": outcome.exit,
        "think_agent.model_calls": outcome.model_calls,
        "think_agent.actions": len(outcome.actions),
        "think_agent.actions_behind_a_thought": outcome.behind_a_thought,
    }


def _usage(usage: Usage) -> Mapping[str, int]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _message(message: Spoken) -> Json:
    """A message in the shape of the conventions: a role and parts."""
    match message:
        case Assistant(thinking=thinking, text=text):
            said = [{"type": "reasoning", "content": thinking}, {"type": "text", "content": text}]
            calls = [
                {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
                for call in message.tool_calls
            ]
            return {"role": "assistant", "parts": [*filter(itemgetter("content"), said), *calls]}
        case ToolResult(call_id=id, content=content):
            part = {"type": "tool_call_response", "id": id, "response": content}
            return {"role": "tool", "parts": [part]}
        case User(text=text):
            return {"role": "user", "parts": [{"type": "text", "content": text}]}
