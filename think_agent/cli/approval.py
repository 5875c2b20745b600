"""Asking a person at a terminal: `Agent(..., approve=at_the_terminal)`.

Rule 1: the person sees a card (`card.py`): the call as it will run, and the thought behind it.
Rule 2: edited arguments are shown on a new card; a yes is a yes to what is on it. If they do not
        fit the tool, the run asks again and says why.
Rule 3: one question at a time. What is typed answers the question that is on the screen.
Rule 4: the end of the input quits. Ctrl-C stops the run and leaves the question open: it is asked
        again when the run is resumed.
"""

import os
import threading
from dataclasses import replace

from ..loop import AskHuman
from ..messages import Json, Verdict
from ..text import sanitize
from ..wire.json_reading import json_value
from .card import as_text, show_card, show_whole
from .console import RunView
from .screen import Screen, read_line, show_typing

UNLOADS = "Ollama unloads a model after 5 minutes without a request; keep_alive sets how long."
_one_question = threading.Lock()  # several runs may ask at one terminal


def at_the_terminal(question: AskHuman) -> Verdict:
    """Ask the person at the terminal, or read the answer from stdin: yes, no and why, edit, quit.

    For `approve=`; there is nothing else to set up. It knows what `watch`, `chat` or another
    RunView has shown.
    """
    with _one_question:
        view = RunView.in_front or RunView(Screen())
        view.stop()  # a preview and a prompt cannot share the screen
        try:
            verdict = _answer(view, question)
        except EOFError:
            view.print("")  # to end the line of the prompt
            verdict = Verdict("quit", reason="The input ended.")
        view.start()
    return replace(verdict, by=os.environ.get("USER", "somebody at the terminal"))


def _answer(view: RunView, asked: AskHuman) -> Verdict:
    written: Json | None = None  # by the model, and then by the person
    arguments: Json = {}  # as the function will get them
    if asked.call and isinstance(asked.call.arguments, dict):
        written = arguments = asked.call.arguments
    if asked.received is not None:
        arguments = asked.received
    keys = _keys(asked)
    _ask(view, asked, arguments, keys)
    while True:
        word, _, rest = read_line("> ").strip().partition(" ")
        key = word.lower()[:1]
        if key not in keys:
            view.print(f"Answer with one of these letters: {', '.join(keys)}.", "red")
            continue
        match key:
            case "y":
                return Verdict("yes", arguments=written)
            case "w":
                return Verdict("yes", new=True)
            case "n":
                return Verdict("no", reason=rest.strip() or read_line("why? ").strip())
            case "q":
                return Verdict("quit")
            case "v":
                show_whole(view, asked, arguments)
            case "e":
                assert written is not None  # other arguments are refused before the question
                written = _edited(written, arguments)
                arguments = arguments | written  # the yes is for what is shown, changed or not
        _ask(view, asked, arguments, keys)


def _keys(asked: AskHuman) -> dict[str, str]:
    """The letters that answer the question, each with its meaning."""
    keys = {"y": "yes: run it as it stands"}
    if asked.call is None:
        keys = {"y": "yes: go on"}
    elif asked.as_new:
        keys = {"y": "yes: the same again", "w": "a new one, as it is written now"}
    keys["n"] = "no: say why, and the model reads that"
    if asked.call and not asked.as_new:
        keys["e"] = "edit the arguments, then decide"
    if asked.call:
        keys["v"] = "view the whole of it"
    keys["q"] = "quit: nothing more is run, and this request is over"
    return keys


def _ask(view: RunView, asked: AskHuman, arguments: Json, keys: dict[str, str]) -> None:
    if asked.call:
        show_card(view, asked, arguments)
    else:
        view.print(f"\n{asked.question}", "bold magenta")
    leave = "stop the run here"
    if view.is_kept:
        leave = "stop here, and decide another day"
    view.table({**keys, "Ctrl-C": leave})
    if view.turn.reply and view.turn.reply.provider == "ollama":
        view.print(UNLOADS, "dim")
    show_typing(True, forget=True)


def _edited(written: Json, received: Json) -> Json:
    """The arguments as the person changes them. An argument that the model left out is shown with
    its default, and is recorded only if the person changes it.

    Text is taken as typed, other values as JSON. What is no JSON stays text; the tool's own check
    then reports it.
    """
    edited = dict(written)
    for name, value in {**received, **written}.items():
        present = sanitize(as_text(value))
        typed = read_line(f"{name}: ", present).strip()
        if typed == present.strip():
            continue
        edited[name] = typed
        found = json_value(typed)
        if found is not None and not isinstance(value, str):
            edited[name] = found
    return edited
