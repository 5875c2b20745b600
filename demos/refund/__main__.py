"""The refund desk at a terminal: `python -m demos.refund "I want a refund on order ORD-001"`.

Without a text it asks for one, again and again, and remembers the conversation.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from think_agent import Agent, Message, Model, ModelError, Outcome, __version__
from think_agent.cli import (
    EXIT_CODES,
    STAND_IN,
    UserError,
    add_flag,
    add_model_flags,
    choose_model,
    exit_code,
    guarded,
)
from think_agent.console import RunView
from think_agent.model import Unstreamed

from .offline import reply
from .shop import INSTRUCTIONS, Shop, ShopError

EXAMPLES = [
    "I want a refund on order ORD-001",
    "Please refund ORD-002 and ORD-003",
    "My monitor arm (ORD-004) wobbles. I want my $580 back!",
]
HELP = """\
/help             this list
/thoughts on|off  show thoughts and tool calls, or the answers alone
/provider P       go on with another provider (P or P:MODEL)
/reset            forget the conversation
/quit             leave (Ctrl-D does, too)"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demos.refund",
        description="Decide refund requests, with every thought in view.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", nargs="?", help="the request; without it, a prompt")
    parser.add_argument("--version", action="version", version=__version__)
    add_model_flags(parser, default="auto")
    add_flag(
        parser,
        "--force",
        choices=("never", "first", "always"),
        default="first",
        help="when to force a thought",
    )
    add_flag(
        parser,
        "--db",
        metavar="PATH",
        default=":memory:",
        help="the shop's SQLite file (default: in memory)",
    )
    add_flag(parser, "--json", action="store_true", help="print one JSON object and nothing else")
    add_flag(parser, "--quiet", action="store_true", help="print the bare answer")
    add_flag(
        parser, "--hide-thoughts", action="store_true", help="show the answer and the figures alone"
    )
    add_flag(parser, "--no-stream", action="store_true", help="wait for whole replies")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if args.json and not args.text:
        raise UserError('--json needs a request: python -m demos.refund --json "..."')
    try:
        shop = Shop(args.db)
    except ShopError as error:
        raise ModelError(str(error)) from error
    agent = make_agent(args, shop, args.provider)
    if args.json:
        outcome = agent.run(args.text)
        print(json.dumps(as_json(outcome, shop, agent.model)))
        return exit_code(outcome.exit)
    console = Console(highlight=False)
    if not args.quiet:
        greet(console, agent.model)
    with RunView(console, thoughts=not args.hide_thoughts, quiet=args.quiet) as view:
        if not args.text:
            return converse(args, shop, agent, view)
        try:
            return exit_code(agent.run(args.text, on_event=view).exit)
        except KeyboardInterrupt:
            view.stopped()
            return 130


def make_agent(args: argparse.Namespace, shop: Shop, provider: str) -> Agent:
    pace = 0.02 if sys.stdout.isatty() else 0.0  # so that the stand-in can be watched, too
    model = choose_model(provider, args.model, args.base_url, script=reply, pace=pace)
    instructions = INSTRUCTIONS.read_text(encoding="utf-8")
    model = Unstreamed(model) if args.no_stream else model
    return Agent(model, shop.tools(), instructions=instructions, force=args.force)


def greet(console: Console, model: Model) -> None:
    if model.name == "offline":
        console.print(f"[reverse] {STAND_IN} [/reverse]", soft_wrap=True)
    console.print(f"refund desk · {model.name}:{model.model}", style="dim", soft_wrap=True)


def converse(args: argparse.Namespace, shop: Shop, agent: Agent, view: RunView) -> int:
    """The prompt loop. An error ends the turn, not the conversation."""
    console = view.console
    console.print(
        "Type a request, or /help. For example:",
        *(f"  {example}" for example in EXAMPLES),
        sep="\n",
    )
    transcript: Sequence[Message] = ()
    while True:
        try:
            text = ask()
        except (EOFError, KeyboardInterrupt):
            return 0
        command, _, rest = text.partition(" ")
        match command, rest.strip():
            case "", _:
                continue
            case "/quit", _:
                return 0
            case "/reset", _:
                transcript = ()
            case "/thoughts", "on" | "off" as switch:
                view.thoughts = switch == "on"
            case "/provider", str(provider) if provider:
                try:
                    agent = make_agent(args, shop, provider)
                    greet(console, agent.model)
                except (ModelError, UserError) as error:
                    console.print(f"error: {error}", style="red", markup=False)
            case str(), _ if command.startswith("/"):
                console.print(HELP, markup=False)
            case _:
                try:
                    transcript = agent.run(text, transcript=transcript, on_event=view).transcript
                except ModelError as error:
                    view.stop()
                    console.print(f"error: {error}", style="red", markup=False)
                except KeyboardInterrupt:  # ends the turn; what was done stays in the conversation
                    view.stopped()
                    transcript = [*transcript, *view.messages]


def ask() -> str:
    """One line from the person, with history and editing where the platform has readline."""
    if sys.stdin.isatty():
        import readline  # noqa: F401 - importing it is what gives input() its history
    return input("\n> ").strip()


def as_json(outcome: Outcome, shop: Shop, model: Model) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "answer": outcome.answer,
        "exit": outcome.exit,
        "decisions": [asdict(decision) for decision in shop.decisions()],
        "thoughts": list(outcome.thoughts),
        "actions": [
            {
                "name": action.call.name,
                "arguments": action.call.arguments,
                "result": action.result.content,
                "is_error": action.result.is_error,
                "thought": action.thought,
            }
            for action in outcome.actions
        ],
        "usage": asdict(outcome.usage),
        "model_calls": outcome.model_calls,
        "provider": model.name,
        "model": model.model,
    }


if __name__ == "__main__":
    sys.exit(guarded(main))
