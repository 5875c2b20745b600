"""A run as OpenTelemetry spans, following the semantic conventions for generative AI.

    with Spans() as spans:
        agent.run("I want a refund on order ORD-001", on_event=spans)

Rule 1: it only listens; it doesn't affect the run.
Rule 2: a span has names, times and numbers, but no content: no request, thought, argument, result
        or answer. The content is in the transcript.
Rule 3: every span is ended. If a run raises or a check isn't met, its span ends as failed.
Rule 4: names under `gen_ai.` are the conventions'; the kit's own are under `think_agent.`.
Rule 5: a run's span has the agent's name, if there is one: `Agent(name="refund desk")`.

Limitations: a listener gets events after they happen, so a chat span can't be the parent of an HTTP
client's span. The agent's name is known only after the first model call.
Source: https://github.com/open-telemetry/semantic-conventions-genai (status: development).
"""

import time
from contextlib import AbstractContextManager

from ..installing import install_command

try:
    from opentelemetry import trace
    from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer
except ImportError as error:
    raise ImportError(
        f"the spans need OpenTelemetry; run: {install_command('think-agent[otel]')}"
    ) from error

from .. import __version__
from ..messages import Assistant, Checked, Json, ToolResult, Usage, User
from ..outcome import Outcome, find_missing
from ..running import Event
from ..streaming import Progress

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
    """Emits spans for a run's events. Pass it as `on_event`, in a `with` block.

    The default `tracer` is the global provider's.
    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("think_agent", __version__)
        self._agent: Span = INVALID_SPAN  # while there is no run
        self._since = time.time_ns()  # the time of the last message, when the next span begins

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        attributes = {}
        if error is not None:  # without one, a stream was left early
            attributes["error.type"] = type(error).__name__  # rule 2: its text may contain content
        _end(self._agent, attributes)
        self._agent = INVALID_SPAN

    def __call__(self, event: Event) -> None:
        if isinstance(event, User):
            self._since = time.time_ns()
        if self._agent is INVALID_SPAN:
            self._agent = self._tracer.start_span(
                "invoke_agent",
                attributes={"gen_ai.operation.name": "invoke_agent"},
                start_time=self._since,
            )

        match event:
            case Progress(agent=name) if name:  # rule 5
                self._agent.set_attribute("gen_ai.agent.name", name)
                self._agent.update_name(f"invoke_agent {name}")
            case Assistant():
                self._record(f"chat {event.model}".strip(), _chat(event), SpanKind.CLIENT)
            case ToolResult():
                self._record(f"execute_tool {event.name}", _tool(event))
            case Checked():
                self._record(f"check {event.name}", _check(event))
            case Outcome():
                _end(self._agent, _outcome_attributes(event))
                self._agent = INVALID_SPAN

    def _record(self, name: str, attributes: Json, kind: SpanKind = SpanKind.INTERNAL) -> None:
        """Add the span of the message that just arrived. It began with the previous message."""
        parent = trace.set_span_in_context(self._agent)
        span = self._tracer.start_span(name, parent, kind, attributes, start_time=self._since)
        self._since = time.time_ns()
        _end(span, attributes, self._since)


def _chat(reply: Assistant) -> Json:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDERS.get(reply.provider, reply.provider),
        "gen_ai.request.model": reply.model,
        "gen_ai.response.model": reply.model,
        "gen_ai.response.finish_reasons": [FINISHED.get(reply.stop_reason, "error")],
        **_usage(reply.usage),
    }


def _tool(result: ToolResult) -> Json:
    attributes: Json = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": result.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": result.call_id,
    }
    if result.in_doubt:
        attributes["think_agent.in_doubt"] = True
    if result.is_error:
        attributes["error.type"] = result.refused or "failed"
    return attributes


def _check(check: Checked) -> Json:
    attributes: Json = {"think_agent.check": check.name}
    if check.missing is not None:
        attributes["error.type"] = "unmet"
    return attributes


def _end(span: Span, attributes: Json, at: int | None = None) -> None:
    """End a span, as failed if it has an `error.type`."""
    span.set_attributes(attributes)
    if "error.type" in attributes:
        span.set_status(StatusCode.ERROR)
    span.end(at)


def _outcome_attributes(outcome: Outcome) -> Json:
    attributes: Json = {
        "think_agent.exit": outcome.exit,
        "think_agent.actions": len(outcome.actions),
        "think_agent.actions_behind_a_thought": outcome.behind_a_thought,
        "think_agent.actions_failed": sum(a.result.is_error for a in outcome.actions),
        "think_agent.actions_in_doubt": sum(a.result.in_doubt for a in outcome.actions),
        "think_agent.checks_unmet": len(find_missing(outcome.turn)),
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
