"""What lessons 02 to 10 share and do not teach: the flag `--provider`, and a stand-in.

Rule 1: `play` runs a lesson with the model that `--provider` names; without the flag a script plays
        it, and the first line that is printed says so.
Rule 2: a stand-in is a function of the request and keeps nothing, so one of it serves any number of
        runs, and prints the same words every time.
Rule 3: errors are one line, and exit codes are those of the kit (`think_agent/cli.py`).
Rule 4: in a terminal, what a lesson prints is wrapped at words (`wrapping.py`).
"""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from demos.wrapping import wrapped_at_words
from think_agent import Assistant, Model, Request, ToolCall, ToolResult
from think_agent.cli.main import EXIT_CODES, add_model_flags, choose_model, guarded
from think_agent.cli.options import Parser
from think_agent.messages import current_turn
from think_agent.model import Script

STAND_IN = "[scripted stand-in, no language model]"


def play(lesson: Callable[[Model], None], stand_in: Script) -> NoReturn:
    """Run a lesson as a command: read the flags, say who speaks, and exit."""

    def main() -> int:
        parser = Parser(
            description=sys.modules[lesson.__module__].__doc__,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_model_flags(parser, default="offline")
        with wrapped_at_words():
            args = parser.parse_args()
            model = choose_model(args.provider, args.model, args.base_url, script=stand_in)
            print(STAND_IN if model.name == "offline" else f"[{model.name}:{model.model}]")
            lesson(model)
        return 0

    sys.exit(guarded(main))


def call(name: str, **arguments: object) -> ToolCall:
    """A call as a script writes it."""
    return ToolCall("", name, arguments)


def follows(*steps: tuple[str, ToolCall]) -> Script:
    """A stand-in that takes these steps, each a thought and an action behind it, then signals the
    exit and repeats what the tools said. It honors every tool choice.
    """

    def script(request: Request) -> Assistant:
        results = [m for m in current_turn(request.messages) if isinstance(m, ToolResult)]
        acted = [result for result in results if result.name != "think"]
        left = steps[len(acted) :]
        if request.tool_choice == "none":
            return Assistant(text=" ".join(result.content for result in acted))
        has_thought = bool(results) and results[-1].name == "think"
        if left and has_thought and request.tool_choice in ("auto", "required"):
            return Assistant(tool_calls=(left[0][1],), stop_reason="tool_use")
        why = left[0][0] if left else "All is done; what is left is to tell the user."
        note = call("think", thought=why, should_continue="true" if left else "false")
        return Assistant(tool_calls=(note,), stop_reason="tool_use")

    return script
