"""Shared parts of the lessons from 02 on: the flag `--provider`, and scripted models.

Rule 1: `play` runs a lesson with the model that `--provider` names. Without the flag it uses a
        scripted model, and the first printed line says so.
Rule 2: a scripted model is a function of the request and has no state. So it can serve any number
        of runs, and gives the same text every time.
Rule 3: errors are one line, and exit codes are the kit's (`think_agent/cli/main.py`).
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from demos.refund.offline import LABEL, read_last_turn, reply_with_calls, reply_with_thought
from think_agent import Assistant, Force, Model, Request, ToolCall, ToolResult
from think_agent.cli.choosing import choose_model, model_flags
from think_agent.cli.main import EXIT_CODES, run
from think_agent.cli.options import Command
from think_agent.dialects.base import Wrapper
from think_agent.messages import THINK_NAME
from think_agent.testing import call as call
from think_agent.testing import think
from think_agent.testing.scripted import Script

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from think_agent.integrations.otel import Spans

NOTHING_LEFT = "Nothing is left to do but to tell the user."


def play(lesson: Callable[[Model], None], stand_in: Script) -> NoReturn:
    """Run a lesson as a command: read the flags, print the model's name, and exit."""
    contract = (sys.modules[lesson.__module__].__doc__ or "").replace("\n\n", "\n\n\b\n")

    @click.command(cls=Command, help=contract, epilog=EXIT_CODES)
    @model_flags(default="offline")
    @click.pass_context
    def command(ctx: click.Context, /, **settings: Any) -> None:
        model = choose_model(ctx, scripts={"stand-in": stand_in})
        print(LABEL if model.name == "offline" else f"[{model.name}:{model.model}]")
        try:
            lesson(model)
        except ImportError as missing:  # of an extra
            raise click.UsageError(str(missing)) from missing

    sys.exit(run(command, f"python -m demos.{Path(sys.argv[0]).stem}"))


def follow_steps(*steps: tuple[str, ToolCall]) -> Script:
    """A scripted model that takes these steps, each a thought and then an action. At the end it
    signals the exit and repeats the results. It obeys every tool choice.
    """

    def script(request: Request) -> Assistant:
        results = list_results(request)
        acted = [result.content for result in results if result.name != THINK_NAME]
        if request.tool_choice == "none":
            return Assistant(text=" ".join(content.removeprefix("error: ") for content in acted))
        if len(acted) >= len(steps):
            return reply_with_thought(request, think(NOTHING_LEFT, should_continue=False))

        why, action = steps[len(acted)]
        has_thought = bool(results) and results[-1].name == THINK_NAME
        if has_thought and not isinstance(request.tool_choice, Force):
            return reply_with_calls(action)
        return reply_with_thought(request, think(why))

    return script


def list_results(request: Request) -> list[ToolResult]:
    """The results of all calls since the person spoke, think calls included."""
    spoken = read_last_turn(request)
    return [message for message in spoken if isinstance(message, ToolResult)]


def promise_and_stop(script: Script) -> Script:
    """`script`, but after ORD-001 it announces the next step instead of taking it, if it may."""

    def promise(request: Request) -> Assistant:
        if request.tool_choice != "auto":
            return script(request)
        last = request.messages[-1]
        if isinstance(last, ToolResult) and "ORD-001" in last.content:
            return Assistant(text="Got ORD-001. Now let me look up ORD-002.")
        return script(request)

    return promise


def record_spans() -> "tuple[Spans, Callable[[], tuple[ReadableSpan, ...]]]":
    """An observer that emits spans, and a function that gives the finished ones."""
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        from think_agent.integrations.otel import Spans
    except ImportError as error:
        advice = 'OpenTelemetry is not installed; in the clone run: pip install -e ".[otel]"'
        raise click.UsageError(advice) from error
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Spans(provider.get_tracer("lesson")), exporter.get_finished_spans


class PhasedModel(Wrapper):
    """A provider that marks text before the final answer as commentary, as OpenAI does."""

    def complete(self, request: Request) -> Assistant:
        reply = self.inner.complete(request)
        if request.tool_choice == "none":
            return reply
        return replace(reply, text="", commentary=reply.text)
