"""What a person reads while no token arrives: what the server is doing, and what helps.

On a person's own machine, the first token can take minutes: the model is loaded from disk, then it
reads the instructions and the tools.

Rule 1: it says nothing during the first seconds of a silence (`PATIENCE`).
Rule 2: a terminal shows the text next to the clock and erases it with the preview. With a pipe, a
        line goes to stderr, but only for a server that says what it's doing (Ollama): at most one
        per run about a silence before a reply's first token, and one about a silence inside a
        reply.
Rule 3: a separate thread asks the server, so the run doesn't wait.

Limitations: tokens are estimated.
"""

import threading
from collections.abc import Callable
from typing import Any

from ..agent import Agent
from ..errors import ModelError
from ..messages import Assistant, Spoken, to_json
from ..model import Model
from ..text import canonical
from ..turn import Turn

PATIENCE = 5.0  # seconds without a token before it says something
AGAIN = 1.0  # seconds between questions to the server
PER_TOKEN = 4  # characters, roughly
FASTER = "On a CPU, a smaller model is faster."
HELPS = "A smaller model is faster; later requests read only what is new."


class Waiting:
    """Watches one view's requests. `words` says what's going on; empty if that's obvious.

    `say` prints a line for a pipe. None: the view shows `words` itself.
    """

    def __init__(self, agent: Agent, say: Callable[[str], None] | None) -> None:
        self.words = ""
        self._agent = agent
        self._say = say
        self._has_said: set[bool] = set()  # about a silence before a reply, or inside one
        self._pieces = 0  # of the arriving reply
        self._is_over = threading.Event()  # set when the wait is over

    def begin(self, turn: Turn) -> None:
        """A model call for this turn begins."""
        self.end()
        self._pieces = 0
        self._is_over = threading.Event()
        new = _new_messages(turn)
        tokens = sum(len(canonical(to_json(message))) for message in new) // PER_TOKEN
        is_first = len(new) == len(turn.history.spoken)
        if is_first:
            tokens += _first_tokens(self._agent)
        arguments = self._is_over, tokens, is_first
        threading.Thread(target=self._watch, args=arguments, daemon=True).start()

    def go_on(self) -> None:
        """A piece of the reply arrived. The silence ends, and another may follow."""
        self._pieces += 1
        self.words = ""

    def end(self) -> None:
        """The reply arrived."""
        self._is_over.set()
        self.words = ""

    def _watch(self, is_over: threading.Event, tokens: int, is_first: bool) -> None:
        delay = PATIENCE  # rule 1
        pieces = 0
        while not is_over.wait(delay):
            if pieces != self._pieces:
                pieces = self._pieces
                delay = PATIENCE
                continue
            delay = AGAIN
            place = _where_loaded(self._agent.model)  # rule 3
            if pieces:
                words = describe_pause(self._agent.model, place)
            else:
                words = describe_wait(self._agent.model, place, tokens, is_first=is_first)
            if is_over.is_set() or pieces != self._pieces:
                continue
            self.words = words
            if place is not None:
                self._say_once(words, is_inside=pieces > 0)

    def _say_once(self, words: str, *, is_inside: bool) -> None:
        if self._say and is_inside not in self._has_said:  # rule 2
            self._has_said.add(is_inside)
            self._say(words)


def describe_wait(model: Model, place: str | None, tokens: int, *, is_first: bool) -> str:
    """What's going on, on one line. `place`: where the model is loaded ("" if it isn't yet), or
    None if its server doesn't say. `tokens`: the prompt's, or after the first request only the new
    ones.
    """
    if type(model).stream is Model.stream:
        return f"waiting for the whole reply of {model.model}"
    if place is None:
        return f"waiting for {model.name}:{model.model}"
    amount = f"about {_round(tokens):,} tokens"
    if not place:
        return f"loading {model.model} into memory; then it reads the prompt, {amount}. {FASTER}"
    what = "the prompt"
    if not is_first:
        what = "what is new in the prompt"
    text = f"{model.model} is reading {what}, {amount}"
    if place == "CPU":
        return f"{text}, on the CPU. {HELPS}"
    return text


def describe_pause(model: Model, place: str | None) -> str:
    """What's going on if a reply stalls. Ollama sends a call only once it's complete, so a long one
    looks like this.
    """
    if place is None:
        return f"waiting for more from {model.name}:{model.model}"
    return f"{model.model} has sent nothing for a while: it may be thinking, or writing a call"


def _round(count: int) -> int:
    """Round to two digits, since it's an estimate."""
    return round(count, 2 - len(str(count)))


def _where_loaded(model: Any) -> str | None:
    try:
        place: str = model.where_loaded()
    except (AttributeError, ModelError):
        return None
    return place


def _first_tokens(agent: Agent) -> int:
    """About how many tokens the instructions and tools have."""
    return len(canonical(agent.made_of())) // PER_TOKEN


def _new_messages(turn: Turn) -> list[Spoken]:
    """The messages after the last reply."""
    new: list[Spoken] = []
    for message in reversed(turn.history.spoken):
        if isinstance(message, Assistant):
            break
        new.append(message)
    return new
