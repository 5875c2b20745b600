"""The common parts of lessons 02 to 14: the flag `--provider`, and scripted models.

Rule 1: `play` runs a lesson with the model that `--provider` names. Without the flag a scripted
        model plays, and the first printed line says so.
Rule 2: a scripted model is a function of the request and keeps no state. So it can serve any number
        of runs, and prints the same text every time.
Rule 3: errors are one line, and exit codes are those of the kit (`think_agent/cli/main.py`).
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from think_agent import Assistant, Model, Request, ToolCall, ToolResult, Turn
from think_agent.cli.choosing import chosen_model, model_flags
from think_agent.cli.main import EXIT_CODES, run
from think_agent.cli.options import Command
from think_agent.dialects.base import Wrapper
from think_agent.scripted import Script
from think_agent.testing import call as call
from think_agent.testing import think
from think_agent.think import has_signal, without

STAND_IN = "[scripted stand-in, no language model]"


def play(lesson: Callable[[Model], None], stand_in: Script) -> NoReturn:
    """Run a lesson as a command: read the flags, print the model's name, and exit."""
    contract = (sys.modules[lesson.__module__].__doc__ or "").replace("\n\n", "\n\n\b\n")

    @click.command(cls=Command, help=contract, epilog=EXIT_CODES)
    @model_flags(default="offline")
    @click.pass_context
    def command(ctx: click.Context, /, **settings: Any) -> None:
        model = chosen_model(ctx, scripts={"stand-in": stand_in})
        print(STAND_IN if model.name == "offline" else f"[{model.name}:{model.model}]")
        lesson(model)

    sys.exit(run(command, f"python -m demos.{Path(sys.argv[0]).stem}"))


def follows(*steps: tuple[str, ToolCall]) -> Script:
    """A scripted model that takes these steps, each a thought and then an action. At the end it
    signals the exit and repeats the results. It obeys every tool choice.
    """

    def script(request: Request) -> Assistant:
        results = [
            m for m in Turn.all(request.messages)[-1].history.spoken if isinstance(m, ToolResult)
        ]
        acted = [result for result in results if result.name != "think"]
        left = steps[len(acted) :]
        if request.tool_choice == "none":
            return Assistant(text=" ".join(r.content.removeprefix("error: ") for r in acted))
        has_thought = bool(results) and results[-1].name == "think"
        if left and has_thought and request.tool_choice in ("auto", "required"):
            return Assistant(tool_calls=(left[0][1],), stop_reason="tool_use")
        why = left[0][0] if left else "All is done; what is left is to tell the user."
        thought = think(why, bool(left))
        if not any(tool.name == "think" and has_signal(tool) for tool in request.tools):
            thought = without(thought, "should_continue")
        return Assistant(tool_calls=(thought,), stop_reason="tool_use")

    return script


def promising(script: Script) -> Script:
    """`script`, but after ORD-001 it announces the next step instead of taking it, if it may."""

    def promise(request: Request) -> Assistant:
        last, may = request.messages[-1], request.tool_choice == "auto"
        if may and isinstance(last, ToolResult) and "ORD-001" in last.content:
            return Assistant(text="Got ORD-001. Now let me look up ORD-002.")
        return script(request)

    return promise


class Phased(Wrapper):
    """A provider that marks text before the final answer as commentary, as OpenAI does."""

    def complete(self, request: Request) -> Assistant:
        said = self.inner.complete(request)
        is_final = request.tool_choice == "none"
        return said if is_final else replace(said, text="", commentary=said.text)
