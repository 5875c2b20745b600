"""Asking a person at a terminal: `Agent(..., approve=at_the_terminal)`.

Rule 1: the person sees the call and the thought behind it once: in the run, or else in the
        question.
Rule 2: edited arguments are shown and confirmed; a yes is a yes to them. If they do not fit the
        tool, the run asks again and says why.
Rule 3: the end of the input quits. Ctrl-C stops the run and leaves the question open: it is asked
        again when the run is resumed.
"""

import os
from dataclasses import replace

from ..loop import AskHuman
from ..messages import Json, ToolCall, Verdict
from ..text import json_text, sanitize
from ..tools import signature
from ..wire.json_reading import json_value
from .console import RunView
from .screen import Screen, read_line, show_typing

UNLOADS = "Ollama unloads a model after 5 minutes without a request; keep_alive sets how long."


def at_the_terminal(question: AskHuman) -> Verdict:
    """Ask the person at the terminal, or read the answer from stdin: yes, no and why, edit, quit.

    For `approve=`; there is nothing else to set up. It knows what `watch`, `chat` or another
    RunView has shown.
    """
    view = RunView.in_front or RunView(Screen())
    view.stop()  # a preview and a prompt cannot share the screen
    _show_question(view, question)
    show_typing(True, forget=True)
    try:
        verdict = _answer(view, question)
    except EOFError:
        view.print("")  # to end the line of the prompt
        verdict = Verdict("quit", reason="The input ended.")
    view.start()
    return replace(verdict, by=os.environ.get("USER", "somebody at the terminal"))


def _show_question(view: RunView, asked: AskHuman) -> None:
    question = asked.question
    call = asked.call
    if call and call == view.on_screen:
        question = question.replace(signature(call), call.name)  # it is just above
    elif asked.thought:
        view.print(f"The thought behind it: {asked.thought}", "cyan")
    view.print(f"\n{question}", "bold magenta")

    keys = {
        "y": "yes: run it as it stands",
        "n": "no: say why, and the model reads that",
        "e": "edit the arguments, then decide",
        "q": "quit: nothing more is run, and this request is over",
        "Ctrl-C": "stop the run here",
    }
    if call is None:
        del keys["e"]
    if view.is_kept:
        keys["Ctrl-C"] = "stop here, and decide another day"
    view.table(keys)
    if view.turn.reply and view.turn.reply.provider == "ollama":
        view.print(UNLOADS, "dim")


def _answer(view: RunView, asked: AskHuman) -> Verdict:
    call = asked.call
    received = asked.received or {}
    edited: Json | None = None
    while True:
        word, _, rest = read_line("> ").strip().partition(" ")
        match word.lower():
            case "y" | "yes":
                return Verdict("yes", arguments=edited)
            case "n" | "no":
                return Verdict("no", reason=rest.strip() or read_line("why? ").strip())
            case "q" | "quit":
                return Verdict("quit")
            case "e" | "edit" if call:
                edited = _edited(call, received)  # the yes is for what is shown, changed or not
                call = replace(call, arguments=edited)
                shown = replace(call, arguments=received | edited)
                view.print(f"Run {signature(shown)}?", "bold magenta")
            case _:
                view.print("Answer with one of the letters above.", "red")


def _edited(call: ToolCall, received: Json) -> Json:
    """The arguments as the person changes them. An argument that the model left out is shown with
    its default, and is recorded only if the person changes it.
    """
    assert isinstance(call.arguments, dict)  # other arguments are refused before the question
    edited = dict(call.arguments)
    for name, value in {**received, **edited}.items():
        new = _typed(name, value)
        if new is not value:
            edited[name] = new
    return edited


def _typed(name: str, value: object) -> object:
    """The new value of an argument, or the same object if it is unchanged. Text is taken as typed,
    other values as JSON. What is no JSON stays text; the tool's own check then reports it.
    """
    present = json_text(value)
    if isinstance(value, str):
        present = value
    present = sanitize(present)
    typed = read_line(f"{name}: ", present).strip()
    if typed == present.strip():
        return value
    found = json_value(typed)
    if found is None or isinstance(value, str):
        return typed
    return found
