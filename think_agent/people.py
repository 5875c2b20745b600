"""Asking a person at a terminal: the console's answer to AskHuman.

The question comes with the call, its arguments and the thought behind it. The person says y(es),
n(o) with a reason for the model, e(dit) the arguments as JSON, or q(uit). End of input is no answer
and quits.
"""

import getpass
import json
from collections.abc import Callable

from rich.text import Text

from .console import RunView, printable
from .loop import AskHuman
from .messages import Json, Verdict

CHOICES = "[y]es · [n]o, and why · [e]dit the arguments · [q]uit"


def at_the_terminal(
    view: RunView, ask: Callable[[str], str] = input
) -> Callable[[AskHuman], Verdict]:
    """An `approve=` callback that asks whoever sits at the terminal of `view`."""

    def approve(question: AskHuman) -> Verdict:
        view.stop()  # the preview and a prompt cannot share the screen
        verdict = _answer(view, question, ask)
        view.start()
        return verdict

    return approve


def _answer(view: RunView, question: AskHuman, ask: Callable[[str], str]) -> Verdict:
    by = _who()
    _say(view, question.question, "bold magenta")
    if question.thought:
        _say(view, f"the thought behind it: {question.thought}", "cyan")
    arguments = question.call.arguments if question.call else None
    if isinstance(arguments, dict):
        _say(view, json.dumps(arguments, indent=2, ensure_ascii=False))
    while True:
        try:
            word, _, rest = ask(f"{CHOICES} > ").strip().partition(" ")
        except EOFError:
            return Verdict("quit", by=by, reason="end of input")
        match word.lower():
            case "y" | "yes":
                return Verdict("yes", by=by)
            case "n" | "no":
                return Verdict("no", by=by, reason=rest.strip() or ask("why? > ").strip())
            case "q" | "quit":
                return Verdict("quit", by=by)
            case "e" | "edit" if isinstance(arguments, dict):
                edited = _edited(view, ask("arguments as JSON > "))
                if edited is not None:
                    return Verdict("yes", by=by, arguments={**arguments, **edited})


def _edited(view: RunView, text: str) -> Json | None:
    """The arguments that a person typed: only those to be changed have to be there."""
    try:
        value = json.loads(text)
    except ValueError as error:
        _say(view, f"not JSON: {error}", "red")
        return None
    if not isinstance(value, dict):
        _say(view, 'not a JSON object, such as {"decision": "deny"}', "red")
        return None
    return value


def _say(view: RunView, text: str, style: str = "") -> None:
    view.console.print(Text(printable(text), style=style))


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user entry
        return "somebody at the terminal"
