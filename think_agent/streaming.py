"""Streaming: a reply as it forms, in pieces that are called Deltas.

Rule 1: a Delta is only for showing; nothing is ever decided by it. The reply that counts is the
        Assistant at the end of the stream. It equals what `complete` would have returned.
Rule 2: there are five kinds, so that each can be shown or hidden: native `thinking`, the `thought`
        of a think call, a `call` as it forms, the `commentary` (if the provider marks it), and the
        `answer`, which is the text meant for the user.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. For `thought` and `call`, `name` is the name of the tool, and `index` is
    the number of the call in the reply, from 0.

    The `text` of a `call` is a piece of the arguments as raw JSON. It may be empty if only the name
    is known so far. The `text` of a `thought` is decoded.
    """

    kind: Literal["thinking", "thought", "call", "answer", "commentary"]
    text: str
    name: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The model is asked now: it is call number `model_call` of the turn, of at most `most` (None:
    no limit). `agent` is the agent's name.
    """

    model_call: int
    most: int | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a watcher of the run should know, such as a tool choice that was ignored."""

    text: str
