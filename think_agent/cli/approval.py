"""Asking a person at a terminal: `Agent(..., approve=at_the_terminal)`.

Rule 1: the person sees a card: the thought, and the call as it will run, with one argument per
        line, as the function will get them, including defaults. The tool's name is last, above the
        keys.
Rule 2: a long argument is cut to one line, which shows its length. Values are shown as JSON, with
        invisible characters escaped. So nothing that a model wrote can imitate another line of the
        card or push one off the screen.
Rule 3: edited arguments are shown on a new card, and a yes applies to that card. If they're
        invalid, the run asks again and says why.
Rule 4: one question at a time. Typed keys answer only the question on the screen.
Rule 5: end of input means quit. Ctrl-C stops the run and leaves the question open, so a resumed run
        asks it again.
"""

import os
import threading
from dataclasses import replace

from rich.cells import cell_len, set_cell_size

from ..loop import AskHuman
from ..messages import Json, Verdict
from ..text import json_text, sanitize, shorten, write_out
from ..wire.json_reading import json_value
from .console import RunView
from .screen import Screen, read_line, show_typing

UNLOADS = "Ollama unloads a model after 5 minutes without a request; keep_alive sets how long."
MOST_ROWS = 12  # of arguments; `v` shows the rest
LONGEST_NAME = 24  # characters of an argument's name, so that its value stays visible
_one_question = threading.Lock()  # several runs may ask at one terminal


def at_the_terminal(question: AskHuman) -> Verdict:
    """Ask the person at the terminal, or read the answer from stdin: yes, no and a reason, edit,
    quit.

    For `approve=`; there's nothing else to set up. It works together with `watch`, `chat` or any
    RunView.
    """
    with _one_question:
        view = RunView.in_front or RunView(Screen())
        view.stop()  # a preview and a prompt can't share the screen
        try:
            verdict = _answer(view, question)
        except EOFError:
            view.print("")  # to end the line of the prompt
            verdict = question.stop("The input ended.")
        view.start()
    return replace(verdict, by=os.environ.get("USER", "someone at the terminal"))


def _answer(view: RunView, asked: AskHuman) -> Verdict:
    written: Json | None = None  # by the model, then by the person
    arguments: Json = {}  # as the function will get them
    if asked.call and isinstance(asked.call.arguments, dict):
        written = arguments = asked.call.arguments
    if asked.received is not None:
        arguments = asked.received
    keys = _keys(asked)
    while True:
        _print_card(view, asked, arguments, keys)
        word, _, rest = read_line("> ").strip().partition(" ")
        key = word.lower()[:1]
        if key not in keys:
            view.print(f"Answer with one of these letters: {', '.join(keys)}.", "red")
        elif key == "v":
            _show_whole(view, asked, arguments)
        elif key == "e":
            assert written is not None  # anything else is refused before it's asked
            written = _apply_edits(written, arguments)
            arguments = arguments | written  # the yes is for what's shown, changed or not
        else:
            return _decide(asked, key, rest.strip(), written)


def _decide(asked: AskHuman, key: str, said: str, written: Json | None) -> Verdict:
    """The verdict for a key, with the text that the person typed after it."""
    match key:
        case "y":
            return asked.yes(reason=said, arguments=written)
        case "w":
            return asked.new(reason=said)
        case "n":
            if not said and asked.call:
                said = read_line("why? ").strip()
            return asked.no(said)
    return asked.stop(said)


def _keys(asked: AskHuman) -> dict[str, str]:
    """The letters that answer the question, with their meanings. The model reads any text after a
    letter, unless the meaning says otherwise.
    """
    over = "nothing more is run, and the model reads nothing more"
    if asked.call is None:
        return {"y": "yes: go on (or: y use the mirror)", "n": f"no: {over}", "q": "the same as no"}
    keys = {"y": "yes: run it as it is shown"}
    if asked.as_new:
        keys = {"y": "yes: the same again", "w": "a new one, as it is written now"}
    keys["n"] = "no: say why, and the model reads that"
    if not asked.as_new:
        keys["e"] = "edit the arguments, then decide"
    keys["v"] = "view the whole of it"
    keys["q"] = f"quit: {over}"
    return keys


def _print_card(view: RunView, asked: AskHuman, arguments: Json, keys: dict[str, str]) -> None:
    """Print the card of a call with these `arguments`, or a question without a call, and then the
    keys.
    """
    question = asked.question
    if asked.call:
        question = f"Run {_on_one_line(asked.call.name)}?"
    if asked.thought:
        view.print(f"Its thought: {_on_one_line(asked.thought)}", "cyan")
    view.print("")
    _show_rows(view, arguments)
    if asked.as_new and isinstance(asked.as_new.arguments, dict):
        view.print("As a new one it would be:", "dim")
        _show_rows(view, asked.as_new.arguments)
    if asked.remark:
        view.print(_on_one_line(asked.remark), "magenta")
    view.print(question, "bold magenta")

    leave = "stop the run here"
    if view.is_kept:
        leave = "stop here, and decide another day"
    view.table({**keys, "Ctrl-C": leave})
    if view.turn.reply and view.turn.reply.provider == "ollama":
        view.print(UNLOADS, "dim")
    show_typing(True, forget=True)


def _show_rows(view: RunView, arguments: Json) -> None:
    width = view.console.width
    for name, value in list(arguments.items())[:MOST_ROWS]:
        text = write_out(json_text(value))
        row = f"  {shorten(write_out(name), LONGEST_NAME)}: {text}"
        if cell_len(row) > width:
            note = f"… ({len(text):,} characters; v shows it)"
            row = set_cell_size(row, width - cell_len(note)) + note
        view.print(row)
    left = len(arguments) - MOST_ROWS
    if left > 0:
        view.print(f"  ({left} more arguments; v shows them)", "magenta")


def _show_whole(view: RunView, asked: AskHuman, arguments: Json) -> None:
    """Print the thought and every argument in full, with their names."""
    for name, value in [("the thought", asked.thought), *arguments.items()]:
        view.table({f"{_on_one_line(name)}:": write_out(_value_as_text(value))})


def _value_as_text(value: object) -> str:
    """Text as it is, any other value as JSON."""
    if isinstance(value, str):
        return value
    return json_text(value)


def _on_one_line(text: str) -> str:
    """A short text on one line, with invisible characters escaped."""
    return write_out(shorten(text, 300))


def _apply_edits(written: Json, received: Json) -> Json:
    """Let the person edit the arguments. An argument that the model left out is shown with its
    default, and is recorded only if the person changes it.

    Text is used as typed, other values as JSON. Invalid JSON stays text, and the tool's validation
    reports it.
    """
    edited = dict(written)
    for name, value in {**received, **written}.items():
        present = sanitize(_value_as_text(value))
        typed = read_line(f"{_on_one_line(name)}: ", present).strip()
        if typed == present.strip():
            continue
        edited[name] = typed
        found = json_value(typed)
        if found is not None and not isinstance(value, str):
            edited[name] = found
    return edited
