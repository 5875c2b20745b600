"""A session of the refund desk: creates the shop and the agent, and runs one request or a chat."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from click import Context
from click.exceptions import Exit
from rich.text import Text

from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    Ended,
    Message,
    Model,
    ModelError,
    Outcome,
    Request,
    User,
    Verdict,
)
from think_agent.audit import RunReport, explain, read, report, to_html
from think_agent.audit.words import cause
from think_agent.cli.approval import UNLOADS, at_the_terminal
from think_agent.cli.audit import write_page
from think_agent.cli.choosing import choose_model, limits, make_named_model
from think_agent.cli.console import STAND_IN, RunView
from think_agent.cli.conversation import Chat
from think_agent.cli.main import exit_code
from think_agent.cli.options import origin_of
from think_agent.cli.screen import Screen, can_type, say
from think_agent.cli.shell import on_lines, quote
from think_agent.dialects import in_dialect
from think_agent.dialects.base import Wrapper
from think_agent.dialects.split import split
from think_agent.errors import TranscriptError
from think_agent.outcome import pluralize
from think_agent.text import sanitize

from .checks import make_checks
from .dialects import speak_dialect
from .offline import LABEL, MANAGER_PRESENT, reply
from .shop import DESK_NAME, INSTRUCTIONS, Shop, dollars
from .sources import SourcedAnswer, SourcesView
from .stand_ins import STAND_INS

EXAMPLES = [
    "I want a refund on order ORD-001",
    "Please refund ORD-002 and ORD-003",
    "My monitor arm (ORD-004) wobbles. I want my $580 back!",
]
NO_FILE = "With --transcript PATH, the run could be resumed."
TEXT = ("json", "react")  # dialects that write calls as text
MANAGER = f"""

# Today

For rule 4 {MANAGER_PRESENT}: propose `approve` instead of `escalate`; the manager is asked then.
"""


class Session:
    """One request, or a conversation. `again`: the words of the command that continues it."""

    def __init__(self, ctx: Context, text: str, again: Sequence[str]) -> None:
        self.ctx = ctx
        self.text = text
        self.again = again
        self.settings = settings = ctx.params
        self.console = Screen()
        view = RunView
        if settings["sources"]:
            view = SourcesView
        self.view = view(
            self.console,
            thoughts=not settings["hide_thoughts"],
            quiet=settings["quiet"],
            verbose=settings["verbose"],
            is_kept=bool(settings["transcript"] or settings["resume"]),
        )
        self.limits = limits(ctx)  # errors in them come before a model is looked for
        self.shop = Shop(find_shop_file(settings), manager=settings["approve"] != "never")
        self.use(choose_model(ctx, **self.make_stand_ins()))

    def make_stand_ins(self) -> dict[str, Any]:
        """The scripted models, for `offline:NAME`."""
        settings = self.settings
        is_labeled = any(settings[name] for name in ("quiet", "json", "thinker"))
        scripts = {}
        for name, script in {"stand-in": reply, **STAND_INS}.items():
            if not is_labeled:  # `greet` shows the label
                script = remove_label(script)
            scripts[name] = speak_dialect(script, settings["dialect"])
        pace = 0.02 if sys.stdout.isatty() else 0.0  # slow enough to watch
        return {"scripts": scripts, "pace": pace}

    def use(self, model: Model) -> None:
        """Make the agent with this model."""
        self.agent = self.make_agent(model)
        self.view.agent = self.agent

    def make_agent(self, model: Model) -> Agent:
        settings = self.settings
        is_scripted = model.name == "offline" and settings["dialect"] in TEXT
        if settings["sources"] and is_scripted:
            raise click.UsageError(
                "--sources: the script names its sources only in native calls; "
                "leave --dialect out, or choose a model with --provider"
            )
        model = speak(model, settings["dialect"])
        if settings["thinker"]:
            thinker = make_named_model(settings["thinker"], **self.make_stand_ins())
            model = split(thinker=speak(thinker, settings["dialect"]), actor=model)
        if settings["no_stream"]:
            model = Wrapper(model)

        instructions = INSTRUCTIONS.read_text(encoding="utf-8")
        if self.shop.manager:
            instructions += MANAGER
        done_when = []
        if settings["done_when"] == "on":
            done_when = make_checks(self.shop)
        answer = None
        if settings["sources"]:
            answer = SourcedAnswer
        return Agent(
            model,
            self.shop.tools(),
            instructions=instructions,
            approve=self.choose_approver(),
            force=settings["force"],
            silence=settings["silence"],
            carry=settings["carry"],
            done_when=done_when,
            answer=answer,
            name=DESK_NAME,
            **self.limits,
        )

    def choose_approver(self) -> Callable[[AskHuman], Verdict] | None:
        """The function that approves; None if no person can be asked."""
        match self.settings["approve"].split():
            case ["ask"] if can_type():
                return at_the_terminal
            case ["always-under", amount]:
                return partial(self.approve_by_rule, float(amount))
        return None

    def approve_by_rule(self, amount: float, asked: AskHuman) -> Verdict:
        """A rule decides instead of a person, and the verdict names the rule."""
        by = f"the rule --approve always-under {amount:g}"
        arguments = asked.call.arguments if asked.call else None
        if not isinstance(arguments, dict):
            return Verdict("no", by=by, reason="only refunds are approved by rule")
        price = self.shop.order(str(arguments["order_id"])).price_cents
        if price < amount * 100:
            return Verdict("yes", by=by)
        return Verdict("no", by=by, reason=f"{dollars(price)} is not under ${amount:g}")

    def run(self) -> int:
        """One request, or the conversation."""
        self.say_what_was_before()
        if self.settings["json"]:
            outcome = self.work(self.text, None)
            print(json.dumps(to_json(outcome, self.shop, self.agent.model)))
            return exit_code(outcome.exit)

        if not self.settings["quiet"]:
            self.greet()
        if self.text or self.settings["resume"]:
            return self.run_once()
        self.converse()
        return 0

    def run_once(self) -> int:
        self.view.what_next = self.describe_how_to_go_on
        try:
            with self.view:
                outcome = self.work(self.text, self.view)
        except KeyboardInterrupt:
            if self.view.turn.actions:  # otherwise the view has said it
                self.say_how_to_go_on()
            return 130
        if outcome.exit == "needs_human" and not self.settings["quiet"]:
            self.say_how_to_go_on("--approve ask")
            self.say_what_waiting_means()
        return exit_code(outcome.exit)

    def converse(self) -> None:
        self.view.print("Type a request, or /help. For example:")
        for example in EXAMPLES:
            self.view.print(f"  {example}")
        DeskChat(self).talk()

    def work(
        self, text: str, on_event: RunView | None, transcript: Sequence[Message] = ()
    ) -> Outcome:
        """Run a new turn or, without a text, the rest of the turn that `--resume` names."""
        file = self.settings["transcript"]
        if text:
            outcome = self.agent.run(text, transcript=file or transcript, on_event=on_event)
        else:
            file = self.settings["resume"]
            if on_event:
                show_last_turn(file, on_event)
            outcome = self.agent.resume(file, on_event=on_event)

        if self.settings["explain"] and on_event:
            Chat(self.agent, self.view, outcome.transcript).explain()
        if self.settings["html"]:
            made = make_report(outcome, self.agent, file, origin_of(self.ctx))
            write_page(self.settings["html"], to_html(made, at_steps=self.settings["explain"]))
        return outcome

    def greet(self) -> None:
        model = self.agent.model
        if model.name == "offline" and not self.settings["thinker"]:
            self.view.print(f" {STAND_IN} ", "reverse")
        self.view.print(f"{self.agent.name} · {model.name}:{model.model}", "dim")

    def say_what_was_before(self) -> None:
        """Say that an existing file's conversation continues: the user may not know that."""
        file = self.settings["transcript"]
        if not file:
            return
        with suppress(TranscriptError):  # nothing in it yet, or nothing that can be read
            requests = [message for message in read(file).messages if is_request(message)]
            if requests:
                say(f"{file}: continues after {pluralize(len(requests), 'request')}")

    def say_what_waiting_means(self) -> None:
        """Say that Ollama does not keep a model loaded for ever."""
        if self.agent.model.name == "ollama":
            self.view.print(UNLOADS, "dim")

    def say_how_to_go_on(self, *more: str) -> None:
        """Print the command that continues, if there is one."""
        words = self.find_command(*more)
        if not words:
            self.view.print(NO_FILE, "yellow")
            return
        self.view.print("Continue with:", "yellow")
        self.print_command(words)

    def describe_how_to_go_on(self) -> str:
        """The same, in one line."""
        words = self.find_command()
        if not words:
            return NO_FILE
        return f"Continue with: {' '.join(words)}"

    def find_command(self, *more: str) -> list[str]:
        """The command that continues: with the file, the flags, and a request that is not yet in
        it. Empty without a file.
        """
        file = self.settings["resume"] or self.settings["transcript"]
        if not file:
            return []

        is_in_file = self.view.turn.request or not self.text
        command, *flags = self.again
        if is_in_file:
            words = [command, f"--resume {quote(str(file))}"]
        else:
            words = [command, quote(self.text), f"--transcript {quote(str(file))}"]
        for flag in flags:
            is_replaced = more and flag.startswith("--approve")
            if not is_replaced:
                words.append(flag)
        return [*words, *more]

    def print_command(self, words: Sequence[str]) -> None:
        """Print a command so that it can be copied."""
        shown = sanitize(" ".join(words))
        if self.console.is_terminal and len(shown) >= self.console.width:
            shown = on_lines([sanitize(word) for word in words])
        self.console.print(Text(shown), soft_wrap=True)


class DeskChat(Chat):
    """The conversation at the desk: `chat` with two more commands, kept in a file if wanted."""

    help = {  # noqa: RUF012 (a constant)
        **Chat.help,
        "/thoughts on|off": "show thoughts and tool calls, or the answers alone",
        "/provider P": "continue with another provider (P or P:MODEL), at its own address",
        "ORD-001 to ORD-011": "the orders of a new shop, of which most meet a rule of their own",
    }

    def __init__(self, session: Session) -> None:
        super().__init__(session.agent, session.view)
        self.session = session

    def work(self, text: str) -> Outcome:
        return self.session.work(text, self.view, self.transcript)

    def break_off(self, error: BaseException) -> None:
        if not self.session.settings["transcript"]:
            super().break_off(error)
            return
        self.session.say_how_to_go_on()
        code = 1
        if isinstance(error, KeyboardInterrupt):
            code = 130
        raise Exit(code)  # in a file, a turn ends before the next begins

    def obey(self, command: str) -> None:
        match command.split(maxsplit=1):
            case ["/thoughts", "on" | "off" as choice]:
                self.view.thoughts = choice == "on"
                self.view.print(f"Thoughts and tool calls are {choice}.", "dim")
            case ["/thoughts", *_]:
                self.view.print("/thoughts on, or /thoughts off", "red")
            case ["/provider", spec]:
                self.change_provider(spec)
            case ["/provider"]:
                self.view.print("/provider P or P:MODEL, such as /provider ollama", "red")
            case _:
                super().obey(command)

    def change_provider(self, spec: str) -> None:
        session = self.session
        try:
            session.use(make_named_model(spec, **session.make_stand_ins()))
        except (ModelError, ValueError, click.UsageError) as error:
            self.view.print(f"error: {error}", "red")
        else:
            self.agent = session.agent
            session.greet()


def find_shop_file(settings: Mapping[str, Any]) -> str:
    """The shop's file. It's next to the transcript, so `--resume` finds the same shop."""
    if settings["db"]:
        return str(settings["db"])
    kept = settings["transcript"] or settings["resume"]
    if kept:
        beside: Path = kept.with_suffix(".shop.db")
        beside.parent.mkdir(parents=True, exist_ok=True)  # as for the transcript itself
        return str(beside)
    return ":memory:"


def is_request(message: Message) -> bool:
    """Is this a person's message?"""
    return isinstance(message, User) and message.kind == "person"


def show_last_turn(path: Path, view: RunView) -> None:
    """Before a run continues, show its last turn so far."""
    turn: list[Message] = []
    for message in read(path).messages:
        if is_request(message):
            turn.clear()
        turn.append(message)
    for message in turn:
        view(message)
    if turn and not isinstance(turn[-1], Ended):
        view.print("(So far from the file. The run continues here.)", "dim")


def make_report(
    outcome: Outcome, agent: Agent, file: Path | None, origin: Mapping[str, str]
) -> RunReport:
    """The report of a run, as `think-agent audit` makes it, with or without a file."""
    steps = explain(agent, outcome.transcript)
    if file:
        record = read(file)
        return report(
            record.entries,
            header=record.header,
            warnings=record.warnings,
            explained=steps,
            origin={"file": file.name, **origin, "sha256": record.digest},
        )
    header = {"created": outcome.transcript[0].at, **agent.made_of()}
    return report(outcome.transcript, header=header, explained=steps, origin=origin)


def remove_label(script: Callable[[Request], Assistant]) -> Callable[[Request], Assistant]:
    """`script` without its label, because the first line has said it."""

    def play(request: Request) -> Assistant:
        answer = script(request)
        text = answer.text.replace(f"{LABEL}\\n", "")  # inside of JSON
        return replace(answer, text=text.removeprefix(LABEL).lstrip())

    return play


def to_json(outcome: Outcome, shop: Shop, model: Model) -> dict[str, object]:
    """What `--json` prints."""
    actions = [
        {
            "name": action.call.name,
            "arguments": action.call.arguments,
            "result": action.result.content,
            "is_error": action.result.is_error,
            "thought": action.thought,
            "how": action.how,
        }
        for action in outcome.actions
    ]
    return {
        "answer": outcome.answer,
        "exit": outcome.exit,
        "cause": cause(outcome.turn.reply),
        "checks": [{"name": check.name, "missing": check.missing} for check in outcome.checks],
        "decisions": [asdict(decision) for decision in shop.decisions()],
        "thoughts": outcome.thoughts,
        "actions": actions,
        "usage": asdict(outcome.usage),
        "model_calls": outcome.model_calls,
        "provider": model.name,
        "model": model.model,
    }


def speak(model: Model, dialect: str) -> Model:
    """`model` in a dialect. With `auto`, an error of the first request is raised now."""
    model = in_dialect(model, dialect)
    if dialect == "auto":
        model.check()
    return model
