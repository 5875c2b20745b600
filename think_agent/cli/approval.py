"""Asking a person at a terminal: `Agent(..., approve=at_the_terminal)`.

Rule 1: the person sees the call and the thought behind it, once: above, as the run showed them, or
        here, where it did not.
Rule 2: edited arguments are shown and confirmed, and a yes is to them. Where they do not fit the
        tool, the run asks again and says why.
Rule 3: end of input is no answer and quits. Ctrl-C stops the run with the question open: whoever
        resumes it is asked again.
"""

import getpass
from dataclasses import replace

from ..loop import AskHuman
from ..messages import CARRIED, Assistant, Json, Verdict
from ..text import json_text, sanitize
from ..tools import signature
from ..wire.json_reading import json_value
from .console import RunView
from .screen import Screen, forget_typing, read_line

YES = "yes: run it as it stands"
NO = "no: say why, and the model reads that"
EDIT = "edit the arguments, then decide"
QUIT = "quit: nothing more is run, and this request is over"
STOP = "stop the run here"
UNLOADS = "Ollama unloads a model after 5 minutes without a request; keep_alive sets how long."
STOP_KEPT = "stop here, and decide another day"


def at_the_terminal(question: AskHuman) -> Verdict:
    """Ask whoever sits at the terminal, or writes into stdin: yes, no and why, edit, quit.

    For `approve=`, with nothing else to set up. It knows what `watch`, `chat` or another RunView
    has on the screen.
    """
    view = RunView.in_front or RunView(Screen())
    view.ask(question)
    forget_typing()
    try:
        verdict = _answer(view, question)
    except EOFError:
        view.print("")  # the line of the prompt is not over
        verdict = Verdict("quit", by=_who(), reason="The input ended.")
    view.answered()
    return verdict


def _answer(view: RunView, asked: AskHuman) -> Verdict:
    _show_question(view, asked)
    keys = _keys(view, asked)
    view.table(keys)
    if _model_may_be_unloaded(view):
        view.print(UNLOADS, "dim")

    call = asked.call
    arguments = call.arguments if call else None
    received = asked.received or {}
    edited: Json | None = None
    while True:
        word, _, rest = read_line("> ").strip().partition(" ")
        match word.lower():
            case "y" | "yes":
                return Verdict("yes", by=_who(), arguments=edited)
            case "n" | "no":
                reason = rest.strip() or read_line("why? ").strip()
                return Verdict("no", by=_who(), reason=reason)
            case "q" | "quit":
                return Verdict("quit", by=_who())
            case "e" | "edit" if call and isinstance(arguments, dict):
                arguments = {**arguments, **_edit({**received, **arguments})}
                edited = arguments  # also where nothing was changed: a yes is to what is shown
                shown = replace(call, arguments={**received, **arguments})
                view.print(f"Run {signature(shown)}?", "bold magenta")
            case _:
                view.print(f"Answer with one of {', '.join(keys)}.", "red")


def _show_question(view: RunView, asked: AskHuman) -> None:
    question = asked.question
    call = asked.call
    if call and call == view.on_screen:
        question = question.replace(signature(call), call.name)  # it stands just above
    elif asked.thought:
        view.print(f"The thought behind it: {asked.thought}", "cyan")
    view.print(f"\n{question}", "bold magenta")


def _model_may_be_unloaded(view: RunView) -> bool:
    """Is this the first question of a run on Ollama? It is said once."""
    was_asked = any(isinstance(message, Verdict) for message in view.messages)
    replies = [message for message in view.messages if isinstance(message, Assistant)]
    return not was_asked and bool(replies) and replies[-1].provider == "ollama"


def _keys(view: RunView, asked: AskHuman) -> dict[str, str]:
    """What may be answered, and what each answer means."""
    keys = {"y": YES, "n": NO}
    if asked.call and isinstance(asked.call.arguments, dict):
        keys["e"] = EDIT
    keys["q"] = QUIT
    keys["Ctrl-C"] = STOP_KEPT if view.is_kept else STOP
    return keys


def _edit(arguments: Json) -> Json:
    """What the person changes in these arguments. A default that the model left out is shown, and
    becomes an argument only where it is changed.
    """
    changed = {}
    for name, value in arguments.items():
        if name == CARRIED:  # a thought is the model's
            continue
        new = _typed(name, value)
        if new is not value:
            changed[name] = new
    return changed


def _typed(name: str, value: object) -> object:
    """The new value of an argument, or the same one where it was left: text as it is typed, all
    else as JSON. What is no JSON stays text, for the tool's own check to name.
    """
    is_text = isinstance(value, str)
    present = sanitize(value if isinstance(value, str) else json_text(value))
    typed = read_line(f"{name}: ", present).strip()
    if typed == present.strip():
        return value
    if is_text:
        return typed
    if typed == "null":
        return None
    found = json_value(typed)
    if found is None:
        return typed
    return found


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user entry
        return "somebody at the terminal"
