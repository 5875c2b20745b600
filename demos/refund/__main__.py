"""The refund desk at a terminal: `python -m demos.refund "I want a refund on order ORD-001"`.

Without a text it asks for one, again and again, and remembers the conversation.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from demos.refund.dialects import speaking
from demos.refund.offline import MANAGER_PRESENT, reply
from demos.refund.shop import INSTRUCTIONS, Shop, dollars
from think_agent import (
    Agent,
    AskHuman,
    Message,
    Model,
    ModelError,
    Outcome,
    User,
    Verdict,
    __version__,
)
from think_agent.audit.text import read, report, to_html, write_page
from think_agent.cli.approval import at_the_terminal
from think_agent.cli.console import RunView, printable
from think_agent.cli.main import (
    EXIT_CODES,
    STAND_IN,
    add_limit_flags,
    add_model_flags,
    choose_model,
    exit_code,
    guarded,
    limits,
    speak,
)
from think_agent.cli.options import Parser, UserError, add_flag, read_config, show
from think_agent.cli.paths import check_apart, check_output, check_transcript
from think_agent.dialects.split import split
from think_agent.errors import FileError, TranscriptError
from think_agent.messages import MESSAGES, current_turn
from think_agent.model import Unstreamed

EXAMPLES = [
    "I want a refund on order ORD-001",
    "Please refund ORD-002 and ORD-003",
    "My monitor arm (ORD-004) wobbles. I want my $580 back!",
]
HELP = {
    "/help": "this list",
    "/thoughts on|off": "show thoughts and tool calls, or the answers alone",
    "/provider P": "go on with another provider (P or P:MODEL)",
    "/reset": "forget the conversation",
    "/quit": "leave (Ctrl-D does, too)",
}
MANAGER = f"""

# Today

For rule 4 {MANAGER_PRESENT}: propose `approve` instead of `escalate`; the manager is asked then.
"""


def make_parser(config: dict[str, Any], file: str) -> Parser:
    parser = Parser(
        config=config,
        file=file,
        prog="python -m demos.refund",
        usage="%(prog)s [FLAG ...] [TEXT ...]",
        description="Decide refund requests, with every thought in view.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", nargs="*", help="the request; without it, a prompt")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--config", metavar="FILE", help="a TOML file with [think_agent]")
    parser.add_argument("--show-config", action="store_true", help="print the settings and stop")
    add_model_flags(parser, default="auto")
    add_flag(parser, "--thinker", metavar="P[:MODEL]", help="another model for the thoughts")
    add_flag(
        parser,
        "--dialect",
        choices=("auto", "native", "json", "react"),
        default="auto",
        help="how tools are spoken",
    )
    add_flag(
        parser,
        "--force",
        choices=("never", "first", "always"),
        default="first",
        help="when to force a thought",
    )
    add_limit_flags(parser)
    add_flag(
        parser,
        "--approve",
        metavar="ask|never|always-under AMOUNT",
        default="never",
        help="who approves refunds over $500: you, nobody (they are escalated), or a rule",
    )
    add_flag(parser, "--db", metavar="PATH", default=":memory:", help="the shop's SQLite file")
    add_flag(parser, "--transcript", metavar="PATH", help="keep the transcript in this file")
    add_flag(parser, "--resume", metavar="PATH", help="go on with the run in this file")
    add_flag(parser, "--html", metavar="PATH", help="write the audit page of the run there")
    add_flag(parser, "--json", action="store_true", help="print one JSON object and nothing else")
    add_flag(parser, "--quiet", action="store_true", help="print the bare answer")
    add_flag(parser, "--hide-thoughts", action="store_true", help="show answer and figures alone")
    add_flag(parser, "--no-stream", action="store_true", help="wait for whole replies")
    parser.refuse_unknown()
    return parser


class Session:
    """The demo: its settings, its shop, and the agent that works there."""

    def __init__(
        self, args: argparse.Namespace, config: dict[str, Any], flags: Sequence[str]
    ) -> None:
        self.args = args
        self.config = config
        self.flags = flags
        self.console = Console(highlight=False)
        self.view = RunView(self.console, thoughts=not args.hide_thoughts, quiet=args.quiet)
        self.approve = self._approve_mode()
        self.shop = Shop(args.db, manager=args.approve != "never")
        self.agent = self.make_agent(args.provider)

    def make_agent(self, provider: str) -> Agent:
        args = self.args
        pace = 0.02 if sys.stdout.isatty() else 0.0  # so that the stand-in can be watched, too
        stand_in = {"script": speaking(reply, args.dialect), "pace": pace}
        model = choose_model(provider, args.model, args.base_url, **stand_in)
        model = speak(model, args.dialect)
        if args.thinker:
            thinker = choose_model(args.thinker, None, None, **stand_in)
            model = split(thinker=speak(thinker, args.dialect), actor=model)
        instructions = INSTRUCTIONS.read_text(encoding="utf-8")
        return Agent(
            Unstreamed(model) if args.no_stream else model,
            self.shop.tools(),
            instructions=instructions + (MANAGER if self.shop.manager else ""),
            force=args.force,
            approve=self.approve,
            **limits(args, self.config),
        )

    def run(self) -> int:
        """One request, or the conversation."""
        if self.args.json:
            outcome = self.work(self.args.text, None)
            print(json.dumps(as_json(outcome, self.shop, self.agent.model)))
            self.write_html(outcome)
            return exit_code(outcome.exit)
        if not self.args.quiet:
            self.greet()
        with self.view:
            if not self.args.text and not self.args.resume:
                return self.converse()
            try:
                outcome = self.work(self.args.text, self.view)
                self.write_html(outcome)
            except KeyboardInterrupt:
                self.stopped()
                return 130
            if outcome.exit == "needs_human" and not self.args.quiet:
                self.say_how_to_go_on("--approve ask")
            return exit_code(outcome.exit)

    def work(
        self, text: str | None, on_event: RunView | None, transcript: Sequence[Message] = ()
    ) -> Outcome:
        """One turn: a new one, or, without a text, the one that `--resume` names."""
        if text is None:
            if on_event:  # whoever stops the run hears also of what was done before
                said = read(self.args.resume).entries
                on_event.messages[:] = current_turn([m for m in said if isinstance(m, MESSAGES)])
            return self.agent.resume(self.args.resume, on_event=on_event)
        return self.agent.run(
            text, transcript=self.args.transcript or transcript, on_event=on_event
        )

    def write_html(self, outcome: Outcome) -> None:
        if self.args.html:
            write_page(self.args.html, to_html(report(outcome.transcript, exit=outcome.exit)))

    def converse(self) -> int:
        """The prompt loop. An error ends the turn, not the conversation."""
        self.view.print("Type a request, or /help. For example:")
        for example in EXAMPLES:
            self.view.print(f"  {example}")
        transcript: Sequence[Message] = ()
        while True:
            try:
                text = ask()
            except (EOFError, KeyboardInterrupt):
                return 0
            command, _, rest = text.partition(" ")
            self.view.messages.clear()
            try:
                match command, rest.strip():
                    case "", _:
                        continue
                    case "/quit", _:
                        return 0
                    case "/reset", _:
                        transcript = ()
                    case "/thoughts", "on" | "off" as switch:
                        self.view.thoughts = switch == "on"
                    case "/provider", str(provider) if provider:
                        self.agent = self.make_agent(provider)
                        self.greet()
                    case str(), _ if command.startswith("/"):
                        if command != "/help":
                            self.view.print(f"not a command: {text}", "red")
                        self.view.table(HELP)
                    case _:
                        outcome = self.work(text, self.view, transcript)
                        self.view.messages.clear()
                        transcript = outcome.transcript
                        self.write_html(outcome)
            except (ModelError, FileError, UserError) as error:
                self.view.stop()
                self.view.print(f"error: {error}", "red")
                if self.view.messages and self.args.transcript:
                    self.say_how_to_go_on()
                    return 1
            except KeyboardInterrupt:
                self.stopped()
                if self.args.transcript:  # in a file, a turn has to be over before the next begins
                    return 130
            # What was done in a turn that broke off stays in the conversation.
            transcript = [*transcript, *self.view.messages]

    def greet(self) -> None:
        model = self.agent.model
        if model.name == "offline":
            self.view.print(f" {STAND_IN} ", "reverse")
        self.view.print(f"refund desk · {model.name}:{model.model}", "dim")
        if kept := self.args.transcript:
            with suppress(TranscriptError):  # nothing in it yet, or nothing that can be read
                said = [m for m in read(kept).entries if isinstance(m, User) and m.kind == "person"]
                if said:
                    self.view.print(f"{kept}: goes on after request {len(said)}", "dim")

    def stopped(self) -> None:
        """Say what was done, and how to go on."""
        self.view.stopped()
        self.say_how_to_go_on()

    def say_how_to_go_on(self, *more: str) -> None:
        """With the file of this run and the same flags; with the request where it is not in yet."""
        args = self.args
        if kept := args.resume or args.transcript:
            begun = args.resume or self.view.messages
            words = [
                "python -m demos.refund",
                *([shlex.quote(args.text)] if args.text and not begun else []),
                f"--{'resume' if begun else 'transcript'} {shlex.quote(kept)}",
                *(flag for flag in self.flags if not (more and flag.startswith("--approve"))),
                *more,
            ]
            self.view.print("Go on with:", "yellow")
            line = " ".join(words)
            fits = not self.console.is_terminal or len(line) < self.console.width
            line = line if fits else " \\\n  ".join(words)
            self.console.print(Text(printable(line)), soft_wrap=True)  # so that it can be copied
        elif args.text:
            self.view.print("With --transcript PATH there would be a run to go on with.", "yellow")
        else:
            self.view.print("The conversation goes on with your next request.", "yellow")

    def _approve_mode(self) -> Callable[[AskHuman], Verdict] | None:
        """Who approves: None where nobody is there to be asked."""
        match self.args.approve.split():
            case ["never"]:
                return None
            case ["ask"]:
                return at_the_terminal(self.view) if sys.stdin.isatty() else None
            case ["always-under", amount] if amount.replace(".", "", 1).isdigit():
                return self._approve_under(float(amount))
        raise UserError("--approve: use ask, never, or always-under AMOUNT (in dollars)")

    def _approve_under(self, amount: float) -> Callable[[AskHuman], Verdict]:
        def approve(question: AskHuman) -> Verdict:
            by = f"--approve always-under {amount:g}"
            arguments = question.call.arguments if question.call else None
            if not isinstance(arguments, dict):
                return Verdict("no", by=by, reason="only refunds are approved by rule")
            price = self.shop.order(str(arguments["order_id"])).price_cents
            if price < amount * 100:
                return Verdict("yes", by=by)
            return Verdict("no", by=by, reason=f"{dollars(price)} is not under ${amount:g}")

        return approve


def main() -> int:
    argv = words()
    file, config = read_config(argv)
    parser = make_parser(config, file)
    args = parser.parse_args(argv)
    if args.text and not " ".join(args.text).strip():
        raise UserError("the request is empty: say what you want, or leave it out for a prompt")
    args.text = " ".join(args.text) or None
    sources = parser.sources(argv)
    if args.show_config:
        print(show(args, sources))
        return 0
    if args.json and not (args.text or args.resume):
        raise UserError('--json needs a request: python -m demos.refund --json "..."')
    if args.text and args.resume:
        raise UserError("--resume goes on with a run: leave the request out")
    kept = args.resume or args.transcript
    database = None if args.db == ":memory:" else args.db
    check_apart({"--transcript": kept, "--db": database, "--html": args.html})
    if args.transcript:
        check_transcript("--transcript", args.transcript)
    if args.resume:
        check_transcript("--resume", args.resume, resumed=True)
    if args.html:
        check_output("--html", args.html)
    typed = [name for name, source in sources.items() if source == "flag"]
    return Session(args, config, flags_again(args, typed)).run()


def flags_again(args: argparse.Namespace, typed: Sequence[str]) -> list[str]:
    """The typed flags, as words of the command that goes on with the run."""
    again = [f"--config {shlex.quote(args.config)}"] if args.config else []
    for name in typed:
        value, flag = getattr(args, name), f"--{name.replace('_', '-')}"
        if name not in ("transcript", "resume"):
            again.append(flag if value is True else f"{flag} {shlex.quote(str(value))}")
    return again


def words() -> list[str]:
    """The words of the command line, with `--approve always-under AMOUNT` as one value."""
    argv = sys.argv[1:]
    for index, word in enumerate(argv[:-1]):
        if word == "always-under":
            return [*argv[:index], f"{word} {argv[index + 1]}", *argv[index + 2 :]]
    return argv


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
                "how": action.how,
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
