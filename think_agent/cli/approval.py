"""Asking a person at a terminal: the console's answer to AskHuman.

The question comes with the call, its arguments and the thought behind it. The person says y(es),
n(o) with a reason for the model, e(dit) the arguments as JSON, or q(uit). End of input is no answer
and quits. Ctrl-C stops the run with the question open: whoever resumes it is asked again.
"""

import getpass
import json
from collections.abc import Callable

from ..loop import AskHuman
from ..messages import Json, Verdict
from .console import RunView

CHOICES = "[y]es · [n]o, and why · [e]dit the arguments · [q]uit for good · Ctrl-C: later"


def at_the_terminal(
    view: RunView, ask: Callable[[str], str] = input
) -> Callable[[AskHuman], Verdict]:
    """An `approve=` callback that asks whoever sits at the terminal of `view`."""

    def approve(question: AskHuman) -> Verdict:
        view.stop()  # the preview and a prompt cannot share the screen
        view.asking = question
        try:
            verdict = _answer(view, question, ask)
        except KeyboardInterrupt:
            view.print("")  # the terminal has put ^C behind the prompt
            raise
        except EOFError:
            verdict = Verdict("quit", by=_who(), reason="end of input")
        view.asking = None
        view.start()
        return verdict

    return approve


def _answer(view: RunView, question: AskHuman, ask: Callable[[str], str]) -> Verdict:
    by = _who()
    view.print(question.question, "bold magenta")
    if question.thought:
        view.print(f"the thought behind it: {question.thought}", "cyan")
    arguments = question.call.arguments if question.call else None
    if isinstance(arguments, dict):
        view.print(json.dumps(arguments, indent=2, ensure_ascii=False))
    while True:
        view.print(CHOICES)
        word, _, rest = ask("> ").strip().partition(" ")
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
    except (ValueError, RecursionError) as error:
        view.print(f"not JSON: {error}", "red")
        return None
    if not isinstance(value, dict):
        view.print('not a JSON object, such as {"decision": "deny"}', "red")
        return None
    return value


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user entry
        return "somebody at the terminal"
